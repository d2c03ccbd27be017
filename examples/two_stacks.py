"""Two AMQP stacks exchange messages: first in memory, frame by frame, then over loopback at speed.

    .venv/bin/python examples/two_stacks.py

The first part needs no network at all: a client and a server `Connection` are handed each other's bytes. The second
part is the same core behind the asyncio driver and an in-memory relay. The report is saved to build/demo/report.md.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import tandem
from tandem.amqp import (
    ACCEPTED,
    AuthenticationRequested,
    Connection,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    IncomingDelivery,
    LinkAttached,
    Message,
    ReceiverLink,
    Role,
    Settings,
    Target,
    TransactionalState,
)
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.performatives import decode_performative
from tandem.driver import Client, Receiver, Sender, run
from tandem.testing import Relay

REPORT = Path("build/demo/report.md")
PASSWORD = "any will do"
MESSAGES = 20_000
IN_FLIGHT = 1_000


# --- part 1: bytes in, events out -----------------------------------------------------------------------------------


def frames(data: bytes) -> list[str]:
    """What a piece of the byte stream says, for people."""
    shown: list[str] = []
    offset = 0
    while offset < len(data):
        if data[offset : offset + 4] == b"AMQP":
            shown.append("header SASL" if data[offset + 4] == 3 else "header AMQP")
            offset += 8
            continue
        end = offset + int.from_bytes(data[offset : offset + 4], "big")
        if data[offset + 5] == 1:
            shown.append(f"sasl frame, {end - offset} bytes")
        else:
            performative, payload = decode_performative(data, offset + 8, end)
            name = type(performative).__name__.lower()
            shown.append(f"{name}, {end - payload} bytes of payload" if end > payload else name)
        offset = end
    return shown


class Conversation:
    """A client and a server that are handed each other's bytes."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.client = Connection(Role.CLIENT, Settings("client", user="demo", password=PASSWORD))
        self.server = Connection(Role.SERVER, Settings("server"))
        self.received: list[IncomingDelivery] = []

    def exchange(self) -> None:
        """Carry bytes to and fro until both are silent."""
        while True:
            to_server = self.client.data_to_send()
            self.show("client", to_server)
            events = self.server.receive(to_server)
            while events:
                for event in events:
                    self.on_server_event(event)
                events = self.server.receive(b"")
            to_client = self.server.data_to_send()
            self.show("server", to_client)
            self.client.receive(to_client)
            if not to_server and not to_client:
                return

    def show(self, who: str, data: bytes) -> None:
        if data:
            self.console.print(f"  [bold]{who}[/] → {', '.join(frames(data))}")

    def on_server_event(self, event: object) -> None:
        if isinstance(event, AuthenticationRequested):
            self.server.accept_authentication()
        elif isinstance(event, LinkAttached):
            event.link.accept()
            if isinstance(event.link, ReceiverLink):
                event.link.grant(10)
        elif isinstance(event, IncomingDelivery):
            self.received.append(event)
            event.link.settle(event)


def in_memory(console: Console) -> None:
    console.rule("Two stacks in memory: every frame of a conversation")
    conversation = Conversation(console)
    conversation.client.open()
    conversation.exchange()
    session = conversation.client.begin()
    conversation.exchange()
    link = session.attach_sender("orders-sender", Target("orders"))
    conversation.exchange()
    for number in range(3):
        link.send(encode_message(properties=Properties(message_id=f"order-{number}"), data=b"a table, four chairs"))
    conversation.exchange()
    for delivery in conversation.received:
        properties = Message(delivery.payload).properties
        assert properties is not None
        console.print(f"  the server got {properties.message_id!r}: {len(delivery.payload)} bytes")
    conversation.client.close()
    conversation.exchange()


# --- part 2: the same core on sockets -------------------------------------------------------------------------------


async def produce(sender: Sender, count: int, progress: Progress) -> None:
    task = progress.add_task("sending", total=count)
    limit = asyncio.Semaphore(IN_FLIGHT)

    async def send_one(number: int) -> None:
        payload = encode_message(properties=Properties(message_id=f"m-{number}"), data=b"x" * 1024)
        assert await sender.send(payload) == ACCEPTED
        progress.update(task, advance=1)
        limit.release()

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await limit.acquire()
            group.create_task(send_one(number))


async def consume(receiver: Receiver, count: int, progress: Progress) -> list[str]:
    task = progress.add_task("receiving", total=count)
    seen: list[str] = []
    while len(seen) < count:
        delivery = await receiver.receive()
        properties = Message(delivery.payload).properties
        assert properties is not None
        seen.append(str(properties.message_id))
        receiver.settle(delivery)
        progress.update(task, advance=1)
    return seen


async def transaction(client: Client, address: str) -> tuple[int, int]:
    """Two messages in a transaction: how many can be seen before and after it is discharged."""
    coordinator = await client.sender(Coordinator())
    sender = await client.sender(address)
    declared = await coordinator.send(Declare().encode())
    assert isinstance(declared, Declared)
    for body in (b"debit", b"credit"):
        await sender.send(encode_message(data=body), state=TransactionalState(declared.txn_id))
    receiver = await client.receiver(address, credit=0)
    await receiver.drain(10)
    before = receiver.waiting_count
    assert await coordinator.send(Discharge(declared.txn_id).encode()) == ACCEPTED
    await receiver.drain(10)
    return before, receiver.waiting_count


async def over_loopback(console: Console) -> dict[str, str]:
    console.rule("The same core behind asyncio: a relay on a loopback port")
    relay = Relay()
    port = await relay.start()
    async with (
        await Client.connect("127.0.0.1", port, Settings("producer")) as producer,
        await Client.connect("127.0.0.1", port, Settings("consumer")) as consumer,
    ):
        sender = await producer.sender("orders")
        receiver = await consumer.receiver("orders", credit=IN_FLIGHT)
        started = time.perf_counter()
        with Progress(console=console, transient=True) as progress:
            receiving = asyncio.create_task(consume(receiver, MESSAGES, progress))
            await produce(sender, MESSAGES, progress)
            seen = await receiving
        seconds = time.perf_counter() - started
        large = encode_message(data=b"y" * 3_000_000)
        await sender.send(large)
        got_large = (await receiver.receive()).payload == large
        before, after = await transaction(consumer, "ledger")
    await relay.close()
    expected = [f"m-{number}" for number in range(MESSAGES)]
    return {
        "form of the core": tandem.form(),
        "sent and accepted": f"{MESSAGES:,}",
        "received": f"{len(seen):,}",
        "lost": str(len(set(expected) - set(seen))),
        "duplicates": str(len(seen) - len(set(seen))),
        "in order": "yes" if seen == expected else "no",
        "a message of 3 MB in several frames": "arrived whole" if got_large else "arrived changed",
        "a transaction of two messages": f"{before} to be seen before the commit, {after} after it",
        "sent, relayed, received and settled, each one awaited": f"{MESSAGES / seconds:,.0f} messages/s",
    }


def main() -> None:
    console = Console()
    in_memory(console)
    results = run(over_loopback(console))
    table = Table(title="Report", show_header=False)
    for what, result in results.items():
        table.add_row(what, result)
    console.print(table)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"| {what} | {result} |\n" for what, result in results.items())
    REPORT.write_text(f"# Two stacks exchange messages\n\n| what | result |\n|---|---|\n{rows}")
    console.print(f"saved to {REPORT}")


if __name__ == "__main__":
    main()
