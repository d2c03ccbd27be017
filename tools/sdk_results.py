"""A pytest plugin that writes down which features of which official SDK passed: `pytest -p tools.sdk_results`.

`make test-sdks` uses it to write tests/compat/results.json, from which docs/reference/compatibility.md is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, Final, NamedTuple

import pytest

from tools.sdk_features import ADMINISTRATION, COMPAT, EVENT_HUBS, NODE, PYTHON, SERVICE_BUS

RESULTS: Final = COMPAT / "results.json"

_NODE_GROUPS: Final = {
    "test_node_sdk.py": SERVICE_BUS,
    "test_event_hubs_node.py": EVENT_HUBS,
    "test_admin_node.py": ADMINISTRATION,
}
# From worst to best: a feature that several tests show is as good as the worst of them.
_OUTCOMES: Final = ("failed", "expected to fail", "skipped", "passed")


class Cell(NamedTuple):
    """One feature of one SDK over one transport."""

    language: str
    group: str
    feature: str
    transport: str


def cells_of(item: pytest.Item) -> Iterator[Cell]:
    """Yield what a test shows. Most tests show nothing of the table."""
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    name = item.path.name
    if "step" in parameters:
        step = parameters["step"]
        yield Cell(parameters["language"], step.group, step.feature, step.transport)
    elif name in _NODE_GROUPS and "feature" in parameters:
        yield Cell("javascript", _NODE_GROUPS[name], parameters["feature"], parameters.get("transport", "tls"))
    else:
        test = f"{name}::{getattr(item, 'originalname', item.name)}"
        is_tour = test == "test_tours.py::test_the_tour_sees_what_it_expects"
        for group, features in PYTHON.items():
            default = "tls" if group == ADMINISTRATION else "tcp"
            for feature, shown in features.items():
                if test in shown.get("tests", ()) or (is_tour and "tour" in shown):
                    yield Cell("python", group, feature, parameters.get("transport", default))


def versions() -> dict[str, dict[str, str]]:
    """Return the versions of the SDKs by language and group, from the locks."""
    node = json.loads((NODE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    pom = (COMPAT / "java" / "pom.xml").read_text(encoding="utf-8")
    modules = (COMPAT / "go" / "go.mod").read_text(encoding="utf-8")

    def in_pom(artifact: str) -> str:
        found = re.search(rf"<artifactId>{artifact}</artifactId>\s*<version>([^<]+)", pom)
        assert found, f"pom.xml has no {artifact}"
        return f"{artifact} {found[1]}"

    def in_modules(module: str, name: str) -> str:
        found = re.search(rf"{re.escape(module)} v(\S+)", modules)
        assert found, f"go.mod has no {module}"
        return f"{name} {found[1]}"

    return {
        "python": {
            SERVICE_BUS: f"azure-servicebus {version('azure-servicebus')}",
            EVENT_HUBS: f"azure-eventhub {version('azure-eventhub')}",
        },
        "javascript": {
            SERVICE_BUS: f"@azure/service-bus {node['@azure/service-bus']}",
            EVENT_HUBS: f"@azure/event-hubs {node['@azure/event-hubs']}",
        },
        "java": {
            SERVICE_BUS: in_pom("azure-messaging-servicebus"),
            EVENT_HUBS: in_pom("azure-messaging-eventhubs"),
        },
        "go": {
            SERVICE_BUS: in_modules("azservicebus", "azservicebus"),
            EVENT_HUBS: in_modules("azeventhubs/v2", "azeventhubs"),
        },
    }


class Results:
    """Collects the outcomes of a run, and writes them at its end."""

    def __init__(self) -> None:
        self._cells: dict[str, list[Cell]] = {}
        self._outcomes: dict[Cell, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._cells = {item.nodeid: list(cells_of(item)) for item in session.items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        outcome = "expected to fail" if hasattr(report, "wasxfail") and report.skipped else report.outcome
        for cell in self._cells.get(report.nodeid, ()):
            self._outcomes[cell] = min(outcome, self._outcomes.get(cell, outcome), key=_OUTCOMES.index)

    def pytest_sessionfinish(self) -> None:
        outcomes: dict[str, Any] = {}
        for cell, outcome in sorted(self._outcomes.items()):
            by_feature = outcomes.setdefault(cell.language, {}).setdefault(cell.group, {})
            by_feature.setdefault(cell.feature, {})[cell.transport] = outcome
        text = json.dumps({"versions": versions(), "outcomes": outcomes}, indent=1, sort_keys=True)
        RESULTS.write_text(text + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Results(), "tandem-sdk-results")
