"""The exit status of the demonstration. `make demo` runs all of it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.example_programs import load_example

KILLED = {"sent": 2_000, "received": 2_000, "lost": 0, "duplicates": 0, "redelivered": 1}
CAPTURED = {"sent": 9_000, "rows": 9_000, "readings": 9_000, "spark": "4.3.0"}
DRILLED = {**KILLED, "diverted": 450, "syphoned": 450, "refused": 0, "out_of_order": 5, "outage_seconds": 10.4}


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, with steps that succeed at once, in a folder of its own."""
    module = load_example("demo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    give(monkeypatch, module, KILLED, [], CAPTURED)
    return module


def give(
    monkeypatch: pytest.MonkeyPatch,
    demo: ModuleType,
    killed: dict[str, Any],
    violations: list[str],
    captured: dict[str, Any],
) -> None:
    monkeypatch.setattr(demo, "kill_broker", lambda: killed)
    monkeypatch.setattr(demo, "drill_outage", lambda: {**DRILLED, "violations": violations})
    monkeypatch.setattr(demo, "capturing_hub", lambda: contextlib.nullcontext(lambda: captured))
    monkeypatch.setattr(demo, "report_outage", lambda: None)


def test_a_demonstration_that_loses_nothing_succeeds_and_ends_with_its_account(
    demo: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main() == 0
    output = capsys.readouterr().out
    for line in (
        "sent and acknowledged",
        "No message and no event was lost.",
        "Rows sent to the hub:    9,000\nRows in the table:       9,000\n",
        "Spark:                   4.3.0\n",
        "build/demo/report.html",
    ):
        assert line in output


def test_an_event_that_was_sent_twice_is_explained(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, demo, KILLED, [], {**CAPTURED, "rows": 9_100})
    assert demo.main() == 0
    assert "9,100 (100 of them sent twice, since the killed broker had not answered)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "killed, violations, captured, sentence",
    [
        ({**KILLED, "lost": 3}, [], CAPTURED, "3 messages were lost"),
        ({**KILLED, "duplicates": 2}, [], CAPTURED, "2 messages were delivered again after completion"),
        (KILLED, ["1 message is lost: drill-7"], CAPTURED, "1 message is lost: drill-7"),
        (KILLED, [], {**CAPTURED, "readings": 8_999}, "events that are not in the table: 1"),
    ],
)
def test_a_broken_promise_is_reported_and_fails_the_demonstration(
    demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    killed: dict[str, Any],
    violations: list[str],
    captured: dict[str, Any],
    sentence: str,
) -> None:
    give(monkeypatch, demo, killed, violations, captured)
    assert demo.main() == 1
    assert f"Broken promise: {sentence}" in capsys.readouterr().out


def test_a_step_that_fails_ends_the_demonstration(
    demo: ModuleType, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # The folder of this demonstration has no program to run.
    monkeypatch.setattr(
        demo, "kill_broker", lambda: demo.run_for_figures("python", "missing.py", saved=Path("missing.json"))
    )
    assert demo.main() == 1
    output = capfd.readouterr()
    assert "The demonstration failed: `python missing.py` ended with exit status 2." in output.out
    assert "missing.py" in output.err


def test_a_capture_that_fails_shows_what_it_printed_and_ends_the_demonstration(
    demo: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # The folder of this demonstration has no program to run.
    fresh = load_example("demo")
    (tmp_path / fresh.FOLDER).mkdir(parents=True)
    with (
        pytest.raises(fresh.StepFailed, match=r"live_capture\.py` ended with exit status 2"),
        fresh.capturing_hub() as wait_for_capture,
    ):
        wait_for_capture()
    assert "No such file or directory" in capfd.readouterr().out
