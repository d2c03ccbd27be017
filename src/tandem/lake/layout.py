"""Where the files of a capture lie, and how they are called.

hive       hub=orders/date=2026-11-16/hour=07/0-4711-5f3a….parquet: partition, first sequence number, something unique
capture    contoso/orders/0/2026/11/16/07/59/58-4711.avro: as Event Hubs Capture names files, with the first
           sequence number behind the second, since more than one file can begin in one second
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from tandem.errors import ConfigurationError

__all__ = [
    "CAPTURE_PATTERN",
    "HIVE_COLUMNS",
    "LAYOUTS",
    "Layout",
    "LayoutName",
    "file_name",
    "moment_of",
    "with_suffix",
]

LayoutName = Literal["hive", "capture"]
LAYOUTS: Final = ("hive", "capture")

# The folders of the layout `hive`, outermost first.
HIVE_COLUMNS: Final = ("hub", "date", "hour")

CAPTURE_PATTERN: Final = "{Namespace}/{EventHub}/{PartitionId}/{Year}/{Month}/{Day}/{Hour}/{Minute}/{Second}"

_TOKENS: Final = re.compile(r"\{(\w+)\}")
_ALL_TOKENS: Final = frozenset(_TOKENS.findall(CAPTURE_PATTERN))

# Characters in the names of folders that readers of tables disagree about.
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_.$-]")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment_of(time_us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_us)


@dataclass(frozen=True)
class Layout:
    """The paths of the files of one hub."""

    name: LayoutName
    hub: str
    namespace: str = "tandem"
    pattern: str = CAPTURE_PATTERN

    def __post_init__(self) -> None:
        tokens = _TOKENS.findall(self.pattern)
        if len(tokens) != len(_ALL_TOKENS) or set(tokens) != _ALL_TOKENS:
            raise ConfigurationError(
                f"the pattern {self.pattern!r:.200} must have each of {', '.join(sorted(_ALL_TOKENS))} once, in braces"
            )

    def path(self, partition: str, time_us: int, sequence_number: int, extension: str) -> str:
        """Return the path of a file whose first event has this number and time."""
        moment = moment_of(time_us)
        if self.name == "hive":
            # The values that count are in the log of the table, or in the manifest.
            folder = f"hub={file_name(self.hub)}/date={moment:%Y-%m-%d}/hour={moment:%H}"
            return f"{folder}/{partition}-{sequence_number}-{uuid.uuid4().hex[:16]}{extension}"
        values = {
            "Namespace": self.namespace,
            "EventHub": self.hub,
            "PartitionId": partition,
            "Year": f"{moment:%Y}",
            "Month": f"{moment:%m}",
            "Day": f"{moment:%d}",
            "Hour": f"{moment:%H}",
            "Minute": f"{moment:%M}",
            "Second": f"{moment:%S}-{sequence_number}",
        }
        return _TOKENS.sub(lambda token: values[token[1]], self.pattern) + extension


def with_suffix(path: str) -> str:
    """Return the path with something unique in front of its extension."""
    stem, dot, extension = path.rpartition(".")
    return f"{stem}-{uuid.uuid4().hex[:16]}{dot}{extension}"


def file_name(text: str) -> str:
    """Return a name for a file or a folder that readers of tables agree about."""
    return _UNUSUAL.sub("-", text)
