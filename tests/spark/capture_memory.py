"""`python -m tests.spark.capture_memory [--events 1200]`: memory of a capture of events of 1 MB, by format.

The capture runs as the command that users run. The report is one JSON object: for each format the time, the events that
are in the table, and the largest memory of a Python worker and of Java, in MB.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tandem.lake.place import Place
from tandem.testing import Broker
from tests.spark.captured import captured_bodies
from tests.spark.filling import fill
from tests.spark.processes import below
from tests.spark.small_spark import program

__all__ = ["main"]

HUB: Final = "large"
FORMATS: Final = ("parquet", "delta", "avro")
BODY_BYTES: Final = 1_000_000

_SAMPLE_S: Final = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=1_200)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    arguments = parser.parse_args()
    report: dict[str, object] = {"events": arguments.events, "bytes": BODY_BYTES}
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "data") as broker:
        broker.create_hub(HUB, partition_count=2)
        for first in range(0, arguments.events, 20):
            numbers = range(first, min(first + 20, arguments.events))
            fill(broker, HUB, numbers, body_bytes=BODY_BYTES)
        for file_format in arguments.formats:
            report[file_format] = _capture(broker, Path(folder) / file_format, file_format)
    print(json.dumps(report, indent=2))
    if any(isinstance(one, dict) and one["events"] != arguments.events for one in report.values()):
        sys.exit(1)


def _capture(broker: Broker, out: Path, file_format: str) -> dict[str, float]:
    started_s = time.monotonic()
    bus = ("--connection-string", broker.connection_string)
    command = ("tandem", "pipeline", "capture", HUB, *bus, "--out", out, "--format", file_format)
    peak_mb: dict[str, float] = {}
    with program(*command) as running:
        while running.poll() is None:
            for process in below(running.pid):
                kind = "java_mb" if process.name == "java" else "python_mb"
                peak_mb[kind] = max(peak_mb.get(kind, 0), round(process.memory_mb))
            time.sleep(_SAMPLE_S)
        assert running.stderr is not None
        assert running.returncode == 0, running.stderr.read()[-4_000:]
    captured = sum(1 for _ in captured_bodies(Place.parse(out / HUB)))
    return {"events": captured, "seconds": round(time.monotonic() - started_s, 1), **peak_mb}


if __name__ == "__main__":
    main()
