"""A few cycles of the crash test: `make crash N=200` is the long form, with the figures of docs/guarantees.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.markers import mission

ROOT = Path(__file__).resolve().parents[2]


@mission("M1", "M2", "M3", "M7", "M15", "M36")
# Half a minute where nothing else runs; the limits of the program itself are minutes.
@pytest.mark.timeout(900)
def test_a_broker_that_is_killed_loses_nothing_it_acknowledged_and_brings_nothing_back() -> None:
    # A process of its own: a client whose broker was killed may leave a socket to the garbage collector, which would
    # be a warning here, and is nothing to warn of.
    options = ("--cycles", "3", "--sends-per-life", "300", "--lock-duration-s", "10")
    command = [sys.executable, "-m", "tests.crash.run", *options, "--json", "-"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.stdout, run.stderr
    report = json.loads(run.stdout)
    assert report["is_kept"], run.stdout
    assert (report["lost"], report["completed_and_seen_again"]) == (0, 0), run.stdout
    assert report["acknowledged_sends_by_the_sdk"] > 0
    assert (report["published_in_part"], report["not_selected"]) == (0, 0), run.stdout
    assert report["acknowledged_publications"] > 0
    for queue, figures in {**report["queues"], **report["topics"]}.items():
        assert figures["received"] > 0, f"nothing was received from {queue}: {run.stdout}"
