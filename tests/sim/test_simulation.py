"""A short run of the simulation: a few seeds over each store, and all that ever went wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.markers import mission
from tests.sim.counterexamples import COUNTEREXAMPLES, Counterexample
from tests.sim.ledger import Violation
from tests.sim.run import Outcome, run_seed
from tests.sim.world import World

ROOT = Path(__file__).resolve().parents[2]


def explain(outcome: Outcome, steps: int) -> str:
    return (
        f"seed {outcome.seed}, step {outcome.steps}: {outcome.invariant}: {outcome.details}\n"
        f"replay: python -m tests.sim.run --replay {outcome.seed} --steps {steps}"
    )


@mission("M1", "M2", "M3", "M15")
@pytest.mark.parametrize("first_seed", range(1, 41, 10))
def test_no_seed_breaks_a_promise(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        outcome = run_seed(seed, 1_000)
        assert outcome.is_clean, explain(outcome, 1_000)


@mission("M1", "M3", "M15")
def test_no_seed_breaks_a_promise_on_disk() -> None:
    for seed in range(1, 9):
        outcome = run_seed(seed, 500, "sqlite")
        assert outcome.is_clean, explain(outcome, 500)


@pytest.mark.parametrize("counterexample", COUNTEREXAMPLES, ids=lambda one: f"{one.seed}")
def test_what_once_broke_a_promise_keeps_it_now(counterexample: Counterexample) -> None:
    outcome = run_seed(counterexample.seed, counterexample.steps)
    assert outcome.is_clean, explain(outcome, counterexample.steps)


def test_a_seed_is_the_same_run_every_time() -> None:
    traces = []
    for _ in range(2):
        world = World(4, is_tracing=True)
        world.run(800)
        traces.append(world.trace)
    assert traces[0] == traces[1]
    assert len(traces[0] or []) > 300


def test_a_broken_promise_is_told_with_the_command_that_replays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(world: World) -> None:
        if world.steps == 50:
            raise Violation("a promise", "for a test")
        step(world)

    step = World.step
    monkeypatch.setattr(World, "step", fail)
    outcome = run_seed(7, 100, is_tracing=True)
    assert (outcome.invariant, outcome.details, outcome.is_clean) == ("a promise", "for a test", False)
    assert outcome.trace
    assert "--replay 7 --steps 100" in explain(outcome, 100)


def test_the_command_runs_seeds_and_writes_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "tests.sim.run", "--seeds", "2", "--steps", "100", "--jobs", "2"]
    run = subprocess.run([*command, "--report", str(report)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert '"failures": []' in report.read_text()
