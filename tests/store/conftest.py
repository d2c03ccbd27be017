"""Both stores, each with a way to crash it and to open it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tandem.store.base import Store
from tandem.store.sqlite import SqliteStore
from tandem.testing.disk import FaultyDisk
from tandem.testing.memory_store import MemoryStore


class Home(Protocol):
    """Where a store lives."""

    store: Store

    def reopen(self) -> Store:
        """Stop in order, and start again."""

    def crash(self) -> Store:
        """Stop without warning, and start again."""

    def close(self) -> None:
        """For good."""


class DiskHome:
    """A store on a disk that forgets whatever was not synced."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._disk = FaultyDisk(directory)
        self.store: Store = self._open()

    def _open(self) -> SqliteStore:
        return SqliteStore(self._directory, vfs=self._disk.name, ballast_bytes=0)

    def reopen(self) -> Store:
        self.store.close()
        self.store = self._open()
        return self.store

    def crash(self) -> Store:
        self._disk.has_power = False
        self.store.close()
        self._disk.restore_power()
        self.store = self._open()
        return self.store

    def close(self) -> None:
        self.store.close()
        self._disk.unregister()


class MemoryHome:
    """A store in memory."""

    def __init__(self) -> None:
        self._memory = MemoryStore()
        self.store: Store = self._memory

    def reopen(self) -> Store:
        self.store.close()
        return self.store

    def crash(self) -> Store:
        self._memory.reopen()
        return self.store

    def close(self) -> None:
        self.store.close()


@pytest.fixture(params=["sqlite", "memory"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    made: Home = DiskHome(tmp_path) if request.param == "sqlite" else MemoryHome()
    yield made
    made.close()


@pytest.fixture
def store(home: Home) -> Store:
    return home.store
