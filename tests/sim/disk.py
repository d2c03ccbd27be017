"""The disk under the broker: a store whose commits take time and are cut off by crashes, watched by the auditor."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tandem.engine.effects import Effects
from tandem.engine.queries import EnqueuedBeforeQuery, Query
from tandem.errors import StoreFailed
from tandem.store.base import Recovered, Store, Written
from tandem.store.memory import MemoryStore
from tandem.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["MemoryPlatter", "Platter", "SimDisk", "SqlitePlatter"]


class Platter(Protocol):
    """What survives a crash."""

    store: Store

    def crash(self, is_committed: bool) -> None:
        """The process dies. A commit that was under way took place or not."""

    def bodies(self) -> dict[int, tuple[int, int, int]]:
        """The shared bodies by their number."""

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

    def close(self) -> None:
        """Nothing is left behind."""


class SqlitePlatter:
    """A store on disk, in a directory of its own."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="tandem-sim-"))
        self._sqlite = self._open()
        self.store: Store = self._sqlite

    def _open(self) -> SqliteStore:
        return SqliteStore(self._directory, ballast_bytes=0, free_bytes=lambda: 1 << 40)

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

    def close(self) -> None:
        self._sqlite.close()
        shutil.rmtree(self._directory)


class SimDisk:
    """The store that the runner sees."""

    def __init__(self, world: World, platter: Platter) -> None:
        self._world = world
        self._platter = platter
        self.is_full = False
        # The next commit fails, as after an error of the device.
        self.is_failing = False
        self.has_uncommitted = False
        # What somebody wants to know right before a query is read.
        self.before: dict[Query, Callable[[], None]] = {}

    def recover(self) -> Recovered:
        return self._platter.store.recover()

    def write(self, effects: Effects) -> Written:
        world = self._world
        world.auditor.audit_written(effects)
        written = self._platter.store.write(effects)
        self.has_uncommitted = True
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
        self.has_uncommitted = False
        self._world.ledger.commit()

    def has_room(self) -> bool:
        return not self.is_full

    def sweep(self) -> bool:
        return self._platter.store.sweep()

    def sweep_all(self) -> dict[int, int]:
        """The broker is at rest and has all the time: finish what deleted queues left. Returns what became of shared
        bodies by that, which the next batch would tell."""
        store = self._platter.store
        while store.sweep():
            pass
        written = store.write(Effects())
        store.commit()
        return dict(written.shared_bytes)

    def bodies(self) -> dict[int, tuple[int, int, int]]:
        """The shared bodies by their number: how many copies, to which stream they are counted, how large."""
        return self._platter.bodies()

    def close(self) -> None:
        """The world closes what is underneath."""

    def crash(self, is_committed: bool) -> None:
        self.is_full = False
        self.is_failing = False
        self.before.clear()
        self._platter.crash(is_committed and self.has_uncommitted)
        self.has_uncommitted = False
