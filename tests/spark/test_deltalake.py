"""Delta tables of anybody, read by Spark without a jar."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

TABLE = pa.table(
    {
        "day": [date(2026, 11, 16), date(2026, 11, 17)],
        "city": ["Köln am Rhein", None],
        "amount": pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(10, 2)),
        "at": pa.array([datetime(2026, 11, 16, 7, tzinfo=UTC)] * 2, pa.timestamp("us", tz="UTC")),
        "tags": pa.array([["a", "b"], []], pa.list_(pa.string())),
    }
)


def test_a_table_is_read_with_its_partitions_and_the_columns_that_came_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path)
    write_deltalake(path, TABLE, partition_by=["day", "city"])
    more = TABLE.slice(0, 1).append_column("note", pa.array(["late"]))
    write_deltalake(path, more, mode="append", schema_mode="merge")
    rows = spark.read.format("deltalake").load(path).orderBy("day", "note").collect()
    assert [(row.day, row.city, row.amount, row.tags, row.note) for row in rows] == [
        (date(2026, 11, 16), "Köln am Rhein", Decimal("1.50"), ["a", "b"], None),
        (date(2026, 11, 16), "Köln am Rhein", Decimal("1.50"), ["a", "b"], "late"),
        (date(2026, 11, 17), None, Decimal("2.25"), [], None),
    ]
    first = spark.read.format("deltalake").option("versionAsOf", 0).load(path)
    assert first.count() == 2
    assert "note" not in first.columns
    # Removed files do not count, compacted ones do.
    DeltaTable(path).optimize.compact()
    DeltaTable(path).delete("city IS NULL")
    assert spark.read.format("deltalake").load(path).count() == 2


def test_a_folder_without_a_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="there is no Delta table in"):
        spark.read.format("deltalake").load(str(tmp_path)).count()
