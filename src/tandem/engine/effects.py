"""What a step of the engine wants done. The engine appends here and performs nothing.

The store gets what has to be written, in three groups that are written in this order: messages that came in, changes
in the order in which they were decided, messages that are gone. Within one batch no message is changed before it came
in or after it is gone, so the order between groups is free, and each group can be written in one go.

Replies are released after the batch is on disk. Deliveries under a lock and notices may go out at once: a lock is not
part of what is on disk. A message that is handed out for good is a reply in this sense: its removal comes first.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from tandem.engine.message import ACTIVE, DEFERRED, Admission, BrokeredMessage, SharedBody

if TYPE_CHECKING:
    from tandem.engine.consumer import Consumer
    from tandem.engine.hubs.receiver import EventDelivery
    from tandem.engine.hubs.record import EventRecord
    from tandem.engine.lock_table import Lock
    from tandem.engine.queries import Query

__all__ = [
    "Change",
    "DropHub",
    "DropProgress",
    "DropQueue",
    "DropRule",
    "Effects",
    "ForgetDuplicates",
    "HandedOut",
    "Move",
    "Notice",
    "NoticeKind",
    "PutHub",
    "PutProgress",
    "PutQueue",
    "PutRule",
    "PutSetting",
    "SetSessionState",
    "SetState",
    "StreamChange",
]


class Change:
    """One thing to write besides messages that come and go."""

    __slots__ = ()


class SetState(Change):
    """A message stays where it is, with another state, delivery count, and perhaps application properties."""

    __slots__ = ("delivery_count", "properties", "row", "state")

    def __init__(self, row: int, state: int, delivery_count: int, properties: dict[str, object] | None) -> None:
        self.row = row
        self.state = state
        self.delivery_count = delivery_count
        self.properties = properties


class Move(Change):
    """A message gets another place: `message` already says which, and as what.

    `shared_body_number` is that of a shared body which the message leaves: from now on it has bytes of its own.
    """

    __slots__ = ("message", "properties", "row", "shared_body_number")

    def __init__(
        self, row: int, message: BrokeredMessage, properties: dict[str, object] | None, shared_body_number: int = 0
    ) -> None:
        self.row = row
        self.message = message
        self.properties = properties
        self.shared_body_number = shared_body_number


class SetSessionState(Change):
    """What an application wants kept beside a session. None is nothing."""

    __slots__ = ("session_id", "state", "stream", "updated_at_ms")

    def __init__(self, stream: int, session_id: str, state: bytes | None, updated_at_ms: int) -> None:
        self.stream = stream
        self.session_id = session_id
        self.state = state
        self.updated_at_ms = updated_at_ms


class PutQueue(Change):
    """A queue, topic or subscription is made or changed."""

    __slots__ = ("created_at_ms", "fields", "kind", "number", "updated_at_ms")

    def __init__(
        self, number: int, kind: str, fields: dict[str, object], created_at_ms: int, updated_at_ms: int
    ) -> None:
        self.number = number
        self.kind = kind
        self.fields = fields
        self.created_at_ms = created_at_ms
        self.updated_at_ms = updated_at_ms


class DropQueue(Change):
    """A queue is gone, with all it holds."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class PutHub(Change):
    """An event hub is made or changed."""

    __slots__ = ("created_at_ms", "fields", "number", "updated_at_ms")

    def __init__(self, number: int, fields: dict[str, object], created_at_ms: int, updated_at_ms: int) -> None:
        self.number = number
        self.fields = fields
        self.created_at_ms = created_at_ms
        self.updated_at_ms = updated_at_ms


class DropHub(Change):
    """An event hub is gone, with all its events."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class PutProgress(Change):
    """A consumer group has claimed a partition of a hub, or has come further in it."""

    __slots__ = ("fields", "group", "hub_number", "partition_id")

    def __init__(self, hub_number: int, partition_id: int, group: str, fields: dict[str, object]) -> None:
        self.hub_number = hub_number
        self.partition_id = partition_id
        self.group = group
        self.fields = fields


class DropProgress(Change):
    """A consumer group of a hub is gone, with its progress in all partitions."""

    __slots__ = ("group", "hub_number")

    def __init__(self, hub_number: int, group: str) -> None:
        self.hub_number = hub_number
        self.group = group


class PutRule(Change):
    """A subscription gets a rule."""

    __slots__ = ("created_at_ms", "fields", "name", "queue_number")

    def __init__(self, queue_number: int, name: str, fields: dict[str, object], created_at_ms: int) -> None:
        self.queue_number = queue_number
        self.name = name
        self.fields = fields
        self.created_at_ms = created_at_ms


class DropRule(Change):
    """A subscription loses a rule."""

    __slots__ = ("name", "queue_number")

    def __init__(self, queue_number: int, name: str) -> None:
        self.queue_number = queue_number
        self.name = name


class ForgetDuplicates(Change):
    """Message ids that were seen before this need not be remembered any longer."""

    __slots__ = ("before_ms", "queue_number")

    def __init__(self, queue_number: int, before_ms: int) -> None:
        self.queue_number = queue_number
        self.before_ms = before_ms


class PutSetting(Change):
    """A setting of the namespace itself."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: str) -> None:
        self.name = name
        self.value = value


