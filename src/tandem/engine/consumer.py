"""A receiver of messages as the engine sees it: what it may be given, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.limits import MAX_LOCKS_PER_CONNECTION, MAX_OWED_BYTES

if TYPE_CHECKING:
    from tandem.engine.outlet import Outlet
    from tandem.engine.subqueue import SubQueue

__all__ = ["Consumer", "Gate"]


class Gate:
    """What the receivers of one connection may be given together. It is shut while that is too much."""

    __slots__ = ("has_missed", "is_shut", "locked_count", "owed_bytes")

    def __init__(self) -> None:
        # The connection has enough to write.
        self.is_shut = False
        # What the engine has decided to deliver, and the connection has not got yet.
        self.owed_bytes = 0
        # Messages that are locked for its receivers, also for those that are closed.
        self.locked_count = 0
        # A receiver was passed over since this was last reset: it has to be woken.
        self.has_missed = False

    def can_pass(self) -> bool:
        """Whether receivers can be given more. One that cannot is passed over, and woken later."""
        if self.is_shut or self.owed_bytes >= MAX_OWED_BYTES or self.locked_count >= MAX_LOCKS_PER_CONNECTION:
            self.has_missed = True
            return False
        return True


class Consumer:
    """One receiving link. `context` is whatever its owner wants to find again."""

    __slots__ = (
        "context",
        "credit",
        "deletes",
        "gate",
        "is_draining",
        "is_open",
        "is_paused",
        "is_waiting",
        "outlet",
        "subqueue",
        "unsent_count",
    )

    def __init__(self, subqueue: SubQueue, context: object, deletes: bool, gate: Gate | None) -> None:
        self.subqueue = subqueue
        self.context = context
        # Receive-and-delete, rather than peek-lock.
        self.deletes = deletes
        self.credit = 0
        self.is_draining = False
        # It takes no more at present.
        self.is_paused = False
        # That of its connection; None where nobody counts.
        self.gate = gate
        # It is in its outlet's line of those who can take a message.
        self.is_waiting = False
        self.is_open = True
        # Messages that were received and deleted, and wait for that to be on disk before they are sent.
        self.unsent_count = 0
        self.outlet: Outlet | None = None

    def can_take(self) -> bool:
        """Whether it can be given a message now."""
        if self.credit <= 0 or self.is_paused or not self.is_open:
            return False
        return self.gate is None or self.gate.can_pass()
