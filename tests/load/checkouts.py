"""Brokers of another checkout, or without a part of this one, to be measured beside the one as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tandem.testing import Broker

__all__ = ["broker_of", "broker_without_checksums"]

_MAIN: Final = "from tandem.cli import main; main()"

# Before any module of the store has been imported: they take these functions by their names.
_WITHOUT_CHECKSUMS: Final = (
    "import tandem.store.checksums as checksums; checksums.checksum_vfs = lambda: None; "
    "checksums.checked_bytes = lambda: 1 << 60; "
)


def broker_of(checkout: Path | None) -> type[Broker]:
    """Return the brokers of another checkout, in the form that it has on disk; without one, those of this program."""
    if checkout is None:
        return Broker
    source = (checkout / "src").resolve(strict=True)

    class OtherBroker(Broker):
        program = f"import sys; sys.path.insert(0, {str(source)!r}); {_MAIN}"

    return OtherBroker


def broker_without_checksums() -> type[Broker]:
    """Return brokers of this program that keep no checksums, of neither pages nor messages."""

    class UncheckedBroker(Broker):
        program = _WITHOUT_CHECKSUMS + _MAIN

    return UncheckedBroker
