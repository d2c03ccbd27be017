"""Connections that do nothing cost little, and disturb nobody."""

from __future__ import annotations

import asyncio

from tandem.bench.measuring.machine import resident_bytes
from tandem.testing import Broker
from tests.load.clients import connect, others_go_on, send_and_receive

IDLE = 300

# Bytes. The budget is 60 KB, measured over 5,000 by `tandem bench queue --full`; over so few, what the broker allocates
# once for all of them weighs more.
GENEROUS_BYTES_EACH = 180_000


async def test_idle_connections_are_held_in_little_memory_while_another_client_works(
    broker: Broker, queue: str
) -> None:
    broker.create_queue(f"{queue}/idle")
    # A queue for the newcomer alone: it would share the messages of the bystander's.
    broker.create_queue(f"{queue}/newcomer")
    async with others_go_on(broker, queue):
        before = resident_bytes(broker.pid)
        clients = await asyncio.gather(*(connect(broker, f"idle-{number}") for number in range(IDLE)))
        for client in clients:
            await client.sender(f"{queue}/idle")
            await client.receiver(f"{queue}/idle", credit=1)
        each = (resident_bytes(broker.pid) - before) / IDLE
        assert each < GENEROUS_BYTES_EACH
        async with await connect(broker, "newcomer") as newcomer:
            await send_and_receive(newcomer, f"{queue}/newcomer")
        assert not any(client.endpoint.lost.done() for client in clients)
        await asyncio.gather(*(client.close() for client in clients))
