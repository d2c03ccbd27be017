"""Folders in which damaged files are kept, with a report of what was found. Nothing in them is ever deleted.

DIR/damaged-20261118T094512Z/
    report.json         when, why, and the findings
    messages.db ...     the files as they were found
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from tandem.store.damage import Damage

__all__ = [
    "SUSPECT_NAME",
    "UNFINISHED_SUFFIX",
    "DamageReport",
    "copy_aside",
    "new_folder",
    "read_reports",
    "sync_folder",
    "write_report",
]

_PREFIX: Final = "damaged-"
_REPORT_NAME: Final = "report.json"

# What a running broker writes when it reads damaged data: the next opening salvages.
SUSPECT_NAME: Final = "suspect"

# A folder that is still being filled.
UNFINISHED_SUFFIX: Final = ".unfinished"


class DamageReport(NamedTuple):
    """What was found at one time."""

    folder: str
    time: str
    damages: list[Damage]


def new_folder(directory: Path, suffix: str = "") -> Path:
    """Make a folder for damaged files."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    folder = directory / f"{_PREFIX}{moment}{suffix}"
    folder.mkdir()
    return folder


def write_report(folder: Path, damages: Sequence[Damage]) -> None:
    report = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "damages": [one.to_dict() for one in damages]}
    with (folder / _REPORT_NAME).open("w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def copy_aside(directory: Path, paths: Sequence[Path], damages: Sequence[Damage]) -> None:
    """Keep copies of damaged files that were mended in place, with a report."""
    folder = new_folder(directory)
    for path in paths:
        if path.exists():
            shutil.copy2(path, folder / path.name)
    write_report(folder, damages)
    sync_folder(directory)


def read_reports(directory: Path) -> list[DamageReport]:
    """Return the reports of a data directory, the oldest first. One that is not readable is reported itself."""
    reports: list[DamageReport] = []
    for folder in sorted(directory.glob(f"{_PREFIX}*/")):
        try:
            found = json.loads((folder / _REPORT_NAME).read_bytes())
            damages = [Damage(one["unit"], one["what"], one["lost"]) for one in found["damages"]]
            reports.append(DamageReport(folder.name, found["time"], damages))
        except (OSError, ValueError, KeyError, TypeError) as error:
            unreadable = Damage(f"the report in '{folder.name}'", f"it is not readable: {error!r}")
            reports.append(DamageReport(folder.name, "", [unreadable]))
    return reports


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
