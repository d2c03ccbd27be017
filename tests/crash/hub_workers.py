"""Producers and readers of an event hub: with the official SDK, and with Tandem's own driver for volume."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final

from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.amqp import AmqpAnnotatedMessage

from tandem.amqp import ACCEPTED, IncomingDelivery, Message
from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import encode_message
from tandem.amqp.terminus import Source
from tandem.amqp.types import Described, Symbol
from tandem.driver import Client, Sender
from tests.crash.driver_workers import DriverWorker, sequence_number_of
from tests.crash.hub_ledger import HubEvent, HubLedger
from tests.crash.mortal import MortalBroker, Worker

__all__ = ["Flood", "Follower", "KeyedProducer", "SdkProducer", "read_partition"]

# Events at once by the SDK, and by the flood.
SDK_BATCH: Final = 30
FLOOD_BATCH: Final = 100
# Batches under way at once.
FLOOD_WINDOW: Final = 4

# Batches of a flood in one life: everything that was ever stored is read again after each death.
FLOODS_PER_LIFE: Final = 12

# Bytes of an event.
LARGEST: Final = 1_500

PAUSE_S: Final = 0.02
SEND_LIMIT_S: Final = 10.0
READ_CREDIT: Final = 2_000

_SELECTOR: Final = Symbol("apache.org:selector-filter:string")


class SdkProducer(Worker):
    """Sends batches of different sizes to one partition."""

    is_producer = True

    def __init__(self, mortal: MortalBroker, ledger: HubLedger, partition: int, seed: int) -> None:
        super().__init__(mortal, f"SDK producer of partition {partition}")
        self.ledger = ledger
        self.partition = partition
        self.random = random.Random(seed)
        self.producer = ledger.new_producer()
        self.sent_count = 0

    def work(self, life: int) -> None:
        # Without retries. The SDK still sends a batch again when its connection breaks; the ledger knows.
        client = EventHubProducerClient.from_connection_string(
            self.mortal.broker.connection_string, eventhub_name=self.ledger.hub, retry_total=0
        )
        with client:
            while self.goes_on(life):
                events = self.ledger.take(self.producer, self.random.randint(1, SDK_BATCH), is_impatient=True)
                bodies: list[EventData | AmqpAnnotatedMessage] = [
                    EventData(one.encode(self.random.randint(16, LARGEST))) for one in events
                ]
                client.send_batch(bodies, partition_id=str(self.partition), timeout=SEND_LIMIT_S)
                self.ledger.acknowledge(events)
                self.sent_count += 1
                time.sleep(PAUSE_S)


class _HubDriver(DriverWorker):
    """A worker on our own driver."""

    def __init__(self, mortal: MortalBroker, ledger: HubLedger, seed: int) -> None:
        Worker.__init__(self, mortal, f"{type(self).__name__} of {ledger.hub}")
        self.hub_ledger = ledger
        self.random = random.Random(seed)

    async def send(self, sender: Sender, events: list[HubEvent], payload: bytes, message_format: int) -> None:
        outcome = await sender.send(payload, message_format=message_format)
        if outcome is ACCEPTED:
            self.hub_ledger.acknowledge(events)


class Flood(_HubDriver):
    """Sends a few large batches to one partition at once, so many in each life."""

    is_producer = True

    def __init__(self, mortal: MortalBroker, ledger: HubLedger, partition: int, seed: int) -> None:
        super().__init__(mortal, ledger, seed)
        self.partition = partition
        self.producer = ledger.new_producer()

    async def exchange(self, client: Client, life: int) -> None:
        sender = await client.sender(f"{self.hub_ledger.hub}/Partitions/{self.partition}")
        left = FLOODS_PER_LIFE
        while self.goes_on(life):
            count = min(left, FLOOD_WINDOW)
            await asyncio.gather(*[self._send_batch(sender) for _ in range(count)])
            left -= count
            await asyncio.sleep(PAUSE_S)

    async def _send_batch(self, sender: Sender) -> None:
        events = self.hub_ledger.take(self.producer, FLOOD_BATCH)
        bodies = [encode_message(data=one.encode(self.random.randint(16, LARGEST))) for one in events]
        await self.send(sender, events, make_batch(bodies), BATCH_FORMAT)


class KeyedProducer(_HubDriver):
    """Sends single events, many at once, whose key keeps them in one partition."""

    is_producer = True

    def __init__(self, mortal: MortalBroker, ledger: HubLedger, seed: int) -> None:
        super().__init__(mortal, ledger, seed)
        self.producer = ledger.new_producer()

    async def exchange(self, client: Client, life: int) -> None:
        sender = await client.sender(self.hub_ledger.hub)
        annotations = {"x-opt-partition-key": f"key of {self.producer}"}
        while self.goes_on(life):
            made = [self.hub_ledger.take(self.producer, 1) for _ in range(self.random.randint(1, 20))]
            await asyncio.gather(
                *[
                    self.send(sender, one, encode_message(message_annotations=annotations, data=one[0].encode(100)), 0)
                    for one in made
                ]
            )
            await asyncio.sleep(PAUSE_S)


def _event_of(delivery: IncomingDelivery) -> HubEvent:
    data = Message(delivery.payload).data
    assert data is not None
    return HubEvent.decode(data)


def _behind(sequence_number: int) -> dict[object, object] | None:
    if sequence_number < 0:
        return None
    text = f"amqp.annotation.x-opt-sequence-number > '{sequence_number}'"
    return {_SELECTOR: Described(_SELECTOR, text)}


class Follower(_HubDriver):
    """Reads one partition as it grows, and goes on in the next life where it was. What it saw must never be gone."""

    def __init__(self, mortal: MortalBroker, ledger: HubLedger, partition: int, seed: int) -> None:
        super().__init__(mortal, ledger, seed)
        self.partition = partition
        self.following = 0

    async def exchange(self, client: Client, life: int) -> None:
        path = f"{self.hub_ledger.hub}/ConsumerGroups/followers/Partitions/{self.partition}"
        source = Source(path, filter=_behind(self.following - 1))
        receiver = await client.receiver(source, credit=READ_CREDIT, is_settled=True)
        while self.goes_on(life):
            try:
                delivery = await asyncio.wait_for(receiver.receive(), PAUSE_S)
            except TimeoutError:
                continue
            number = sequence_number_of(delivery)
            if number != self.following:
                with self.hub_ledger.lock:
                    self.hub_ledger.break_promise("gap", f"{self.name} got {number} and waited for {self.following}")
            self.following = number + 1
            self.hub_ledger.see(self.partition, number, _event_of(delivery))


async def read_partition(client: Client, ledger: HubLedger, partition: int, first: int, length: int) -> None:
    """Everything from one event on to the last, which the ledger then accounts for."""
    path = f"{ledger.hub}/ConsumerGroups/$Default/Partitions/{partition}"
    source = Source(path, filter=_behind(first - 1))
    receiver = await client.receiver(source, credit=READ_CREDIT, is_settled=True)
    for expected in range(first, length):
        delivery = await receiver.receive()
        number = sequence_number_of(delivery)
        if number != expected:
            with ledger.lock:
                ledger.break_promise("gap", f"{partition}/{expected} came as {number}")
            break
        ledger.see(partition, number, _event_of(delivery))
    await receiver.close()
    ledger.account(partition, length)
