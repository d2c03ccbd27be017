"""Producers and consumers on Tandem's own driver: volume, and transactions, which the SDK for Python does not have."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from tandem.amqp import (
    ACCEPTED,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    IncomingDelivery,
    Message,
    Settings,
    TransactionalState,
)
from tandem.amqp.message import encode_message
from tandem.amqp.types import Symbol
from tandem.driver import Client, Receiver, Sender, run
from tests.crash.ledger import Ledger, TransactionLedger
from tests.crash.mortal import MortalBroker, Worker

__all__ = ["DriverConsumer", "DriverProducer", "TransactionProducer", "body_of"]

SEQUENCE_NUMBER: Final = Symbol("x-opt-sequence-number")

# Messages under way at once.
WINDOW: Final = 200

# Seconds. Between windows, so that the SDK's threads get their share of the interpreter.
PAUSE_S: Final = 0.05
# Seconds. How often a consumer looks whether its completions are confirmed.
TICK_S: Final = 0.002

HOST: Final = "127.0.0.1"
RULE: Final = "RootManageSharedAccessKey"
KEY: Final = "SAS_KEY_VALUE"


def body_of(delivery: IncomingDelivery) -> int:
    return int(Message(delivery.payload).data or b"")


def sequence_number_of(delivery: IncomingDelivery) -> int:
    annotations = Message(delivery.payload).message_annotations or {}
    sequence_number = annotations[SEQUENCE_NUMBER]
    assert isinstance(sequence_number, int)
    return sequence_number


class DriverWorker(Worker):
    """Runs an event loop of its own in each life of the broker."""

    def __init__(self, mortal: MortalBroker, ledger: Ledger) -> None:
        super().__init__(mortal, f"{type(self).__name__} of {ledger.queue}")
        self.ledger = ledger

    def work(self, life: int) -> None:
        run(self._connect_and_exchange(life))

    async def _connect_and_exchange(self, life: int) -> None:
        settings = Settings(f"crash-{self.name}", user=RULE, password=KEY)
        async with await Client.connect(HOST, self.mortal.broker.port, settings) as client:
            await self.exchange(client, life)

    async def exchange(self, client: Client, life: int) -> None:
        raise NotImplementedError


class DriverProducer(DriverWorker):
    """Sends a window of messages at once."""

    is_producer = True

    def __init__(self, mortal: MortalBroker, ledger: Ledger, seed: int, max_waiting: int) -> None:
        super().__init__(mortal, ledger)
        self.random = random.Random(seed)
        self.max_waiting = max_waiting

    async def exchange(self, client: Client, life: int) -> None:
        sender = await client.sender(self.ledger.queue)
        while self.goes_on(life):
            if self.ledger.waiting_count <= self.max_waiting:
                numbers = self.ledger.take_numbers(self.random.randint(1, WINDOW))
                await asyncio.gather(*(self._send(sender, number) for number in numbers))
            await asyncio.sleep(PAUSE_S)

    def message(self, number: int) -> bytes:
        return encode_message(data=b"%d" % number)

    async def _send(self, sender: Sender, number: int) -> None:
        try:
            outcome = await sender.send(self.message(number))
        except BaseException:
            self.ledger.doubt([number])
            raise
        if outcome is ACCEPTED:
            self.ledger.acknowledge([number])
        else:
            self.ledger.doubt([number])


class TransactionProducer(DriverProducer):
    """Sends a few messages in each transaction, and commits most of them."""

    ledger: TransactionLedger

    async def exchange(self, client: Client, life: int) -> None:
        coordinator = await client.sender(Coordinator())
        sender = await client.sender(self.ledger.queue)
        while self.goes_on(life):
            if self.ledger.waiting_count <= self.max_waiting:
                numbers = self.ledger.take_numbers(self.random.randint(2, 6))
                self.ledger.declare(numbers)
                try:
                    await self._transact(coordinator, sender, numbers)
                except BaseException:
                    self.ledger.doubt(numbers)
                    raise
            await asyncio.sleep(PAUSE_S)

    async def _transact(self, coordinator: Sender, sender: Sender, numbers: Sequence[int]) -> None:
        declared = await coordinator.send(Declare().encode())
        assert isinstance(declared, Declared), f"the declare was answered with {declared!r}"
        state = TransactionalState(declared.txn_id)
        for number in numbers:
            await sender.send(self.message(number), state=state)
        fails = self.random.random() < 0.2
        outcome = await coordinator.send(Discharge(declared.txn_id, fail=fails).encode())
        assert outcome is ACCEPTED, f"the discharge was answered with {outcome!r}"
        if fails:
            self.ledger.roll_back(numbers)
        else:
            self.ledger.acknowledge(numbers)


class DriverConsumer(DriverWorker):
    """Receives with a window of credit, and lets the broker confirm each completion (rcv-settle-mode second)."""

    def __init__(self, mortal: MortalBroker, ledger: Ledger, credit: int = WINDOW) -> None:
        super().__init__(mortal, ledger)
        self.credit = credit

    async def exchange(self, client: Client, life: int) -> None:
        receiver = await client.receiver(self.ledger.queue, credit=self.credit, is_second=True)
        while self.goes_on(life):
            deliveries = await self._some(receiver)
            for delivery in deliveries:
                self.note(delivery, life)
                self.ledger.attempt(sequence_number_of(delivery), self.number(delivery))
                receiver.settle(delivery, is_settled=False)
            await self._confirmed(client, deliveries)

    def number(self, delivery: IncomingDelivery) -> int:
        return body_of(delivery)

    def note(self, delivery: IncomingDelivery, life: int) -> None:
        self.ledger.receive(sequence_number_of(delivery), self.number(delivery), life)

    async def _some(self, receiver: Receiver) -> list[IncomingDelivery]:
        """What is there, or the next one, or nothing after a while."""
        try:
            deliveries = [await asyncio.wait_for(receiver.receive(), PAUSE_S)]
        except TimeoutError:
            return []
        while receiver.waiting_count:
            deliveries.append(await receiver.receive())
        return deliveries

    async def _confirmed(self, client: Client, deliveries: Sequence[IncomingDelivery]) -> None:
        waiting = list(deliveries)
        while waiting and not client.endpoint.lost.done():
            for delivery in waiting:
                if delivery.is_settled and delivery.state is ACCEPTED:
                    self.ledger.complete(sequence_number_of(delivery), self.mortal.life)
            waiting = [delivery for delivery in waiting if not delivery.is_settled]
            if waiting:
                await asyncio.sleep(TICK_S)
