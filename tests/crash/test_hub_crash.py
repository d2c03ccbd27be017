"""A few cycles of the crash test of event hubs. The long form: `python -m tests.crash.run --only hubs --cycles 100`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.markers import mission

ROOT = Path(__file__).resolve().parents[2]


@mission("M10", "M15", "M36")
# Half a minute where nothing else runs; the limits of the program itself are minutes.
@pytest.mark.timeout(900)
def test_a_broker_that_is_killed_while_it_ingests_loses_no_event_and_leaves_no_gap() -> None:
    # A process of its own: a client whose broker was killed may leave a socket to the garbage collector.
    command = [sys.executable, "-m", "tests.crash.run", "--only", "hubs", "--cycles", "2", "--json", "-"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.stdout, run.stderr
    report = json.loads(run.stdout)
    assert report["is_kept"], run.stdout
    assert report["store"] == "sound", run.stdout
    assert report["batches_by_the_sdk"] > 0
    assert report["acknowledged_events"] > 1_000
    assert report["followed_events"] > 0
    assert report["sealed_segments"] > 0
    assert sum(one["events"] for one in report["bulk_read"].values()) == report["stored_events"]
