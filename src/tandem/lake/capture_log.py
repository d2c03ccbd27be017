"""The commit of a batch of captured files, on the driver: all of them count, or none, and never twice.

    intent        what is about to be done, if it takes more than one step     _tandem/intents/QUERY/N.json
    quarantine    events that did not fit, in a table of their own
    commit        one manifest, or one transaction of a Delta table

A crash leaves an intent, whose files are all complete: the next run finishes it and deletes its own files. Without an
intent nothing was begun.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tandem.lake import delta_table, manifests, parsing
from tandem.lake.capture_names import INTENTS
from tandem.lake.capture_writer import CaptureWriter, StagedFile
from tandem.lake.captured_file import CapturedFile
from tandem.lake.layout import HIVE_COLUMNS, with_suffix
from tandem.lake.place import Place
from tandem.lake.reading import captured_schema
from tandem.lake.reconciling import reconciled

__all__ = ["CaptureLog"]


@dataclass(frozen=True)
class CaptureLog:
    """The batches of one query."""

    writer: CaptureWriter
    is_delta: bool
    query: str

    def commit(self, batch: int, files: Sequence[StagedFile]) -> None:
        """Make the files of a batch count. Delete them if the batch had been committed before."""
        if self._is_committed(self.writer.place, batch):
            self.writer.discard(files)
            return
        attempt = self._earlier_attempt(batch)
        if attempt is not None:
            self.writer.discard(files)
        elif files:
            attempt = self._prepared(batch, files)
        else:
            return
        good = [one for one in attempt if not one.is_quarantined]
        aside = [one for one in attempt if one.is_quarantined]
        quarantine = self.writer.quarantine().place
        if aside and not self._is_committed(quarantine, batch):
            parsing.note_columns(quarantine, parsing.QUARANTINE_COLUMNS)
            self._apply(quarantine, batch, aside)
        self._apply(self.writer.place, batch, good)
        if self._needs_intent(attempt):
            self.writer.place.delete(self._intent(batch))

    def _prepared(self, batch: int, files: Sequence[StagedFile]) -> list[StagedFile]:
        """Decide about columns and names, and note what is about to be done."""
        place = self.writer.place
        if self.writer.parsing is not None:
            known = parsing.known_columns(place)
            files, columns = reconciled(self.writer, known, files)
            if columns != known:
                parsing.note_columns(place, columns)
        attempt = [self._with_free_name(one) for one in files]
        if self._needs_intent(attempt):
            place.write_text(self._intent(batch), json.dumps([_to_json(one) for one in attempt]))
        return attempt

    def _needs_intent(self, files: Sequence[StagedFile]) -> bool:
        """True for what takes more than one step: names to be given, or two tables."""
        return self.writer.parsing is not None or any(one.staged for one in files)

    def _apply(self, place: Place, batch: int, files: Sequence[StagedFile]) -> None:
        for one in files:
            if one.staged is not None and place.exists(one.staged):
                place.rename(one.staged, one.file.path)
        captured = [one.file for one in files]
        if not self.is_delta:
            manifests.write_manifest(place, self.query, batch, captured)
            return
        table = delta_table.open_table(place)
        columns = {} if self.writer.parsing is None else parsing.known_columns(place)
        schema = captured_schema(parsing.column_schema(columns))
        actions = [delta_table.add_captured(one, HIVE_COLUMNS) for one in captured]
        delta_table.commit(place, table, actions, schema, HIVE_COLUMNS, (self.query, batch))

    def _is_committed(self, place: Place, batch: int) -> bool:
        if self.is_delta:
            return delta_table.is_committed(delta_table.open_table(place), self.query, batch)
        return manifests.is_committed(place, self.query, batch)

    def _intent(self, batch: int) -> str:
        return f"{INTENTS}/{self.query}/{batch:012}.json"

    def _earlier_attempt(self, batch: int) -> list[StagedFile] | None:
        text = self.writer.place.read_text(self._intent(batch))
        return None if text is None else [_from_json(one) for one in json.loads(text)]

    def _with_free_name(self, one: StagedFile) -> StagedFile:
        """Rename nothing onto a file that is there: a hub that was made again begins to count again."""
        if one.staged is None or not self.writer.place_of(one).exists(one.file.path):
            return one
        return replace(one, file=replace(one.file, path=with_suffix(one.file.path)))


def _to_json(one: StagedFile) -> dict[str, Any]:
    return {"file": one.file.to_json(), "staged": one.staged, "is_quarantined": one.is_quarantined}


def _from_json(fields: dict[str, Any]) -> StagedFile:
    file = CapturedFile.from_json(fields["file"])
    return StagedFile(file, fields["staged"], is_quarantined=fields["is_quarantined"])
