"""The simulation notices bugs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem._form import PURE_VARIABLE
from tests.sim.mutants import MUTANTS

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = 15


@pytest.mark.timeout(300)
def test_mutants_break_promises() -> None:
    """Some of them, others each time; `make simulate` hunts all."""
    assert len(MUTANTS) >= 105
    # In a process of its own: compiled classes cannot be changed.
    command = [sys.executable, "-m", "tests.sim.canaries", "--json", "--sample", str(SAMPLE)]
    command += ["--seeds", "150", "--steps", "800"]
    environment = {**os.environ, PURE_VARIABLE: "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.stdout, run.stderr
    catches = json.loads(run.stdout)
    assert len(catches) == SAMPLE
    assert [catch["mutant"] for catch in catches if not catch["invariant"]] == []
