"""Short ways to append events, and to look at what is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tandem.amqp.batch import make_batch
from tandem.amqp.message import encode_message
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord, ProducerMark
from tandem.store.log.event_log import EventLog
from tandem.store.log.log_limits import LogLimits
from tandem.testing.memory_log import MemoryLog
from tests.store.log.disk import FaultyFiles, InlineSealer

HUB = 1_700_000_000_000
OTHER_HUB = HUB + 1
HUBS = {HUB: 2, OTHER_HUB: 1}

# Small enough that some hundred events go through everything that can happen.
SMALL = LogLimits(
    rotate_bytes=4_000,
    journal_bytes=16_000,
    seal_bytes=3_000,
    seal_events=40,
    segment_bytes=6_000,
    segment_events=80,
    carry_below_bytes=500,
    batch_rows=16,
    batch_bytes=2_000,
    open_segments=2,
    producers=4,
)

Log = EventLog | MemoryLog


class Numbered(Protocol):
    """Whatever has a number."""

    sequence_number: int


def body(number: int, partition_id: int = 0, hub_number: int = HUB) -> bytes:
    return f"event {number} of {hub_number}/{partition_id}".encode()


class Writer:
    """Appends to the partitions of a log, and knows the next number of each."""

    def __init__(self, log: Log, now_ms: int = 1_000) -> None:
        self.log = log
        self.now_ms = now_ms
        self._next: dict[tuple[int, int], int] = {}

    def continue_at(self, hub_number: int, partition_id: int, number: int) -> None:
        self._next[hub_number, partition_id] = number

    def record(
        self,
        count: int = 1,
        *,
        partition_id: int = 0,
        hub_number: int = HUB,
        key: str | None = None,
        publisher: str | None = None,
        producer: ProducerMark | None = None,
        padding: int = 0,
    ) -> EventRecord:
        """The next events of a partition, which say in their bodies which they are."""
        first = self._next.get((hub_number, partition_id), 0)
        self._next[hub_number, partition_id] = first + count
        messages = [
            encode_message(data=body(number, partition_id, hub_number) + bytes(padding))
            for number in range(first, first + count)
        ]
        payload = make_batch(messages) if count > 1 else messages[0]
        return EventRecord(
            hub_number, partition_id, first, count, self.now_ms, payload, count > 1, key, publisher, producer
        )

    def append(
        self,
        count: int = 1,
        *,
        partition_id: int = 0,
        hub_number: int = HUB,
        producer: ProducerMark | None = None,
        padding: int = 0,
    ) -> None:
        """And commit."""
        self.log.append(
            [self.record(count, partition_id=partition_id, hub_number=hub_number, producer=producer, padding=padding)]
        )
        commit(self.log)


def commit(log: Log) -> None:
    if log.has_uncommitted:
        log.commit()
    log.committed()


def maintained(log: Log, now_ms: int, times: int = 1) -> None:
    """Some turns of upkeep without retention, each with the commit that follows."""
    for turn in range(times):
        log.maintain(now_ms + 1_000 * turn, {})
        commit(log)


def read_all(log: Log, partition_id: int = 0, hub_number: int = HUB, limit: int = 7) -> list[Event]:
    """Everything that is retained, some events at a time."""
    events: list[Event] = []
    number = 0
    while found := log.read(hub_number, partition_id, number, limit, 100_000):
        events += found
        number = found[-1].sequence_number + 1
    return events


def numbers(events: list[Event]) -> list[int]:
    return [event.sequence_number for event in events]


def streamed(
    log: Log, partition_id: int, from_: int, to: int, max_events: int | None = None, *, is_of_heads: bool = False
) -> Any:
    """The table that a snapshot streams."""
    snapshot = log.snapshot(HUB, partition_id, from_, to)
    try:
        return pa.ipc.open_stream(b"".join(snapshot.stream(max_events, is_of_heads=is_of_heads))).read_all()
    finally:
        snapshot.close()


class Home:
    """Where an event log lives, on a disk that can lose its power."""

    def __init__(self, directory: Path, limits: LogLimits = SMALL, seed: int = 0) -> None:
        self.directory = directory / "hubs"
        self.limits = limits
        self.files = FaultyFiles(directory / "graveyard", seed)
        self.hubs = dict(HUBS)
        self.log = self._open()
        self.log.recover(self.hubs)

    def _open(self) -> EventLog:
        self.sealer = InlineSealer(self.files)
        return EventLog(self.directory, limits=self.limits, files=self.files, sealer=self.sealer)

    def reopen(self) -> EventLog:
        """Stop in order, and start again."""
        self.log.close()
        self.log = self._open()
        return self.log

    def crash(self) -> EventLog:
        """Stop without warning, and start again."""
        self.files.has_power = False
        self.log.close()
        self.files.restore_power()
        self.log = self._open()
        return self.log

    def close(self) -> None:
        self.log.close()