class StreamChange:
    """How one batch changes the counts of a stream. Filled by `StreamCounts` only.

    Messages that came in are counted as if none of them were a duplicate; the store takes back those that are.
    """

    __slots__ = ("accessed_at_ms", "active", "deferred", "next_sequence_number", "scheduled", "sessions", "size_bytes")

    def __init__(self) -> None:
        self.active = 0
        self.deferred = 0
        self.scheduled = 0
        self.size_bytes = 0
        self.next_sequence_number = 0
        self.accessed_at_ms = 0
        # Active messages by session id as it was sent. The store adds up the spellings of one session.
        self.sessions: dict[str, int] = {}

    def add(self, message: BrokeredMessage, count: int) -> int:
        """Count a message of this state that came (1) or went (-1). Return by how many bytes the stream changes."""
        if message.state == ACTIVE:
            self.active += count
            session_id = message.session_id
            if session_id is not None:
                self.sessions[session_id] = self.sessions.get(session_id, 0) + count
        elif message.state == DEFERRED:
            self.deferred += count
        else:
            self.scheduled += count
        # No product: the compiled form multiplies negative numbers by way of objects, as slowly as all the rest.
        by_bytes = message.held_bytes if count > 0 else -message.held_bytes
        self.size_bytes += by_bytes
        return by_bytes


class NoticeKind(enum.Enum):
    """What a client is told without having asked just now."""

    DRAINED = 1
    SESSION_ACCEPTED = 2
    SESSION_REFUSED = 3
    CLOSED = 4


class Notice:
    """Something a receiver has to be told."""

    __slots__ = ("consumer", "error", "kind")

    def __init__(self, kind: NoticeKind, consumer: Consumer, error: Exception | None = None) -> None:
        self.kind = kind
        self.consumer = consumer
        self.error = error


class HandedOut:
    """A message that was received and deleted in one step."""

    __slots__ = ("consumer", "message", "payload")

    def __init__(self, consumer: Consumer, message: BrokeredMessage, payload: bytes) -> None:
        self.consumer = consumer
        self.message = message
        self.payload = payload


class Effects:
    """One batch of effects."""

    __slots__ = (
        "admissions",
        "appended",
        "bodies",
        "changes",
        "deliveries",
        "discharged",
        "event_deliveries",
        "events",
        "handed_out",
        "moved",
        "notices",
        "published",
        "queries",
        "released",
        "removed",
        "replies",
        "streams",
    )

    def __init__(self) -> None:
        self.appended: list[BrokeredMessage] = []
        # Questions to duplicate detection that are not tied to one message, and what is shared between messages.
        self.admissions: list[Admission] = []
        self.bodies: dict[int, SharedBody] = {}
        # Shared bodies of removed messages, and how many of their copies went.
        self.released: dict[int, int] = {}
        # Numbers of topics, and the sizes of the shared bodies that wait for the store to count them.
        self.published: list[tuple[int, int]] = []
        self.changes: list[Change] = []
        self.removed: list[int] = []
        self.streams: dict[int, StreamChange] = {}
        # Messages that moved, and that become available with the commit.
        self.moved: list[BrokeredMessage] = []
        # What asked, and what it is answered.
        self.replies: list[tuple[object, object]] = []
        # Owners of transactions that were committed, and the bytes that each transaction held.
        self.discharged: list[tuple[object, int]] = []
        self.handed_out: list[HandedOut] = []
        self.deliveries: list[Lock] = []
        self.notices: list[Notice] = []
        self.queries: list[Query] = []
        # Events to append, in the order of their numbers, and what readers are told at once: it is on disk already.
        self.events: list[EventRecord] = []
        self.event_deliveries: list[EventDelivery] = []

    def stream_change(self, stream: int) -> StreamChange:
        change = self.streams.get(stream)
        if change is None:
            change = self.streams[stream] = StreamChange()
        return change

    @property
    def has_writes(self) -> bool:
        return bool(self.events) or self.has_rows

    @property
    def has_rows(self) -> bool:
        """Whether there is something to write besides events, which have a log of their own."""
        return bool(self.appended or self.changes or self.removed or self.streams or self.admissions)

    def release(self, body_number: int) -> None:
        """One copy less of a shared body."""
        self.released[body_number] = self.released.get(body_number, 0) + 1

    def reply(self, asker: object, answer: object) -> None:
        self.replies.append((asker, answer))
