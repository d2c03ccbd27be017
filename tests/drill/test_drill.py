"""The outage drill in its short form: `make drill N=100` is the long one, with the figures of docs/guarantees.md."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tandem.cli.pairing import drill as command
from tandem.client import EventHubClient
from tandem.drill.drivers import Pair, make_driver
from tandem.drill.plan import DrillPlan, DriverName, Fault
from tandem.errors import ConfigurationError
from tandem.testing import Broker
from tests.cli.program import one_line, tandem_here
from tests.drill.run import run_plan, short_plan
from tests.markers import mission
from tests.patience import PATIENCE_S


async def pairing_events(data_dir: Path) -> list[dict[str, Any]]:
    """What clients wrote to the operations of a broker that is gone."""
    events: list[dict[str, Any]] = []
    with Broker(data_dir) as broker:
        hub = EventHubClient.from_connection_string(broker.connection_string, "$operations")
        consumer = hub.create_consumer("$Default", "1")
        [count] = [one["next_sequence_number"] for one in broker.partitions("$operations") if one["partition"] == "1"]
        while len(events) < count:
            received = await consumer.receive_batch(1_000, PATIENCE_S)
            assert received, f"only {len(events)} of {count} came"
            events += [json.loads(event.body) for event in received]
        await hub.close()
    return events


def counted(events: Iterable[dict[str, Any]], name: str) -> int:
    return sum(event["count"] for event in events if event["event"] == name)


@pytest.mark.timeout(600)  # The drill has five minutes, as it says itself.
@pytest.mark.parametrize("driver", DriverName, ids=lambda driver: driver.value)
@mission("M16", "M18", "M22", "M23", "M24", "M25", "M26", "M27")
async def test_a_primary_that_is_killed_under_load_loses_no_message(driver: DriverName, tmp_path: Path) -> None:
    outcome = run_plan(short_plan(Fault.KILL, driver), tmp_path / "report", 0, "--keep", str(tmp_path / "data"))
    figures = outcome.figures
    assert outcome.violations == [], figures
    assert (figures["sent"], figures["received"], figures["lost"], figures["refused"]) == (200, 200, 0, 0)
    assert figures["duplicates"] <= figures["unanswered"]
    assert figures["diverted"] > 0
    assert figures["syphoned"] >= figures["diverted"]
    assert figures["backlog_receives"] >= figures["diverted"]
    # Detecting takes the failover interval at least; it is in seconds, not milliseconds.
    assert 0.2 < figures["seconds_to_detect"] < 100
    assert {one["entity"] for one in figures["timeline"]} == {"orders", "payments", "news"}
    assert figures["curves"]["received"][-1][1] == 200
    saved = json.loads((tmp_path / "report" / "drill.json").read_text())
    assert saved == figures
    assert "Every promise was kept" in (tmp_path / "report" / "drill.html").read_text()
    # Both brokers can be started again over what they left, and the secondary knows what happened to the pair.
    assert (tmp_path / "data" / "primary").is_dir()
    events = await pairing_events(tmp_path / "data" / "secondary")
    kinds = Counter(event["event"] for event in events)
    assert kinds.keys() >= {"failing", "failed-over", "ping", "restored", "diverted", "syphoned"}
    assert (kinds["ping"], kinds["restored"]) == (figures["pings"], 3)
    assert (counted(events, "diverted"), counted(events, "syphoned")) == (figures["diverted"], figures["syphoned"])


@pytest.mark.timeout(600)  # The drill has five minutes, as it says itself.
@mission("M22", "M26")
def test_one_entity_that_gives_no_answer_leaves_the_others_alone_and_brings_no_duplicate(tmp_path: Path) -> None:
    # An attempt is given up after four seconds: far more than a busy machine needs to answer for the other entities.
    patient = {"operation_timeout": timedelta(seconds=12), "outage": timedelta(seconds=6)}
    plan = short_plan(Fault.NO_ANSWER, DriverName.TANDEM, entity="orders", has_duplicate_detection=True, **patient)
    outcome = run_plan(plan, tmp_path)
    assert outcome.violations == [], outcome.figures
    assert {one["entity"] for one in outcome.figures["timeline"]} == {"orders"}
    assert outcome.figures["unanswered"] > 0
    assert outcome.figures["duplicates"] == 0


@pytest.mark.timeout(600)  # The drill has five minutes, as it says itself.
@pytest.mark.parametrize("driver", DriverName, ids=lambda driver: driver.value)
@mission("M21", "M26", "M29")
def test_two_pairs_share_a_secondary_and_are_reached_by_two_spellings(driver: DriverName, tmp_path: Path) -> None:
    # Long enough for a machine that is busy: whoever notices the outage after its end diverts nothing.
    plan = short_plan(
        Fault.DROP_CONNECTIONS,
        driver,
        messages=100,
        outage=timedelta(seconds=8),
        has_two_spellings=True,
        pairs=2,
    )
    outcome = run_plan(plan, tmp_path)
    figures = outcome.figures
    assert outcome.violations == [], figures
    assert (figures["sent"], figures["received"], figures["lost"]) == (200, 200, 0)
    assert figures["diverted"] > 0
    # Six empty polls at least: each syphon ends with one on each of its three backlog queues.
    assert figures["empty_polls"] >= 6


# --- the command ----------------------------------------------------------------------------------------------------


def test_a_drill_comes_to_an_end() -> None:
    assert "a drill comes to an end" in one_line(tandem_here("drill", "--outage", "never"))


def test_a_drill_has_a_pair_at_least() -> None:
    with pytest.raises(ConfigurationError, match="pairs is 0; it must be from 1"):
        DrillPlan(pairs=0)


def test_an_entity_that_there_is_not_and_a_fault_of_all_of_them_are_refused() -> None:
    assert "one of orders, payments, news" in one_line(tandem_here("drill", "--fault", "stall", "--entity", "others"))
    assert "kill is for the whole namespace" in one_line(tandem_here("drill", "--entity", "orders"))


def test_data_of_another_drill_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "primary").mkdir()
    assert "has data of another drill" in one_line(tandem_here("drill", "--keep", tmp_path))


def test_a_driver_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.servicebus", None)
    monkeypatch.delitem(sys.modules, "tandem.drill.azure_driver", raising=False)
    with pytest.raises(ConfigurationError, match="pip install azure-servicebus"):
        make_driver(DrillPlan(driver=DriverName.AZURE), Pair("", "", print))


@pytest.mark.parametrize(
    "plan",
    [
        DrillPlan(),
        DrillPlan(
            messages=50,
            rate_per_second=12.5,
            outage=timedelta(milliseconds=1_500),
            fault=Fault.STALL,
            entity="news",
            begins_after=0.37,
            driver=DriverName.AZURE,
            has_duplicate_detection=True,
            has_two_spellings=True,
            pairs=2,
        ),
    ],
)
def test_the_command_of_a_plan_repeats_it(plan: DrillPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[DrillPlan] = []

    def stop(given: DrillPlan, *_: object) -> None:
        plans.append(given)
        raise ConfigurationError("enough")

    monkeypatch.setattr(command, "_run", stop)
    tandem_here("drill", *plan.arguments(), folder=tmp_path)
    assert plans == [plan]


def test_the_page_of_a_drill_is_whole_and_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    from tandem.drill.report import page
    from tandem.pages.origin import Origin
    from tests.drill.sample import sample_figures

    text = page(sample_figures(violations=["1 message is lost: drill-<7>"]), Origin.here())
    assert not re.search(r"<script|(?:src|href)\s*=|@import|url\(|https?://", text)
    assert "Promises were broken" in text
    assert "drill-&lt;7&gt;" in text
    # `orders` is failing from 0.5 s to 2.5 s after the beginning of the outage, on an axis from -10 s to 30 s.
    assert '<i class="failing" style="left:26.25%;width:5.00%" title="orders: failing, 0.50 s to 2.50 s"></i>' in text
    assert text.count('class="failed-over" style') == 1
    assert text.count('class="ping answered" style') == 1
    for picture in re.findall(r"<svg.*?</svg>", text):
        ElementTree.fromstring(picture)


def test_the_pages_of_drill_and_pipeline_and_the_plots_of_benchmarks_have_one_look() -> None:
    from tandem.bench.measuring.plot import Bars, draw
    from tandem.drill.report import page
    from tandem.pages.origin import Origin
    from tandem.pages.palette import DARK, LIGHT
    from tandem.spark.report.page import render
    from tandem.spark.report.results import Results
    from tests.drill.sample import sample_figures

    styles = {
        re.search(r"<style>.*?</style>", text, re.DOTALL)
        for text in (page(sample_figures(), Origin.here()), render(Results()))
    }
    assert len({found[0] for found in styles if found is not None}) == 1
    plot = draw("rates", [Bars("sends", ["1 KB"], {"tandem": [1.0]})])
    assert LIGHT["first"] in plot
    assert DARK["first"] in plot
