"""The sample from end to end: orders through a queue, a topic and a hub into a table, with an outage in the middle."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tandem.testing import Broker
from tests.documentation import DOCS
from tests.example_programs import EXAMPLES, load_example
from tests.markers import mission
from tools.readme_page import Page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.timeout(600)
@mission("M9", "M11", "M16", "M30")
def test_each_order_is_in_the_table_once_although_the_primary_was_killed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load_example("order_pipeline")
    with Broker(tmp_path / "primary") as primary, Broker(tmp_path / "secondary") as secondary:
        connection_strings = (primary.connection_string, secondary.connection_string)
        progress = asyncio.run(example.run(spark, *connection_strings, tmp_path, 60, primary))
        assert len(progress.sent) == 60
        assert progress.diverted > 0
        large = asyncio.run(example.count_large(primary.connection_string))
        assert example.summarize(spark, tmp_path, progress, large)
        # One that was lost, or came twice, is noticed.
        assert not example.summarize(spark, tmp_path, progress, large + 1)
        progress.sent.add("order-60")
        assert not example.summarize(spark, tmp_path, progress, large)
    printed = capsys.readouterr().out
    for line in ("the primary is killed", "  orders: failed-over", "  orders: restored"):
        assert f"{line}\n" in printed
    amounts = [10 + number * 37 % 990 for number in range(60)]
    table = spark.read.parquet(str(tmp_path / "table"))
    assert sorted(row["amount"] for row in table.select("amount").collect()) == sorted(amounts)
    assert large == sum(amount >= example.LARGE_AMOUNT for amount in amounts)


def test_the_page_shows_the_program_as_it_is() -> None:
    program = (EXAMPLES / "order_pipeline.py").read_text(encoding="utf-8")
    page = Page.parse((DOCS / "start" / "order-pipeline.md").read_text(encoding="utf-8"))
    excerpts = [block.text for block in page.blocks if block.language == "python"]
    assert len(excerpts) == 4
    for excerpt in excerpts:
        assert excerpt.rstrip() in program, excerpt
