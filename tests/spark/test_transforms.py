"""From records to tables: cost, latency, outages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from tandem.cost.tariff import Rate, Tariff
from tandem.spark.schemas import EVENTS, MESSAGE_LOG, OPERATIONS, PAIRING_EVENTS
from tandem.spark.transforms.availability import arrivals, backlog_depth, backlog_queues, outages, pings
from tandem.spark.transforms.latency import latencies
from tandem.spark.transforms.metering import costs, totals
from tandem.spark.transforms.operations import operations, pairing_events
from tests.markers import mission

pytestmark = pytest.mark.timeout(900)

START = datetime(2026, 11, 16, 7, 0, tzinfo=UTC)
MILLION = Decimal(1_000_000)
TARIFF = Tariff("EUR", Decimal("0.80") / MILLION, rates=(Rate(Decimal("0.10") / MILLION, operation="ping"),))


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def record(seconds: float, operation: str, count: int = 1, **more: Any) -> dict[str, Any]:
    usual = {
        "time": at(seconds),
        "namespace": "shop",
        "entity": "orders",
        "entity_kind": "queue",
        "operation": operation,
        "stage": "direct",
        "outcome": "ok",
        "client": "c",
        "count": count,
        "bytes": count * 100,
        "billable_units": count,
        "latency_ms_buckets": {},
    }
    return {**usual, **more}


def records(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(list(rows), OPERATIONS)


def told(spark: SparkSession, *rows: tuple[float, str, dict[str, Any]]) -> DataFrame:
    usual = {"entity": "orders", "client": "a", "primary": "shop", "secondary": "spare"}
    events = [
        {**usual, "time": at(seconds), "event": event, "partition": "1", "sequenceNumber": number, **more}
        for number, (seconds, event, more) in enumerate(rows)
    ]
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in PAIRING_EVENTS)
    return spark.createDataFrame(events, f"{columns}, partition string, sequenceNumber long")


# --- reading records ------------------------------------------------------------------------------------------------


@mission("M30")
def test_records_are_read_from_the_partition_that_nobody_can_forge(spark: SparkSession) -> None:
    broker = {"time": "2026-11-16T07:00:00Z", "entity": "orders", "operation": "send", "count": 3}
    broker["latency_ms_buckets"] = {"1": 2, "inf": 1}
    client = {"kind": "pairing", "time": "2026-11-16T07:00:00.250Z", "event": "diverted", "count": 5, "queue": 3}
    bodies = [("0", broker), ("1", broker), ("1", client), ("0", "junk"), ("1", [])]
    events = spark.createDataFrame(
        [
            {"partition": partition, "sequenceNumber": number, "body": bytearray(json.dumps(body).encode())}
            for number, (partition, body) in enumerate(bodies)
        ],
        EVENTS,
    )
    [counted] = events.transform(operations).collect()
    assert (counted.time, counted.operation, counted["count"]) == (datetime(2026, 11, 16, 7), "send", 3)  # noqa: DTZ001 - Spark's
    assert (counted.latency_ms_buckets, counted.sequenceNumber) == ({"1": 2, "inf": 1}, 0)
    [event] = events.transform(pairing_events).collect()
    assert (event.event, event["count"], event.queue, event.time.microsecond) == ("diverted", 5, "3", 250_000)


# --- cost -----------------------------------------------------------------------------------------------------------


@mission("M29", "M31")
def test_units_are_priced_by_the_tariff_to_the_last_digit(spark: SparkSession) -> None:
    rows = [
        record(0, "send", 3, billable_units=5),
        record(3_600, "send", 4),
        record(1, "ping", 7),
        record(2, "complete", 9),
        record(3, "send", 2, outcome="amqp:not-found"),
        record(86_400, "send", 1),
    ]
    priced = records(spark, rows).transform(costs(TARIFF))
    found = {(row["from"].day, row.operation, row.outcome): (row.units, row.cost) for row in priced.collect()}
    assert found == {
        (16, "send", "ok"): (9, Decimal("0.00000720")),
        (16, "ping", "ok"): (7, Decimal("0.00000070")),
        (16, "complete", "ok"): (9, Decimal(0)),
        (16, "send", "amqp:not-found"): (2, Decimal(0)),
        (17, "send", "ok"): (1, Decimal("0.00000080")),
    }
    by_stage = priced.transform(totals("stage"))
    expected = [("direct", "EUR", 26, 28, Decimal("0.00000870"))]
    assertDataFrameEqual(
        by_stage,
        spark.createDataFrame(expected, by_stage.schema),
    )


@mission("M29", "M31")
def test_the_cost_includes_bandwidth_by_direction_to_the_last_digit(spark: SparkSession) -> None:
    gigabyte = Decimal(1_000_000_000)
    tariff = Tariff(
        "EUR",
        Decimal(0),
        rates=(Rate(stage="syphon", price_per_byte_out=Decimal("0.000001") / gigabyte),),
        price_per_byte_in=Decimal("0.02") / gigabyte,
        price_per_byte_out=Decimal("0.123456") / gigabyte,
    )
    rows = [
        record(0, "send", bytes=1_000_000),
        record(0, "receive", bytes=3_000_000_001),
        record(0, "receive", bytes=5 * 10**12, stage="syphon"),
        record(0, "complete", bytes=10**9),
        record(0, "send", bytes=10**9, outcome="server-busy"),
    ]
    priced = records(spark, rows).transform(costs(tariff)).collect()
    assert {(row.operation, row.stage, row.outcome): row.cost for row in priced} == {
        ("send", "direct", "ok"): Decimal("0.00002"),
        # 3.000000001 GB at 0.123456 are 0.370368000123456.
        ("receive", "direct", "ok"): Decimal("0.37036800"),
        ("receive", "syphon", "ok"): Decimal("0.005"),
        ("complete", "direct", "ok"): Decimal(0),
        ("send", "direct", "server-busy"): Decimal(0),
    }


@mission("M26", "M29")
@pytest.mark.parametrize("hours, polls", [(1, 40), (24, 960), (720, 28_800)])
def test_long_polls_add_up_as_the_mission_says(spark: SparkSession, hours: int, polls: int) -> None:
    # Ten backlog queues, each of them asked again whenever fifteen minutes are over.
    base = "timestamp'2026-11-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 15 * id)"
    table = spark.range(hours * 4).selectExpr(
        "explode(sequence(0, 9)) as queue", f"{base} as time", "1L as count", "0L as bytes", "1L as billable_units"
    )
    table = table.selectExpr(
        "time",
        "'spare' as namespace",
        "concat('shop/x-servicebus-transfer/', queue) as entity",
        "'queue' as entity_kind",
        "'empty-receive' as operation",
        "'syphon' as stage",
        "'ok' as outcome",
        "count",
        "bytes",
        "billable_units",
    )
    [total] = table.transform(costs(TARIFF)).transform(totals("stage")).collect()
    assert (total.operations, total.units) == (polls, polls)
    assert total.cost == polls * Decimal("0.00000080")


@mission("M31")
def test_a_late_record_still_counts_and_one_that_is_too_late_does_not(spark: SparkSession, tmp_path: Path) -> None:
    """Of a stream, whose windows are told once."""
    arriving = tmp_path / "in"
    arriving.mkdir()

    def arrive(name: str, *rows: dict[str, Any]) -> None:
        lines = [json.dumps({**row, "time": row["time"].strftime("%Y-%m-%dT%H:%M:%SZ")}) for row in rows]
        (tmp_path / name).write_text("\n".join(lines))
        (tmp_path / name).rename(arriving / name)

    counted = spark.readStream.schema(OPERATIONS).option("maxFilesPerTrigger", 1).json(str(arriving))
    table = counted.transform(costs(TARIFF, window="1 minute", lateness="2 minutes"))
    writer = table.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writer.option("checkpointLocation", str(tmp_path / "c")).outputMode("append").start()
    try:
        arrive("1.json", record(0, "send", 1), record(100, "send", 10))
        query.processAllAvailable()
        # A minute late, and out of order.
        arrive("2.json", record(30, "send", 2), record(250, "send", 20))
        query.processAllAvailable()
        # The watermark is at 130 s: the first minute is told.
        arrive("3.json", record(40, "send", 4), record(1_000, "send", 40))
        query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    found = {row["from"].minute: row.operations for row in rows}
    assert found == {0: 3, 1: 10, 4: 20}


# --- latency --------------------------------------------------------------------------------------------------------


def test_percentiles_are_bounds_of_the_buckets_of_all_records_together(spark: SparkSession) -> None:
    rows = [
        record(0, "send", 90, latency_ms_buckets={"1": 60, "5": 30}),
        record(10, "send", 10, latency_ms_buckets={"5": 5, "100": 4, "inf": 1}),
        record(70, "send", 1, latency_ms_buckets={"20": 1}),
        record(70, "manage", 1),
    ]
    found = records(spark, rows).transform(latencies()).orderBy("from").collect()
    assert [(row["from"].minute, row.operation, row["count"]) for row in found] == [(0, "send", 100), (1, "send", 1)]
    assert [(row.p50_ms, row.p95_ms, row.p99_ms, row.max_ms) for row in found] == [(1, 5, 100, None), (20, 20, 20, 20)]


# --- outages --------------------------------------------------------------------------------------------------------


@mission("M31")
def test_an_outage_is_told_to_the_millisecond(spark: SparkSession) -> None:
    events = told(
        spark,
        (0.0, "failing", {}),
        (10.5, "failed-over", {}),
        (12.0, "diverted", {"count": 30, "queue": "3"}),
        (70.5, "ping", {"outcome": "failed"}),
        (72.0, "diverted", {"count": 12, "queue": "3"}),
        (130.5, "ping", {"outcome": "ok"}),
        (130.6, "restored", {}),
        (131.0, "syphoned", {"count": 40, "queue": "3"}),
        (134.6, "syphoned", {"count": 2, "queue": "3"}),
        (9_000.0, "failing", {}),
        (9_010.0, "failed-over", {}),
    )
    first, second = events.transform(outages).collect()
    assert (first.outage, first.clients, first.pings, first.diverted, first.syphoned) == (1, 1, 2, 42, 42)
    assert (first.seconds_to_detect, first.seconds_to_restore, first.seconds_to_drain) == (10.5, 120.1, 4.0)
    assert (second.outage, second.seconds_to_detect, second.restored_at, second.drained_at) == (2, 10.0, None, None)
    assert [row.outcome for row in events.transform(pings).collect()] == ["failed", "ok"]
    depths = [(row.time.second + 60 * row.time.minute, row.depth) for row in events.transform(backlog_depth).collect()]
    assert depths == [(12, 30), (72, 42), (131, 2), (134, 0)]


@mission("M31")
def test_failovers_of_several_clients_are_one_outage_of_their_entity(spark: SparkSession) -> None:
    events = told(
        spark,
        (0, "failing", {"client": "a"}),
        (5, "failing", {"client": "b"}),
        (10, "failed-over", {"client": "a"}),
        (15, "failed-over", {"client": "b"}),
        (60, "restored", {"client": "a"}),
        (65, "restored", {"client": "b"}),
        # Another entity is another story; so is a failover without warning, later.
        (20, "failed-over", {"entity": "invoices"}),
        (300, "failed-over", {"client": "b"}),
        (310, "restored", {"client": "b"}),
    )
    found = [
        (row.entity, row.clients, row.seconds_to_detect, row.seconds_to_restore)
        for row in events.transform(outages).orderBy("failing_at").collect()
    ]
    assert found == [("orders", 2, 10.0, 55.0), ("invoices", 1, 0.0, None), ("orders", 1, 0.0, 10.0)]


def test_backlog_queues_are_counted_by_what_the_broker_saw(spark: SparkSession) -> None:
    queue = {"entity": "shop/x-servicebus-transfer/3", "namespace": "spare"}
    rows = [
        record(0, "send", 5, stage="backlog", **queue),
        record(1, "send", 9, stage="backlog", outcome="com.microsoft:timeout", **queue),
        record(2, "receive", 5, stage="syphon", **queue),
        record(3, "complete", 4, stage="syphon", **queue),
        record(4, "send", 7),
    ]
    assert [row.depth for row in records(spark, rows).transform(backlog_queues).collect()] == [5, 1]


@mission("M31")
def test_messages_that_were_lost_doubled_late_or_out_of_order_are_counted(spark: SparkSession) -> None:
    sent = [("orders", f"m{number}", number, at(number)) for number in range(6)]
    received = [
        ("orders", "m0", 0, at(1)),
        ("orders", "m2", 2, at(3)),
        ("orders", "m1", 1, at(4)),
        ("orders", "m2", 2, at(5)),
        ("orders", "m3", 3, at(90)),
        ("orders", "m5", 5, at(91)),
    ]
    tables = [spark.createDataFrame(rows, MESSAGE_LOG) for rows in (sent, received)]
    [row] = arrivals(*tables).collect()
    assert row.asDict() == {
        "entity": "orders",
        "sent": 6,
        "received": 6,
        "lost": 1,
        "duplicates": 1,
        "out_of_order": 1,
        "late": 2,
        "longest_s": 87.0,
    }
