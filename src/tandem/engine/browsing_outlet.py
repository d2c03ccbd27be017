"""Where copies of messages go out to one browser, which takes nothing away and locks nothing.

A browser is a cursor: it reads on behind the last message that it has seen, a page at a time, as far as its credit
reaches and its connection takes more. Nothing waits in memory, and what lies behind the cursor costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.consumer import Consumer
from tandem.engine.effects import HandedOut
from tandem.engine.message import BrokeredMessage
from tandem.engine.outlet import Outlet
from tandem.engine.queries import MessagesQuery
from tandem.engine.selected_outlet import is_selected
from tandem.limits import MESSAGE_OVERHEAD_BYTES
from tandem.rules import SqlFilter

if TYPE_CHECKING:
    from tandem.engine.subqueue import SubQueue

__all__ = ["BrowsingOutlet"]

# Messages and bytes. Read at once.
_MAX_PAGE_MESSAGES: Final = 200
_MAX_PAGE_BYTES: Final = 262_144


class BrowsingOutlet(Outlet):
    """One browser of a line, and how far it has come."""

    __slots__ = ("_condition", "_cursor", "_is_at_end", "_is_reading")

    def __init__(self, subqueue: SubQueue, condition: SqlFilter | None) -> None:
        super().__init__(subqueue, None)
        self._condition = condition
        self._cursor = 0
        self._is_reading = False
        # Nothing lay beyond the cursor when the line was read last.
        self._is_at_end = False

    def grow(self) -> None:
        """Something may have become available."""
        if self.subqueue.is_dead_letter or self.subqueue.tail > self._cursor:
            self._is_at_end = False

    def pump(self) -> None:
        """Read the next page for the browser if it can take one."""
        for consumer in list(self._waiting):
            if self._is_reading:
                return
            if not consumer.can_take():
                self._waiting.clear()
                consumer.is_waiting = False
            elif not self._is_at_end:
                self._read(consumer)
            elif consumer.is_draining:
                self._drained(consumer)

    def _read(self, consumer: Consumer) -> None:
        subqueue = self.subqueue
        limit = min(consumer.credit, _MAX_PAGE_MESSAGES)
        self._is_reading = True

        def answer(messages: list[BrokeredMessage]) -> None:
            self._is_reading = False
            if consumer.is_open and not subqueue.queue.is_dropped:
                self._was_read(consumer, messages, limit)

        subqueue.namespace.effects.queries.append(
            MessagesQuery(subqueue.stream, self._cursor, subqueue.tail, limit, _MAX_PAGE_BYTES, None, True, answer)
        )

    def _was_read(self, consumer: Consumer, messages: list[BrokeredMessage], limit: int) -> None:
        subqueue = self.subqueue
        size_bytes = 0
        for message in messages:
            size_bytes += message.size_bytes
            self._cursor = message.sequence_number
            if self._is_shown(message):
                self._hand_copy(message, consumer)
            if self._condition is not None and subqueue.namespace.rule_work_left <= 0:
                # The rest is read again in another turn.
                break
        else:
            self._is_at_end = len(messages) < limit and size_bytes < _MAX_PAGE_BYTES
        self.wake(consumer)

    def _is_shown(self, message: BrokeredMessage) -> bool:
        subqueue = self.subqueue
        if message.expires_at_ms <= subqueue.namespace.now_ms or message.sequence_number in subqueue.pending:
            return False
        return self._condition is None or is_selected(self._condition, message, subqueue.namespace)

    def _hand_copy(self, message: BrokeredMessage, consumer: Consumer) -> None:
        consumer.credit -= 1
        consumer.unsent_count += 1
        if consumer.gate is not None:
            consumer.gate.owed_bytes += message.size_bytes + MESSAGE_OVERHEAD_BYTES
        copy = HandedOut(consumer, message, message.unlocked_payload())
        self.subqueue.namespace.effects.handed_out.append(copy)
