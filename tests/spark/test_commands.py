"""`tandem pipeline` and `tandem cost report`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tandem.client.sync import BrokeredMessage, MessagingFactory
from tandem.lake.place import Place
from tandem.testing import Broker
from tests.cli.program import one_line, tandem_here
from tests.markers import mission
from tests.spark.captured import captured_bodies
from tests.spark.conftest import MakeUri
from tests.spark.deaths import PROGRAM_LIMIT_S
from tests.spark.filling import fill
from tests.spark.small_spark import run_program


@pytest.mark.parametrize("command", ["cost", "pipeline"])
def test_a_report_of_nothing_says_what_to_run(tmp_path: Path, command: str) -> None:
    assert "run `tandem pipeline metering`" in one_line(tandem_here(command, "report", folder=tmp_path))


@pytest.mark.timeout(900)
@mission("M29", "M31")
@pytest.mark.usefixtures("commands_share")
def test_operations_are_metered_and_reported_and_a_hub_is_captured(tmp_path: Path, make_uri: MakeUri) -> None:
    with Broker(tmp_path / "data") as broker:
        broker.create_queue("orders")
        broker.create_hub("telemetry", partition_count=1)
        fill(broker, "telemetry", range(5), partition_count=1)
        with MessagingFactory.from_connection_string(broker.connection_string) as factory:
            factory.create_message_sender("orders").send(BrokeredMessage("a table"))
        # What was counted last is written when the broker stops.
        broker.restart()
        bus = ("--connection-string", broker.connection_string)
        out = ("--out", make_uri(tmp_path))
        metered = tandem_here("pipeline", "metering", *bus, *out, "--json")
        # As a program that users run, with a Spark of its own.
        captured = run_program(
            "tandem",
            "pipeline",
            "capture",
            "telemetry",
            *bus,
            "--out",
            tmp_path,
            "--format",
            "delta",
            timeout_s=PROGRAM_LIMIT_S,
        )
    assert metered.returncode == 0, metered.stderr
    rows = json.loads(metered.stdout)["Cost by entity and operation"]
    assert {"entity": "orders", "operation": "send", "stage": "direct", "operations": "1", "charged": "1"} in [
        {name: row[name] for name in ("entity", "operation", "stage", "operations", "charged")} for row in rows
    ]
    assert captured.stdout.startswith("captured 5 events of telemetry to "), captured.stderr
    assert "capture: Spark on Java" in captured.stderr
    assert "SharedAccessKey" not in captured.stdout + captured.stderr
    assert sorted(captured_bodies(Place.parse(tmp_path / "telemetry"))) == [b"0", b"1", b"2", b"3", b"4"]
    reported = tandem_here("pipeline", "report", *out, "--html", (tmp_path / "report.html").as_uri())
    assert "Cost by stage" in reported.stdout
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert "orders" in tandem_here("cost", "report", *out).stdout
