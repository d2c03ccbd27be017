"""Feeds inputs to the fuzz targets until there are enough of them, or one is found that a target cannot stand.

    python -m tests.fuzz.run --inputs 200000 [--target decoder ...] [--seed 1] [--engine atheris|random]

Each target gets that many inputs. A finding is kept in `tests/fuzz/findings/`: fix what it shows, and commit it, since
`make test` replays it from then on.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tests.fuzz.worker import WORK

NAMES: Final = ("decoder", "message", "before-open", "after-open", "frames", "rules", "atom")


class Outcome:
    """What became of one target."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.inputs = 0
        self.peak_kb = 0
        self.seconds = 0.0
        self.findings: list[str] = []
        # Why a worker ended without a finding and without its inputs: out of memory, killed, or broken itself.
        self.trouble = ""

    @property
    def is_clean(self) -> bool:
        return not self.findings and not self.trouble

    def __str__(self) -> str:
        line = f"{self.target}: {self.inputs} inputs, {len(self.findings)} escapes, peak +{self.peak_kb / 1024:.0f} MB"
        notes = [f"{self.seconds:.0f} s", *self.findings, self.trouble]
        return f"{line} ({', '.join([note for note in notes if note])})"


def fuzz(target: str, engine: str, inputs: int, seed: int, progress: Progress, task: TaskID) -> Outcome:
    """Run a worker to its end. Its engine's talk goes to a file that is worth reading after a finding only."""
    outcome = Outcome(target)
    WORK.mkdir(parents=True, exist_ok=True)
    log = WORK / f"{target}.log"
    started = time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz.worker", target, engine, str(inputs), str(seed)]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, "TANDEM_PURE": "1"}
        ) as worker,
    ):
        assert worker.stdout is not None
        for line in worker.stdout:
            kind, *words = line.split()
            if kind == "inputs":
                outcome.inputs, outcome.peak_kb = int(words[0]), int(words[1])
                progress.update(task, completed=min(outcome.inputs, inputs))
            elif kind == "finding":
                outcome.findings.append(words[0])
    outcome.seconds = time.monotonic() - started
    if not outcome.findings and (worker.returncode or outcome.inputs < inputs):
        outcome.trouble = f"worker ended with {worker.returncode}, see {log}"
    return outcome


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description="Fuzz what strangers can send.")
    parser.add_argument("--inputs", type=int, default=200_000, help="for each target (default: %(default)s)")
    parser.add_argument("--target", action="append", choices=NAMES, help="may be repeated (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the engine's randomness (default: %(default)s)")
    parser.add_argument("--engine", choices=("atheris", "random"), help="(default: atheris if it is installed)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    engine = options.engine or ("random" if importlib.util.find_spec("atheris") is None else "atheris")
    outcomes: list[Outcome] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        for target in options.target or NAMES:
            task = progress.add_task(f"{target} ({engine})", total=options.inputs)
            outcomes.append(fuzz(target, engine, options.inputs, options.seed, progress, task))
    for outcome in outcomes:
        print(outcome)
    return 0 if all(outcome.is_clean for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
