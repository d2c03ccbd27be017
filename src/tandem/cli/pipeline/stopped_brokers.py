"""Stopped brokers, started again on their data directories while a command reads them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tandem.cli.broker.connection_string import root_connection_string
from tandem.cli.shared.failure import CommandFailed
from tandem.store.sqlite import DATABASE_NAME
from tandem.testing import Broker
from tandem.testing.json_api import HOST

__all__ = ["data_directories", "serving"]

# Reading must not change the stream of operations that is read.
_ARGUMENTS: Final = ("--no-operations",)


def data_directories(folder: Path) -> list[Path]:
    """Return the data directories in a folder, such as `primary` and `secondary` of `tandem drill --keep`."""
    found = sorted(path.parent for path in folder.glob(f"*/{DATABASE_NAME}"))
    if not found:
        raise CommandFailed(
            f"{folder} has no data directory of a broker in it: there is no */{DATABASE_NAME}. "
            f"Make one with `tandem drill --keep {folder}`"
        )
    return found


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Callable[[], dict[str, str]]]:
    """Start the brokers in the background, and stop them on the way out.

    Yields a function that waits until all of them serve, and returns their connection strings by the names of their
    folders.
    """
    brokers = [Broker(path, arguments=_ARGUMENTS) for path in data_directories(folder)]
    with contextlib.ExitStack() as stack:
        for broker in brokers:
            stack.callback(broker.close)
        pool = stack.enter_context(ThreadPoolExecutor(len(brokers)))
        started = {broker.data_dir.name: pool.submit(_start, broker) for broker in brokers}
        yield lambda: {name: one.result() for name, one in started.items()}


def _start(broker: Broker) -> str:
    """Return the connection string. `Broker.connection_string` would start another process, which takes a second."""
    broker.start()
    return root_connection_string(broker.data_dir, is_dev=False, host=HOST, port=broker.port)
