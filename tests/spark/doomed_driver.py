"""A capture whose driver is killed: `python -m tests.spark.doomed_driver CONNECTION_STRING HUB OUT FORMAT BATCH`.

The job is `capture` as it is. Its sink commits batch number BATCH, and kills the driver before Spark can note that it
did.
"""

from __future__ import annotations

import sys
import unittest.mock
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tandem.spark import session
from tandem.spark.capture_files import AvroCaptureSink, DeltaCaptureSink
from tandem.spark.jobs import capture as job
from tests.spark.killing import kill_java_above
from tests.spark.small_spark import SETTINGS

# Events in a batch: a hub of some dozens takes several.
EVENTS_IN_A_BATCH: Final = 30

# The file in the folder of a capture that says in which batch the driver is to die.
DOOM: Final = "_doom"
# What becomes of it when it does.
DIED: Final = "_died"


class DoomedWriter(DataSourceStreamArrowWriter):
    """Does what the real one does, and dies of it."""

    def __init__(self, real: DataSourceStreamWriter, out: str) -> None:
        self.real = cast("DataSourceStreamArrowWriter", real)
        self.out = Path(out)
        self.doomed_batch = int((self.out / DOOM).read_text(encoding="ascii"))

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self.real.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.real.commit(messages, batchId)
        if batchId == self.doomed_batch:
            (self.out / DOOM).rename(self.out / DIED)
            kill_java_above()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - as above
        self.real.abort(messages, batchId)


class DoomedDelta(DeltaCaptureSink):
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return DoomedWriter(DeltaCaptureSink.streamWriter(self, schema, overwrite), self.options["path"])


class DoomedAvro(AvroCaptureSink):
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        return DoomedWriter(AvroCaptureSink.streamWriter(self, schema, overwrite), self.options["path"])


def doomed_source(connection_string: str) -> dict[str, str]:
    """What is read, and so many of it at once: whoever goes on with a checkpoint reads on in the same way."""
    return {"connectionString": connection_string, "maxEventsPerTrigger": str(EVENTS_IN_A_BATCH)}


def capture_until_death(
    spark: SparkSession, connection_string: str, hub: str, out: Path, file_format: job.CaptureFormat, batch: int
) -> None:
    out.mkdir(parents=True)
    (out / DOOM).write_text(str(batch), encoding="ascii")
    # Nothing else of the job is changed.
    with unittest.mock.patch.multiple(job, DeltaCaptureSink=DoomedDelta, AvroCaptureSink=DoomedAvro):
        source = doomed_source(connection_string)
        job.capture(spark, source, hub, out, file_format=file_format).awaitTermination()


def main(connection_string: str, hub: str, out: Path, file_format: job.CaptureFormat, batch: int) -> None:
    warehouse = {"spark.sql.warehouse.dir": str(out / "warehouse")}
    spark = session("doomed", master="local[2]", settings={**SETTINGS, **warehouse}, shows_progress=False)
    capture_until_death(spark, connection_string, hub, out, file_format, batch)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), cast("job.CaptureFormat", sys.argv[4]), int(sys.argv[5]))
