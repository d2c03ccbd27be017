"""`tandem pipeline run`: results that follow the bus, through failures and restarts, each record counted once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.client.sync import BrokeredMessage, MessagingFactory
from tandem.errors import ConfigurationError
from tandem.lake.place import Place
from tandem.lake.sum_table import SumTable
from tandem.spark import checkpoints
from tandem.spark.report.page import render
from tandem.spark.report.results import read_results
from tandem.spark.service.configuration import read_service_settings
from tandem.spark.service.run import run_once
from tandem.testing import Broker
from tests.markers import mission
from tests.patience import wait_until
from tests.spark.captured import captured_bodies, numbers_of
from tests.spark.filling import fill
from tests.spark.scripted import tell_outage
from tests.spark.serving import configured, metered, running

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Broker]:
    """One for each test: its records are counted."""
    with Broker(tmp_path / "data") as broker:
        broker.create_queue("orders")
        yield broker


def send(bus: Broker, count: int) -> None:
    with MessagingFactory.from_connection_string(bus.connection_string) as factory:
        sender = factory.create_message_sender("orders")
        for _ in range(count):
            sender.send(BrokeredMessage("a table"))


@mission("M29", "M31")
def test_results_and_captures_follow_the_bus(spark: SparkSession, bus: Broker, tmp_path: Path) -> None:
    bus.create_hub("telemetry", partition_count=2)
    capture = '[[capture]]\nhub = "telemetry"\nformat = "delta"'
    settings = read_service_settings(configured(tmp_path, bus, tables=capture))
    out = settings.out.local_path
    fill(bus, "telemetry", range(10))
    send(bus, 3)
    start = tell_outage(bus, "orders")
    # What was counted last is written when the broker stops.
    bus.restart()
    records = run_once(spark, settings)
    assert [count for name, count in records.items() if "telemetry" in name] == [10]
    assert metered(read_results(out), "orders")["send"] == 3
    place = Place.parse(out / "capture" / "primary" / "telemetry")
    assert numbers_of(captured_bodies(place)) == Counter(range(10))
    send(bus, 2)
    bus.restart()
    run_once(spark, settings)
    results = read_results(out)
    assert metered(results, "orders")["send"] == 5
    [outage] = results.outages
    assert (outage["failing_at"], outage["diverted"], outage["syphoned"]) == (start, 100, 100)
    assert [row["depth"] for row in results.backlog] == [100, 0]
    assert [row["outcome"] for row in results.pings] == ["ok"]
    assert (
        sum(row["count"] for row in results.latencies if (row["entity"], row["operation"]) == ("orders", "send")) == 5
    )
    assert "When entities were unavailable" in render(results, refresh_s=5)


@mission("M31")
def test_a_batch_that_fails_after_its_commit_counts_once_and_the_service_goes_on(
    spark: SparkSession, bus: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, failed = SumTable.add, list[int]()

    def add_and_fail(table: SumTable, rows: Any, query: str, batch: int) -> bool:
        done = add(table, rows, query, batch)
        if rows.num_rows and not failed:
            failed.append(batch)
            raise OSError("the driver died")
        return done

    monkeypatch.setattr(SumTable, "add", add_and_fail)
    send(bus, 4)
    with running(spark, configured(tmp_path, bus, jobs=["metering"])) as service:
        # The same batch comes again, with all its records.
        wait_until(lambda: any("the driver died" in line for line in service.said), "the service says why")
        send(bus, 1)
        wait_until(lambda: metered(service.results(), "orders").get("send") == 5, "each send counts once")
        status, health = service.get("/health")
        assert (status, json.loads(health)["status"], json.loads(health)["queries"][0]["restarts"]) == (200, "ok", 1)
        shown = service.get("/metrics")[1]
        assert 'tandem_spark_query_running{query="metering primary"} 1' in shown
        assert 'tandem_spark_query_restarts_total{query="metering primary"} 1' in shown
        wait_until(lambda: "Cost by stage" in service.get("/")[1], "the report is live")
        assert '<meta http-equiv="refresh"' in service.get("/")[1]
        assert service.get("/nothing")[0] == 404
    assert not spark.streams.active


def test_results_without_their_checkpoint_are_refused(spark: SparkSession, bus: Broker, tmp_path: Path) -> None:
    out = Place.parse(tmp_path / "out")
    checkpoints.claim(out, "metering primary", "another query", Place.parse(tmp_path / "elsewhere"))
    with (
        pytest.raises(ConfigurationError, match="Use that checkpoint, or another place"),
        running(spark, configured(tmp_path, bus, jobs=["metering"])),
    ):
        pass
