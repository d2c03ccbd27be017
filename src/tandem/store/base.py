"""What every store promises.

`write` makes changes that later reads see at once and a crash undoes; `commit` makes everything written so far survive
a crash, and returns when it does. Both happen strictly in turn: nothing is written while a commit runs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from tandem.engine.effects import Effects
from tandem.engine.queries import Query

__all__ = ["QueueRecord", "Recovered", "RuleRecord", "Store", "StreamRecord", "Written"]


class QueueRecord(NamedTuple):
    """A queue, topic or subscription as it was recorded."""

    number: int
    kind: str
    fields: dict[str, object]
    created_at_ms: int
    updated_at_ms: int


class RuleRecord(NamedTuple):
    """A rule of a subscription as it was recorded."""

    queue_number: int
    name: str
    fields: dict[str, object]
    created_at_ms: int


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


class Written(NamedTuple):
    """What only the store could know of a batch."""

    # Rows of messages that were not written because they are duplicates.
    duplicates: Collection[int]
    # By how many bytes the shared bodies counted to a stream grew or shrank.
    shared_bytes: Mapping[int, int]


class Store(Protocol):
    """A place where messages survive."""

    def recover(self) -> Recovered:
        """What was committed last."""

    def write(self, effects: Effects) -> Written:
        """Write a batch."""

    def read(self, query: Query) -> None:
        """Answer a query from what was written."""

    def commit(self) -> None:
        """Make it last. May run in another thread, while this one leaves the store alone. StoreFailed is final."""

    def has_room(self) -> bool:
        """Whether new messages can be taken. Messages that are there can be settled in any case."""

    def sweep(self) -> bool:
        """Do a bounded part of the work that deleted queues left behind. False when there is none."""

    def close(self) -> None:
        """Everything was committed."""
