"""Sums by window, to which batches are added once, in whatever portions and however late records come."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tandem.lake.place import Place
from tandem.lake.sum_table import SumTable
from tests.lake.s3_server import MakeBucket
from tests.markers import mission

START = datetime(2026, 11, 16, 22, 30, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("from", pa.timestamp("us", "UTC")),
        ("entity", pa.string()),
        ("units", pa.int64()),
        ("cost", pa.decimal128(38, 15)),
    ]
)
PRICE = Decimal("0.000000800000001")


def table_in(place: Place) -> SumTable:
    return SumTable(place, SCHEMA, "from", ("units", "cost"), "hour")


def rows(counts: Iterable[tuple[int, str | None, int]]) -> Any:
    """Units by minute and entity."""
    made = [
        {"from": START + timedelta(minutes=minute), "entity": entity, "units": units, "cost": units * PRICE}
        for minute, entity, units in counts
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def units(table: SumTable) -> dict[tuple[int, str | None], int]:
    found = table.rows()
    assert found is not None
    for row in found.to_pylist():
        assert row["cost"] == row["units"] * PRICE
    keys = [(round((row["from"] - START).total_seconds() / 60), row["entity"]) for row in found.to_pylist()]
    assert len(keys) == len(set(keys)), "a window is there twice"
    return dict(zip(keys, found.column("units").to_pylist(), strict=True))


@mission("M31")
@pytest.mark.parametrize("store", ["disk", "s3"])
def test_batches_add_up_and_one_that_comes_again_counts_once(
    store: str, tmp_path: Path, make_bucket: MakeBucket
) -> None:
    table = table_in(Place.parse(tmp_path) if store == "disk" else make_bucket())
    assert table.rows() is None
    assert table.add(rows([(0, "a", 1), (0, None, 2), (40, "a", 3)]), "q", 0)
    assert table.add(rows([(0, "a", 10), (1, "a", 20)]), "q", 1)
    assert not table.add(rows([(0, "a", 10), (1, "a", 20)]), "q", 1)
    # After a restart it is known as well.
    again = table_in(table.place)
    assert not again.add(rows([(0, "a", 10)]), "q", 1)
    # The batches of another query are not those of this one.
    assert again.add(rows([(0, "a", 100)]), "other", 0)
    assert units(again) == {(0, "a"): 111, (0, None): 2, (40, "a"): 3, (1, "a"): 20}


def test_a_batch_without_rows_changes_nothing(tmp_path: Path) -> None:
    table = table_in(Place.parse(tmp_path))
    assert table.add(rows([]), "q", 0)
    assert table.rows() is None


@mission("M31")
def test_records_in_any_order_make_the_same_sums(tmp_path: Path) -> None:
    chance = random.Random(7)
    records = [(chance.randrange(180), chance.choice("ab"), chance.randrange(1, 5)) for _ in range(400)]
    table = table_in(Place.parse(tmp_path))
    for batch, first in enumerate(range(0, 400, 40)):
        assert table.add(rows(records[first : first + 40]), "q", batch)
    expected: Counter[tuple[int, str | None]] = Counter()
    for minute, entity, count in records:
        expected[minute, entity] += count
    assert units(table) == expected


def test_only_the_periods_that_a_batch_touches_are_written_again(tmp_path: Path) -> None:
    table = table_in(Place.parse(tmp_path))
    table.add(rows([(0, "a", 1), (60, "a", 1), (120, "a", 1)]), "q", 0)
    before = set(DeltaTable(tmp_path).file_uris())
    table.add(rows([(61, "a", 1)]), "q", 1)
    after = set(DeltaTable(tmp_path).file_uris())
    assert len(before & after) == 2
    assert len(after) == 3


def test_files_of_old_versions_are_deleted_now_and_then(tmp_path: Path) -> None:
    table = SumTable(Place.parse(tmp_path), SCHEMA, "from", ("units", "cost"), "hour", kept_s=0, upkeep_versions=10)
    for batch in range(11):
        table.add(rows([(0, "a", 1)]), "q", batch)
    assert units(table) == {(0, "a"): 11}
    # The newest, and one that was replaced within the same millisecond.
    assert len(list(tmp_path.rglob("*.parquet"))) <= 2


def test_threads_may_add_at_the_same_time(tmp_path: Path) -> None:
    table = table_in(Place.parse(tmp_path))
    threads = [
        threading.Thread(
            target=lambda query=query: [table.add(rows([(0, "a", 1)]), query, batch) for batch in range(5)]
        )
        for query in ("one", "two", "three")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert units(table) == {(0, "a"): 15}
