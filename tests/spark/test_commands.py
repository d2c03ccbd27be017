"""`tandem pipeline` and `tandem cost report`. The program that users run is in `test_outage_report.py`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.cli import pipeline
from tandem.client.sync import BrokeredMessage, MessagingFactory
from tandem.testing import Broker
from tests.cli.program import one_line, tandem_here
from tests.markers import mission
from tests.spark.captured import delta_bodies
from tests.spark.filling import fill


@pytest.mark.parametrize("command", ["cost", "pipeline"])
def test_a_report_of_nothing_says_what_to_run(tmp_path: Path, command: str) -> None:
    assert "run `tandem pipeline metering`" in one_line(tandem_here(command, "report", folder=tmp_path))


@pytest.mark.timeout(900)
@mission("M29", "M31")
def test_operations_are_metered_and_reported_and_a_hub_is_captured(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def session_of_the_tests(*_: object) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(pipeline, "open_spark", session_of_the_tests)
    with Broker(tmp_path / "data") as broker:
        broker.create_queue("orders")
        broker.create_hub("telemetry", partition_count=1)
        fill(broker, "telemetry", range(5), partition_count=1)
        with MessagingFactory.from_connection_string(broker.connection_string) as factory:
            factory.create_message_sender("orders").send(BrokeredMessage("a table"))
        # What was counted last is written when the broker stops.
        broker.restart()
        bus = ("--connection-string", broker.connection_string)
        # Not below the current folder: Spark was started in another one.
        out = ("--out", str(tmp_path))
        metered = tandem_here("pipeline", "metering", *bus, *out, "--json")
        captured = tandem_here("pipeline", "capture", "telemetry", *bus, *out, "--format", "delta")
    assert metered.returncode == 0, metered.stderr
    rows = json.loads(metered.stdout)["Cost by entity and operation"]
    assert {"entity": "orders", "operation": "send", "stage": "direct", "operations": "1", "units": "1"} in [
        {name: row[name] for name in ("entity", "operation", "stage", "operations", "units")} for row in rows
    ]
    assert captured.stdout.startswith("captured 5 events of telemetry to ")
    assert sorted(delta_bodies(tmp_path / "telemetry")) == [b"0", b"1", b"2", b"3", b"4"]
    reported = tandem_here("pipeline", "report", *out, "--html", str(tmp_path / "report.html"))
    assert "Cost by stage" in reported.stdout
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert "orders" in tandem_here("cost", "report", *out).stdout
