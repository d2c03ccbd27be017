"""Memory of a task that captures does not grow with what it captures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.spark.small_spark import ROOT

# Megabytes. Arrow, a batch of 16 MB and a row group of 32 MB with its encoding take 280 of them, all events 900.
LIMIT_MB = 400

PROGRAM = """
import os, sys
from tandem.bench.measuring.machine import peak_resident_bytes
from tandem.lake.capture_writer import CaptureWriter
from tandem.lake.layout import Layout
from tandem.lake.place import Place
from tests.lake.events import events

folder, count = sys.argv[1], int(sys.argv[2])
layout = Layout("hive", "orders")
batches = (events(range(first, first + 16), body=bytes(1_000_000)) for first in range(0, count, 16))
files = CaptureWriter(Place.parse(folder), layout, "parquet", is_staged=True).write(batches)
assert sum(one.file.eventCount for one in files) == count
# The peak that getrusage knows includes the process that has started this one.
print(peak_resident_bytes(os.getpid()) // 1_000_000)
"""


def test_capturing_events_of_a_megabyte_takes_memory_for_a_few_of_them_only(tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM, str(tmp_path), "480"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < LIMIT_MB
