"""Run the test suite in groups, several at a time, and end with one summary: `python -m tools.run_tests`.

    python -m tools.run_tests                 everything: `make test`
    python -m tools.run_tests --quick         an answer in 90 seconds: `make test-quick`
    python -m tools.run_tests compat spark    these groups only
    python -m tools.run_tests --seed 7        the same order and the same random numbers as another run

A terminal shows one line of progress that changes; a log file gets a line every half minute. Each group writes what
pytest prints to build/test/GROUP.log.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, TextIO

from tools.test_record import RECORD_VARIABLE

ROOT: Final = Path(__file__).resolve().parent.parent
LOGS: Final = Path("build", "test")

# Most groups wait for long: for the official SDKs, for child processes, for Spark. Six fill two cores.
LANES: Final = 6
POLL_S: Final = 0.2
# Seconds between two lines of progress where no terminal can show a line that changes.
PROGRESS_INTERVAL_S: Final = 30.0
# Seconds between two states of the line on a terminal.
REDRAW_INTERVAL_S: Final = 1.0
# Seconds that a group has to end after SIGINT before it is killed.
GRACE_S: Final = 20.0

# A whole broker and its command line: not a test of the compiled core, and as long as the tests of `commands`.
ALL_SURFACES: Final = "modules/test_entity_settings.py"
QUICK_CORE_TESTS: Final = (
    *("tests/amqp", "tests/auth", "tests/engine", "tests/modules", "tests/spec"),
    f"--ignore=tests/{ALL_SURFACES}",
)
# The tests of the compiled core: run in both forms.
CORE_TESTS: Final = (*QUICK_CORE_TESTS, "tests/fuzz")


@dataclass(frozen=True)
class Group:
    """Tests that one pytest process runs."""

    name: str
    arguments: tuple[str, ...]
    # True for the interpreted form of the core.
    is_pure: bool = False
    # True to measure branch coverage of tandem.amqp and to demand all of it.
    is_traced: bool = False
    # True to keep caches of the user out of it, and in build/.
    has_own_cache: bool = False

    def environment(self) -> dict[str, str]:
        pure = {"TANDEM_PURE": "1"} if self.is_pure else {}
        return {**pure, "XDG_CACHE_HOME": str(ROOT / "build" / "cache")} if self.has_own_cache else pure


# By name of the group: folders and files below tests/. The order is that of the start: first the groups that wait most
# for others, then those that compute most and fill the gaps. None is so long that it would run alone at the end.
GROUP_FOLDERS: Final = {
    "spark": ("spark",),
    "pairing": ("pairing",),
    "compat": ("compat",),
    "outages": ("crash", "drill", "load"),
    "health": ("server/health",),
    "commands": ("cli", "security", "testing", ALL_SURFACES),
    "store": ("store", "sim"),
    "interfaces": ("celery", "checkpoints", "management", "client", "config"),
    "install": ("install", "repository"),
    "server": ("server", "driver", "bench", "interop", "differential"),
}
GROUPED: Final = [folder for folders in GROUP_FOLDERS.values() for folder in folders]


def folder_group(name: str) -> Group:
    """Return the group of some folders, without the parts of them that are in another group."""
    folders = GROUP_FOLDERS[name]
    elsewhere = [one for one in GROUPED if any(one.startswith(f"{folder}/") for folder in folders)]
    paths = (*(f"tests/{one}" for one in folders), *(f"--ignore=tests/{one}" for one in elsewhere))
    return Group(name, paths, has_own_cache=name == "spark")


GROUPS: Final = (
    *(folder_group(name) for name in GROUP_FOLDERS),
    # A folder without a group of its own.
    Group("rest", ("tests", *(f"--ignore=tests/{folder}" for folder in GROUPED))),
    # Property tests are not traced: they would take most of the time, and coverage must not depend on what they draw.
    Group("coverage", ("-m", "not hypothesis and not exhaustive", *CORE_TESTS), is_pure=True, is_traced=True),
    Group("interpreted", ("-m", "hypothesis or exhaustive", *CORE_TESTS), is_pure=True),
)

# Files and folders below tests/ that take many seconds: half of the time, and a twentieth of the tests.
SLOW_TESTS: Final = (
    "client/test_documentation.py",
    "client/test_walk_through.py",
    "client/wire/test_connection.py",
    "management/json_api/test_junk.py",
    "repository/test_run_tests.py",
    "repository/test_tools.py",
    "server/faults/test_official_sdk.py",
    "server/health",
    "store/log/sealing/test_sealer.py",
    "store/log/test_damage_sweep.py",
    "store/log/test_power.py",
    "store/log/test_size.py",
    "store/test_damage.py",
    "store/test_disk.py",
    "store/test_equal.py",
)
LEAVE_OUT_SLOW: Final = tuple(f"--ignore=tests/{name}" for name in SLOW_TESTS)
# Without foreign SDKs and Spark.
QUICK_GROUPS: Final = (
    Group("broker", ("tests/server", "tests/store", *LEAVE_OUT_SLOW)),
    Group("interfaces", ("tests/management", "tests/config", "tests/client", *LEAVE_OUT_SLOW)),
    Group(
        "core",
        ("-m", "not exhaustive", *QUICK_CORE_TESTS, "tests/repository", "tests/rules", "tests/cost", *LEAVE_OUT_SLOW),
    ),
)


@dataclass
class Result:
    """The outcome of one test."""

    test: str
    outcome: str
    seconds: float
    # The traceback of a failed test.
    text: str = ""
    # The error of a failed test, or why a test was skipped.
    reason: str = ""


@dataclass
class Run:
    """One group under way, or finished."""

    group: Group
    seed: int
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    seconds: float = 0.0
    # Of the group and of all processes that it waited for.
    cpu_seconds: float = 0.0
    exit_status: int | None = None
    collected: int | None = None
    results: list[Result] = field(default_factory=list)
    _unread_from: int = 0

    @property
    def log(self) -> Path:
        return LOGS / f"{self.group.name}.log"

    @property
    def record(self) -> Path:
        return LOGS / f"{self.group.name}.jsonl"

    def count(self, outcome: str) -> int:
        return sum(result.outcome == outcome for result in self.results)

    @property
    def failures(self) -> list[Result]:
        """Return the failed tests; a group that failed without one, as a failure of its own."""
        failed = [result for result in self.results if result.outcome == "failed"]
        if not failed and self.exit_status:
            text = f"{_tail(self.log)}\npytest exited with {self.exit_status}; its output is in {self.log}"
            failed = [Result("", "failed", 0.0, text)]
        return failed

    def command(self, test: str = "") -> list[str]:
        """Return the command that runs the group, or one test of it, with the seed of this run."""
        pytest = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"--randomly-seed={self.seed}",
            f"--hypothesis-seed={self.seed}",
        ]
        if self.group.is_traced and not test:
            pytest[1:1] = ["-m", "coverage", "run"]
        return [*pytest, *((test,) if test else self.group.arguments)]

    def repeat(self, test: str) -> str:
        """Return a line for a shell that repeats exactly this test."""
        program, *arguments = self.command(test)
        with contextlib.suppress(ValueError):
            program = str(Path(program).relative_to(ROOT))
        variables = [f"{name}={value}" for name, value in self.group.environment().items()]
        return shlex.join([*variables, program, *arguments])

    def start(self) -> None:
        self.started_at = time.monotonic()
        self.record.unlink(missing_ok=True)
        environment = {**os.environ, **self.group.environment(), RECORD_VARIABLE: str(self.record.resolve())}
        command = [*self.command(), "-p", "tools.test_record"]
        if self.group.is_traced:
            command = ["sh", "-c", f'{shlex.join(command)} && "$0" -m coverage report', sys.executable]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def poll(self) -> bool:
        """Read what was recorded since the last call. Return True once the group has ended."""
        assert self.process is not None
        # Popen.poll would not say how much the group has computed.
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid:
            self.exit_status = self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self.seconds = time.monotonic() - self.started_at
        for line in self._new_lines():
            if "collected" in line:
                self.collected = line["collected"]
            else:
                self.results.append(Result(**line))
        return self.exit_status is not None

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError), self.record.open("rb") as record:
            record.seek(self._unread_from)
            for line in record:
                if not line.endswith(b"\n"):
                    return
                self._unread_from += len(line)
                yield json.loads(line)

    def stop(self) -> None:
        """End the group and every process that it started."""
        if self.process is None or self.process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Display:
    """Progress and results, on a terminal or in a log."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._is_terminal = output.isatty()
        self._started_at = time.monotonic()
        self._shown_at = -PROGRESS_INTERVAL_S if self._is_terminal else self._started_at

    def line(self, text: str = "") -> None:
        if self._is_terminal:
            self._output.write("\r\x1b[K")
        self._output.write(text + "\n")
        self._output.flush()

    def progress(self, runs: Sequence[Run]) -> None:
        """Show how far the groups are that run now."""
        now = time.monotonic()
        if now - self._shown_at < (REDRAW_INTERVAL_S if self._is_terminal else PROGRESS_INTERVAL_S):
            return
        self._shown_at = now
        parts = [f"{run.group.name} {len(run.results)}/{run.collected or '?'}" for run in runs]
        text = f"{_clock(now - self._started_at)}  {'   '.join(parts)}"
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._output.write(f"\r\x1b[K{text[:width]}")
            self._output.flush()
        else:
            self.line(text)

    def ended(self, run: Run) -> None:
        verdict = "failed" if run.failures else "passed"
        self.line(f"{run.group.name}: {verdict}, {len(run.results)} tests in {_clock(run.seconds)}")

    def summary(self, runs: Sequence[Run], seconds: float) -> None:
        """Print failures with the commands that repeat them, reasons of skips, the table and the total."""
        for run in runs:
            for failure in run.failures:
                self.line()
                self.line(f"FAILED {run.group.name}: {failure.test or 'the group as a whole'}")
                self.line(failure.text)
                self.line(f"Repeat it with:\n  {run.repeat(failure.test)}")
        self.line()
        self.line(f"{'group':<12} {'passed':>7} {'failed':>7} {'skipped':>7} {'time':>8} {'cpu':>8}")
        for run in runs:
            counts = f"{run.count('passed'):>7} {len(run.failures):>7} {run.count('skipped'):>7}"
            self.line(f"{run.group.name:<12} {counts} {_clock(run.seconds):>8} {_clock(run.cpu_seconds):>8}")
            reasons = Counter(result.reason for result in run.results if result.outcome == "skipped")
            for reason, count in reasons.most_common():
                self.line(f"    {count} skipped: {reason}")
        passed, failed, skipped = (
            sum(counts)
            for counts in zip(
                *((run.count("passed"), len(run.failures), run.count("skipped")) for run in runs), strict=True
            )
        )
        cpu_seconds = sum(run.cpu_seconds for run in runs)
        self.line(f"in {_clock(seconds)}, {_clock(cpu_seconds)} of CPU time, seed {runs[0].seed}, logs in {LOGS}/")
        self.line(f"{passed} passed, {failed} failed, {skipped} skipped")


