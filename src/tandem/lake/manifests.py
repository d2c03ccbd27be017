"""Batches of files that count once: a manifest for each batch, written in one step after its files are complete.

    _tandem/staging/              files of tasks, on local disks: not named yet
    _tandem/intents/QUERY/N.json  what is about to be renamed
    _tandem/batches/QUERY/N.json  the manifest: batch N of a query, with all its files

Who reads by the manifests sees whole batches. Who lists the folder sees complete files; on a local disk only those of
committed batches, and of the one that is being committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from tandem.errors import TandemError
from tandem.lake.capture_writer import OWN_FOLDER, StagedFile
from tandem.lake.captured_file import CapturedFile
from tandem.lake.layout import with_suffix
from tandem.lake.place import Place

__all__ = ["ManifestLog", "captured_files", "discard", "has_manifests"]

_VERSION: Final = 1
_BATCHES: Final = f"{OWN_FOLDER}/batches"
_INTENTS: Final = f"{OWN_FOLDER}/intents"


class ManifestLog:
    """The manifests of one query."""

    def __init__(self, place: Place, query: str) -> None:
        self._place = place
        self._query = query

    def commit(self, batch: int, files: Sequence[StagedFile]) -> bool:
        """Make the files of a batch count. Delete them and return False if the batch had been committed before."""
        manifest = self._path(_BATCHES, batch)
        if self._place.exists(manifest):
            discard(self._place, files)
            return False
        earlier = self._earlier_attempt(batch)
        if earlier is not None:
            # It was interrupted while it renamed. All of its files are there: under one name or the other.
            discard(self._place, files)
            files = earlier
        else:
            if not files:
                return True
            files = [self._with_free_name(one) for one in files]
            if any(one.staged for one in files):
                self._place.write_text(self._path(_INTENTS, batch), _intent(files))
        for one in files:
            if one.staged is not None and self._place.exists(one.staged):
                self._place.rename(one.staged, one.file.path)
        fields = {"version": _VERSION, "query": self._query, "batch": batch}
        self._place.write_text(manifest, json.dumps({**fields, "files": [one.file.to_json() for one in files]}))
        if any(one.staged for one in files):
            self._place.delete(self._path(_INTENTS, batch))
        return True

    def _path(self, folder: str, batch: int) -> str:
        return f"{folder}/{self._query}/{batch:012}.json"

    def _earlier_attempt(self, batch: int) -> list[StagedFile] | None:
        text = self._place.read_text(self._path(_INTENTS, batch)) if self._place.is_local else None
        if text is None:
            return None
        return [StagedFile(CapturedFile.from_json(one["file"]), one["staged"]) for one in json.loads(text)]

    def _with_free_name(self, one: StagedFile) -> StagedFile:
        """Rename nothing onto a file that is there: a hub that was made again begins to count again."""
        if one.staged is None or not self._place.exists(one.file.path):
            return one
        return replace(one, file=replace(one.file, path=with_suffix(one.file.path)))


def discard(place: Place, files: Iterable[StagedFile]) -> None:
    """Delete files of a batch that is not to count."""
    for one in files:
        place.delete(one.staged or one.file.path)


def has_manifests(place: Place) -> bool:
    return bool(place.files(_BATCHES))


def captured_files(place: Place) -> list[CapturedFile]:
    """Return the files of all committed batches."""
    return [CapturedFile.from_json(one) for manifest in _manifests(place) for one in manifest["files"]]


def _manifests(place: Place) -> Iterator[dict[str, Any]]:
    for listed in place.files(_BATCHES):
        if not listed.path.endswith(".json"):
            continue
        text = place.read_text(listed.path)
        if text is None:
            continue
        manifest: dict[str, Any] = json.loads(text)
        if manifest.get("version") != _VERSION:
            raise TandemError(
                f"{place.child(listed.path)} has version {manifest.get('version')!r:.40}, and this release reads "
                f"{_VERSION}: use the release that wrote it"
            )
        yield manifest


def _intent(files: Sequence[StagedFile]) -> str:
    return json.dumps([{"file": one.file.to_json(), "staged": one.staged} for one in files])
