"""A tour of Tandem's own client library: queues, sessions, topics, transactions and event hubs, in a minute's reading.

    python examples/client_tour.py                                       with a broker of its own

    tandem serve --dev                                                   or with yours
    python examples/client_tour.py --connection-string "$(tandem connection-string --dev)"

What it makes is gone again at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tandem.client import (
    BrokeredMessage,
    MessagingFactory,
    NamespaceManager,
    QueueDescription,
    ReceiveMode,
    SqlFilter,
    SubscriptionDescription,
)
from tandem.testing import Broker

ORDERS = "tour-orders"
CONVERSATIONS = "tour-conversations"
ISSUES = "tour-issues"

# Seconds. How long to wait for what must come: it comes at once, unless the machine is busy.
PATIENCE_S = 60


async def send_and_receive(factory: MessagingFactory) -> None:
    """Peek-lock: what is not completed comes again."""
    orders = factory.create_queue_client(ORDERS)
    await orders.send(BrokeredMessage("a table, four chairs", label="order", properties={"customer": 7}))
    first = await orders.receive(timeout=PATIENCE_S)
    assert first is not None
    print(f"received {first.body!r} for customer {first.properties['customer']}, and gave it back")
    await first.abandon()
    again = await orders.receive(timeout=PATIENCE_S)
    assert again is not None
    print(f"received it again: it was handed out {again.delivery_count} time before")
    await again.complete()


async def many_at_once(factory: MessagingFactory) -> None:
    """Sends under way together share one link; messages come ahead of their reader."""
    orders = factory.create_queue_client(ORDERS, prefetch_count=200)
    await asyncio.gather(*(orders.send(BrokeredMessage(f"order {number}")) for number in range(500)))
    count = 0
    while count < 500:
        messages = await orders.receive_batch(100, timeout=PATIENCE_S)
        await asyncio.gather(*(message.complete() for message in messages))
        count += len(messages)
    print(f"sent and completed {count} messages, many at a time")
    await orders.close()


async def later_or_never(factory: MessagingFactory) -> None:
    orders = factory.create_queue_client(ORDERS)
    number = await orders.schedule(BrokeredMessage("tomorrow"), datetime.now(UTC) + timedelta(days=1))
    print(f"scheduled message {number}: {[message.state.name for message in await orders.peek(10)]}")
    await orders.cancel_scheduled(number)


async def all_or_nothing(factory: MessagingFactory) -> None:
    orders = factory.create_queue_client(ORDERS)
    await orders.send(BrokeredMessage("a question"))
    question = await orders.receive(timeout=PATIENCE_S)
    assert question is not None
    async with factory.transaction() as transaction:
        await orders.send(BrokeredMessage("an answer"), transaction=transaction)
        await question.complete(transaction=transaction)
    answer = await orders.receive(timeout=PATIENCE_S)
    assert answer is not None
    print(f"in one transaction the question went and {answer.body!r} came")
    await answer.complete()


async def sessions(factory: MessagingFactory) -> None:
    conversations = factory.create_queue_client(CONVERSATIONS)
    for text in ("hello", "how are you"):
        await conversations.send(BrokeredMessage(text, session_id="alice"))
    async with await conversations.accept_session(timeout=PATIENCE_S) as session:
        for message in await session.receive_batch(10, timeout=PATIENCE_S):
            print(f"{session.session_id} says {message.body!r}")
            await message.complete()
        await session.set_state(b"greeted")


async def topics(factory: MessagingFactory) -> None:
    issues = factory.create_topic_client(ISSUES)
    for store in ("Store1", "Store2"):
        await issues.send(BrokeredMessage(f"an issue of {store}", properties={"StoreName": store}))
    for name in ("Inventory", "Dashboard"):
        subscription = factory.create_subscription_client(ISSUES, name, ReceiveMode.RECEIVE_AND_DELETE)
        print(f"{name}: {[message.body for message in await subscription.receive_batch(10, timeout=PATIENCE_S)]}")


async def tour(connection_string: str) -> None:
    manager = NamespaceManager.from_connection_string(connection_string)
    await manager.create_queue(ORDERS)
    await manager.create_queue(QueueDescription(CONVERSATIONS, requires_session=True))
    await manager.create_topic(ISSUES)
    await manager.create_subscription(SubscriptionDescription(ISSUES, "Inventory"))
    await manager.create_subscription(SubscriptionDescription(ISSUES, "Dashboard"), SqlFilter("StoreName = 'Store1'"))
    try:
        async with MessagingFactory.from_connection_string(connection_string) as factory:
            for stage in (send_and_receive, many_at_once, later_or_never, all_or_nothing, sessions, topics):
                await stage(factory)
    finally:
        await manager.delete_topic(ISSUES)
        await manager.delete_queue(CONVERSATIONS)
        await manager.delete_queue(ORDERS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connection-string", help="of the broker to use; without it one is started")
    connection_string = parser.parse_args().connection_string
    if connection_string is not None:
        asyncio.run(tour(connection_string))
        return
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        asyncio.run(tour(broker.connection_string))


if __name__ == "__main__":
    main()
