"""A capture as the data source makes one, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tandem.lake import delta_table, manifests
from tandem.lake.capture_log import CaptureLog
from tandem.lake.capture_writer import HOUR_S, CaptureWriter, StagedFile
from tandem.lake.layout import Layout, LayoutName
from tandem.lake.place import Place
from tandem.lake.reading import TableFile, read_file

__all__ = ["QUERY", "Capture"]

QUERY: Final = "query-1"

_NUMBER: Final = pa.schema([("sequenceNumber", pa.int64())])


class Capture:
    """A capture of the hub `orders`, as the data source makes one."""

    def __init__(self, file_format: str, folder: Path | Place, **settings: Any) -> None:
        self.format = file_format
        self.place = folder if isinstance(folder, Place) else Place.parse(folder)
        name: LayoutName = "capture" if file_format == "avro" else "hive"
        layout = Layout(settings.pop("layout", name), settings.pop("hub", "orders"), "contoso")
        self.writer = CaptureWriter(
            self.place,
            layout,
            "avro" if file_format == "avro" else "parquet",
            is_staged=self.place.is_local and file_format != "delta",
            interval_s=settings.pop("interval_s", HOUR_S),
            **settings,
        )

    def write(self, *batches: Any) -> list[StagedFile]:
        return self.writer.write(batches)

    def commit(self, batch: int, *tasks: list[StagedFile]) -> None:
        CaptureLog(self.writer, self.format == "delta", QUERY).commit(batch, [one for task in tasks for one in task])

    def listed(self) -> list[str]:
        """What somebody finds who lists the folder."""
        return [one.path for one in self.place.files() if not one.path.startswith("_")]

    def numbers(self) -> list[int]:
        """What a reader by the log of the table finds; for Parquet and Avro, one who lists the folder."""
        if self.format != "delta":
            return self._numbers_in(self.listed())
        table = delta_table.open_table(self.place)
        root = f"{self.place}/"
        return [] if table is None else self._numbers_in(uri.removeprefix(root) for uri in table.file_uris())

    def counted(self) -> list[int]:
        """What a reader by the manifests finds."""
        return self._numbers_in(one.path for one in manifests.captured_files(self.place))

    def _numbers_in(self, paths: Iterable[str]) -> list[int]:
        batches = (batch for path in paths for batch in read_file(self.place, TableFile(path, 0, {}), _NUMBER))
        return sorted(number for batch in batches for number in batch.column("sequenceNumber").to_pylist())
