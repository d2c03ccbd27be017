"""The exit status of the demonstration. `make demo` runs all of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"
KILLED = {"sent": 2_000, "received": 2_000, "lost": 0, "duplicates": 0, "redelivered": 1}
DRILLED = {**KILLED, "diverted": 450, "syphoned": 450, "refused": 0, "out_of_order": 5, "outage_seconds": 10.4}


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, with steps that succeed at once, in a folder of its own."""
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    give(monkeypatch, module, KILLED, [])
    return module


def give(monkeypatch: pytest.MonkeyPatch, demo: ModuleType, killed: dict[str, Any], violations: list[str]) -> None:
    monkeypatch.setattr(demo, "kill_broker", lambda: killed)
    monkeypatch.setattr(demo, "drill_outage", lambda: {**DRILLED, "violations": violations})
    monkeypatch.setattr(demo, "report_outage", lambda: None)


def test_a_demonstration_that_loses_nothing_succeeds_and_ends_with_its_account(
    demo: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.main() == 0
    output = capsys.readouterr().out
    for line in ("sent and acknowledged", "No message was lost.", "build/demo/report.html"):
        assert line in output


@pytest.mark.parametrize(
    "killed, violations, sentence",
    [
        ({**KILLED, "lost": 3}, [], "3 messages were lost"),
        ({**KILLED, "duplicates": 2}, [], "2 messages were delivered again after completion"),
        (KILLED, ["1 message is lost: drill-7"], "1 message is lost: drill-7"),
    ],
)
def test_a_broken_promise_is_reported_and_fails_the_demonstration(
    demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    killed: dict[str, Any],
    violations: list[str],
    sentence: str,
) -> None:
    give(monkeypatch, demo, killed, violations)
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
