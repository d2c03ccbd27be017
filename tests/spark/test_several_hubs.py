"""Several hubs in one query, how far it is behind them, typed properties and filters, in Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from tandem.spark.lag import LagMetrics, PartitionLag, describe, lag_of
from tandem.spark.schemas import EVENTS_OF_HUBS
from tandem.testing import Broker
from tests.markers import mission
from tests.patience import wait_until
from tests.spark.conftest import MakeHub
from tests.spark.filling import fill
from tests.spark.test_source import batch, run

pytestmark = pytest.mark.timeout(900)


class _Kept(LagMetrics):
    """Metrics after each report."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.is_over = False

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's own name
        super().onQueryProgress(event)
        self.texts.append(self.text())

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - as above
        super().onQueryTerminated(event)
        self.texts.append(self.text())
        self.is_over = True


def bodies(table: DataFrame) -> Counter[tuple[str, int]]:
    return Counter((row.hub, int(row.body)) for row in table.selectExpr("hub", "cast(body as string)").collect())


@mission("M30")
def test_a_stream_reads_every_hub_of_a_pattern_and_says_how_far_it_is_behind(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path
) -> None:
    first, second = make_hub(8), make_hub(4)
    pattern = f"{first}|{second}|{first}-new"

    def read() -> None:
        options = {"connectionString": broker.connection_string, "eventHubsPattern": pattern}
        events = spark.readStream.format("eventhubs").options(**options, startingOffsets="earliest")
        table = events.option("maxEventsPerTrigger", 6).load()
        assert table.schema == EVENTS_OF_HUBS
        progresses.append(run(table, tmp_path).recentProgress)

    progresses: list[list[StreamingQueryProgress]] = []
    metrics = _Kept()
    spark.streams.addListener(metrics)
    try:
        read()
        wait_until(lambda: metrics.is_over, "Spark has reported all of it")
    finally:
        spark.streams.removeListener(metrics)
    assert f'hub="{first}",partition="0"}} 2' in metrics.texts[0]
    assert f'hub="{first}",partition="0"}} 0' in metrics.texts[-2]
    assert "tandem_spark_lag_events{" not in metrics.texts[-1], "a query that has ended has no lag"
    [before, *_, after] = [one for one in progresses[0] if lag_of(one)]
    # Four of eight and two of four were read: a limit is shared out by backlog, among hubs too.
    assert {(one.hub, one.partition): one.events for one in lag_of(before)} == {
        **dict.fromkeys([(first, "0"), (first, "1")], 2),
        **dict.fromkeys([(second, "0"), (second, "1")], 1),
    }
    assert f"{first}: 4 events behind, {second}: 2 events behind" in describe(before)
    assert {one.events for one in lag_of(after)} == {0}

    expected = Counter([(first, number) for number in range(8)] + [(second, number) for number in range(4)])
    found = spark.read.parquet(str(tmp_path / "files"))
    assert bodies(found) == expected
    # A hub that appears is read from its oldest event on; one hub alone is another case in the checkpoint.
    broker.create_hub(f"{first}-new", partition_count=1)
    fill(broker, f"{first}-new", range(3), partition_count=1)
    read()
    expected += Counter((f"{first}-new", number) for number in range(3))
    assert bodies(spark.read.parquet(str(tmp_path / "files"))) == expected


def test_metrics_of_a_query_are_those_of_its_last_batch() -> None:
    metrics = LagMetrics()
    assert metrics.text().count("# TYPE") == 4
    assert PartitionLag("h", "0", 7, 5).events == 0
    assert lag_of(None) == []
    assert describe(None) == "nothing was read yet"


@mission("M30")
def test_several_hubs_and_single_partitions_of_them_are_one_table(
    spark: SparkSession, broker: Broker, make_hub: MakeHub
) -> None:
    one, other = make_hub(4), make_hub(6)
    bus = {"connectionString": broker.connection_string}
    assigned = {"subscribe": f"{one},{other}", "assign": f'{{"{one}": [0], "{other}": [1]}}'}
    table = spark.read.format("eventhubs").options(**bus, **assigned).load()
    assert bodies(table) == Counter([(one, 0), (one, 2), (other, 1), (other, 3), (other, 5)])
    # A schema may ask for the hub of a single one, too.
    single = spark.read.format("eventhubs").options(**bus).schema("hub string, sequenceNumber long").load(one)
    assert Counter(row.hub for row in single.collect()) == {one: 4}


@mission("M30")
def test_filters_are_pushed_down_on_request_and_change_nothing_else(
    spark: SparkSession, broker: Broker, make_hub: MakeHub
) -> None:
    hub = make_hub(40)
    [middle] = batch(spark, broker, hub).where("sequenceNumber = 10 and partition = '0'").collect()
    since = middle.enqueuedTime - timedelta(seconds=1)
    wanted = (
        (sql.col("partition") == "1")
        & (sql.col("sequenceNumber") >= 3)
        & (sql.col("sequenceNumber") < 9)
        & (sql.col("enqueuedTime") > sql.lit(since))
        & (sql.length("body") == 2)
    )
    expected = batch(spark, broker, hub).where(wanted).orderBy("sequenceNumber").collect()
    assert [row.sequenceNumber for row in expected] == [5, 6, 7, 8]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        filtered = batch(spark, broker, hub, filterPushdown="true", minPartitions="1").where(wanted)
        # One partition of two: the other is not even planned.
        assert filtered.rdd.getNumPartitions() == 1
        assert filtered.orderBy("sequenceNumber").collect() == expected
        # Without the option, a DataFrame can be used as often and for what one likes.
        whole = batch(spark, broker, hub)
        assert whole.where("partition = '1'").count() == 20
        assert whole.count() == 40
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@mission("M30")
def test_a_rule_compares_the_numbers_that_spark_wrote(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, make_queue: Callable[[], str]
) -> None:
    topic = f"topic-{make_queue()}"
    broker.create_topic(topic)
    rule = {"name": "large", "filter": {"kind": "sql", "expression": "amount > 5 AND country = 'NO'"}}
    broker.create_subscription(topic, "large", [rule])
    rows = spark.range(10).select(
        sql.col("id").cast("string").alias("body"),
        sql.struct(
            sql.col("id").alias("amount"),
            sql.lit("NO").alias("country"),
            (sql.col("id") / 2).alias("half"),
            sql.lit(None).cast("boolean").alias("absent"),
        ).alias("properties"),
    )
    bus = {"connectionString": broker.connection_string}
    rows.write.format("servicebus").options(**bus, topic=topic).mode("append").save()
    subscription = spark.read.format("servicebus").options(**bus, entity=f"{topic}/Subscriptions/large")
    found = subscription.schema("properties struct<amount:bigint,half:double,absent:boolean>").load()
    assert sorted(tuple(row.properties) for row in found.collect()) == [
        (number, number / 2, None) for number in (6, 7, 8, 9)
    ]

    hub = make_hub()
    rows.write.format("eventhubs").options(**bus, eventHub=hub).mode("append").save()
    for transport in ("arrow", "amqp"):
        events = spark.read.format("eventhubs").options(**bus, transport=transport)
        typed = events.schema("properties struct<amount:bigint,country:string>, sequenceNumber long").load(hub)
        assert typed.agg(sql.sum("properties.amount")).first() == (45,)
        variants = events.schema("properties map<string,variant>").load(hub)
        amounts = variants.selectExpr("variant_get(properties['amount'], '$', 'bigint') as amount")
        assert amounts.agg(sql.sum("amount")).first() == (45,)
