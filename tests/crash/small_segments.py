"""`tandem serve` with an event log of small files, so that even a short life rotates, seals and deletes some."""

from __future__ import annotations

from tandem.cli import main as serve
from tandem.store import sqlite
from tandem.store.log.log_limits import LogLimits

__all__ = ["main"]


def main() -> None:
    small = LogLimits(
        rotate_bytes=1_048_576,
        journal_bytes=4_194_304,
        seal_bytes=262_144,
        seal_events=2_000,
        segment_bytes=1_048_576,
        segment_events=8_000,
        carry_below_bytes=65_536,
        carry_bytes=262_144,
        open_segments=4,
    )
    vars(sqlite)["LogLimits"] = lambda: small
    serve()
