"""`python -m tests.store.log.damage --faults 2000 --seed 1`: single faults in each kind of file of a log of event hubs.

Each fault is injected into a copy of a log, left by a broker that was killed or stopped in order. Then `tandem check`
reads it, and the log is opened and read from end to end, over AMQP and in bulk, appended to, sealed, and opened again.
A fault is harmless if everything is there, and otherwise it must be reported by both with the numbers of the events.
The report is one JSON object; the exit code is 1 if wrong bytes were served, an event that the fault does not touch was
lost, something was lost silently, a number was given twice, a damaged file was overwritten, or the log did not open.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tandem.store.log.check import check_log
from tandem.store.log.event_log import EventLog
from tests.store.faults import Fault, draw_fault
from tests.store.log.content import (
    HUBS,
    NAMES,
    Content,
    Key,
    Variant,
    affected,
    append_more,
    make_variants,
    open_log,
    read_content,
)

__all__ = ["LogSweep"]

_KINDS: Final = ("journal", "arrow", "amqp", "sums", "marks")

# Faults after which so much is appended that it is sealed: one in so many. It takes most of the time.
_SEALED_EVERY: Final = 8

_EVENTS: Final = re.compile(r"hub '(\w+)' partition (\d+), events? (\d+)(?: to (\d+))?")


class Broken(AssertionError):
    """A promise was broken."""


@dataclass
class LogSweep:
    """Some faults, and what came of them."""

    variants: list[Variant]
    seed: int
    folder: Path
    # By the kind of the file and the state of the broker; by the kind of the file and that of the fault.
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    by_fault: dict[str, Counter[str]] = field(default_factory=dict)
    lost_events: int = 0
    broken: list[dict[str, Any]] = field(default_factory=list)

    def run(self, faults: int, advance: Callable[[str], None] = lambda kind: None) -> None:
        """So many faults in each kind of file, and each folder missing once."""
        chance = random.Random(self.seed)
        number = 0
        for variant in self.variants:
            for path in variant.folders():
                fault = Fault(str(path.relative_to(variant.directory)), "missing", 0, 0)
                self._try("folder", variant, fault, number)
                number += 1
        for turn in range(faults):
            variant = self.variants[turn % len(self.variants)]
            files = variant.files()
            for kind in _KINDS:
                path = chance.choice(files[kind])
                self._try(kind, variant, draw_fault(chance, path, str(path.relative_to(variant.directory))), number)
                number += 1
                advance(kind)

    def _try(self, kind: str, variant: Variant, fault: Fault, number: int) -> None:
        outcome = self._judged(variant, fault, number)
        self.outcomes.setdefault(f"{kind}, {variant.name}", Counter())[outcome] += 1
        self.by_fault.setdefault(f"{kind}, {fault.kind}", Counter())[outcome] += 1

    def _judged(self, variant: Variant, fault: Fault, number: int) -> str:
        home = self.folder / f"fault-{number}"
        shutil.copytree(variant.directory, home)
        try:
            return _Trial(variant, fault, home, self, number % _SEALED_EVERY == 0).run()
        except Exception as error:
            # Whatever ends an opening or a read here would end a broker.
            self.broken.append({"variant": variant.name, "fault": str(fault), "number": number, "error": repr(error)})
            return "broken"
        finally:
            shutil.rmtree(home)

    def report(self) -> dict[str, Any]:
        total: Counter[str] = Counter()
        for outcome in self.outcomes.values():
            total.update(outcome)
        return {
            "seed": self.seed,
            "faults": sum(total.values()),
            "outcomes": dict(total),
            "by_file": {kind: dict(found) for kind, found in sorted(self.outcomes.items())},
            "by_fault": {kind: dict(found) for kind, found in sorted(self.by_fault.items())},
            "lost_events": self.lost_events,
            "broken": self.broken[:50],
            "is_kept": not self.broken,
        }


class _Trial:
    """One fault."""

    def __init__(self, variant: Variant, fault: Fault, home: Path, sweep: LogSweep, is_sealed: bool) -> None:
        self._variant = variant
        self._fault = fault
        self._home = home
        self._sweep = sweep
        self._reserved = variant.reserved
        # Whether so much is appended that it is sealed.
        self._is_sealed = is_sealed
        self._turns = 5 if is_sealed else 1

    def run(self) -> str:
        path = self._home / self._fault.file
        before = path.read_bytes() if path.is_file() else b""
        if path.is_dir():
            shutil.rmtree(path)
        else:
            self._fault.inject(self._home)
        after = path.read_bytes() if path.is_file() else None
        if before == after:
            return "no change"
        findings = self._check()
        log, content = self._opened()
        lost, lost_rows = self._compare(content)
        self._require_reported(lost | lost_rows, [one.sentence for one in log.damages], "the broker")
        self._require_reported(lost, findings, "tandem check")
        is_harmless = self._is_torn_only(after) or (self._is_unsealed and not lost and not lost_rows)
        if not findings and not is_harmless:
            raise Broken("tandem check says that the log is sound")
        self._go_on(log, content)
        self._require_kept(path, after)
        self._open_again(lost)
        self._sweep.lost_events += len(lost | lost_rows)
        if lost or lost_rows:
            return "reported, events lost"
        return "reported, nothing lost" if findings else "harmless"

    def _is_torn_only(self, after: bytes | None) -> bool:
        """Whether only bytes are hit that nobody was told of: behind the last sync of a file of the journal."""
        name = self._fault.file.removeprefix("hubs/")
        if name == "journal":
            return False
        if not (self._variant.directory / self._fault.file).is_dir():
            return after is not None and self._fault.start >= self._variant.durable.get(name, 1 << 62)
        # The folder of a hub that was deleted.
        return not any((self._variant.directory / self._fault.file).rglob("*"))

    @property
    def _is_unsealed(self) -> bool:
        """Whether the last file of a segment is missing, as after a crash while it was sealed.

        The journal has the events of a segment until that file exists. They are sealed again.
        """
        return self._fault.kind == "missing" and self._fault.file.endswith(".arrow")

    def _check(self) -> list[str]:
        return check_log(
            self._home / "hubs", HUBS, names=NAMES, reserved=self._reserved, last_dropped_hub=max(HUBS) + 1
        ).findings

    def _opened(self, has_rows: bool = True) -> tuple[EventLog, Content]:
        log = open_log(self._home)
        log.recover(HUBS, names=NAMES, reserved=self._reserved, last_dropped_hub=max(HUBS) + 1)
        return log, read_content(log, has_rows)

    # --- judging --------------------------------------------------------------------------------------------

    def _compare(self, content: Content) -> tuple[set[tuple[Key, int]], set[tuple[Key, int]]]:
        """What is lost for readers over AMQP, and for readers of columns."""
        expected = self._variant.content
        if content.nexts != expected.nexts:
            raise Broken(f"the next numbers are {content.nexts}, and were {expected.nexts}")
        if content.begins != expected.begins:
            raise Broken(f"the begins are {content.begins}, and were {expected.begins}")
        may_lose, may_lose_rows = affected(self._variant, self._fault)
        lost = _lost_events(expected.events, content.events, may_lose)
        lost_rows = _lost_rows(expected.rows, content.rows, may_lose_rows)
        return lost, lost_rows

    def _require_reported(self, lost: set[tuple[Key, int]], sentences: Iterable[str], who: str) -> None:
        hubs = {name: number for number, name in NAMES.items()}
        reported: set[tuple[Key, int]] = set()
        for sentence in sentences:
            if match := _EVENTS.match(sentence):
                name, partition, first, last = match.groups()
                key = (hubs[name], int(partition))
                reported |= {(key, number) for number in range(int(first), int(last or first) + 1)}
        if lost - reported:
            raise Broken(f"{who} does not report {sorted(lost - reported)[:5]}")
        if reported - lost and who != "tandem check":
            raise Broken(f"{who} reports {sorted(reported - lost)[:5]}, which can be read")

    def _go_on(self, log: EventLog, content: Content) -> None:
        """Append, seal and read; then close."""
        append_more(log, self._turns)
        more = read_content(log, has_rows=False)
        for key, behind in content.nexts.items():
            if set(more.events[key]) != set(content.events[key]) | set(range(behind, behind + 30 * self._turns)):
                raise Broken(f"{key}: what was appended is not what is read")
            if any(more.events[key][number] != found for number, found in content.events[key].items()):
                raise Broken(f"{key}: an event has changed")
        log.close()

    def _open_again(self, lost: set[tuple[Key, int]]) -> None:
        expected = self._variant.content
        log, content = self._opened(has_rows=False)
        log.close()
        for key, behind in content.nexts.items():
            missing = set(range(content.begins[key], behind)) - set(content.events[key])
            if missing != {number for where, number in lost if where == key}:
                raise Broken(f"{key}: after another start other events are missing: {sorted(missing)[:5]}")
            if behind != expected.nexts[key] + 30 * self._turns:
                raise Broken(f"{key}: after another start the next number is {behind}")
        if lost:
            self._require_reported(lost, [one.sentence for one in log.damages], "the next start")
        if lost and self._is_sealed:
            self._require_reported(lost, self._check(), "tandem check")

    def _require_kept(self, path: Path, after: bytes | None) -> None:
        """The damaged file is where it was, or was moved aside, as it was."""
        if after is None:
            return
        aside = [path.with_name(f"{path.name}.damaged-1"), self._home / "hubs" / "damaged" / path.name]
        if not any(one.is_file() and one.read_bytes() == after for one in (path, *aside)) and not self._is_torn_only(
            after
        ):
            raise Broken(f"{path.name} is not what it was")


def _lost_events(
    expected: dict[Key, dict[int, bytes]], found: dict[Key, dict[int, bytes]], may_lose: set[tuple[Key, int]]
) -> set[tuple[Key, int]]:
    lost: set[tuple[Key, int]] = set()
    for key, events in expected.items():
        lost |= {(key, number) for number in events.keys() - found[key].keys()}
        wrong = [number for number, event in found[key].items() if event != events.get(number)]
        if wrong:
            raise Broken(f"{key}: the events {wrong[:5]} are wrong, or were never there")
    if lost - may_lose:
        raise Broken(f"the events {sorted(lost - may_lose)[:5]} are lost, and the fault does not touch them")
    return lost


def _lost_rows(expected: dict[Key, Any], found: dict[Key, Any], may_lose: set[tuple[Key, int]]) -> set[tuple[Key, int]]:
    lost: set[tuple[Key, int]] = set()
    for key, table in expected.items():
        numbers = set(found[key].column("sequenceNumber").to_pylist())
        are_there = [number in numbers for number in table.column("sequenceNumber").to_pylist()]
        if not table.filter(pa.array(are_there, pa.bool_())).equals(found[key]):
            raise Broken(f"{key}: a row of a bulk read is wrong, or was never there")
        lost |= {(key, number) for number in table.column("sequenceNumber").to_pylist() if number not in numbers}
    if lost - may_lose:
        raise Broken(f"the rows {sorted(lost - may_lose)[:5]} are lost, and the fault does not touch them")
    return lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=2_000, help="in each kind of file")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path, default=Path("build/log-damage.json"), help="the report; - prints it")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    started_at = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tandem-log-damage-") as folder:
        sweep = LogSweep(make_variants(Path(folder)), options.seed, Path(folder))
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task(f"seed {options.seed}", total=options.faults * len(_KINDS))
            sweep.run(
                options.faults,
                lambda kind: progress.update(task, advance=1, description=f"{len(sweep.broken)} broken promises"),
            )
    report = {**sweep.report(), "seconds": round(time.monotonic() - started_at, 1)}
    text = json.dumps(report, indent=2) + "\n"
    if options.json == Path("-"):
        print(text, end="")
    else:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text, encoding="utf-8")
        print(json.dumps({key: report[key] for key in ("faults", "outcomes", "is_kept", "seconds")}), file=sys.stderr)
    return 0 if report["is_kept"] else 1


if __name__ == "__main__":
    sys.exit(main())
