"""What the engine asks of the store: messages that it does not hold in memory.

A query is served when everything decided so far has been written, though perhaps not yet synced: the answer is always
in step with the engine. It is given to `answer`, in the same turn in which it was served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tandem.engine.hubs.event import Event
from tandem.engine.message import BrokeredMessage
from tandem.errors import ProtocolError

__all__ = [
    "ANY_STATE",
    "DueQuery",
    "EnqueuedBeforeQuery",
    "EventTimeQuery",
    "EventsQuery",
    "ExpiredQuery",
    "MessagesQuery",
    "NextTimesQuery",
    "Query",
    "ReadySessionsQuery",
    "RowsQuery",
    "ScanQuery",
    "SessionListQuery",
    "SessionPageQuery",
    "SessionRecord",
    "SessionStateQuery",
]

Messages = list[BrokeredMessage]

# To a scan: whatever state a message has.
ANY_STATE: Final = -1


class Query:
    """One question about one stream."""

    __slots__ = ("stream",)

    def __init__(self, stream: int) -> None:
        self.stream = stream


class MessagesQuery(Query):
    """Messages with sequence numbers in (after, up_to], in order, with their bytes.

    `is_active_only` leaves out deferred and scheduled ones. With a session id only that session's.
    """

    __slots__ = ("after", "answer", "is_active_only", "limit", "limit_bytes", "session_id", "up_to")

    def __init__(
        self,
        stream: int,
        after: int,
        up_to: int,
        limit: int,
        limit_bytes: int,
        session_id: str | None,
        is_active_only: bool,
        answer: Callable[[Messages], None],
    ) -> None:
        super().__init__(stream)
        self.after = after
        self.up_to = up_to
        self.limit = limit
        self.limit_bytes = limit_bytes
        self.session_id = session_id
        self.is_active_only = is_active_only
        self.answer = answer


class RowsQuery(Query):
    """The messages with these sequence numbers that there are, in order.

    They have their bytes until they are as large as `limit_bytes` together; those after that have none. With a limit
    of 0 no message has its bytes.
    """

    __slots__ = ("answer", "limit_bytes", "sequence_numbers")

    def __init__(
        self, stream: int, sequence_numbers: list[int], limit_bytes: int, answer: Callable[[Messages], None]
    ) -> None:
        super().__init__(stream)
        self.sequence_numbers = sequence_numbers
        self.limit_bytes = limit_bytes
        self.answer = answer


class ScanQuery(Query):
    """Messages of one state with sequence numbers in (after, up_to], in order, and with or without their bytes.

    At most `limit_rows` messages of whatever state are looked at: those wanted may be few among millions. Answered with
    what was found, and with the number up to which nothing is left to be found: `up_to`, when there is no more.
    """

    __slots__ = ("after", "answer", "limit", "limit_bytes", "limit_rows", "needs_bytes", "state", "up_to")

    def __init__(
        self,
        stream: int,
        state: int,
        after: int,
        up_to: int,
        limit: int,
        limit_bytes: int,
        limit_rows: int,
        needs_bytes: bool,
        answer: Callable[[Messages, int], None],
    ) -> None:
        super().__init__(stream)
        # ACTIVE, DEFERRED, SCHEDULED, or ANY_STATE.
        self.state = state
        self.after = after
        self.up_to = up_to
        self.limit = limit
        self.limit_bytes = limit_bytes
        self.limit_rows = limit_rows
        self.needs_bytes = needs_bytes
        self.answer = answer


class DueQuery(Query):
    """Scheduled messages whose time has come, the earliest first: without their bytes, unless these are needed."""

    __slots__ = ("answer", "limit", "needs_bytes", "now_ms")

    def __init__(
        self, stream: int, now_ms: int, limit: int, needs_bytes: bool, answer: Callable[[Messages], None]
    ) -> None:
        super().__init__(stream)
        self.now_ms = now_ms
        self.limit = limit
        self.needs_bytes = needs_bytes
        self.answer = answer


class ExpiredQuery(Query):
    """Active messages that expired by `now_ms`, and after (after_ms, after): earliest first, without bytes."""

    __slots__ = ("after", "after_ms", "answer", "limit", "now_ms")

    def __init__(
        self, stream: int, now_ms: int, after_ms: int, after: int, limit: int, answer: Callable[[Messages], None]
    ) -> None:
        super().__init__(stream)
        self.now_ms = now_ms
        self.after_ms = after_ms
        self.after = after
        self.limit = limit
        self.answer = answer


class EnqueuedBeforeQuery(Query):
    """Active messages enqueued at `enqueued_ms` or before with sequence numbers in (after, up_to], without bytes."""

    __slots__ = ("after", "answer", "enqueued_ms", "limit", "session_id", "up_to")

    def __init__(
        self,
        stream: int,
        enqueued_ms: int,
        after: int,
        up_to: int,
        limit: int,
        session_id: str | None,
        answer: Callable[[Messages], None],
    ) -> None:
        super().__init__(stream)
        self.enqueued_ms = enqueued_ms
        self.after = after
        self.up_to = up_to
        self.limit = limit
        self.session_id = session_id
        self.answer = answer


class NextTimesQuery(Query):
    """When the next scheduled message is due, and when the next active one after (after_ms, after) expires."""

    __slots__ = ("after", "after_ms", "answer")

    def __init__(self, stream: int, after_ms: int, after: int, answer: Callable[[int, int], None]) -> None:
        super().__init__(stream)
        self.after_ms = after_ms
        self.after = after
        self.answer = answer


class ReadySessionsQuery(Query):
    """Sessions that have active messages, the one that has waited longest first."""

    __slots__ = ("answer", "limit")

    def __init__(self, stream: int, limit: int, answer: Callable[[list[str]], None]) -> None:
        super().__init__(stream)
        self.limit = limit
        self.answer = answer


class SessionListQuery(Query):
    """Sessions in the order of their ids: those whose state was set after a time, or with None all there are."""

    __slots__ = ("answer", "limit", "skip", "updated_after_ms")

    def __init__(
        self,
        stream: int,
        updated_after_ms: int | None,
        skip: int,
        limit: int,
        answer: Callable[[list[str]], None],
    ) -> None:
        super().__init__(stream)
        self.updated_after_ms = updated_after_ms
        self.skip = skip
        self.limit = limit
        self.answer = answer


class SessionRecord:
    """What is known of one session without looking at its messages."""

    __slots__ = ("active_count", "session_id", "state_bytes", "updated_at_ms")

    def __init__(self, session_id: str, active_count: int, state_bytes: int, updated_at_ms: int) -> None:
        self.session_id = session_id
        self.active_count = active_count
        # The length of its state, -1 if it has none.
        self.state_bytes = state_bytes
        # When the state was set, 0 if it never was.
        self.updated_at_ms = updated_at_ms


class SessionPageQuery(Query):
    """Sessions that have active messages or a state, in the order of their ids; those behind `after`, or all."""

    __slots__ = ("after", "answer", "limit")

    def __init__(
        self, stream: int, after: str | None, limit: int, answer: Callable[[list[SessionRecord]], None]
    ) -> None:
        super().__init__(stream)
        self.after = after
        self.limit = limit
        self.answer = answer


class SessionStateQuery(Query):
    """The state that was kept beside a session."""

    __slots__ = ("answer", "session_id")

    def __init__(self, stream: int, session_id: str, answer: Callable[[bytes | None], None]) -> None:
        super().__init__(stream)
        self.session_id = session_id
        self.answer = answer


def _raise(error: ProtocolError) -> None:
    raise error


class EventsQuery(Query):
    """Events of a partition that are on disk, from this number on, in order: at least one if there is one."""

    __slots__ = ("answer", "from_sequence_number", "hub_number", "limit", "limit_bytes", "partition_id", "refuse")

    def __init__(
        self,
        hub_number: int,
        partition_id: int,
        from_sequence_number: int,
        limit: int,
        limit_bytes: int,
        answer: Callable[[list[Event]], None],
        refuse: Callable[[ProtocolError], None] = _raise,
    ) -> None:
        super().__init__(0)
        self.hub_number = hub_number
        self.partition_id = partition_id
        self.from_sequence_number = from_sequence_number
        self.limit = limit
        self.limit_bytes = limit_bytes
        self.answer = answer
        self.refuse = refuse


class EventTimeQuery(Query):
    """The number of the first event of a partition that was enqueued at this time or later, or of the next one."""

    __slots__ = ("answer", "at_ms", "hub_number", "partition_id", "refuse")

    def __init__(
        self,
        hub_number: int,
        partition_id: int,
        at_ms: int,
        answer: Callable[[int], None],
        refuse: Callable[[ProtocolError], None] = _raise,
    ) -> None:
        super().__init__(0)
        self.hub_number = hub_number
        self.partition_id = partition_id
        self.at_ms = at_ms
        self.answer = answer
        self.refuse = refuse
