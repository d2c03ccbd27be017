"""What people see of the results: tables, and one page."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tandem.errors import ConfigurationError
from tandem.spark.report.page import page
from tandem.spark.report.plots import Span, bars, lines, timeline
from tandem.spark.report.results import Results, read_results
from tandem.spark.report.tables import ReportTable, report_tables

START = datetime(2026, 11, 16, 7, 0, tzinfo=UTC)


def cost(operation: str, stage: str, units: int, amount: str, entity: str = "orders") -> dict[str, Any]:
    return {
        "from": START,
        "namespace": "shop",
        "entity": entity,
        "operation": operation,
        "stage": stage,
        "operations": units,
        "units": units,
        "cost": Decimal(amount),
        "currency": "EUR",
    }


RESULTS = Results(
    costs=[cost("send", "direct", 10, "0.50"), cost("ping", "direct", 3, "0.000001", "<script>alert(1)</script>")],
    outages=[
        {
            "entity": "orders",
            "failing_at": START,
            "failed_over_at": START + timedelta(seconds=10),
            "restored_at": START + timedelta(seconds=70),
            "drained_at": None,
            "seconds_to_detect": 10.0,
            "seconds_to_restore": 60.0,
            "seconds_to_drain": None,
            "pings": 1,
            "diverted": 1_234,
            "syphoned": 0,
        }
    ],
    backlog=[{"time": START + timedelta(seconds=at), "entity": "orders", "depth": at} for at in (10, 20, 30)],
    latencies=[
        {"from": START, "entity": "orders", "operation": "send", "count": 9, "p50_ms": 1, "p95_ms": 5, "p99_ms": None},
        {"from": START, "entity": "orders", "operation": "peek", "count": 1, "p50_ms": 2, "p95_ms": 2, "p99_ms": 2},
    ],
)


class Checked(HTMLParser):
    """Every tag that is opened is closed, and nothing is fetched."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


def test_the_page_is_whole_and_fetches_nothing() -> None:
    text = page(RESULTS, "What <it> did", START)
    checked = Checked()
    checked.feed(text)
    assert checked.open == []
    assert "script" not in checked.tags
    assert "What &lt;it&gt; did" in text
    assert not re.search(r"https?://|url\(|@import", text)
    assert text.count("<svg") == 4


def test_nothing_is_drawn_outside_of_its_picture() -> None:
    for picture in re.findall(r"<svg.*?</svg>", page(RESULTS, "x", START)):
        found = re.search(r'viewBox="0 0 (\d+) (\d+)"', picture)
        assert found is not None
        width, height = map(int, found.groups())
        for attributes, limit in (("x|cx|x1|x2", width), ("y|cy|y1|y2", height)):
            places = [float(place) for place in re.findall(rf' (?:{attributes})="([-\d.]+)"', picture)]
            assert places
            assert all(0 <= place <= limit for place in places)


def test_tables_have_sums_and_say_what_is_not_known() -> None:
    tables = {table.title: table for table in report_tables(RESULTS)}
    assert tables["Cost by stage"].rows == [("direct", "13", "13", "0.50"), ("total", "13", "13", "0.50")]
    assert tables["Outages, in seconds"].rows == [("orders", "11-16 07:00:00", "10.0", "60.0", "–", "1", "1,234", "0")]
    latency = tables["Latency in the worst window"].rows
    assert latency == [("orders", "send", "9", "1", "5", "beyond"), ("orders", "peek", "1", "2", "2", "2")]
    assert "How messages arrived" not in tables


def test_pictures_of_nothing_are_nothing() -> None:
    assert lines({}) == bars([]) == timeline({}, ()) == ""


def test_a_single_moment_can_be_drawn() -> None:
    assert "<circle" in lines({"a": [(START, 0.0)]})
    assert "for 0.0 s" in timeline({"a": [Span(START, START, 0, "failing for 0.0 s")]}, ("failing",))


def test_a_folder_without_results_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tandem pipeline metering"):
        read_results(tmp_path)


def test_a_long_table_is_shortened_to_its_first_rows_and_its_sum() -> None:
    rows = [(str(number),) for number in range(5)]
    assert ReportTable("", ("",), rows).shortened(3) == (rows[:3], 2)
    assert ReportTable("", ("",), rows, has_total=True).shortened(3) == ([*rows[:3], rows[4]], 1)
    assert ReportTable("", ("",), rows, has_total=True).shortened(4) == (rows, 0)


def test_a_legend_has_as_many_names_as_there_is_room_for() -> None:
    moment = datetime(2026, 11, 16, tzinfo=UTC)
    picture = lines({f"{number} of a very long name that nobody reads": [(moment, 1.0)] for number in range(6)})
    assert "0 of a ver…" in picture
    assert "and 2 more" in picture
