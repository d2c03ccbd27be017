"""A pytest plugin that records the course of a run for `tools.run_tests`: `pytest -p tools.test_record`.

The file named by TANDEM_TEST_RECORD receives one JSON object per line: first the number of tests, then each outcome as
soon as it is known.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

RECORD_VARIABLE: Final = "TANDEM_TEST_RECORD"

# Lines of an error that are shown at once. A compared pair of values may have hundreds.
REASON_LINES: Final = 8


class Recorder:
    """Writes one line for each test, when its last phase is over."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("w", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed with the session
        self._phases: dict[str, list[pytest.TestReport]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write({"collected": len(session.items)})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(
                {
                    "test": report.nodeid,
                    "outcome": "failed",
                    "seconds": 0.0,
                    "text": report.longreprtext,
                    "reason": _error(report),
                }
            )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        phases = self._phases.setdefault(report.nodeid, [])
        phases.append(report)
        if report.when == "teardown":
            self._write(_outcome(self._phases.pop(report.nodeid)))

    def pytest_sessionfinish(self) -> None:
        self._file.close()

    def _write(self, line: dict[str, object]) -> None:
        self._file.write(json.dumps(line) + "\n")


def _outcome(phases: list[pytest.TestReport]) -> dict[str, object]:
    """Return one outcome for the phases of a test: a failure in any of them counts."""
    seconds = sum(phase.duration for phase in phases)
    for outcome in ("failed", "skipped"):
        for phase in phases:
            if phase.outcome == outcome:
                is_failed = outcome == "failed"
                return {
                    "test": phase.nodeid,
                    "outcome": outcome,
                    "seconds": seconds,
                    "text": phase.longreprtext if is_failed else "",
                    "reason": _error(phase) if is_failed else _skip_reason(phase),
                }
    return {"test": phases[0].nodeid, "outcome": "passed", "seconds": seconds, "text": "", "reason": ""}


def _error(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the first lines of the error that ended a test or a collection, without the way that led to it."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = report.longreprtext if crash is None else crash.message
    return "\n".join(message.strip().splitlines()[:REASON_LINES])


def _skip_reason(phase: pytest.TestReport) -> str:
    if isinstance(phase.longrepr, tuple):
        return phase.longrepr[2].removeprefix("Skipped: ")
    return str(getattr(phase, "wasxfail", "")) or phase.longreprtext


def pytest_configure(config: pytest.Config) -> None:
    if path := os.environ.get(RECORD_VARIABLE):
        config.pluginmanager.register(Recorder(path), "tandem-test-record")
