"""Visibility delayed: an entity takes what is sent to it, and shows it later.

As when the storage behind an entity is in trouble: sends are accepted, acknowledged and on disk, and a message appears
only after a while. Until then it is kept as a scheduled message, so that it survives a crash and comes due by itself,
whether or not the fault is still known then.

When the delay is over, those that still wait appear at once, in the order in which they came. Until the last of them
has, what comes in goes behind them.
"""

from __future__ import annotations

from tandem.engine.browsing import SCANNED_ROWS
from tandem.engine.intake import Draft, scheduled_time_of
from tandem.engine.message import ACTIVE, SCHEDULED, SEQUENCE_MASK, BrokeredMessage
from tandem.engine.queries import ScanQuery
from tandem.engine.queue import Queue
from tandem.limits import MAX_HEAD_BYTES, MAX_PAGE_MESSAGES

__all__ = ["Visibility"]


class Visibility:
    """By how much the messages of each entity are delayed."""

    def __init__(self) -> None:
        self._delays_ms: dict[Queue, int] = {}
        # Nothing appears before what came earlier, though that was delayed by more.
        self._last_due_ms: dict[Queue, int] = {}
        self._ending: set[Queue] = set()

    @property
    def is_idle(self) -> bool:
        return not self._delays_ms

    def delayed_queues(self) -> list[Queue]:
        return list(self._delays_ms)

    def delay(self, queue: Queue, delay_ms: int) -> None:
        self._delays_ms[queue] = delay_ms
        self._ending.discard(queue)

    def hold(self, queue: Queue, drafts: list[Draft]) -> None:
        """These messages come in. One that is scheduled has a time of its own."""
        delay_ms = self._delays_ms.get(queue)
        if delay_ms is None:
            return
        due_at_ms = max(self._last_due_ms.get(queue, 0), queue.namespace.now_ms + delay_ms)
        self._last_due_ms[queue] = due_at_ms
        for draft in drafts:
            if draft.message.state == ACTIVE and not draft.is_ping and draft.destination is None:
                draft.message.state = SCHEDULED
                draft.message.due_at_ms = due_at_ms

    def end(self, queue: Queue) -> None:
        """Whatever still waits appears."""
        if queue in self._delays_ms and queue not in self._ending:
            self._ending.add(queue)
            self._read_behind(queue, 0)

    def _read_behind(self, queue: Queue, after: int) -> None:
        def show(messages: list[BrokeredMessage], up_to: int) -> None:
            self._show(queue, messages, up_to)

        # Beyond the tail too: what was taken in this moment is written when the question is answered.
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
        # Another delay may have begun meanwhile: what is left is its.
        if queue not in self._ending:
            return
        if queue.is_dropped:
            self._forget(queue)
            return
        for message in messages:
            stored = message.stored
            # Those that their senders scheduled say so themselves, and wait for their own time.
            if stored is not None and not scheduled_time_of(stored.message_annotations):
                row = queue.main.move_out(message)
                message.state = ACTIVE
                message.due_at_ms = 0
                queue.activate(message, row)
        if up_to < SEQUENCE_MASK:
            self._read_behind(queue, up_to)
        else:
            self._forget(queue)

    def _forget(self, queue: Queue) -> None:
        self._ending.discard(queue)
        self._delays_ms.pop(queue, None)
        self._last_due_ms.pop(queue, None)
