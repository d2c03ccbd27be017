"""The pytest plugin, in projects of its users: each is run by a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path
from typing import Final

import pytest

from tests.markers import mission

ROOT: Final = Path(__file__).resolve().parents[2]
PLUGIN: Final = "tandem.testing.plugin"

# The example project takes six seconds, most of them in the official SDK.
pytestmark = pytest.mark.timeout(180)

SHARING: Final = """
import pytest

@pytest.fixture(scope="session")
def shared(tandem_session_bus):
    tandem_session_bus.create_queue("shared")
    return tandem_session_bus

def test_one(shared, tandem_bus):
    assert shared is tandem_bus
    tandem_bus.create_queue("own")
    tandem_bus.send("own", "x")
    tandem_bus.send("shared", "x")
    tandem_bus.clock.advance(hours=1)
    tandem_bus.break_everything()

def test_two(shared, tandem_bus):
    assert tandem_bus.messages("shared") == []
    # It would be there already if another test had made it, and it would be refused if the first were not gone.
    tandem_bus.create_queue("own")
    assert tandem_bus.messages("own") == []

def test_three_fails(shared, tandem_bus):
    tandem_bus.send("shared", "x")
    assert False

def test_four(shared, tandem_bus):
    assert tandem_bus.messages("shared") == []
"""


def run_pytest(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """With the plugin, also where Tandem was installed before it had one."""
    is_installed = any(entry.value == PLUGIN for entry in metadata.entry_points(group="pytest11"))
    plugin = [] if is_installed else ["-p", PLUGIN]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *arguments],
        cwd=folder,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@mission("M12")
def test_the_example_project_passes_its_tests(tmp_path: Path) -> None:
    run = run_pytest(str(ROOT / "examples" / "pytest_project"), folder=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "20 passed" in run.stdout


def test_a_test_finds_what_is_shared_empty_and_nothing_of_others(tmp_path: Path) -> None:
    (tmp_path / "test_sharing.py").write_text(SHARING, encoding="utf-8")
    run = run_pytest("-p", "no:randomly", str(tmp_path), folder=tmp_path)
    assert "1 failed, 3 passed" in run.stdout, run.stdout + run.stderr
    assert "test_three_fails" in run.stdout


def test_the_plugin_costs_next_to_nothing_where_nobody_uses_it() -> None:
    """pytest loads it in every project that has Tandem installed."""
    program = f"import sys, {PLUGIN}; print(sorted({{'aiohttp', 'apsw', 'asyncio', 'tandem.amqp'}} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before = subprocess.run(
        [sys.executable, "-c", program.replace(f", {PLUGIN}", ", pytest")], capture_output=True, text=True, check=True
    )
    assert run.stdout == before.stdout


def test_the_distribution_tells_pytest_of_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"tandem": PLUGIN}
    assert {"tandem_bus", "tandem_session_bus"} <= set(vars(import_module(PLUGIN)))
