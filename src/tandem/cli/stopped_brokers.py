"""Brokers that have stopped, started again on their data directories for as long as somebody reads them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tandem.cli.failure import CommandFailed
from tandem.store.sqlite import DATABASE_NAME
from tandem.testing import Broker

__all__ = ["data_directories", "serving"]

# What is read shall stay as it is: reading it is not counted.
_ARGUMENTS: Final = ("--no-operations",)


def data_directories(folder: Path) -> list[Path]:
    """The data directories of brokers in a folder, such as `primary` and `secondary` of `tandem drill --keep`."""
    found = sorted(path.parent for path in folder.glob(f"*/{DATABASE_NAME}"))
    if not found:
        raise CommandFailed(
            f"{folder} has no data directory of a broker in it: there is no */{DATABASE_NAME}. "
            f"Make one with `tandem drill --keep {folder}`"
        )
    return found


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """Their connection strings, by the names of their folders."""
    with contextlib.ExitStack() as stack:
        brokers = {path.name: Broker(path, arguments=_ARGUMENTS) for path in data_directories(folder)}
        yield {name: stack.enter_context(broker).connection_string for name, broker in brokers.items()}
