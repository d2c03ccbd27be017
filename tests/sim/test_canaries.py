"""The simulation notices bugs: every mutant is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem._form import PURE_VARIABLE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(300)
def test_every_mutant_breaks_a_promise() -> None:
    # In a process of its own: compiled classes cannot be changed.
    command = [sys.executable, "-m", "tests.sim.canaries", "--json", "--seeds", "150", "--steps", "800"]
    environment = {**os.environ, PURE_VARIABLE: "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.stdout, run.stderr
    catches = json.loads(run.stdout)
    assert len(catches) >= 105
    assert [catch["mutant"] for catch in catches if not catch["invariant"]] == []