def run_groups(groups: Sequence[Group], seed: int, lanes: int, display: Display) -> list[Run]:
    """Run the groups, `lanes` at a time. Return them in the order given."""
    runs = [Run(group, seed) for group in groups]
    waiting, active = list(runs), list[Run]()
    try:
        while waiting or active:
            while waiting and len(active) < lanes:
                active.append(waiting.pop(0))
                active[-1].start()
            time.sleep(POLL_S)
            display.progress(active)
            for run in list(active):
                known = len(run.results)
                is_over = run.poll()
                for result in run.results[known:]:
                    if result.outcome == "failed":
                        display.line(f"FAILED {run.group.name}: {result.test}")
                        # At once: whoever watches learns it now, and a log that is cut off later still has it.
                        display.line(textwrap.indent(result.reason, "    "))
                if is_over:
                    active.remove(run)
                    display.ended(run)
    finally:
        for run in active:
            run.stop()
    return runs


@contextlib.contextmanager
def only_run(logs: Path) -> Iterator[None]:
    """Hold the logs for one run: a second one in the same clone would overwrite the records of the first."""
    with (logs / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(
                f"another run of the tests writes to {logs.resolve()}: wait for its end, or use another clone"
            ) from None
        yield


def interrupt(number: int, _frame: FrameType | None) -> None:
    """Stop the groups, whichever signal asks for it. Shells start background jobs with SIGINT ignored."""
    raise KeyboardInterrupt(number)


def _tail(path: Path, lines: int = 40) -> str:
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.run_tests", description="Run the tests in groups.")
    names = [group.name for group in GROUPS]
    parser.add_argument("group", nargs="*", help=f"run these groups only: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="a choice of tests that takes at most 90 seconds")
    parser.add_argument("--seed", type=int, help="order and random numbers of the tests; a new one by default")
    parser.add_argument("--lanes", type=int, default=LANES, help="groups that run at the same time (%(default)s)")
    options = parser.parse_args(arguments)
    if unknown := set(options.group) - set(names):
        parser.error(f"unknown group {', '.join(sorted(unknown))}; the groups are {', '.join(names)}")

    os.chdir(ROOT)
    LOGS.mkdir(parents=True, exist_ok=True)
    groups = QUICK_GROUPS if options.quick else [g for g in GROUPS if not options.group or g.name in options.group]
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    display = Display(sys.stdout)
    display.line(f"{len(groups)} groups of tests, {min(options.lanes, len(groups))} at a time, seed {seed}")
    started_at = time.monotonic()
    with only_run(LOGS):
        runs = run_groups(groups, seed, options.lanes, display)
    display.summary(runs, time.monotonic() - started_at)
    return 1 if any(run.failures for run in runs) else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt as stopped:
        raise SystemExit(128 + stopped.args[0]) from None
