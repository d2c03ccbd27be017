"""What people see of the results: tables, and one page."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tandem.errors import ConfigurationError
from tandem.pages.origin import Origin
from tandem.spark.report.names import short_names
from tandem.spark.report.page import render
from tandem.spark.report.results import Results, Row, read_results
from tandem.spark.report.tables import ReportTable, report_tables
from tests.markers import mission

START = datetime(2026, 11, 16, 7, 0, tzinfo=UTC)
ORIGIN = Origin(START, "a machine with 2 cores", "1.2.3")
BACKLOG = "shop/x-servicebus-transfer"


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def cost(operation: str, stage: str, units: int, amount: str, entity: str = "orders", outcome: str = "ok") -> Row:
    return {
        "from": START,
        "namespace": "shop",
        "entity": entity,
        "entity_kind": "queue",
        "operation": operation,
        "stage": stage,
        "outcome": outcome,
        "operations": units,
        "units": units,
        "cost": Decimal(amount),
        "currency": "EUR",
    }


def outage(**changed: Any) -> Row:
    return {
        "primary": "shop",
        "entity": "orders",
        "failing_at": START,
        "failed_over_at": after(10),
        "restored_at": after(70),
        "drained_at": after(75),
        "seconds_to_detect": 10.0,
        "seconds_to_restore": 60.0,
        "seconds_to_drain": 5.0,
        "pings": 1,
        "diverted": 1_234,
        "syphoned": 1_234,
        **changed,
    }


RESULTS = Results(
    costs=[cost("send", "direct", 10, "0.50"), cost("ping", "direct", 3, "0.000001", "<script>alert(1)</script>")],
    outages=[outage(drained_at=None, seconds_to_drain=None, syphoned=0)],
    pings=[{"time": after(20), "primary": "shop", "entity": "orders", "client": "c", "outcome": "lost"}],
    backlog=[{"time": after(at), "entity": "orders", "depth": at} for at in (10, 20, 30)],
    backlog_queues=[
        {"time": after(at), "namespace": "other", "entity": f"{BACKLOG}/3", "depth": at} for at in (10, 20)
    ],
    latencies=[
        {"from": START, "entity": "orders", "operation": "send", "count": 9, "p50_ms": 1, "p95_ms": 5, "p99_ms": None},
        {"from": START, "entity": "orders", "operation": "peek", "count": 1, "p50_ms": 2, "p95_ms": 2, "p99_ms": 2},
    ],
)

# A pair that was idle but for an outage, in which 100 of 250 messages took the detour.
PAIR = Results(
    costs=[
        cost("send", "direct", 150, "0.000120"),
        cost("receive", "direct", 250, "0.000200"),
        cost("complete", "direct", 250, "0"),
        cost("ping", "direct", 1, "0.0000008"),
        cost("send", "backlog", 100, "0.000080", f"{BACKLOG}/0"),
        cost("send", "backlog", 7, "0", f"{BACKLOG}/0", outcome="timeout"),
        cost("receive", "syphon", 100, "0.000080", f"{BACKLOG}/0"),
        cost("send", "syphon", 100, "0.000080"),
        *(cost("empty-receive", "syphon", 4, "0.0000032", f"{BACKLOG}/{number}") for number in range(10)),
    ],
    outages=[outage(diverted=100, syphoned=100, pings=60)],
    latencies=[
        {"from": after(at), "entity": "orders", "operation": "send", "count": 9, "p50_ms": 1, "p95_ms": 5, "p99_ms": 20}
        for at in (0, 3_600)
    ],
)


def words(html: str) -> str:
    """The text of a page, as it is read."""
    text = re.sub(r"<[^>]+>", " ", html.partition("<body>")[2])
    return " ".join(unescape(text).split())


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


def check(page: str) -> None:
    checked = Checked()
    checked.feed(page)
    assert checked.open == []
    assert "script" not in checked.tags
    assert not re.search(r"https?://|url\(|@import", page)


@pytest.mark.parametrize("results", [RESULTS, PAIR, Results()], ids=["troubled", "pair", "nothing"])
def test_the_page_is_whole_and_fetches_nothing(results: Results) -> None:
    check(render(results, title="What <it> did", origin=ORIGIN))
    assert "What &lt;it&gt; did" in render(results, title="What <it> did", origin=ORIGIN)


def test_no_shape_is_drawn_outside_of_its_picture() -> None:
    pictures = re.findall(r'<svg[^>]*viewBox="0 0 1000 100".*?</svg>', render(RESULTS, origin=ORIGIN))
    assert pictures
    for picture in pictures:
        points = [pair.split(",") for line in re.findall(r'points="([^"]*)"', picture) for pair in line.split()]
        dots = re.findall(r'd="M([\d.]+) ([\d.]+)h0"', picture)
        assert points or dots
        assert all(0 <= float(x) <= 1_000 and 0 <= float(y) <= 100 for x, y in [*points, *dots])
    shares = [
        float(share) for share in re.findall(r"(?:left|width|bottom):(-?[\d.]+)%", render(RESULTS, origin=ORIGIN))
    ]
    assert all(0 <= share <= 100 for share in shares)


def test_the_page_says_when_where_and_by_which_version_it_was_made() -> None:
    text = words(render(PAIR, origin=ORIGIN))
    assert text.endswith("Made 2026-11-16 07:00:00 UTC by Tandem 1.2.3 on a machine with 2 cores. All times are UTC.")


def test_the_headline_figures_come_first() -> None:
    text = words(render(PAIR, origin=ORIGIN))
    assert text.index("Primary available") < text.index("When entities were unavailable")
    # 70 seconds of an hour.
    assert "Primary available 98.1 % 1 outage of 1 min 10 s in 1 h 0 min" in text
    assert "Time to detect 10.0 s drained 5.0 s after the return" in text
    assert "Diverted messages 100 all moved back to the primary" in text
    assert "Send latency, p99 ≤ 20 ms worst window, orders" in text
    # 741 priced units for 0.0005928: of 0.80 for a million. What completes or fails is free.
    assert "Cost 0.0005928 EUR 741 units at 0.80 per million" in text


@mission("M29")
def test_the_arithmetic_of_the_documents_stands_beside_what_was_metered() -> None:
    text = words(render(PAIR, origin=ORIGIN))
    for row in (
        "Send to the backlog 1 × 100 diverted 100 100 0.80 0.00008",
        "Receive from the backlog 1 × 100 diverted 100 100 0.80 0.00008",
        "Send to the primary 1 × 100 syphoned 100 100 0.80 0.00008",
        "Receive from the primary 1 × 100 syphoned, of 250 in all 100 100 0.80 0.00008",
        "The detour 4 charges × 100 messages 400 400 0.80 0.00032",
        "Pings 60 sent, 1 per interval, entity and client 60 1 0.80 0.0000008",
        "Empty long polls 10 queues × 4 an hour × 1 h = 40 40 40 0.80 0.000032",
        # The three figures of the documents.
        "an hour 40 0.000032 a day 960 0.000768 30 days 28,800 0.02",
    ):
        assert row in text, row


def test_a_namespace_without_a_pair_has_costs_and_no_arithmetic_of_one() -> None:
    text = words(render(Results(costs=[cost("send", "direct", 1_000_000, "0.80")]), origin=ORIGIN))
    assert "direct applications and the primary 1,000,000 0.80 0.80" in text
    assert "the documents" not in text
    assert "No outage" in text


def test_an_entity_is_unavailable_and_not_out_of_order() -> None:
    page = render(RESULTS, origin=ORIGIN)
    assert "When entities were unavailable" in page
    assert "out of order" not in page
    assert (
        'class="failed-over" style="left:14.29%;width:85.71%" title="orders: unavailable for 1\xa0min\xa00\xa0s"'
        in page
    )


def test_an_entity_without_an_outage_has_a_lane_beside_those_that_had_one() -> None:
    results = dataclasses.replace(PAIR, costs=[*PAIR.costs, cost("send", "direct", 1, "0.1", "news")])
    assert "news no outage" in words(render(results, origin=ORIGIN))


@pytest.mark.parametrize(
    "results, status, sentence",
    [
        (PAIR, "Every outage is over, the backlog is empty", None),
        (
            Results(outages=[outage(restored_at=None, drained_at=None, syphoned=0)], backlog=RESULTS.backlog),
            "An entity is unavailable",
            "Unavailable orders has been unavailable for 30.0 s, since 2026-11-16 07:00:00",
        ),
        (RESULTS, "Messages wait in the backlog", "Backlog 1,234 messages of orders wait in the backlog"),
        (
            Results(
                arrivals=[
                    {"entity": "a", "sent": 9, "received": 8, "lost": 2, "duplicates": 1, "out_of_order": 0, "late": 0}
                    | {"longest_s": 3.0}
                ]
            ),
            "Messages were lost",
            "Lost a lost 2 of 9 messages",
        ),
    ],
    ids=["well", "unavailable", "backlog", "lost"],
)
def test_what_needs_attention_comes_before_everything_else(results: Results, status: str, sentence: str | None) -> None:
    text = words(render(results, origin=ORIGIN))
    assert text.startswith(f"Tandem What the bus did {status}")
    assert (sentence is None) == ("Needs attention" not in text)
    assert sentence is None or sentence in text


def test_backlog_queues_have_short_names() -> None:
    names = [f"{BACKLOG}/10", f"{BACKLOG}/2", "orders"]
    assert short_names(names) == {names[0]: "backlog 10", names[1]: "backlog 2", "orders": "orders"}
    assert short_names([*names, "other/x-servicebus-transfer/2"])["other/x-servicebus-transfer/2"] == "other backlog 2"
    page = render(RESULTS, origin=ORIGIN)
    assert "backlog 3 20 at most, 20 now" in words(page)
    assert "x-servicebus-transfer" not in page


def test_a_live_page_loads_itself_again() -> None:
    live = render(Results(), origin=ORIGIN, refresh_s=5)
    assert '<meta http-equiv="refresh" content="5">' in live
    assert "live, every 5 s" in words(live)
    assert "waiting for records" in words(live)
    assert "refresh" not in render(Results(), origin=ORIGIN)


def test_a_month_of_minutes_makes_a_small_page() -> None:
    row = {"entity": "orders", "operation": "send", "count": 1, "p50_ms": 1, "p95_ms": 1}
    minutes = [{**row, "from": after(60 * minute), "p99_ms": minute % 7} for minute in range(43_200)]
    assert len(render(Results(latencies=minutes), origin=ORIGIN)) < 60_000


def test_tables_have_sums_and_prices_and_say_what_is_not_known() -> None:
    tables = {table.title: table for table in report_tables(RESULTS)}
    # 0.500001 for 13 units.
    direct = ("13", "13", "38,461.62", "0.50")
    assert tables["Cost by stage"].headings == ("stage", "operations", "charged", "per million", "EUR")
    assert tables["Cost by stage"].rows == [("direct", *direct), ("total", *direct)]
    assert tables["Outages, in seconds"].rows == [("orders", "11-16 07:00:00", "10.0", "60.0", "–", "1", "1,234", "0")]
    latency = tables["Latency in the worst window"].rows
    assert latency == [("orders", "send", "9", "1", "5", "> 600,000"), ("orders", "peek", "1", "2", "2", "2")]
    assert "How messages arrived" not in tables


def test_a_folder_without_results_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="tandem pipeline metering"):
        read_results(tmp_path)


def test_a_long_table_is_shortened_to_its_first_rows_and_its_sum() -> None:
    rows = [(str(number),) for number in range(5)]
    assert ReportTable("", ("",), rows).shortened(3) == (rows[:3], 2)
    assert ReportTable("", ("",), rows, has_total=True).shortened(3) == ([*rows[:3], rows[4]], 1)
    assert ReportTable("", ("",), rows, has_total=True).shortened(4) == (rows, 0)
    newest = ReportTable("", ("",), rows, has_total=True, shares=[0.1, 0.2, 0.3, 0.4]).newest_first()
    assert newest.rows == [rows[3], rows[2], rows[1], rows[0], rows[4]]
    assert newest.shares == [0.4, 0.3, 0.2, 0.1]
