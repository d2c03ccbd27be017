"""Deleting messages by their state, whatever their number: a portion at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.engine.browsing import SCANNED_ROWS, MessageState, line_of
from tandem.engine.message import BrokeredMessage
from tandem.engine.portion import Portion
from tandem.engine.queries import ScanQuery
from tandem.limits import MAX_PAGE_MESSAGES, MAX_PEEK_BYTES

if TYPE_CHECKING:
    from tandem.engine.queue import Queue

__all__ = ["purge"]


def purge(queue: Queue, state: MessageState, before_ms: int, after: int, up_to: int, asker: object) -> None:
    """Delete messages of a state with numbers in (after, up_to] that were enqueued before a time.

    Those that somebody has locked stay: they are being worked on. Answered with a Portion, whose `up_to` is where to go
    on, and is the one asked for when there is no more to do.
    """
    subqueue, number = line_of(queue, state)
    # What is not on disk yet came later than the question.
    last = min(up_to, subqueue.tail)

    def answer(messages: list[BrokeredMessage], seen_up_to: int) -> None:
        if subqueue.is_gone(asker):
            return
        portion = Portion(seen_up_to if seen_up_to < last else up_to)
        for message in messages:
            if message.enqueued_time_ms < before_ms and subqueue.is_free(message):
                subqueue.drop_from_head(message)
                subqueue.remove(message)
                portion.done_count += 1
            else:
                portion.skipped_count += 1
        queue.namespace.effects.reply(asker, portion)

    queue.touch()
    queue.namespace.effects.queries.append(
        ScanQuery(subqueue.stream, number, after, last, MAX_PAGE_MESSAGES, MAX_PEEK_BYTES, SCANNED_ROWS, False, answer)
    )
