"""Batches of Parquet and Avro files that count once: a manifest for each batch, written in one step.

    _tandem/batches/QUERY/N.json  the manifest: batch N of a query, with all its files

Who reads by the manifests sees whole batches. Who lists the folder sees complete files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tandem.errors import TandemError
from tandem.lake.capture_names import BATCHES
from tandem.lake.captured_file import CapturedFile
from tandem.lake.place import Place

__all__ = ["captured_files", "has_manifests", "is_committed", "write_manifest"]

_VERSION: Final = 1


def is_committed(place: Place, query: str, batch: int) -> bool:
    return place.exists(_path(query, batch))


def write_manifest(place: Place, query: str, batch: int, files: Sequence[CapturedFile]) -> None:
    fields = {"version": _VERSION, "query": query, "batch": batch, "files": [one.to_json() for one in files]}
    place.write_text(_path(query, batch), json.dumps(fields))


def _path(query: str, batch: int) -> str:
    return f"{BATCHES}/{query}/{batch:012}.json"


def has_manifests(place: Place) -> bool:
    return bool(place.files(BATCHES))


def captured_files(place: Place) -> list[CapturedFile]:
    """Return the files of all committed batches."""
    return [CapturedFile.from_json(one) for manifest in _manifests(place) for one in manifest["files"]]


def _manifests(place: Place) -> Iterator[dict[str, Any]]:
    for listed in place.files(BATCHES):
        text = place.read_text(listed.path) if listed.path.endswith(".json") else None
        if text is None:
            continue
        manifest: dict[str, Any] = json.loads(text)
        if manifest.get("version") != _VERSION:
            raise TandemError(
                f"{place.child(listed.path)} has version {manifest.get('version')!r:.40}, and this release reads "
                f"{_VERSION}: use the release that wrote it"
            )
        yield manifest
