"""`python -m tests.drill.run --drills 100 [--seed S] [--jobs J]`: outages at random, and an account of every message.

The seed decides what fails, when and for how long, whose client is driven, whether duplicates are detected, whether
the syphon spells the primary's address differently, and whether two pairs share the secondary. What the processes do
at that moment depends on the machine, so a seed makes a run similar and not the same. Each drill compares the
operations that the brokers metered with the formula of docs/explain/paired-namespaces.md. A drill that broke a promise
is reported with the command that repeats it, and its page stays. The exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tandem.drill.plan import ENTITIES, DrillPlan, DriverName, Fault

__all__ = ["Outcome", "draw_plan", "run_plan", "short_plan"]

# Seconds. A drill takes four to eight, with ServerBusy fifteen; the rest is for one that waits for what is lost.
TIME_LIMIT_S: Final = 300.0

# Faults that a client notices by the time that passes: the outage has to be longer than one attempt.
_SILENT: Final = frozenset({Fault.TIMEOUT, Fault.NO_ANSWER, Fault.STALL})
_OF_THE_NAMESPACE: Final = frozenset({Fault.KILL, Fault.DROP_CONNECTIONS})

# Milliseconds.
_OUTAGE_MS: Final = (1_000, 2_000)
_SILENT_OUTAGE_MS: Final = (2_000, 3_000)

_SUMMED: Final = (
    "sent",
    "received",
    "lost",
    "duplicates",
    "unanswered",
    "out_of_order",
    "diverted",
    "syphoned",
    "refused",
    "pings",
    "backlog_receives",
    "extra_receives",
    "empty_polls",
    "peeks",
)
_TIMES: Final = ("seconds_to_detect", "seconds_to_restore", "seconds_to_drain")
# What the table has room for in a terminal of 80 columns; the file has all of it.
_SHOWN: Final = ("drills", "broken", "sent", "lost", "duplicates", "unanswered", "diverted")
# What only the page of a drill needs.
_LEFT_OUT: Final = frozenset({"curves", "states", "timeline"})


def short_plan(fault: Fault, driver: DriverName, **chosen: Any) -> DrillPlan:
    """A drill of a few seconds. An attempt is given up after a third of the operation timeout."""
    short: dict[str, Any] = {
        "messages": 200,
        "rate_per_second": 100.0,
        "outage": timedelta(milliseconds=_SILENT_OUTAGE_MS[0] if fault in _SILENT else _OUTAGE_MS[0]),
        "failover_interval": timedelta(milliseconds=300),
        "ping_interval": timedelta(milliseconds=300),
        "operation_timeout": timedelta(seconds=4) if fault in _SILENT else timedelta(minutes=1),
        "backlog_queue_count": 3,
    }
    return DrillPlan(**{**short, **chosen, "fault": fault, "driver": driver})


def draw_plan(dice: random.Random) -> DrillPlan:
    fault = dice.choice(list(Fault))
    entity = None if fault in _OF_THE_NAMESPACE else dice.choice([None, *ENTITIES])
    outage_ms = dice.randint(*(_SILENT_OUTAGE_MS if fault in _SILENT else _OUTAGE_MS))
    return short_plan(
        fault,
        dice.choice(list(DriverName)),
        entity=entity,
        outage=timedelta(milliseconds=outage_ms),
        begins_after=round(dice.uniform(0.05, 0.8), 2),
        has_duplicate_detection=dice.random() < 0.5,
        has_two_spellings=dice.random() < 0.5,
        pairs=dice.choice([1, 1, 2]),
    )


@dataclass
class Outcome:
    """What became of one drill."""

    number: int
    plan: DrillPlan
    seconds: float
    # As `tandem drill --json` prints them; empty if it failed to come to its end. Any: they are JSON.
    figures: dict[str, Any]
    # Sentences; those of a drill that failed are its own words.
    violations: list[str]

    @property
    def repeated_by(self) -> str:
        return shlex.join(["tandem", "drill", *self.plan.arguments()])


def run_plan(plan: DrillPlan, report: Path, number: int = 0, *more: str) -> Outcome:
    """One drill, as users run it: in a process of its own."""
    command = [sys.executable, "-m", "tandem", "drill", *plan.arguments(), "--report", str(report), "--json", *more]
    started_s = time.monotonic()
    # A session of its own: if it has to be killed, its brokers are killed with it.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            output, errors = "", f"it took longer than {TIME_LIMIT_S:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    try:
        figures = json.loads(output)
        violations = list(figures["violations"])
    except ValueError:
        figures, violations = {}, [f"the drill came to no end: {errors.strip()[-2_000:]}"]
    return Outcome(number, plan, time.monotonic() - started_s, figures, violations)


def _run_all(plans: list[DrillPlan], jobs: int, folder: Path) -> Iterator[Outcome]:
    """Pages of drills in which nothing was broken are deleted."""
    with ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(run_plan, plan, folder / str(number), number) for number, plan in enumerate(plans, 1)]
        try:
            for future in as_completed(running):
                outcome = future.result()
                if not outcome.violations:
                    shutil.rmtree(folder / str(outcome.number), ignore_errors=True)
                yield outcome
        finally:
            for future in running:
                future.cancel()


def _totals(outcomes: list[Outcome]) -> dict[str, Any]:
    done = [one.figures for one in outcomes if one.figures]
    sums = {name: sum(figures[name] for figures in done) for name in _SUMMED}
    times = {name: [figures[name] for figures in done if figures[name] is not None] for name in _TIMES}
    return {
        "drills": len(outcomes),
        "broken": sum(bool(one.violations) for one in outcomes),
        **sums,
        **{f"median_{name}": round(median(values), 2) if values else None for name, values in times.items()},
    }


def _table(outcomes: list[Outcome]) -> Table:
    by_kind: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_kind[outcome.plan.fault.value].append(outcome)
        by_kind[f"driver {outcome.plan.driver.value}"].append(outcome)
        by_kind["duplicate detection"] += [outcome] if outcome.plan.has_duplicate_detection else []
        by_kind["one entity"] += [outcome] if outcome.plan.entity is not None else []
        by_kind["two spellings"] += [outcome] if outcome.plan.has_two_spellings else []
        by_kind["two pairs"] += [outcome] if outcome.plan.pairs > 1 else []
    rows = {**{kind: _totals(by_kind[kind]) for kind in sorted(by_kind)}, "all": _totals(outcomes)}
    table = Table(title="Drills")
    table.add_column("", no_wrap=True)
    for heading in _SHOWN:
        table.add_column(heading, justify="right")
    for kind, totals in rows.items():
        table.add_row(kind, *(f"{totals[name]:,}" for name in _SHOWN))
    return table


def _metered(totals: dict[str, Any]) -> str:
    """The operations of all drills. One outside the formula has broken its drill."""
    return (
        f"metered: {totals['diverted']:,} messages diverted, {totals['backlog_receives']:,} receives from the backlog "
        f"({totals['extra_receives']:,} more than messages), {totals['empty_polls']:,} empty polls, "
        f"{totals['peeks']:,} peeks, {totals['pings']:,} pings"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, default=Path("build/drills.json"), help="where the figures are saved")
    options = parser.parse_args()
    plans = [draw_plan(random.Random(f"{options.seed}/{number}")) for number in range(options.drills)]
    pages: Path = options.json.with_suffix("")
    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    outcomes: list[Outcome] = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"drills, seed {options.seed}", total=len(plans))
        for outcome in _run_all(plans, options.jobs, pages):
            outcomes.append(outcome)
            progress.update(task, advance=1)
            for violation in outcome.violations:
                words = f"drill {outcome.number}: {violation}; repeat: {outcome.repeated_by}"
                console.print(words, markup=False, soft_wrap=True)
    outcomes.sort(key=lambda one: one.number)
    drills = [
        {
            "number": one.number,
            "seconds": round(one.seconds, 1),
            "command": one.repeated_by,
            "violations": one.violations,
            **{name: value for name, value in one.figures.items() if name not in _LEFT_OUT},
        }
        for one in outcomes
    ]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"seed": options.seed, "totals": _totals(outcomes), "drills": drills}
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    console.print(_table(outcomes))
    console.print(_metered(report["totals"]), markup=False, soft_wrap=True)
    console.print(f"saved to {options.json}", markup=False)
    return 1 if any(one.violations for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
