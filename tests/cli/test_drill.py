"""`tandem drill`: the outage drill in its short form."""

from __future__ import annotations

import json

import pytest

from tests.cli.program import one_line, tandem_here
from tests.markers import mission


@pytest.mark.timeout(120)
@mission("M16", "M18", "M22", "M23", "M24", "M25", "M26", "M27")
def test_a_primary_that_is_killed_under_load_loses_no_message() -> None:
    done = tandem_here(
        "drill",
        *("--messages", "150", "--rate", "100", "--outage", "1s", "--failover-interval", "300ms"),
        *("--ping-interval", "300ms", "--backlog-queues", "3", "--json"),
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["sent"], figures["received"], figures["lost"], figures["refused"]) == (150, 150, 0, 0)
    # What was under way when the primary died may have been taken and sent again: one message of each sender at most.
    assert 0 <= figures["duplicates"] <= 6
    assert figures["diverted"] > 0
    assert figures["syphoned"] >= figures["diverted"]
    assert 0.2 < figures["seconds_to_detect"] < 10
    assert figures["seconds_to_restore"] >= 0
    assert figures["seconds_to_drain"] >= 0
    assert figures["out_of_order"] >= 0
    assert {one["entity"] for one in figures["timeline"]} == {"orders", "payments", "news"}


def test_a_drill_comes_to_an_end() -> None:
    assert "a drill comes to an end" in one_line(tandem_here("drill", "--outage", "never"))
