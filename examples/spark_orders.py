"""Orders in an event hub, counted by Spark as a table and as a stream, and the large ones sent on to a queue.

    pip install 'tandem-bus[spark]'
    python examples/spark_orders.py

It starts a broker of its own, in a temporary folder, and needs nothing else: no Java, no cluster.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tandem.client.sync import EventData, EventHubClient
from tandem.spark import session
from tandem.testing import Broker

ORDER = "customer string, amount int"


def orders(events: DataFrame) -> DataFrame:
    """Events as orders: the same for a table and for a stream."""
    return events.select(sql.from_json(sql.col("body").cast("string"), ORDER).alias("order"), "enqueuedTime").select(
        "order.*", "enqueuedTime"
    )


def send_orders(broker: Broker, count: int) -> None:
    with EventHubClient.from_connection_string(broker.connection_string, "orders") as client:
        producer = client.create_producer()
        for number in range(count):
            customer = f"customer-{number % 3}"
            order = {"customer": customer, "amount": number}
            producer.send(EventData(json.dumps(order)), partition_key=customer)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "data") as broker:
        broker.create_hub("orders", partition_count=2)
        broker.create_queue("large-orders")
        send_orders(broker, 30)
        spark = session("orders")
        bus = {"connectionString": broker.connection_string}

        print("As a table:")
        table = spark.read.format("eventhubs").options(**bus).load("orders").transform(orders)
        table.groupBy("customer").agg(sql.count("*").alias("orders"), sql.sum("amount").alias("amount")).show()

        print("As a stream, ten events at a time, the large ones to a queue:")
        stream = spark.readStream.format("eventhubs").options(**bus).option("eventHub", "orders")
        stream = stream.option("startingPosition", "earliest").option("maxEventsPerTrigger", 10)
        large = stream.load().transform(orders).where("amount >= 25").select(sql.to_json(sql.struct("*")).alias("body"))
        writer = large.writeStream.format("servicebus").options(**bus).option("queue", "large-orders")
        writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()

        print("What lies in the queue, without taking it:")
        queue = spark.read.format("servicebus").options(**bus).option("queue", "large-orders").load()
        queue.selectExpr("sequenceNumber", "cast(body as string) as body").show(truncate=False)
        spark.stop()


if __name__ == "__main__":
    main()
