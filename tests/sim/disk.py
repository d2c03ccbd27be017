"""The disk under the broker: a store whose commits take time and are cut off by crashes, watched by the auditor."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from tandem.engine.effects import Effects
from tandem.engine.queries import EnqueuedBeforeQuery, Query
from tandem.errors import StoreFailed
from tandem.store.base import Entities, Recovered, Store, Swept, Trimmed, Written
from tandem.store.log.event_log import EventLog
from tandem.store.log.log_limits import LogLimits
from tandem.store.sqlite import SqliteStore
from tandem.testing.memory_log import MemoryLog
from tandem.testing.memory_store import MemoryStore
from tests.sim.hub_inspection import judge_trimmed

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["MemoryPlatter", "Platter", "SimDisk", "SqlitePlatter"]


# Segments are sealed by a process of their own, which knows another time than that of the simulation.
_UNSEALED: Final = LogLimits(seal_bytes=1 << 40, seal_events=1 << 40, journal_bytes=1 << 40)


class Platter(Protocol):
    """What survives a crash."""

    store: Store

    def crash(self, is_committed: bool) -> None:
        """The process dies. A commit that was under way took place or not."""

    def bodies(self) -> dict[int, tuple[int, int, int]]:
        """The shared bodies by their number."""

    def recorded(self) -> Recovered:
        """What a start would find, of a store that is in use. Its events are not looked at."""

    def event_bytes(self, hub_number: int, partition_id: int) -> int:
        """How large a partition of an event hub is."""

    def close(self) -> None:
        """The simulation is over."""


class MemoryPlatter:
    """A store in memory."""

    def __init__(self) -> None:
        self._memory = MemoryStore()
        self.store: Store = self._memory

    def crash(self, is_committed: bool) -> None:
        self._memory.crash(is_committed)
        self._memory.reopen()

    def bodies(self) -> dict[int, tuple[int, int, int]]:
        return {number: (body.copies, body.stream, body.size_bytes) for number, body in self._memory._bodies.items()}

    def recorded(self) -> Recovered:
        return self._memory.recover()

    def event_bytes(self, hub_number: int, partition_id: int) -> int:
        return self._memory.log.size_bytes(hub_number, partition_id)

    def close(self) -> None:
        """Nothing is left behind."""


class SqlitePlatter:
    """A store on disk, in a directory of its own."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="tandem-sim-"))
        self._sqlite = self._open()
        self.store: Store = self._sqlite

    def _open(self) -> SqliteStore:
        return SqliteStore(self._directory, ballast_bytes=0, free_bytes=lambda: 1 << 40, log_limits=_UNSEALED)

    def crash(self, is_committed: bool) -> None:
        if is_committed:
            self._sqlite.commit()
        # Closing the connection rolls back what was written and not committed, as opening it after a crash would.
        self._sqlite.close()
        self._sqlite = self._open()
        self.store = self._sqlite

    def bodies(self) -> dict[int, tuple[int, int, int]]:
        rows = self._sqlite._execute("SELECT number, copies, stream, size_bytes FROM body")
        return {number: (copies, stream, size_bytes) for number, copies, stream, size_bytes in rows}

    def recorded(self) -> Recovered:
        store = self._sqlite
        log, store.log = store.log, cast("EventLog", MemoryLog())
        try:
            return store.recover()
        finally:
            store.log = log

    def event_bytes(self, hub_number: int, partition_id: int) -> int:
        return self._sqlite.log.size_bytes(hub_number, partition_id)

    def close(self) -> None:
        self._sqlite.close()
        shutil.rmtree(self._directory)


class SimEvents:
    """The events of the store that the runner sees."""

    def __init__(self, world: World, platter: Platter) -> None:
        self._world = world
        self._platter = platter

    @property
    def has_uncommitted(self) -> bool:
        return self._platter.store.events.has_uncommitted

    @property
    def has_more_to_seal(self) -> bool:
        return self._platter.store.events.has_more_to_seal

    def committed(self) -> None:
        self._platter.store.events.committed()

    def maintain(self, now_ms: int, retention: Mapping[int, tuple[int | None, int | None]]) -> list[Trimmed]:
        trimmed = self._platter.store.events.maintain(now_ms, retention)
        judge_trimmed(self._world, trimmed)
        return trimmed


class SimDisk:
    """The store that the runner sees."""

    def __init__(self, world: World, platter: Platter) -> None:
        self._world = world
        self._platter = platter
        self.events = SimEvents(world, platter)
        self.is_full = False
        # The next commit fails, as after an error of the device.
        self.is_failing = False
        self.is_written = False
        # What somebody wants to know right before a query is read.
        self.before: dict[Query, Callable[[], None]] = {}

    def recover(self) -> Recovered:
        return self._platter.store.recover()

    def read_entities(self, numbers: Collection[int]) -> Entities:
        return self._platter.store.read_entities(numbers)

    def write(self, effects: Effects) -> Written:
        world = self._world
        world.auditor.audit_written(effects)
        written = self._platter.store.write(effects)
        self.is_written = True
        world.auditor.arrivals.judge_duplicates(effects, written.duplicates)
        world.ledger.written_position = world.ledger.position
        return written

    def read(self, query: Query) -> None:
        world = self._world
        world.auditor.audit()
        before = self.before.pop(query, None)
        if before is not None:
            before()
        world.auditor.is_deleting = isinstance(query, EnqueuedBeforeQuery)
        self._platter.store.read(query)
        world.auditor.audit()
        world.auditor.is_deleting = False

    def commit(self) -> None:
        if self.is_failing:
            raise StoreFailed("the device of the simulation failed")
        self._platter.store.commit()
        self.is_written = False
        self._world.ledger.commit()
        self._world.hubs.books.commit(self._world.now_ms)

    def recorded(self) -> Recovered:
        """What a start would find now."""
        return self._platter.recorded()

    def event_bytes(self, hub_number: int, partition_id: int) -> int:
        return self._platter.event_bytes(hub_number, partition_id)

    def has_room(self) -> bool:
        return not self.is_full

    def sweep(self) -> Swept | None:
        return self._platter.store.sweep()

    def bodies(self) -> dict[int, tuple[int, int, int]]:
        """The shared bodies by their number: how many copies, to which stream they are counted, how large."""
        return self._platter.bodies()

    def close(self) -> None:
        """The world closes what is underneath."""

    def crash(self, is_committed: bool) -> None:
        self.is_full = False
        self.is_failing = False
        self.before.clear()
        self._platter.crash(is_committed and self.is_written)
        self.is_written = False
