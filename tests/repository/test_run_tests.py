"""The runner of the test suite: its summary is what contributors and CI read."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import wait_until
from tools import run_tests
from tools.run_tests import CORE_TESTS, GROUPS, QUICK_GROUPS, Display, Group, Run, run_groups

ROOT = Path(__file__).resolve().parents[2]

SUITE = """
import pytest

def test_that_passes(): ...

def test_that_fails():
    assert 1 == 2, "not equal"

def test_that_breaks_at_its_end(broken): ...

@pytest.fixture
def broken():
    yield
    raise RuntimeError("left a mess")

def test_that_is_skipped():
    pytest.skip("no RabbitMQ; `make peers` installs it")
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with four tests, which the runner takes for the repository."""
    (tmp_path / "test_sample.py").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(ROOT / "src"))))
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    run_tests.LOGS.mkdir(parents=True)
    return tmp_path


def finished(*groups: Group) -> tuple[list[Run], str]:
    output = io.StringIO()
    display = Display(output)
    runs = run_groups(groups, 7, 2, display)
    display.summary(runs, 61.0)
    return runs, output.getvalue()


def test_the_summary_counts_every_outcome_and_names_the_reasons_of_skips(suite: Path) -> None:
    (run,), output = finished(Group("sample", ("test_sample.py",)))
    assert [run.count(outcome) for outcome in ("passed", "failed", "skipped")] == [1, 2, 1]
    assert run.collected == 4
    assert "    1 skipped: no RabbitMQ; `make peers` installs it" in output
    assert output.splitlines()[-1] == "1 passed, 2 failed, 1 skipped"
    assert run.cpu_seconds > 0
    assert re.search(r"^in 1:01, \d+:\d\d of CPU time, seed 7", output, re.MULTILINE)


def test_a_failure_is_shown_with_the_command_that_repeats_it(suite: Path) -> None:
    _, output = finished(Group("sample", ("test_sample.py",), is_pure=True))
    assert "FAILED sample: test_sample.py::test_that_fails" in output
    assert "not equal" in output
    assert "left a mess" in output
    command = next(
        line.strip() for line in output.splitlines() if line.startswith("  TANDEM_PURE=1") and "that_fails" in line
    )
    assert "--randomly-seed=7" in command
    repeated = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert repeated.returncode == 1
    assert "1 failed" in repeated.stdout


def test_the_error_of_a_failed_test_is_shown_as_soon_as_it_is_known(suite: Path) -> None:
    _, output = finished(Group("sample", ("test_sample.py",)))
    while_it_ran = output[: output.index("sample: failed")]
    assert "FAILED sample: test_sample.py::test_that_fails\n    AssertionError: not equal" in while_it_ran
    assert "FAILED sample: test_sample.py::test_that_breaks_at_its_end\n    RuntimeError: left a mess" in while_it_ran


def test_a_group_that_dies_without_a_failed_test_is_a_failure(suite: Path) -> None:
    (run,), output = finished(Group("sample", ("no_such_file.py",)))
    assert len(run.failures) == 1
    assert "the group as a whole" in output
    assert "no_such_file.py" in output
    assert output.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


def test_a_file_that_cannot_be_imported_is_a_failure(suite: Path) -> None:
    (suite / "test_sample.py").write_text("import no_such_module\n")
    _, output = finished(Group("sample", ("test_sample.py",)))
    assert "No module named 'no_such_module'" in output
    assert output.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


def test_groups_run_in_lanes_and_are_reported_in_their_order(suite: Path) -> None:
    (suite / "test_other.py").write_text("def test_one(): ...\n")
    runs, output = finished(*(Group(name, ("test_other.py",)) for name in ("first", "second", "third")))
    assert [run.group.name for run in runs] == ["first", "second", "third"]
    assert output.splitlines()[-1] == "3 passed, 0 failed, 0 skipped"


# A test that says who runs it, and does not end by itself.
ENDLESS_SUITE = """
import os, pathlib, time

def test_that_does_not_end():
    pathlib.Path("pid.tmp").write_text(str(os.getpid()))
    pathlib.Path("pid.tmp").rename("pid")
    time.sleep(3_600)
"""
# The runner as `make test` starts it, for the suite of the current folder.
RUNNER = """
import sys
from pathlib import Path
import tools.run_tests as run_tests
run_tests.ROOT = Path.cwd()
run_tests.GROUPS = (run_tests.Group("endless", ("test_sample.py",)),)
try:
    sys.exit(run_tests.main([]))
except KeyboardInterrupt as stopped:
    sys.exit(128 + stopped.args[0])
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def start_endless(suite: Path) -> tuple[subprocess.Popen[str], int]:
    """Start the runner as a shell starts a background job, with SIGINT ignored. Return it and the pid of its pytest."""
    (suite / "test_sample.py").write_text(ENDLESS_SUITE)
    runner = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$0" -c "$1"', sys.executable, RUNNER],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until((suite / "pid").exists)
    return runner, int((suite / "pid").read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_stops_the_tests_as_well(suite: Path, number: signal.Signals) -> None:
    runner, pytest_pid = start_endless(suite)
    runner.send_signal(number)
    _, errors = runner.communicate()
    assert runner.returncode == 128 + number, errors
    assert not is_running(pytest_pid)


def test_a_second_run_in_the_same_clone_is_refused(suite: Path) -> None:
    runner, pytest_pid = start_endless(suite)
    second = subprocess.run([sys.executable, "-c", RUNNER], capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert f"another run of the tests writes to {suite / 'build' / 'test'}" in second.stderr
    assert is_running(pytest_pid)
    runner.terminate()
    runner.communicate()


def test_every_folder_of_tests_is_in_exactly_one_group() -> None:
    rest = next(group for group in GROUPS if group.name == "rest")
    left_to_others = {argument.removeprefix("--ignore=tests/") for argument in rest.arguments[1:]}
    named = [
        argument.removeprefix("tests/")
        for group in GROUPS
        if group.name not in {"rest", "coverage", "interpreted"}
        for argument in group.arguments
        if not argument.startswith("--ignore=")
    ]
    assert len(named) == len(set(named))
    assert set(named) == left_to_others
    assert all((ROOT / "tests" / name).exists() for name in left_to_others)


@pytest.mark.parametrize("group", [*GROUPS, *QUICK_GROUPS], ids=lambda group: group.name)
def test_every_path_of_a_group_exists(group: Group) -> None:
    paths = [argument.removeprefix("--ignore=") for argument in (*group.arguments, *CORE_TESTS) if "tests/" in argument]
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_an_unknown_group_is_refused_with_the_names_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_tests.main(["no-such-group"])
    assert "unknown group no-such-group; the groups are spark, pairing" in capsys.readouterr().err


def test_a_terminal_sees_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    output = Terminal()
    run = Run(Group("compat", ()), 1)
    run.collected = 9
    Display(output).progress([run])
    assert output.getvalue() == "\r\x1b[K0:00  compat 0/9"


def test_python_runs_the_runner_of_this_repository() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "tools.run_tests", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "--quick" in shown.stdout
