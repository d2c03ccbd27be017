"""Small files of a table put together, and files removed that no longer count. Neither needs Spark.

compact    the small files of one hub, partition and hour become one. Readers see the old ones or the new one
vacuum     deletes replaced files and those of interrupted batches, once they are old enough that nobody reads them

Run one compaction of a table at a time. A capture may go on meanwhile.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from tandem.errors import ConfigurationError
from tandem.event_columns import PUBLIC_SCHEMA
from tandem.lake import delta_table, manifests, parsing
from tandem.lake.capture_names import INTENTS, QUARANTINE, STAGING
from tandem.lake.captured_file import CapturedFile
from tandem.lake.file_writers import EXTENSIONS, ParquetFileWriter
from tandem.lake.layout import HIVE_COLUMNS
from tandem.lake.place import Place
from tandem.lake.reading import file_of, read_file

__all__ = ["DEFAULT_TARGET_BYTES", "DEFAULT_VACUUM_AGE_S", "Compacted", "compact", "vacuum"]

# Bytes of a file that is large enough: what one task of Spark reads.
DEFAULT_TARGET_BYTES: Final = 128 << 20

# A week, as Delta has it: no reader takes longer.
DEFAULT_VACUUM_AGE_S: Final = 7 * 86_400.0

# Seconds. Files that were replaced before are found by their age.
_REMEMBERED_S: Final = 30 * 86_400.0


@dataclass(frozen=True)
class Compacted:
    """How many files were replaced, and by how many."""

    before: int = 0
    after: int = 0

    def __add__(self, other: Compacted) -> Compacted:
        return Compacted(self.before + other.before, self.after + other.after)


def compact(place: Place, target_bytes: int = DEFAULT_TARGET_BYTES) -> Compacted:
    """Put the small files of a capture together, and those of its quarantine."""
    return sum((_compact(one, target_bytes) for one in _tables(place)), Compacted())


def vacuum(place: Place, older_than_s: float = DEFAULT_VACUUM_AGE_S, *, is_dry_run: bool = False) -> list[str]:
    """Delete files that do not count, and have not for this long. Return their paths, relative to the place."""
    found: list[str] = []
    # The files of an intent are complete, and count as soon as the capture goes on.
    has_intents = bool(place.files(INTENTS))
    for one in _tables(place):
        folder = str(one).removeprefix(str(place)).strip("/")
        deleted = _vacuum(one, older_than_s, has_intents, is_dry_run)
        found += [f"{folder}/{path}" if folder else path for path in deleted]
    return found


def _tables(place: Place) -> Iterator[Place]:
    if not place.is_ours:
        raise ConfigurationError(f"{place} is on a file system of Spark's; tandem.lake has folders and s3://")
    aside = place.child(QUARANTINE)
    tables = [one for one in (place, aside) if delta_table.is_table(one) or manifests.has_manifests(one)]
    if not tables:
        raise ConfigurationError(f"{place} has no captured events: give the folder of one hub, such as capture/orders")
    yield from tables


# --- compaction -----------------------------------------------------------------------------------------------------


def _compact(place: Place, target_bytes: int) -> Compacted:
    if delta_table.is_table(place):
        return Compacted(*delta_table.compact(place, target_bytes))
    before = manifests.snapshot_of(place)
    if not all(one.path.startswith(f"{HIVE_COLUMNS[0]}=") for one in before.files):
        raise ConfigurationError(
            f"{place} has the layout of Event Hubs Capture, in which names say what each file begins with: its files "
            "stay as they are"
        )
    groups = list(_groups(before.files, target_bytes))
    made = [_merged(place, group) for group in groups]
    replaced = {one.path for group in groups for one in group}
    now_s = time.time()
    kept = [one for one in before.files if one.path not in replaced]
    removed = {path: at_s for path, at_s in before.removed.items() if at_s > now_s - _REMEMBERED_S}
    after = replace(before, files=[*kept, *made], removed=removed | dict.fromkeys(replaced, now_s))
    manifests.write_snapshot(place, after)
    return Compacted(len(replaced), len(made))


def _groups(files: Iterable[CapturedFile], target_bytes: int) -> Iterator[list[CapturedFile]]:
    """Return files that become one: of one hour and partition, in the order of their events, two or more."""
    small = [one for one in files if one.sizeInBytes < target_bytes]
    small.sort(key=lambda one: (one.hub, one.date, one.hour, one.partition, one.firstSequenceNumber))
    group: list[CapturedFile] = []
    for one in small:
        is_same = group and _folder(group[0]) == _folder(one)
        if not is_same or sum(each.sizeInBytes for each in group) + one.sizeInBytes > target_bytes:
            if len(group) > 1:
                yield group
            group = []
        group.append(one)
    if len(group) > 1:
        yield group


def _folder(file: CapturedFile) -> tuple[str, ...]:
    return (file.hub, file.date, file.hour, file.partition)


def _merged(place: Place, group: list[CapturedFile]) -> CapturedFile:
    first = group[0]
    schema = pa.schema([*PUBLIC_SCHEMA, *parsing.column_schema(parsing.known_columns(place))])
    name = f"{first.partition}-{first.firstSequenceNumber}-{uuid.uuid4().hex[:16]}{EXTENSIONS['parquet']}"
    path = f"{first.path.rpartition('/')[0]}/{name}"
    # Who lists a folder of a disk would see a file that is half written.
    written = f"{STAGING}/{name}" if place.is_local else path
    writer = ParquetFileWriter(place.open_output(written), schema)
    for one in group:
        for batch in read_file(place, file_of(one), schema):
            writer.write(batch)
    size_bytes = writer.close()
    if place.is_local:
        place.rename(written, path)
    return replace(
        first,
        path=path,
        sizeInBytes=size_bytes,
        eventCount=sum(one.eventCount for one in group),
        lastSequenceNumber=max(one.lastSequenceNumber for one in group),
        firstEnqueueTime=min(one.firstEnqueueTime for one in group),
        lastEnqueueTime=max(one.lastEnqueueTime for one in group),
    )


# --- vacuum ---------------------------------------------------------------------------------------------------------


def _vacuum(place: Place, older_than_s: float, has_intents: bool, is_dry_run: bool) -> list[str]:
    if delta_table.is_table(place):
        return delta_table.vacuum(place, older_than_s, is_full=not has_intents, is_dry_run=is_dry_run)
    before_s = time.time() - older_than_s
    snapshot = manifests.snapshot_of(place)
    counting = {one.path for one in snapshot.files}
    old = {one.path for one in place.files() if one.modified_s <= before_s}
    replaced = {path for path, at_s in snapshot.removed.items() if at_s <= before_s}
    found = [path for path in manifests.covered_manifests(place) if path in old]
    found += sorted(replaced & old)
    if not has_intents:
        is_data = tuple(EXTENSIONS.values())
        others = old - counting - set(snapshot.removed)
        found += sorted(one for one in others if one.endswith(is_data) and not one.startswith(f"{QUARANTINE}/"))
    if not is_dry_run:
        for path in found:
            place.delete(path)
    return found
