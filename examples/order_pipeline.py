"""Orders through a queue, a topic and an event hub into a Spark table, with an outage in the middle.

    python examples/order_pipeline.py [--orders 400]            starts two brokers, and kills one of them

    shop ──▶ queue orders ──▶ clerk ──▶ topic order-events ──┬─▶ subscription large-orders, for people to look at
                                                             └─▶ subscription analytics
                                                                        │
                          table ◀── Spark ◀── hub order-stream ◀── feed ┘

Shop and clerk send through a pair of namespaces: while the primary is down, what they send waits in the secondary. Each
step may do something twice after a crash, and never forgets anything. The message id, which is the number of the order,
makes that once: the queue and the topic detect duplicates, and the streaming query drops them.

A program to start from: with --primary and --secondary it runs on brokers of your own. docs/start/order-pipeline.md
explains it step by step.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from tandem.client import (
    BrokeredMessage,
    EventData,
    EventHubClient,
    EventHubDescription,
    MessagingEntityAlreadyExistsError,
    MessagingError,
    MessagingFactory,
    NamespaceManager,
    QueueDescription,
    SqlFilter,
    TopicDescription,
)
from tandem.pairing import PairingEvent, SendAvailabilityPairedNamespaceOptions
from tandem.testing import Broker

ORDERS = "orders"
EVENTS = "order-events"
LARGE = "large-orders"
ANALYTICS = "analytics"
HUB = "order-stream"

LARGE_AMOUNT = 500
BATCH = 50
ORDERS_PER_SECOND = 50

ORDER = "order string, customer string, amount int"


@dataclass
class Progress:
    """What has been done so far. Orders are counted once, however often they come."""

    sent: set[str] = field(default_factory=set)
    diverted: int = 0
    published: set[str] = field(default_factory=set)
    fed: set[str] = field(default_factory=set)

    def on_pairing_event(self, event: PairingEvent) -> None:
        """Print what happens to the pair, and count the messages that take the detour."""
        count = event.get("count", 1)
        if event["event"] == "diverted" and isinstance(count, int):
            self.diverted += count
        if event["event"] in {"failing", "failed-over", "restored"}:
            print(f"  {event['entity']}: {event['event']}")


# --- the namespaces -------------------------------------------------------------------------------------------------


async def create_entities(primary: str) -> None:
    """Create what is not there yet."""
    manager = NamespaceManager.from_connection_string(primary)
    for creating in (
        manager.create_queue(QueueDescription(ORDERS, requires_duplicate_detection=True)),
        manager.create_topic(TopicDescription(EVENTS, requires_duplicate_detection=True)),
        manager.create_subscription(EVENTS, LARGE, SqlFilter(f"amount >= {LARGE_AMOUNT}")),
        manager.create_subscription(EVENTS, ANALYTICS),
        manager.create_event_hub(EventHubDescription(HUB, partition_count=2)),
    ):
        with contextlib.suppress(MessagingEntityAlreadyExistsError):
            await creating


@contextlib.asynccontextmanager
async def paired_factory(primary: str, secondary: str, progress: Progress) -> AsyncIterator[MessagingFactory]:
    """A factory whose senders go on while the primary is down, and which moves what was diverted back afterwards."""
    async with (
        MessagingFactory.from_connection_string(primary) as factory,
        MessagingFactory.from_connection_string(secondary) as other,
    ):
        options = SendAvailabilityPairedNamespaceOptions(
            NamespaceManager.from_connection_string(secondary),
            other,
            backlog_queue_count=3,
            failover_interval=timedelta(seconds=1),
            enable_syphon=True,
            ping_primary_interval=timedelta(seconds=1),
            listener=progress.on_pairing_event,
        )
        await factory.pair_namespace(options)
        yield factory


# --- the steps ------------------------------------------------------------------------------------------------------


async def shop(factory: MessagingFactory, progress: Progress, count: int) -> None:
    """Send orders. During an outage a send takes as long as the failover, and succeeds."""
    sender = factory.create_message_sender(ORDERS)
    for number in range(count):
        name = f"order-{number}"
        order = {"order": name, "customer": f"customer-{number % 7}", "amount": 10 + number * 37 % 990}
        await sender.send(BrokeredMessage(json.dumps(order), message_id=name))
        progress.sent.add(name)
        await asyncio.sleep(1 / ORDERS_PER_SECOND)


async def clerk(receiving: MessagingFactory, sending: MessagingFactory, progress: Progress) -> None:
    """Publish each order with the properties that rules look at."""
    sender = sending.create_message_sender(EVENTS)

    async def publish(messages: Sequence[BrokeredMessage]) -> None:
        for message in messages:
            order = json.loads(message.body)
            properties = {"amount": order["amount"], "customer": order["customer"]}
            await sender.send(BrokeredMessage(message.body, message_id=message.message_id, properties=properties))
            progress.published.add(order["order"])

    await work(receiving.create_queue_client(ORDERS).receive_batch, publish)


async def feed(receiving: MessagingFactory, primary: str, progress: Progress) -> None:
    """Send every order to the hub. Those of one customer share a partition, and so keep their order."""
    async with EventHubClient.from_connection_string(primary, HUB) as client:
        producer = client.create_producer()

        async def send(messages: Sequence[BrokeredMessage]) -> None:
            await producer.send_batch(
                [EventData(message.body, partition_key=str(message.properties["customer"])) for message in messages]
            )
            progress.fed |= {str(message.message_id) for message in messages}

        await work(receiving.create_subscription_client(EVENTS, ANALYTICS).receive_batch, send)


async def work(
    receive: Callable[[int, float], Awaitable[list[BrokeredMessage]]],
    handle: Callable[[Sequence[BrokeredMessage]], Awaitable[None]],
) -> None:
    """Receive, handle, then complete, until the task is cancelled. What was not completed comes again."""
    while True:
        try:
            messages = await receive(BATCH, 1.0)
            await handle(messages)
        except MessagingError as error:
            if not error.is_transient:
                raise
            # The primary is down. The client has waited already, and connects again with the next call.
            continue
        for message in messages:
            with contextlib.suppress(MessagingError):
                await message.complete()


# --- Spark ----------------------------------------------------------------------------------------------------------


def orders_of(events: DataFrame) -> DataFrame:
    """Return events as orders, each of them once."""
    parsed = sql.from_json(sql.col("body").cast("string"), ORDER).alias("parsed")
    orders = events.select(parsed, "enqueuedTime").select("parsed.*", "enqueuedTime")
    return orders.withWatermark("enqueuedTime", "1 hour").dropDuplicatesWithinWatermark(["order"])


def start_query(spark: SparkSession, primary: str, folder: Path) -> StreamingQuery:
    """Write orders to a table of Parquet, exactly once: the checkpoint knows how far the query is."""
    stream = spark.readStream.format("eventhubs").option("connectionString", primary).option("eventHub", HUB)
    orders = orders_of(stream.option("startingPosition", "earliest").load())
    writer = orders.writeStream.format("parquet").option("path", str(folder / "table"))
    checkpointed = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return checkpointed.trigger(processingTime="1 second").start()


# --- all of it ------------------------------------------------------------------------------------------------------


async def until(is_so: Callable[[], bool], tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for a condition, and fail as soon as a task fails."""
    while not is_so():
        for task in tasks:
            if task.done():
                task.result()
        await asyncio.sleep(0.05)


