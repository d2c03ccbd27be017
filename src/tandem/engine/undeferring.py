"""Deferred messages become available again, to whoever receives: without this, who loses a number loses the message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.engine.browsing import SCANNED_ROWS
from tandem.engine.effects import SetState
from tandem.engine.message import ACTIVE, DEFERRED, SEQUENCE_MASK, BrokeredMessage
from tandem.engine.portion import Mention, Portion
from tandem.engine.queries import RowsQuery, ScanQuery
from tandem.limits import MAX_PAGE_MESSAGES, MAX_PEEK_BYTES, MAX_RECEIVE_BYTES

if TYPE_CHECKING:
    from tandem.engine.queue import Queue
    from tandem.engine.subqueue import SubQueue

__all__ = ["undefer", "undefer_numbers"]


def undefer(queue: Queue, after: int, up_to: int, asker: object) -> None:
    """All deferred messages with numbers in (after, up_to] that are not locked. Answered with a Portion."""
    subqueue = queue.main
    last = min(up_to, subqueue.tail)

    def answer(messages: list[BrokeredMessage], seen_up_to: int) -> None:
        if subqueue.is_gone(asker):
            return
        portion = Portion(seen_up_to if seen_up_to < last else up_to)
        for message in messages:
            _undefer(subqueue, message, portion)
        queue.namespace.effects.reply(asker, portion)

    queue.touch()
    needs_bytes = queue.description.forward_to is not None
    queue.namespace.effects.queries.append(
        ScanQuery(
            subqueue.stream, DEFERRED, after, last, MAX_PAGE_MESSAGES, MAX_PEEK_BYTES, SCANNED_ROWS, needs_bytes, answer
        )
    )


def undefer_numbers(queue: Queue, sequence_numbers: list[int], asker: object) -> None:
    """These deferred messages. Answered with a Portion that mentions the numbers for which there is none."""
    subqueue = queue.main
    numbers = sorted({number & SEQUENCE_MASK for number in sequence_numbers})

    def answer(messages: list[BrokeredMessage]) -> None:
        if subqueue.is_gone(asker):
            return
        portion = Portion(numbers[-1] if numbers else 0)
        found = {message.sequence_number: message for message in messages if message.state == DEFERRED}
        for number in numbers:
            message = found.get(number)
            if message is None:
                portion.failed_count += 1
                portion.mentions.append(Mention(number, None, None, "There is no deferred message of this number."))
                continue
            if limit_bytes and message.stored is None:
                portion.failed_count += 1
                portion.mentions.append(Mention(number, None, None, "There are too many bytes before it: ask again."))
                continue
            _undefer(subqueue, message, portion)
        queue.namespace.effects.reply(asker, portion)

    queue.touch()
    # Where a message is forwarded to, it may be judged by its properties.
    limit_bytes = 0 if queue.description.forward_to is None else MAX_RECEIVE_BYTES
    queue.namespace.effects.queries.append(RowsQuery(subqueue.stream, numbers, limit_bytes, answer))


def _undefer(subqueue: SubQueue, message: BrokeredMessage, portion: Portion) -> None:
    if not subqueue.is_free(message):
        portion.skipped_count += 1
        return
    namespace = subqueue.namespace
    subqueue.counts.change_state(message, ACTIVE)
    namespace.effects.changes.append(SetState(message.row, ACTIVE, message.delivery_count, None))
    if subqueue.sessions is not None:
        # A session that becomes ready has its place in line by a number of this batch, as if a message had come.
        subqueue.queue.take_number()
    portion.done_count += 1
    if message.expires_at_ms <= namespace.now_ms:
        # The search for expired messages has passed it while it was put aside.
        subqueue.expire(message)
        return
    subqueue.timetable.expect(message)
    subqueue.put_in_line(message)
