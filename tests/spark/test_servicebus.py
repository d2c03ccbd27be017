"""The format `servicebus` in Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tandem.client.sync import MessagingFactory
from tandem.spark.causes import cause_of
from tandem.spark.schemas import MESSAGES, MESSAGES_TO_SEND
from tandem.testing import Broker
from tests.markers import mission
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.timeout(900)


@mission("M30")
def test_every_property_of_a_message_is_a_column_in_both_directions(
    spark: SparkSession, broker: Broker, make_queue: Callable[[], str]
) -> None:
    queue = make_queue()
    row: dict[str, Any] = {
        "body": bytearray(b"a table"),
        "messageId": "m-1",
        "label": "order",
        "contentType": "text/plain",
        "correlationId": "c-1",
        "sessionId": "s-1",
        "replyTo": "answers",
        "replyToSessionId": "s-2",
        "to": "shop",
        "partitionKey": "s-1",
        "timeToLiveMs": 3_600_000,
        "scheduledEnqueueTime": None,
        "properties": {"colour": "red"},
    }
    options = {"connectionString": broker.connection_string, "queue": queue}
    table = spark.createDataFrame([row], MESSAGES_TO_SEND)
    table.write.format("servicebus").options(**options).mode("append").save()
    looked_at = spark.read.format("servicebus").options(**options).load()
    assert looked_at.schema == MESSAGES
    # Twice: nothing was taken.
    assert looked_at.count() == 1
    seen = looked_at.first()
    assert seen is not None
    found = seen.asDict()
    assert {name: found[name] for name in row} == row
    assert (found["queue"], found["state"], found["deliveryCount"]) == (queue, "active", 0)
    with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        message = factory.create_queue_client(queue).receive(timeout=PATIENCE_S)
        assert message is not None
        assert (message.body, message.properties) == (b"a table", {"colour": "red"})


@mission("M30")
def test_a_long_queue_and_its_dead_letters_are_read_by_many_tasks(
    spark: SparkSession, broker: Broker, make_queue: Callable[[], str]
) -> None:
    queue = make_queue()
    options = {"connectionString": broker.connection_string, "entity": queue}
    bodies = spark.range(600).select(sql.col("id").cast("string").alias("body"))
    bodies.write.format("servicebus").options(**options).mode("append").save()
    with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        message = factory.create_queue_client(queue).receive(timeout=PATIENCE_S)
        assert message is not None
        message.dead_letter("unreadable", "it is in Latin")
    reader = spark.read.format("servicebus").options(**options).option("minPartitions", 4)
    table = reader.load()
    assert table.rdd.getNumPartitions() == 4
    assert table.select("sequenceNumber").distinct().count() == 599
    dead = reader.option("entity", f"{queue}/$DeadLetterQueue").load().first()
    assert dead is not None
    assert (dead.deadLetterReason, dead.deadLetterErrorDescription) == ("unreadable", "it is in Latin")


def test_messages_can_be_scheduled_and_sent_by_a_stream_to_a_topic(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("news")
    broker.create_subscription("news", "all")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.json").write_text('{"body": "hello"}\n{"body": "world"}\n')
    lines = spark.readStream.schema("body string").json(str(tmp_path / "in"))
    later = sql.lit(datetime(2099, 1, 1, tzinfo=UTC)).alias("scheduledEnqueueTime")
    writer = lines.select("body", later).writeStream.format("servicebus")
    writer = writer.option("connectionString", broker.connection_string).option("topic", "news")
    writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    options = {"connectionString": broker.connection_string, "entity": "news/Subscriptions/all"}
    assert spark.read.format("servicebus").options(**options).load().count() == 0
    assert broker.topic("news")["scheduled_message_count"] == 2


def test_a_queue_is_no_stream(
    spark: SparkSession, broker: Broker, make_queue: Callable[[], str], tmp_path: Path
) -> None:
    options = {"connectionString": broker.connection_string, "queue": make_queue()}

    def read() -> None:
        table = spark.readStream.format("servicebus").options(**options).load()
        query = table.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
        query.processAllAvailable()

    with pytest.raises(PySparkException, match="cannot be read as a stream") as refused:
        read()
    assert "UnboundLocalError" not in str(refused.value)
    assert cause_of(refused.value).startswith("servicebus: a queue cannot be read as a stream")