async def have_outage(primary: Broker, progress: Progress, count: int, tasks: Sequence[asyncio.Task[None]]) -> None:
    """Kill the primary after a third of the orders, and start it again after another third."""
    await until(lambda: len(progress.sent) >= count / 3, tasks)
    print("the primary is killed")
    await asyncio.to_thread(primary.kill)
    await until(lambda: progress.diverted > 0 and len(progress.sent) >= count * 2 / 3, tasks)
    print(f"the primary is started again; {progress.diverted:,} messages took the detour until now")
    await asyncio.to_thread(primary.start)


async def run(
    spark: SparkSession, primary: str, secondary: str, folder: Path, count: int, broker: Broker | None = None
) -> Progress:
    """Send orders through everything, and return when all of them are in the table. `broker` is killed on the way."""
    progress = Progress()
    await create_entities(primary)
    async with (
        paired_factory(primary, secondary, progress) as sending,
        MessagingFactory.from_connection_string(primary) as receiving,
        asyncio.TaskGroup() as group,
    ):
        query = await asyncio.to_thread(start_query, spark, primary, folder)
        steps = [
            group.create_task(clerk(receiving, sending, progress)),
            group.create_task(feed(receiving, primary, progress)),
        ]
        shopping = group.create_task(shop(sending, progress, count))
        if broker is not None:
            await have_outage(broker, progress, count, [*steps, shopping])
        await shopping
        await until(lambda: progress.fed >= progress.sent, steps)
        await asyncio.to_thread(query.processAllAvailable)
        query.stop()
        for step in steps:
            step.cancel()
    return progress


def summarize(spark: SparkSession, folder: Path, progress: Progress, large: int) -> bool:
    """Print the account, and return whether each order is in the table once."""
    table = spark.read.parquet(str(folder / "table"))
    rows, orders, large_rows = table.selectExpr(
        "count(*)", "count(DISTINCT order)", f"count_if(amount >= {LARGE_AMOUNT})"
    ).collect()[0]
    print(f"orders sent:                          {len(progress.sent):,}")
    print(f"sent to the secondary in the outage:  {progress.diverted:,}")
    print(f"rows in the table:                    {rows:,}")
    print(f"large orders, in the subscription:    {large:,}")
    print(f"large orders, in the table:           {large_rows:,}")
    by_customer = table.groupBy("customer").agg(sql.count("*").alias("orders"), sql.sum("amount").alias("amount"))
    by_customer.orderBy(sql.desc("amount")).show(3)
    return bool(rows == orders == len(progress.sent) and large == large_rows)


async def count_large(primary: str) -> int:
    manager = NamespaceManager.from_connection_string(primary)
    return (await manager.get_subscription(EVENTS, LARGE)).message_count or 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--orders", type=int, default=400)
    parser.add_argument("--primary", help="connection string of a primary of yours, which you may kill yourself")
    parser.add_argument("--secondary", help="connection string of its secondary")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the table in DIR/table")
    options = parser.parse_args()
    if (options.primary is None) != (options.secondary is None):
        parser.error("give --primary and --secondary, or neither")
    from tandem.spark import session

    with contextlib.ExitStack() as stack:
        folder = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-orders-")))
        primary, secondary, broker = options.primary, options.secondary, None
        if primary is None:
            broker, other = (stack.enter_context(Broker(folder / name)) for name in ("primary", "secondary"))
            primary, secondary = broker.connection_string, other.connection_string
        spark = session("orders", shows_progress=False)
        progress = asyncio.run(run(spark, primary, secondary, folder, options.orders, broker))
        is_right = summarize(spark, folder, progress, asyncio.run(count_large(primary)))
        spark.stop()
    print("each order is in the table once" if is_right else "the table and the orders differ")
    return 0 if is_right else 1


if __name__ == "__main__":
    raise SystemExit(main())
