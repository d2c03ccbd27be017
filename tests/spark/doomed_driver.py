"""A capture whose driver is killed: `python -m tests.spark.doomed_driver CONNECTION_STRING HUB OUT CHECKPOINT FORMAT`.

The job is `capture` as it is. The checkpoint says in which batch the driver is killed, and at which point.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, cast

from pyspark.sql import SparkSession

from tandem.lake.place import Place
from tandem.spark import session
from tandem.spark.jobs import capture as job
from tests.spark.doomed_capture import doomed_captures
from tests.spark.small_spark import SETTINGS

__all__ = ["EVENTS_IN_A_BATCH", "capture_until_death", "doomed_source"]

# Events in a batch: a hub of some dozens takes several.
EVENTS_IN_A_BATCH: Final = 30


def doomed_source(connection_string: str) -> dict[str, str]:
    """What is read, and so many of it at once: whoever goes on with a checkpoint reads on in the same way."""
    return {"connectionString": connection_string, "maxEventsPerTrigger": str(EVENTS_IN_A_BATCH)}


def capture_until_death(spark: SparkSession, connection_string: str, hub: str, output: job.CaptureOutput) -> None:
    with doomed_captures(spark):
        job.capture(spark, doomed_source(connection_string), hub, output).awaitTermination()


def main(connection_string: str, hub: str, out: str, checkpoint: Path, file_format: job.CaptureFormat) -> None:
    warehouse = {"spark.sql.warehouse.dir": str(checkpoint.with_name("warehouse"))}
    spark = session("doomed", master="local[2]", settings={**SETTINGS, **warehouse}, shows_progress=False)
    output = job.CaptureOutput(Place.parse(out), file_format, Place.parse(checkpoint))
    capture_until_death(spark, connection_string, hub, output)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), cast("job.CaptureFormat", sys.argv[5]))
