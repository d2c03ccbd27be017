"""A real `tandem serve` that a test breaks from the inside: its event loop, its memory, its commits, its disk.

The child is the program that users run. Before it starts, a few of its functions are replaced by ones that look for a
file in a folder; the test makes and removes these files.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tandem.testing import Broker

__all__ = ["ROOT", "BrokenBroker", "main"]

ROOT: Final = Path(__file__).resolve().parents[3]
FOLDER_VARIABLE: Final = "TANDEM_SABOTAGE"
# Seconds between two looks at the folder.
_PAUSE_S: Final = 0.01


class BrokenBroker(Broker):
    """A broker as a child process, with what can be done to it."""

    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.server.health.sabotage import main; main()"

    def __init__(self, folder: Path, *, health: str = "", namespaces: str = "", extra: tuple[str, ...] = ()) -> None:
        """`health` are lines of the table [health], `namespaces` others of the configuration."""
        self.orders = folder / "orders"
        self.orders.mkdir(parents=True)
        config = folder / "tandem.toml"
        config.write_text(f"{namespaces}\n[health]\n{health}\n")
        super().__init__(folder / "data", arguments=("--dev", "--health", "--config", str(config), *extra))

    def start(self) -> None:
        # The child inherits it.
        os.environ[FOLDER_VARIABLE] = str(self.orders)
        super().start()

    def order(self, name: str, text: str = "") -> None:
        """Begin, or do once, what the name says."""
        unfinished = self.orders / f"{name}.tmp"
        unfinished.write_text(text)
        unfinished.rename(self.orders / name)

    def take_back(self, name: str) -> None:
        (self.orders / name).unlink()

    def diagnosis(self) -> dict[str, Any]:
        return self.request("GET", "/$api/v1/diagnosis")


# --- in the child ---------------------------------------------------------------------------------------------------


def main() -> None:
    """Run `tandem` with functions that can be made to fail."""
    from tandem.cli import main as run
    from tandem.server.broker import Broker as ServedBroker

    folder = Path(os.environ[FOLDER_VARIABLE])
    _break_store(folder)
    start = ServedBroker.start

    async def start_broken(broker: ServedBroker) -> None:
        await start(broker)
        threading.Thread(target=_obey, args=(folder, broker), daemon=True).start()

    setattr(ServedBroker, "start", start_broken)  # noqa: B010 # mypy would not have it
    run()


def _break_store(folder: Path) -> None:
    from tandem.errors import StoreFailed
    from tandem.store.ballast import Ballast
    from tandem.store.sqlite import SqliteStore

    commit, read, statvfs = SqliteStore.commit, SqliteStore.read, Ballast._statvfs

    def commit_broken(store: SqliteStore) -> None:
        while (folder / "stall-commits").exists():
            time.sleep(_PAUSE_S)
        if (folder / "slow-commits").exists():
            time.sleep(float((folder / "slow-commits").read_text()))
        if (folder / "fail-commits").exists():
            raise StoreFailed("the disk could not be synced")
        commit(store)

    def read_broken(store: SqliteStore, query: Any) -> None:
        if (folder / "fail-reads").exists():
            raise StoreFailed("the store could not be read")
        read(store, query)

    def statvfs_broken(ballast: Ballast) -> int:
        try:
            capacity_bytes = int((folder / "capacity").read_text())
        except OSError:
            return statvfs(ballast)
        used = sum(path.stat().st_size for path in ballast._directory.rglob("*") if path.is_file())
        return max(0, capacity_bytes - used)

    for kind, name, function in (
        (SqliteStore, "commit", commit_broken),
        (SqliteStore, "read", read_broken),
        (Ballast, "_statvfs", statvfs_broken),
    ):
        setattr(kind, name, function)


def _obey(folder: Path, broker: Any) -> None:
    """Do what is ordered, on the event loop."""
    loop = broker._loop
    orders: dict[str, Callable[[str], None]] = {
        "block-loop": lambda _: _block(folder),
        "break-queue": lambda name: _break_queue(broker, name),
    }
    while True:
        for name, do in orders.items():
            path = folder / name
            if path.exists():
                text = path.read_text()
                path.unlink()
                loop.call_soon_threadsafe(do, text)
        time.sleep(_PAUSE_S)


def _block(folder: Path) -> None:
    (folder / "blocked").touch()
    while (folder / "blocked").exists():
        time.sleep(_PAUSE_S)


def _break_queue(broker: Any, name: str) -> None:
    """Put something that is no message at the head of a queue: whoever is to be given it finds the mistake."""
    broker.namespace.get(name).main.outlet.head._ready.appendleft("rubbish")
