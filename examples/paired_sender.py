"""A sender that goes on while its broker is dead: two brokers, one of which is killed under it.

    python examples/paired_sender.py

It starts both brokers itself, in a folder that is deleted afterwards, and takes about half a minute.
"""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path

from tandem.client import BrokeredMessage, MessagingFactory, NamespaceManager
from tandem.pairing import PairingEvent, SendAvailabilityPairedNamespaceOptions
from tandem.testing import Broker

ORDERS = "orders"


def show(event: PairingEvent) -> None:
    print(f"    {event['event']}: {event['entity']}", event.get("count", ""))


async def run(primary: Broker, secondary: Broker) -> None:
    async with (
        MessagingFactory.from_connection_string(primary.connection_string) as factory,
        MessagingFactory.from_connection_string(secondary.connection_string) as other,
    ):
        options = SendAvailabilityPairedNamespaceOptions(
            NamespaceManager.from_connection_string(secondary.connection_string),
            other,
            backlog_queue_count=3,
            failover_interval=timedelta(seconds=1),
            enable_syphon=True,
            ping_primary_interval=timedelta(seconds=1),
            listener=show,
        )
        await factory.pair_namespace(options)
        orders = factory.create_queue_client(ORDERS)

        print("the primary is well")
        await orders.send(BrokeredMessage("order 1"))

        print("the primary is killed")
        await asyncio.to_thread(primary.kill)
        await orders.send(BrokeredMessage("order 2"))
        await orders.send(BrokeredMessage("order 3"))
        print("two more were sent all the same")

        print("the primary is started again")
        await asyncio.to_thread(primary.start)
        bodies: set[bytes] = set()
        while len(bodies) < 3:
            message = await orders.receive(timeout=30)
            if message is None:
                raise SystemExit(f"only {sorted(bodies)} arrived")
            bodies.add(message.body)
            await message.complete()
        print("received:", ", ".join(body.decode() for body in sorted(bodies)))


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder) / "primary") as primary,
        Broker(Path(folder) / "secondary") as secondary,
    ):
        primary.create_queue(ORDERS)
        asyncio.run(run(primary, secondary))


if __name__ == "__main__":
    main()
