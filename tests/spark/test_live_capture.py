"""The program that captures a hub while its broker is killed, which runs beside the drill of the demonstration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.example_programs import load_example
from tests.markers import mission

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(600)
@mission("M30", "M31")
def test_every_acknowledged_event_is_in_the_table_although_the_broker_was_killed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load_example("live_capture")
    figures = example.run(lambda: spark, tmp_path, 300)
    assert figures["readings"] == figures["sent"] >= 300
    assert figures["rows"] >= figures["sent"]
    assert figures["spark"] == spark.version
    printed = capsys.readouterr().out
    assert "the broker was killed (SIGKILL) and serves again" in printed
    assert f"{figures['sent']:,} readings sent, {figures['rows']:,} rows in the table" in printed
    rows = spark.read.parquet(str(tmp_path / "table")).select("number", "sensor", "celsius").collect()
    assert {json.dumps(row.asDict()) for row in rows} == {
        json.dumps(example.reading(number)) for number in range(figures["sent"])
    }
