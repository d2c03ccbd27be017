"""Runs the simulation over many seeds.

    python -m tests.sim.run --seeds 2000 --steps 10000 [--first-seed 1] [--store memory|sqlite] [--jobs 2]
    python -m tests.sim.run --replay 1234 --steps 10000

Each seed is a run of its own. The first one that breaks a promise is told with the command that replays it; a replay
prints what happened, up to the step that went wrong.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tandem._form import form
from tests.sim.disk import MemoryPlatter, Platter, SqlitePlatter
from tests.sim.ledger import Violation
from tests.sim.world import World

__all__ = ["Outcome", "run_seed"]

# Lines of a trace that are printed: what led to the failure is mostly near its end.
_TRACE_LINES = 400


@dataclass
class Outcome:
    """What became of one seed."""

    seed: int
    steps: int
    seconds: float
    crashes: int
    messages: int
    invariant: str = ""
    details: str = ""
    trace: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.invariant


def _platter(store: str) -> Platter:
    return SqlitePlatter() if store == "sqlite" else MemoryPlatter()


def run_seed(seed: int, steps: int, store: str = "memory", *, is_tracing: bool = False) -> Outcome:
    """One run. An exception that is no violation is a bug as well, of the broker or of the simulation."""
    platter = _platter(store)
    started = time.perf_counter()
    world = World(seed, platter, is_tracing=is_tracing)
    outcome = Outcome(seed, 0, 0.0, 0, 0)
    try:
        world.run(steps)
    except Violation as violation:
        outcome.invariant, outcome.details = violation.invariant, violation.details
    except Exception as error:
        outcome.invariant = "no exception is unexpected"
        outcome.details = f"{error!r}\n{traceback.format_exc(limit=-8)}"
    finally:
        platter.close()
    outcome.steps = world.steps
    outcome.crashes = world.crash_count
    outcome.messages = world.uid
    outcome.seconds = time.perf_counter() - started
    outcome.trace = (world.trace or [])[-_TRACE_LINES:]
    return outcome


def _run_job(job: tuple[int, int, str]) -> Outcome:
    return run_seed(*job)


def _outcomes(jobs: list[tuple[int, int, str]], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from map(_run_job, jobs)
        return
    with multiprocessing.Pool(processes) as pool:
        yield from pool.imap_unordered(_run_job, jobs)


def _replay(seed: int, steps: int, store: str) -> int:
    outcome = run_seed(seed, steps, store, is_tracing=True)
    print("   step  time (ms)")
    print("\n".join(outcome.trace))
    if outcome.is_clean:
        print(f"seed {seed}: {outcome.steps} steps, every promise kept")
        return 0
    print(f"seed {seed}, step {outcome.steps}: {outcome.invariant}\n{outcome.details}")
    return 1


def _run(arguments: argparse.Namespace) -> int:
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    jobs = [(seed, arguments.steps, arguments.store) for seed in seeds]
    columns = (
        TextColumn("seeds"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[steps]:,} steps"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    outcomes: list[Outcome] = []
    started = time.perf_counter()
    with Progress(*columns) as progress:
        task = progress.add_task("", total=len(jobs), steps=0)
        for outcome in _outcomes(jobs, arguments.jobs):
            outcomes.append(outcome)
            progress.update(task, advance=1, steps=sum([one.steps for one in outcomes]))
            if not outcome.is_clean and not arguments.keep_going:
                break
    return _report(arguments, outcomes, time.perf_counter() - started)


def _report(arguments: argparse.Namespace, outcomes: list[Outcome], seconds: float) -> int:
    steps = sum([one.steps for one in outcomes])
    failures = sorted([one for one in outcomes if not one.is_clean], key=lambda one: one.seed)
    report = {
        "form": form(),
        "store": arguments.store,
        "seeds": len(outcomes),
        "first_seed": arguments.first_seed,
        "steps": steps,
        "messages": sum([one.messages for one in outcomes]),
        "crashes": sum([one.crashes for one in outcomes]),
        "seconds": round(seconds, 1),
        "microseconds_per_step": round(sum([one.seconds for one in outcomes]) / max(steps, 1) * 1e6, 1),
        "failures": [asdict(one) for one in failures],
    }
    if arguments.report is not None:
        Path(arguments.report).write_text(json.dumps(report, indent=1) + "\n")
    print(
        f"{report['seeds']:,} seeds, {steps:,} steps, {report['messages']:,} messages, {report['crashes']:,} crashes "
        f"in {seconds:.0f} s ({report['form']}, {report['microseconds_per_step']} us per step): "
        f"{len(failures)} seeds broke a promise"
    )
    if not failures:
        return 0
    replay = f"--steps {arguments.steps} --store {arguments.store}"
    for one in failures:
        print(f"seed {one.seed}, step {one.steps}: {one.invariant}\n{one.details}")
        print(f"replay: python -m tests.sim.run --replay {one.seed} {replay}")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate the broker, seed by seed.")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--store", choices=("memory", "sqlite"), default="memory")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep-going", action="store_true", help="go on after a seed that broke a promise")
    parser.add_argument("--report", help="a file for the figures, as JSON")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed and print what happens")
    arguments = parser.parse_args()
    if arguments.replay is not None:
        return _replay(arguments.replay, arguments.steps, arguments.store)
    return _run(arguments)


if __name__ == "__main__":
    sys.exit(main())
