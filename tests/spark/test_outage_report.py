"""The end of the demonstration: what an outage has left behind, metered, judged and shown by one command."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tandem.pairing.outage_times import OUTAGE_TIMES, outage_times
from tandem.spark.report.results import read_results
from tests.cli.program import one_line, tandem_here
from tests.markers import mission
from tests.spark.outage import ENTITY, FAILOVER_S, have_outage


@pytest.mark.timeout(900)
@mission("M29", "M31")
@pytest.mark.usefixtures("commands_share")
def test_an_outage_is_told_by_the_pipeline_as_it_went(tmp_path: Path) -> None:
    outage = asyncio.run(have_outage(tmp_path))
    done = tandem_here("pipeline", "report", "--from", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "primary and secondary of" in done.stderr
    assert re.search(r"read [\d,]+ records of 2 namespaces", done.stderr)
    assert "SharedAccessKey" not in done.stdout + done.stderr
    results = read_results(tmp_path / "pipeline")

    [told] = results.outages
    assert told["entity"] == ENTITY
    for column, name in (("failing_at", "failing"), ("failed_over_at", "failed-over"), ("restored_at", "restored")):
        assert told[column].timestamp() == outage.first_s(name)
    # It began after the primary was killed and ended after it was started; the client tells times in milliseconds.
    assert told["failing_at"].timestamp() > outage.killed_at_s - 0.001
    assert told["seconds_to_detect"] > FAILOVER_S - 0.001
    assert told["restored_at"].timestamp() > outage.returned_at_s - 0.001
    assert told["drained_at"] is not None
    # The drill computes these times from the same events, and to the same effect.
    by_time = [(datetime.fromisoformat(str(event["time"])).timestamp(), event) for event in outage.events]
    assert {name: told[name] for name in OUTAGE_TIMES} == outage_times(
        (at_s, event) for at_s, event in by_time if event["entity"] == ENTITY
    )._asdict()
    for name, count in (("diverted", told["diverted"]), ("syphoned", told["syphoned"]), ("ping", told["pings"])):
        assert count == outage.count(name) > 0

    # Each message on the detour is sent to the secondary and received from there: again, if the syphon had to give it
    # back because the primary did not take it yet.
    units: Counter[str] = Counter()
    for row in results.costs:
        if "x-servicebus-transfer" in row["entity"] and row["outcome"] == "ok":
            units[row["operation"]] += row["units"]
    assert units["send"] == units["complete"] == outage.count("diverted")
    assert units["receive"] >= units["complete"]
    assert sum((row["cost"] for row in results.costs), Decimal(0)) > 0
    assert results.latencies

    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Every outage is over, the backlog is empty" in page
    # It needs nothing else, wherever it is opened.
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(|https?://""", page)
    for heading in ("When entities were unavailable", "What the documents say", "Outages", "Cost by stage"):
        assert heading in page


def test_a_folder_without_brokers_is_said_in_one_line(tmp_path: Path) -> None:
    line = one_line(tandem_here("pipeline", "report", "--from", str(tmp_path)))
    assert "has no data directory of a broker in it" in line
    assert "tandem drill --keep" in line
