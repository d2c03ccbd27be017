"""What clients did, counted: one record for each second, entity, operation, stage, outcome and client.

A link keeps the tally of each thing that it does and adds to it; nothing is looked up for a message. When a second is
over its tallies are merged into records, which the server appends to the hub of operations.
"""

from __future__ import annotations

from typing import Final

from tandem.limits import MAX_METERED_KINDS

__all__ = [
    "BACKLOG",
    "BACKLOG_QUEUES",
    "DIRECT",
    "LATENCY_BOUNDS_MS",
    "OK",
    "SYPHON",
    "Meter",
    "OperationRecord",
    "Tally",
    "billable_units",
    "stage_of",
]

# Bytes. A message is charged for each 64 KB that it has begun.
_UNIT_BYTES: Final = 65_536

# Milliseconds. Upper bounds of the buckets in which latencies are counted; what took longer than the last one is
# counted under "inf".
LATENCY_BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 60_000, 600_000)

OK: Final = "ok"

# The stages of a message on its way: straight to its entity; to a backlog queue, because its entity cannot be reached;
# from there to its entity.
DIRECT: Final = "direct"
BACKLOG: Final = "backlog"
SYPHON: Final = "syphon"

# What the names of backlog queues have in common.
BACKLOG_QUEUES: Final = "/x-servicebus-transfer/"

# Kinds of records in one second. A broker with more clients than that counts the rest together.
_OTHERS: Final = "(others)"


def billable_units(size_bytes: int) -> int:
    """An operation without a message is one unit too."""
    return max(1, (size_bytes + _UNIT_BYTES - 1) // _UNIT_BYTES)


def stage_of(entity: str, operation: str, is_syphon: bool) -> str:
    if BACKLOG_QUEUES in entity.lower():
        return BACKLOG if operation == "send" else SYPHON
    return SYPHON if is_syphon else DIRECT


class _Counted:
    """Operations of one kind, of one client on one entity."""

    __slots__ = (
        "billable_units",
        "client",
        "count",
        "entity",
        "entity_kind",
        "latencies",
        "operation",
        "outcome",
        "size_bytes",
        "stage",
    )

    def __init__(self, entity: str, entity_kind: str, operation: str, stage: str, outcome: str, client: str) -> None:
        self.entity = entity
        self.entity_kind = entity_kind
        self.operation = operation
        self.stage = stage
        self.outcome = outcome
        self.client = client
        self.count = 0
        self.size_bytes = 0
        self.billable_units = 0
        # How many took at most so many milliseconds, and more than the next lower bound. -1 stands for no bound.
        self.latencies: dict[int, int] = {}


class OperationRecord(_Counted):
    """What one client did to one entity in one second."""

    __slots__ = ("second",)

    def __init__(self, second: int, tally: Tally, client: str) -> None:
        super().__init__(tally.entity, tally.entity_kind, tally.operation, tally.stage, tally.outcome, client)
        self.second = second


class Tally(_Counted):
    """What was counted since the second began."""

    __slots__ = ("_is_dirty", "_meter")

    def __init__(
        self, meter: Meter, entity: str, entity_kind: str, operation: str, stage: str, outcome: str, client: str
    ) -> None:
        super().__init__(entity, entity_kind, operation, stage, outcome, client)
        self._meter = meter
        self._is_dirty = False

    def add(self, size_bytes: int) -> None:
        """One operation on a message of this size."""
        if not self._is_dirty:
            self._is_dirty = True
            self._meter.dirty.append(self)
        self.count += 1
        self.size_bytes += size_bytes
        self.billable_units += 1 if size_bytes <= _UNIT_BYTES else billable_units(size_bytes)

    def add_batch(self, count: int, size_bytes: int, units: int) -> None:
        """So many at once."""
        self.add_many(count)
        self.size_bytes += size_bytes
        self.billable_units += units - count

    def add_many(self, count: int) -> None:
        """So many operations that carry no message."""
        if not self._is_dirty:
            self._is_dirty = True
            self._meter.dirty.append(self)
        self.count += count
        self.billable_units += count

    def add_latency(self, latency_ms: int, count: int) -> None:
        """So many operations that were added took this long."""
        for bound in LATENCY_BOUNDS_MS:
            if latency_ms <= bound:
                break
        else:
            bound = -1
        self.latencies[bound] = self.latencies.get(bound, 0) + count
        if not self._is_dirty:
            # They were begun in an earlier second, whose record is written already.
            self._is_dirty = True
            self._meter.dirty.append(self)

    def reset(self) -> None:
        self._is_dirty = False
        self.count = self.size_bytes = self.billable_units = 0
        self.latencies = {}


class _NoTally(Tally):
    """Counts nothing: of a namespace that is not metered."""

    __slots__ = ()

    def add(self, size_bytes: int) -> None:
        pass

    def add_batch(self, count: int, size_bytes: int, units: int) -> None:
        pass

    def add_many(self, count: int) -> None:
        pass

    def add_latency(self, latency_ms: int, count: int) -> None:
        pass


class Meter:
    """All tallies of a namespace."""

    __slots__ = ("_finished", "_second", "dirty", "is_on")

    def __init__(self) -> None:
        self.is_on = True
        # Tallies that were added to in this second.
        self.dirty: list[Tally] = []
        self._second = 0
        self._finished: list[OperationRecord] = []

    def tally(
        self, entity: str, entity_kind: str, operation: str, client: str, is_syphon: bool, outcome: str = OK
    ) -> Tally:
        stage = stage_of(entity, operation, is_syphon)
        if not self.is_on:
            return _NoTally(self, entity, entity_kind, operation, stage, outcome, client)
        return Tally(self, entity, entity_kind, operation, stage, outcome, client)

    def begin(self, now_ms: int) -> None:
        """All that is added from now on belongs to this time."""
        second = now_ms // 1_000
        if second != self._second:
            if self.dirty:
                self._finish()
            self._second = second

    def take(self) -> list[OperationRecord]:
        """Records of the seconds that are over."""
        finished, self._finished = self._finished, []
        return finished

    def take_all(self) -> list[OperationRecord]:
        """The same, and what there is of the present one: nothing more comes."""
        self._finish()
        return self.take()

    def _finish(self) -> None:
        dirty, self.dirty = self.dirty, []
        records: dict[tuple[str, str, str, str, str], OperationRecord] = {}
        for tally in dirty:
            client = tally.client if len(records) < MAX_METERED_KINDS else _OTHERS
            key = (tally.entity, tally.operation, tally.stage, tally.outcome, client)
            record = records.get(key)
            if record is None:
                record = records[key] = OperationRecord(self._second, tally, client)
            record.count += tally.count
            record.size_bytes += tally.size_bytes
            record.billable_units += tally.billable_units
            for bound, count in tally.latencies.items():
                record.latencies[bound] = record.latencies.get(bound, 0) + count
            tally.reset()
        self._finished += records.values()
