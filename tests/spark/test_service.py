"""`tandem pipeline run`: results that follow the bus, through failures and restarts, each record counted once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.client.sync import BrokeredMessage, MessagingFactory
from tandem.errors import ConfigurationError
from tandem.lake.place import Place
from tandem.lake.sum_table import SumTable
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
def test_results_and_captures_follow_the_bus_and_are_shown_live(
    spark: SparkSession, bus: Broker, tmp_path: Path
) -> None:
    bus.create_hub("telemetry", partition_count=2)
    capture = '[[capture]]\nhub = "telemetry"\nformat = "delta"'
    with running(spark, configured(tmp_path, bus, tables=capture)) as service:
        send(bus, 3)
        fill(bus, "telemetry", range(10))
        place = Place.parse(service.out / "capture" / "primary" / "telemetry")
        wait_until(lambda: metered(service.results(), "orders").get("send") == 3, "the sends are metered")
        wait_until(lambda: numbers_of(captured_bodies(place)).total() == 10, "the hub is captured")
        send(bus, 2)
        start = tell_outage(bus, "orders")
        wait_until(lambda: metered(service.results(), "orders").get("send") == 5, "later sends are added")
        wait_until(lambda: service.results().outages, "the outage is found")
        wait_until(lambda: service.results().latencies, "latencies are found")
        [outage] = service.results().outages
        assert (outage["failing_at"], outage["diverted"], outage["syphoned"]) == (start, 100, 100)
        assert [row["depth"] for row in service.results().backlog] == [100, 0]
        status, health = service.get("/health")
        assert (status, json.loads(health)["status"]) == (200, "ok")
        assert 'tandem_spark_query_running{query="metering primary"} 1' in service.get("/metrics")[1]
        wait_until(lambda: "tandem_spark_lag_events" in service.get("/metrics")[1], "the lag is a metric")
        wait_until(lambda: "When entities were unavailable" in service.get("/")[1], "the report is live")
        assert '<meta http-equiv="refresh"' in service.get("/")[1]
        assert service.get("/nothing")[0] == 404
    assert not spark.streams.active


@mission("M31")
def test_a_batch_whose_driver_dies_after_its_commit_counts_once(
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
    file = configured(tmp_path, bus, jobs=["metering"])
    send(bus, 4)
    with running(spark, file) as service:
        wait_until(lambda: failed, "the first commit is interrupted")
        # The same batch comes again, with all its records.
        wait_until(lambda: any("the driver died" in line for line in service.said), "the service says why")
        send(bus, 1)
        wait_until(lambda: metered(service.results(), "orders").get("send") == 5, "each send counts once")
    # Another run goes on from the checkpoint.
    send(bus, 2)
    with running(spark, file) as service:
        wait_until(lambda: metered(service.results(), "orders").get("send") == 7, "and so do those in between")


def test_results_without_their_checkpoint_are_refused(spark: SparkSession, bus: Broker, tmp_path: Path) -> None:
    with running(spark, configured(tmp_path, bus, jobs=["metering"])) as service:
        wait_until(lambda: service.results().costs, "something is metered")
    moved = configured(tmp_path, bus, jobs=["metering"], checkpoints="elsewhere")
    with pytest.raises(ConfigurationError, match="Use that checkpoint, or another place"), running(spark, moved):
        pass
