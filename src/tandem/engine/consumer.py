"""A receiver of messages as the engine sees it: what it may be given, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tandem.engine.outlet import Outlet
    from tandem.engine.subqueue import SubQueue

__all__ = ["Consumer"]


class Consumer:
    """One receiving link. `context` is whatever its owner wants to find again."""

    __slots__ = (
        "context",
        "credit",
        "deletes",
        "is_draining",
        "is_open",
        "is_paused",
        "is_waiting",
        "outlet",
        "subqueue",
        "unsent_count",
    )

    def __init__(self, subqueue: SubQueue, context: object, deletes: bool) -> None:
        self.subqueue = subqueue
        self.context = context
        # Receive-and-delete, rather than peek-lock.
        self.deletes = deletes
        self.credit = 0
        self.is_draining = False
        # Its connection takes no more at present.
        self.is_paused = False
        # It is in its outlet's line of those who can take a message.
        self.is_waiting = False
        self.is_open = True
        # Messages that were received and deleted, and wait for that to be on disk before they are sent.
        self.unsent_count = 0
        self.outlet: Outlet | None = None
