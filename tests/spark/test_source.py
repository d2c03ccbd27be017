"""The format `eventhubs` in Spark: batches, streams, limits, restarts; and writing to a hub."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from azure.eventhub import EventData as SdkEvent
from azure.eventhub import EventHubProducerClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from tandem.spark.causes import cause_of
from tandem.spark.schemas import EVENTS
from tandem.testing import Broker
from tests.markers import mission
from tests.spark.conftest import MakeHub
from tests.spark.filling import fill

pytestmark = pytest.mark.timeout(900)


def batch(spark: SparkSession, broker: Broker, hub: str, **options: str) -> DataFrame:
    reader = spark.read.format("eventhubs").option("connectionString", broker.connection_string)
    return reader.options(**options).load(hub)


def stream(spark: SparkSession, broker: Broker, hub: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("eventhubs").option("eventhubs.connectionString", broker.connection_string)
    return reader.option("eventhubs.name", hub).option("startingOffsets", "earliest").options(**options).load()


def run(events: DataFrame, out: Path, sink: str = "parquet") -> StreamingQuery:
    """To the end of what is there."""
    writer = events.writeStream.format(sink).option("checkpointLocation", str(out / "checkpoint"))
    query = writer.option("path", str(out / "files")).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def numbers(table: DataFrame) -> Counter[int]:
    return Counter(int(row[0]) for row in table.select(sql.col("body").cast("string")).collect())


def files(spark: SparkSession, out: Path) -> Counter[int]:
    return numbers(spark.read.parquet(str(out / "files")))


# --- batches --------------------------------------------------------------------------------------------------------


@mission("M11", "M30")
def test_a_hub_is_a_table_without_anything_being_registered(
    spark: SparkSession, broker: Broker, make_hub: MakeHub
) -> None:
    table = batch(spark, broker, make_hub(100), minPartitions="5")
    assert table.schema == EVENTS
    assert numbers(table) == Counter(range(100))
    row = table.where("sequenceNumber = 3 and partition = '1'").first()
    assert row is not None
    assert (bytes(row.body), row.offset, row.partitionKey, row.properties) == (b"7", "3", None, {})


@mission("M30")
def test_a_range_and_a_schema_bound_what_is_read(spark: SparkSession, broker: Broker, make_hub: MakeHub) -> None:
    hub = make_hub(40)
    reader = spark.read.format("eventhubs").option("connectionString", broker.connection_string)
    some = reader.schema("sequenceNumber long, partition string").options(
        startingOffsets=f'{{"{hub}": {{"0": 5, "1": -2}}}}', endingOffsets=f'{{"{hub}": {{"0": 8, "1": 2}}}}'
    )
    rows = [(row.partition, row.sequenceNumber) for row in some.load(hub).collect()]
    assert sorted(rows) == [("0", 5), ("0", 6), ("0", 7), ("1", 0), ("1", 1)]
    with pytest.raises(PySparkException, match="the schema has size int"):
        reader.schema("size int").load(hub).collect()


def test_a_hub_without_events_is_an_empty_table(spark: SparkSession, broker: Broker, make_hub: MakeHub) -> None:
    table = batch(spark, broker, make_hub(0))
    assert table.collect() == []


def test_a_mistake_is_said_with_its_remedy_and_without_the_key(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, capfd: pytest.CaptureFixture[str]
) -> None:
    hub = make_hub(1)
    with pytest.raises(PySparkException, match="did you mean startingOffsets"):
        batch(spark, broker, hub, startingOfsets="latest").collect()
    table = batch(spark, broker, hub)
    table.explain(True)
    table.collect()
    said = capfd.readouterr()
    assert "eventhubs" in said.out
    assert "SAS_KEY_VALUE" not in said.out + said.err


# --- streams --------------------------------------------------------------------------------------------------------


@mission("M30")
def test_a_stream_reads_in_limited_batches_and_goes_on_from_its_checkpoint(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path
) -> None:
    hub = make_hub(100)
    first = run(stream(spark, broker, hub, maxEventsPerTrigger="40"), tmp_path)
    assert [progress.numInputRows for progress in first.recentProgress if progress.numInputRows] == [40, 40, 20]
    assert files(spark, tmp_path) == Counter(range(100))
    fill(broker, hub, range(100, 130))
    second = run(stream(spark, broker, hub, maxEventsPerTrigger="40"), tmp_path)
    assert sum(progress.numInputRows for progress in second.recentProgress) == 30
    assert files(spark, tmp_path) == Counter(range(130))


@mission("M30")
def test_a_hub_that_was_made_again_stops_the_stream_or_is_read_from_its_start(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path
) -> None:
    hub = make_hub(4)
    run(stream(spark, broker, hub), tmp_path)
    # A batch is planned, and its sink fails: from now on every start reads what was planned, before anything else.
    fill(broker, hub, range(4, 8))
    with pytest.raises(PySparkException, match="the sink is full"):
        run(stream(spark, broker, hub).where("raise_error('the sink is full') is null"), tmp_path)
    broker.delete_hub(hub)
    broker.create_hub(hub, partition_count=2)
    fill(broker, hub, range(10, 14))
    with pytest.raises(PySparkException, match="deleted and made again") as stopped:
        run(stream(spark, broker, hub), tmp_path)
    assert cause_of(stopped.value).startswith(f"the event hub '{hub}' is not the one that was read before")
    run(stream(spark, broker, hub, failOnDataLoss="false"), tmp_path)
    assert files(spark, tmp_path) == Counter([*range(4), *range(10, 14)])


# --- writing --------------------------------------------------------------------------------------------------------


@mission("M30")
def test_rows_become_events_by_partition_by_key_or_anywhere(
    spark: SparkSession, broker: Broker, make_hub: MakeHub
) -> None:
    hub = make_hub(partition_count=4)
    rows: list[Any] = [
        (bytearray(b"0"), "3", None, {"kind": "by partition"}),
        (bytearray(b"1"), None, "customer-7", None),
        (bytearray(b"2"), None, "customer-7", None),
        (bytearray(b"3"), None, None, None),
    ]
    schema = "body binary, partitionId string, partitionKey string, properties map<string,string>"
    table = spark.createDataFrame(rows, schema)
    table.write.format("eventhubs").option("connectionString", broker.connection_string).option("eventHub", hub).mode(
        "append"
    ).save()
    found = {bytes(row.body): row for row in batch(spark, broker, hub).collect()}
    assert sorted(found) == [b"0", b"1", b"2", b"3"]
    assert (found[b"0"].partition, found[b"0"].properties) == ("3", {"kind": "by partition"})
    assert found[b"1"].partition == found[b"2"].partition
    assert found[b"1"].sequenceNumber < found[b"2"].sequenceNumber
    assert found[b"1"].partitionKey == "customer-7"


@mission("M30")
def test_rows_with_keys_arrive_in_their_order_within_each_partition(
    spark: SparkSession, broker: Broker, make_hub: MakeHub
) -> None:
    """Grouped by key, a partition with many keys would hold the rows of one key after those of another."""
    hub = make_hub(partition_count=4)
    key = sql.when(sql.col("id") % 3 > 0, sql.concat(sql.lit("key-"), sql.col("id") % 50))
    partition = sql.when(sql.col("id") % 3 == 0, (sql.col("id") % 4).cast("string"))
    rows = spark.range(0, 2_000, numPartitions=1).select(
        sql.col("id").cast("string").alias("body"), key.alias("partitionKey"), partition.alias("partitionId")
    )
    options = {"connectionString": broker.connection_string, "eventHub": hub}
    rows.write.format("eventhubs").options(**options).mode("append").save()
    found = batch(spark, broker, hub).orderBy("partition", "sequenceNumber").collect()
    assert len(found) == 2_000
    # The official SDK sends a key to the hub, which chooses the partition: the same that Spark has chosen.
    places = {row.partitionKey: row.partition for row in found if row.partitionKey is not None}
    assert len(places) == 50
    with EventHubProducerClient.from_connection_string(broker.connection_string, eventhub_name=hub) as producer:
        for key in places:
            producer.send_event(SdkEvent("by the SDK"), partition_key=key)
    sent = batch(spark, broker, hub).where("body = cast('by the SDK' as binary)").collect()
    assert {row.partitionKey: row.partition for row in sent} == places
    by_partition: dict[str, list[int]] = {}
    for row in found:
        number = int(row.body)
        by_partition.setdefault(row.partition, []).append(number)
        assert row.partitionKey == (f"key-{number % 50}" if number % 3 else None)
    assert len(by_partition) == 4
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())


def test_a_table_that_cannot_be_sent_is_refused(spark: SparkSession, broker: Broker, make_hub: MakeHub) -> None:
    hub = make_hub()

    def send(table: DataFrame, mode: str = "append") -> None:
        options = {"connectionString": broker.connection_string, "eventHub": hub}
        table.write.format("eventhubs").options(**options).mode(mode).save()

    body = sql.lit("x").alias("body")
    for table, complaint in (
        (spark.range(1).select("id"), "there is no column 'id'"),
        (spark.range(1).select(body, sql.lit("0").alias("partitionID")), "did you mean partitionId"),
        (spark.range(1).select(body, sql.lit(0).alias("partitionId")), "partitionId is int; it must be string"),
        (
            spark.range(1).select(body, sql.lit("0").alias("partitionId"), sql.lit("k").alias("partitionKey")),
            "leave one of them null",
        ),
    ):
        with pytest.raises(PySparkException, match=complaint) as refused:
            send(table)
        assert cause_of(refused.value).startswith("eventhubs: ")


@mission("M30")
def test_a_stream_from_one_hub_to_another(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path
) -> None:
    source, target = make_hub(50), make_hub()
    events = stream(spark, broker, source).select("body", sql.col("partition").alias("partitionId"))
    writer = events.writeStream.format("eventhubs").option("connectionString", broker.connection_string)
    writer.option("eventHub", target).option("checkpointLocation", str(tmp_path)).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert numbers(batch(spark, broker, target)) == Counter(range(50))
