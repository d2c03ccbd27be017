"""Looking at messages by their state, and at sessions, without touching either.

The states are those that people distinguish. Two of them are lines of their own: to whoever looks for dead letters, one
of these that a receiver put aside is a dead letter still.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from tandem.engine.message import ACTIVE, DEFERRED, NEVER_MS, SCHEDULED, BrokeredMessage
from tandem.engine.queries import ANY_STATE, ScanQuery, SessionPageQuery, SessionRecord
from tandem.limits import MAX_PEEK_BYTES

if TYPE_CHECKING:
    from tandem.engine.queue import Queue
    from tandem.engine.subqueue import SubQueue

__all__ = [
    "SCANNED_ROWS",
    "Browsed",
    "BrowsedPage",
    "BrowsedSession",
    "MessageState",
    "browse",
    "browse_sessions",
    "count_of",
    "line_of",
]

# Messages. How many of whatever state are looked at in one step, to find those of one state.
SCANNED_ROWS: Final = 2_000


class MessageState(enum.Enum):
    """Where in an entity a message is."""

    ACTIVE = "active"
    DEFERRED = "deferred"
    SCHEDULED = "scheduled"
    DEAD_LETTERED = "dead-lettered"
    TRANSFER_DEAD_LETTERED = "transfer-dead-lettered"


class Browsed:
    """A message with its bytes, and until when it is locked; 0 if it is not."""

    __slots__ = ("locked_until_ms", "message")

    def __init__(self, message: BrokeredMessage, locked_until_ms: int) -> None:
        self.message = message
        self.locked_until_ms = locked_until_ms


class BrowsedPage:
    """Some messages, and the number up to which there are no others."""

    __slots__ = ("is_last", "messages", "up_to")

    def __init__(self, messages: list[Browsed], up_to: int, is_last: bool) -> None:
        self.messages = messages
        self.up_to = up_to
        self.is_last = is_last


class BrowsedSession:
    """A session, and until when a receiver holds it; 0 if nobody does."""

    __slots__ = ("locked_until_ms", "record")

    def __init__(self, record: SessionRecord, locked_until_ms: int) -> None:
        self.record = record
        self.locked_until_ms = locked_until_ms


def line_of(queue: Queue, state: MessageState) -> tuple[SubQueue, int]:
    """The line in which messages of a state are, and the state that they have there."""
    if state is MessageState.DEAD_LETTERED:
        return queue.dead_letter_queue, ANY_STATE
    if state is MessageState.TRANSFER_DEAD_LETTERED:
        return queue.transfer_dead_letter_queue, ANY_STATE
    if state is MessageState.DEFERRED:
        return queue.main, DEFERRED
    return queue.main, SCHEDULED if state is MessageState.SCHEDULED else ACTIVE


def count_of(queue: Queue, state: MessageState) -> int:
    """Return how many messages of a state were committed."""
    counts = queue.message_counts
    if state is MessageState.DEAD_LETTERED:
        return counts.dead_letter
    if state is MessageState.TRANSFER_DEAD_LETTERED:
        return counts.transfer_dead_letter
    if state is MessageState.DEFERRED:
        return counts.deferred
    return counts.scheduled if state is MessageState.SCHEDULED else counts.active


def browse(queue: Queue, state: MessageState, after: int, limit: int, asker: object) -> None:
    """Messages of a state behind a number, locked or not. Answered with a BrowsedPage."""
    subqueue, number = line_of(queue, state)
    now_ms = queue.namespace.now_ms
    last = subqueue.tail

    def answer(messages: list[BrokeredMessage], up_to: int) -> None:
        if subqueue.is_gone(asker):
            return
        browsed: list[Browsed] = []
        for message in messages:
            # One that is over is not there any more, though perhaps still on disk.
            is_over = message.state == ACTIVE and message.expires_at_ms <= now_ms
            if not is_over and message.sequence_number not in subqueue.pending:
                lock = subqueue.lock_of(message)
                browsed.append(Browsed(message, 0 if lock is None else lock.locked_until_ms))
        queue.namespace.effects.reply(asker, BrowsedPage(browsed, up_to, up_to >= last))

    queue.touch()
    queue.namespace.effects.queries.append(
        ScanQuery(subqueue.stream, number, after, last, limit, MAX_PEEK_BYTES, SCANNED_ROWS, True, answer)
    )


def browse_sessions(subqueue: SubQueue, after: str | None, limit: int, asker: object) -> None:
    """Sessions in the order of their ids. Answered with a list of BrowsedSession."""

    def answer(records: list[SessionRecord]) -> None:
        if subqueue.is_gone(asker):
            return
        sessions = subqueue.sessions
        browsed: list[BrowsedSession] = []
        for record in records:
            session = None if sessions is None else sessions.find(record.session_id)
            browsed.append(BrowsedSession(record, 0 if session is None else min(session.locked_until_ms, NEVER_MS)))
        subqueue.namespace.effects.reply(asker, browsed)

    subqueue.namespace.effects.queries.append(SessionPageQuery(subqueue.stream, after, limit, answer))
