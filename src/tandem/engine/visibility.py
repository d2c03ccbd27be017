"""Delayed visibility: a queue or subscription accepts messages, and shows them later.

As when the storage behind an entity is in trouble: sends are acknowledged and on disk, and a message appears only after
a while. Until then it is kept as a scheduled message: it survives a crash, and comes due without help.

Every way into an entity ends in `Queue.place`, and that is where a message is held: whether a client sent it, a topic
copied it, another entity forwarded it, or its own scheduled time has come. A topic holds nothing itself; its
subscriptions do. The delay counts from `enqueued_time_ms`, the moment at which the message came into the namespace, and
that stays as it is while the message waits. So a message that is forwarded from one delayed entity to another waits
once and not twice.

Order is kept: nothing is due before what came earlier, and when a delay ends, what comes in goes behind what still
waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tandem.engine.browsing import SCANNED_ROWS
from tandem.engine.intake import scheduled_time_of
from tandem.engine.message import ACTIVE, SCHEDULED, SEQUENCE_MASK, BrokeredMessage
from tandem.engine.queries import ScanQuery
from tandem.limits import MAX_HEAD_BYTES, MAX_PAGE_MESSAGES

if TYPE_CHECKING:
    from tandem.engine.queue import Queue

__all__ = ["Visibility", "is_delayed"]


def is_delayed(message: BrokeredMessage) -> bool:
    """Return whether a scheduled message is one because it was held, and not because its sender scheduled it.

    A sender's time is also in the message. Without the bytes at hand there is no telling, and it counts as held: it was
    asked for before there was a delay, and must not be held twice.
    """
    stored = message.stored
    return stored is None or message.due_at_ms != scheduled_time_of(stored.message_annotations)


class Visibility:
    """The messages of a namespace that appear later than they came."""

    __slots__ = ("_delay_ms_of", "_ending", "_last_due_ms")

    def __init__(self, delay_ms_of: Callable[[Queue], int]) -> None:
        # The delay of a message that comes to a queue now; 0 for none. Asked once for each message.
        self._delay_ms_of = delay_ms_of
        # The queues that may hold delayed messages, and when the last of these is due.
        self._last_due_ms: dict[Queue, int] = {}
        # Those among them that show what they hold.
        self._ending: set[Queue] = set()

    @property
    def is_idle(self) -> bool:
        return not self._last_due_ms

    def hold(self, queue: Queue, message: BrokeredMessage) -> None:
        """Make an active message that comes to a queue a scheduled one, if it is to appear later."""
        delay_ms = self._delay_ms_of(queue)
        if delay_ms:
            self._ending.discard(queue)
        elif queue not in self._last_due_ms:
            return
        due_at_ms = max(self._last_due_ms.get(queue, 0), message.enqueued_time_ms + delay_ms)
        self._last_due_ms[queue] = due_at_ms
        message.set_state(SCHEDULED, due_at_ms)
        # Another number than before, if it had one: numbers are in the order in which messages came to this queue.
        message.sequence_number = 0

    def holding_queues(self) -> list[Queue]:
        return list(self._last_due_ms)

    def end(self, queue: Queue) -> None:
        """Show what a queue holds: its delay is over."""
        if queue not in self._ending:
            self._ending.add(queue)
            self._read_behind(queue, 0)

    def end_leftovers(self, queue: Queue, last_due_ms: int) -> None:
        """Show what a queue has held since before the start of the broker. Nothing of it is due later than stated: what
        comes in meanwhile is held until then, and shown behind it."""
        self._last_due_ms[queue] = last_due_ms
        self.end(queue)

    def _read_behind(self, queue: Queue, after: int) -> None:
        def show(messages: list[BrokeredMessage], up_to: int) -> None:
            self._show(queue, messages, up_to)

        # Beyond the tail too: what was accepted in this moment is written by the time the query is answered.
        queue.namespace.effects.queries.append(
            ScanQuery(
                queue.main.stream,
                SCHEDULED,
                after,
                SEQUENCE_MASK,
                MAX_PAGE_MESSAGES,
                MAX_HEAD_BYTES,
                SCANNED_ROWS,
                True,
                show,
            )
        )

    def _show(self, queue: Queue, messages: list[BrokeredMessage], up_to: int) -> None:
        # Another delay may have begun meanwhile: the rest belongs to it.
        if queue not in self._ending:
            return
        if queue.is_dropped:
            self._forget(queue)
            return
        for message in messages:
            # Messages that their senders scheduled wait for their own time.
            if is_delayed(message):
                row = queue.main.move_out(message)
                message.set_state(ACTIVE)
                queue.activate(message, row, True)
        if up_to < SEQUENCE_MASK:
            self._read_behind(queue, up_to)
        else:
            self._forget(queue)

    def _forget(self, queue: Queue) -> None:
        self._ending.discard(queue)
        self._last_due_ms.pop(queue, None)
