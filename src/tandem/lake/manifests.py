"""Batches of Parquet and Avro files that count once: a manifest for each batch, written in one step.

    _tandem/batches/QUERY/N.json   the manifest: batch N of a query, with all its files
    _tandem/snapshots/N.json       all files of the batches up to now, after small files were put together

The newest snapshot takes the place of the manifests of the batches that it covers. Who reads by manifests sees whole
batches. Who lists the folder sees complete files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tandem.errors import TandemError
from tandem.lake.capture_names import BATCHES, SNAPSHOTS
from tandem.lake.captured_file import CapturedFile
from tandem.lake.place import Place

__all__ = [
    "Snapshot",
    "captured_files",
    "covered_manifests",
    "has_manifests",
    "is_committed",
    "read_snapshot",
    "snapshot_of",
    "write_manifest",
    "write_snapshot",
]

_VERSION: Final = 1


@dataclass(frozen=True)
class Snapshot:
    """All files that count, and the last batch of each query that they cover."""

    files: Sequence[CapturedFile] = ()
    covers: Mapping[str, int] = field(default_factory=dict)
    # Files that count no longer, by the time since when, in seconds. Readers may still be at them.
    removed: Mapping[str, float] = field(default_factory=dict)
    number: int = 0


def is_committed(place: Place, query: str, batch: int) -> bool:
    return place.exists(_path(query, batch)) or batch <= read_snapshot(place).covers.get(query, -1)


def write_manifest(place: Place, query: str, batch: int, files: Sequence[CapturedFile]) -> None:
    fields = {"version": _VERSION, "query": query, "batch": batch, "files": [one.to_json() for one in files]}
    place.write_text(_path(query, batch), json.dumps(fields))


def _path(query: str, batch: int) -> str:
    return f"{BATCHES}/{query}/{batch:012}.json"


def has_manifests(place: Place) -> bool:
    return bool(place.files(BATCHES) or place.files(SNAPSHOTS))


def captured_files(place: Place) -> list[CapturedFile]:
    """Return the files of all committed batches."""
    return list(snapshot_of(place).files)


def snapshot_of(place: Place) -> Snapshot:
    """Return what counts now: the newest snapshot, and the batches since."""
    base = read_snapshot(place)
    files, covers = list(base.files), dict(base.covers)
    for manifest in _manifests(place):
        query, batch = manifest["query"], manifest["batch"]
        if batch <= base.covers.get(query, -1):
            continue
        files += [CapturedFile.from_json(one) for one in manifest["files"]]
        covers[query] = max(batch, covers.get(query, -1))
    return Snapshot(files, covers, base.removed, base.number)


def covered_manifests(place: Place) -> list[str]:
    """Return the paths of manifests and snapshots that the newest snapshot has taken the place of."""
    newest = read_snapshot(place)
    batches = [
        path
        for path in _json_files(place, BATCHES)
        if int(path.rpartition("/")[2].removesuffix(".json")) <= newest.covers.get(path.split("/")[-2], -1)
    ]
    return batches + _json_files(place, SNAPSHOTS)[:-1]


def read_snapshot(place: Place) -> Snapshot:
    """Return the newest snapshot; one without files if there is none."""
    paths = _json_files(place, SNAPSHOTS)
    if not paths:
        return Snapshot()
    fields = _read(place, paths[-1])
    assert fields is not None
    files = [CapturedFile.from_json(one) for one in fields["files"]]
    return Snapshot(files, fields["covers"], fields["removed"], fields["number"])


def write_snapshot(place: Place, snapshot: Snapshot) -> None:
    """Let a snapshot be the newest one. Its files count from now on, and no others of the batches that it covers."""
    number = snapshot.number + 1
    fields = {
        "version": _VERSION,
        "number": number,
        "covers": dict(snapshot.covers),
        "removed": dict(snapshot.removed),
        "files": [one.to_json() for one in snapshot.files],
    }
    place.write_text(f"{SNAPSHOTS}/{number:012}.json", json.dumps(fields))


def _manifests(place: Place) -> Iterator[dict[str, Any]]:
    for path in _json_files(place, BATCHES):
        manifest = _read(place, path)
        if manifest is not None:
            yield manifest


def _json_files(place: Place, folder: str) -> list[str]:
    # A file whose name begins with a dot is being written.
    paths = (one.path for one in place.files(folder))
    return [path for path in paths if path.endswith(".json") and not path.rpartition("/")[2].startswith(".")]


def _read(place: Place, path: str) -> dict[str, Any] | None:
    text = place.read_text(path)
    if text is None:
        return None
    fields: dict[str, Any] = json.loads(text)
    if fields.get("version") != _VERSION:
        raise TandemError(
            f"{place.child(path)} has version {fields.get('version')!r:.40}, and this release reads {_VERSION}: use "
            "the release that wrote it"
        )
    return fields
