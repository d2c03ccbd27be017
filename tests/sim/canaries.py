"""Shows that the simulation finds bugs: it runs with each mutant until a promise is broken.

    python -m tests.sim.canaries [--seeds 40] [--steps 800] [--json]
    python -m tests.sim.canaries --check        only that each mutant still finds the place that it changes

Prints which promise each mutant broke, and how long that took. A mutant that survives is a hole in the simulation.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

from tandem._form import PURE_VARIABLE, form
from tests.sim.ledger import Violation
from tests.sim.mutants import MUTANTS, Mutant, applied
from tests.sim.run import run_seed

__all__ = ["Catch", "hunt"]

# A seed takes well under a second; a mutant may never come to an end.
_MAX_SECONDS_PER_SEED: Final = 3


@dataclass
class Catch:
    """How a mutant was found."""

    mutant: str
    invariant: str
    details: str
    seeds: int
    steps: int
    seconds: float


def hunt(mutant: Mutant, seeds: int, steps: int) -> Catch:
    """Run until the mutant is found, or the seeds are used up; then the invariant is empty."""
    started = time.perf_counter()
    catch = Catch(mutant.name, "", "", 0, 0, 0.0)
    with applied(mutant):
        for seed in range(1, seeds + 1):
            with _alarm(_MAX_SECONDS_PER_SEED):
                outcome = run_seed(seed, steps)
            catch.seeds += 1
            catch.steps += outcome.steps
            if not outcome.is_clean:
                catch.invariant, catch.details = outcome.invariant, outcome.details
                break
    catch.seconds = time.perf_counter() - started
    return catch


@contextmanager
def _alarm(seconds: int) -> Iterator[None]:
    """A bug that makes the broker run for ever is found by that."""

    def ring(_number: int, _frame: object) -> None:
        raise Violation("the broker comes to rest", f"a seed took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _show(catches: list[Catch]) -> None:
    table = Table("mutant", "broken promise", "seeds", "steps", "seconds")
    for catch in catches:
        table.add_row(
            catch.mutant,
            catch.invariant or "[bold]survived",
            f"{catch.seeds}",
            f"{catch.steps:,}",
            f"{catch.seconds:.1f}",
        )
    Console(width=120).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description="Let the simulation find deliberate bugs.")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true", help="only apply each mutant, without hunting it")
    parser.add_argument("--only", help="a part of the names of the mutants to run")
    parser.add_argument("--sample", type=int, help="so many of them, at random")
    arguments = parser.parse_args()
    if form() == "compiled":
        # Compiled classes cannot be changed.
        environment = {**os.environ, PURE_VARIABLE: "1"}
        command = [sys.executable, "-m", "tests.sim.canaries", *sys.argv[1:]]
        return subprocess.run(command, env=environment, check=False).returncode
    chosen = [mutant for mutant in MUTANTS if arguments.only is None or arguments.only in mutant.name]
    if arguments.sample is not None:
        chosen = random.sample(chosen, min(arguments.sample, len(chosen)))
    if arguments.check:
        for mutant in chosen:
            with applied(mutant):
                pass
        return 0
    catches = []
    for mutant in chosen:
        catches.append(hunt(mutant, arguments.seeds, arguments.steps))
        print(f"{mutant.name}: {catches[-1].invariant or 'survived'}", file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps([asdict(catch) for catch in catches], indent=1))
    else:
        _show(catches)
    survivors = [catch.mutant for catch in catches if not catch.invariant]
    if survivors and not arguments.json:
        print(f"survived: {', '.join(survivors)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
