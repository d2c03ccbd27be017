"""The format `capture`, with a process killed in the middle of it.

It does what the real one does, and dies once: in the batch and at the point that a file in the checkpoint says.

    writing     an executor's Python, with a file half written
    written     the driver, when all files are complete and none counts
    renamed     the driver, when the first file has its name and the others have not
    counted     the driver, when the batch counts and Spark has not noted that
"""

from __future__ import annotations

import json
import os
import signal
import unittest.mock
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, cast

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tandem.lake.place import Place
from tandem.spark import capture_source
from tandem.spark.capture_source import CaptureDataSource
from tests.spark.killing import kill_java_above

__all__ = ["POINTS", "Point", "doom", "doomed_captures", "has_died"]

Point = Literal["writing", "written", "renamed", "counted"]
POINTS: Final[tuple[Point, ...]] = ("writing", "written", "renamed", "counted")

# The file in the checkpoint that says where to die, and what becomes of it.
_DOOM: Final = "_doom.json"
_DIED: Final = "_died.json"


def doom(checkpoint: Path, batch: int, point: Point, *, kills_java: bool) -> None:
    """Let a capture with this checkpoint die once: the whole driver, or only the Python process that is at work."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"batch": batch, "point": point, "kills_java": kills_java})
    (checkpoint / _DOOM).write_text(text, encoding="ascii")


def has_died(checkpoint: Path) -> bool:
    return (checkpoint / _DIED).exists()


class DoomedWriter(DataSourceStreamArrowWriter):
    """Does what the real one does, and dies of it."""

    def __init__(self, real: DataSourceStreamWriter, checkpoint: str) -> None:
        self.real = cast("DataSourceStreamArrowWriter", real)
        self.checkpoint = Path(checkpoint)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self.real.write(self._dying(iterator))

    def _dying(self, iterator: Iterator[Any]) -> Iterator[Any]:
        for batch in iterator:
            yield batch
            if self._doom().get("point") == "writing":
                self._die()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        point = self._doom().get("point")
        if self._doom().get("batch") != batchId or point == "writing":
            self.real.commit(messages, batchId)
        elif point == "written":
            self._die()
        elif point == "renamed":
            rename = Place.rename

            def rename_and_die(place: Place, source: str, target: str) -> None:
                rename(place, source, target)
                self._die()

            with unittest.mock.patch.object(Place, "rename", rename_and_die):
                self.real.commit(messages, batchId)
        else:
            self.real.commit(messages, batchId)
            self._die()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - as above
        self.real.abort(messages, batchId)

    def _doom(self) -> dict[str, Any]:
        try:
            return cast("dict[str, Any]", json.loads((self.checkpoint / _DOOM).read_text(encoding="ascii")))
        except FileNotFoundError:
            return {}

    def _die(self) -> None:
        doom = self._doom()
        try:
            (self.checkpoint / _DOOM).rename(self.checkpoint / _DIED)
        except FileNotFoundError:
            # Another task was first.
            return
        if doom["kills_java"]:
            kill_java_above()
        os.kill(os.getpid(), signal.SIGKILL)


class DoomedCapture(CaptureDataSource):
    @classmethod
    def name(cls) -> str:
        return "doomed-capture"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return DoomedWriter(super().streamWriter(schema, overwrite), self.options["checkpointLocation"])


@contextmanager
def doomed_captures(spark: SparkSession) -> Iterator[None]:
    """Let captures use the doomed format. Nothing else of the job is changed."""
    spark.dataSource.register(DoomedCapture)
    with unittest.mock.patch.object(capture_source, "FORMAT", DoomedCapture.name()):
        yield
