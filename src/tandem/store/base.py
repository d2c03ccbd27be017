"""What every store promises.

`write` makes changes that later reads see at once and a crash undoes; `commit` makes everything written so far survive
a crash, and returns when it does. Both happen strictly in turn: nothing is written while a commit runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

from tandem.engine.effects import Effects
from tandem.engine.queries import Query
from tandem.store.log.recovery import LogRecovery

__all__ = [
    "LAST_DROPPED_HUB",
    "RESERVED_EVENTS",
    "Entities",
    "Events",
    "HubRecord",
    "ProgressRecord",
    "QueueRecord",
    "Recovered",
    "RuleRecord",
    "Store",
    "StreamRecord",
    "Trimmed",
    "Written",
]

# The name of the setting that keeps `Recovered.last_dropped_hub`.
LAST_DROPPED_HUB: Final = "last-dropped-hub"

# The names of settings that say, by hub, up to where the numbers of events may have been given.
RESERVED_EVENTS: Final = "reserved-events-"


class QueueRecord(NamedTuple):
    """A queue, topic or subscription as it was recorded."""

    number: int
    kind: str
    fields: dict[str, object]
    created_at_ms: int
    updated_at_ms: int
    # When the youngest message id came that is remembered for it; 0 if none is.
    last_id_at_ms: int = 0


class RuleRecord(NamedTuple):
    """A rule of a subscription as it was recorded."""

    queue_number: int
    name: str
    fields: dict[str, object]
    created_at_ms: int


class HubRecord(NamedTuple):
    """An event hub as it was recorded."""

    number: int
    fields: dict[str, object]
    created_at_ms: int
    updated_at_ms: int


class ProgressRecord(NamedTuple):
    """How far a consumer group has come in a partition, and who processes it, as it was recorded."""

    hub_number: int
    partition_id: int
    group: str
    fields: dict[str, object]


class StreamRecord(NamedTuple):
    """The counts of one line of messages."""

    stream: int
    active: int
    deferred: int
    scheduled: int
    size_bytes: int
    next_sequence_number: int
    accessed_at_ms: int


class Recovered(NamedTuple):
    """Everything that has to be in memory when a broker starts: its size does not depend on the number of messages."""

    queues: list[QueueRecord]
    streams: list[StreamRecord]
    rules: list[RuleRecord]
    # The highest number of a shared body.
    last_body_number: int
    hubs: list[HubRecord]
    # The highest number a hub was ever deleted with.
    last_dropped_hub: int
    # How far the partitions of the hubs have come, and their idempotent producers.
    log: LogRecovery
    # Ownerships and checkpoints of the consumer groups of the hubs.
    progress: list[ProgressRecord]


class Entities(NamedTuple):
    """Some queues, topics and subscriptions, with the counts of their messages and their rules."""

    queues: list[QueueRecord]
    streams: list[StreamRecord]
    rules: list[RuleRecord]


class Trimmed(NamedTuple):
    """A partition of which retention has taken the oldest events, and what is left of it."""

    hub_number: int
    partition_id: int
    begin_sequence_number: int
    size_bytes: int


class Written(NamedTuple):
    """What only the store could know of a batch."""

    # Rows of messages that were not written because they are duplicates.
    duplicates: Collection[int]
    # By how many bytes the shared bodies counted to a stream grew or shrank.
    shared_bytes: Mapping[int, int]


class Swept(NamedTuple):
    """What came of sweeping, and is on disk."""

    # By how many bytes the shared bodies counted to a stream changed: nobody has a copy of some any more.
    shared_bytes: dict[int, int]


class Events(Protocol):
    """The events of hubs in a store, beside its messages. They are written, committed and read with these."""

    @property
    def has_uncommitted(self) -> bool:
        """Return whether maintenance has left something to commit."""

    @property
    def has_more_to_seal(self) -> bool:
        """Return whether events wait for maintenance: then it is worth doing soon."""

    def committed(self) -> None:
        """Make the events of the last commit readable."""

    def maintain(self, now_ms: int, retention: Mapping[int, tuple[int | None, int | None]]) -> list[Trimmed]:
        """Do a bounded piece of maintenance: seal events, and delete those that retention does not keep.

        `retention` says by hub for how many milliseconds, and how many bytes of a partition, are kept.
        """


class Store(Protocol):
    """A place where messages survive."""

    @property
    def events(self) -> Events: ...

    def recover(self) -> Recovered:
        """What was committed last."""

    def read_entities(self, numbers: Collection[int]) -> Entities:
        """What was committed last about these queues, topics and subscriptions."""

    def write(self, effects: Effects) -> Written:
        """Write a batch."""

    def read(self, query: Query) -> None:
        """Answer a query from what was written."""

    def commit(self) -> None:
        """Make it last. May run in another thread, while this one leaves the store alone. StoreFailed is final."""

    def has_room(self) -> bool:
        """Whether new messages can be taken. Messages that are there can be settled in any case."""

    def sweep(self) -> Swept | None:
        """Do a bounded part of the work that deleted queues left behind. None when there is none."""

    def close(self) -> None:
        """Everything was committed."""
