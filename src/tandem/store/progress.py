"""The progress of consumer groups as settings: one for each partition that a group has claimed or come to.

    progress-HUB-PARTITION-GROUP    the fields of the record as JSON

Settings have a second copy, which salvaging reads. So a damaged page takes no checkpoint away.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tandem.store.base import ProgressRecord

__all__ = ["ANY_PROGRESS", "name_of", "names_of_hub", "progress_key", "read_progress"]

_PREFIX: Final = "progress-"

# For GLOB: all of these settings, and those of one hub.
ANY_PROGRESS: Final = f"{_PREFIX}*"


def name_of(hub_number: int, partition_id: int, group: str) -> str:
    return f"{_PREFIX}{hub_number}-{partition_id}-{group}"


def names_of_hub(hub_number: int) -> str:
    return f"{_PREFIX}{hub_number}-*"


def read_progress(name: str, value: str) -> ProgressRecord:
    hub_number, partition_id, group = name[len(_PREFIX) :].split("-", 2)
    return ProgressRecord(int(hub_number), int(partition_id), group, msgspec.json.decode(value))


def progress_key(record: ProgressRecord) -> tuple[int, int, str]:
    """Return what tells a record from all others, and gives their order."""
    return record[:3]
