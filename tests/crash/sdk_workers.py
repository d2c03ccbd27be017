"""Producers and consumers with the official SDK, each with a connection of its own."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusReceiver,
    ServiceBusSender,
)
from azure.servicebus.exceptions import MessageNotFoundError

from tests.crash.ledger import Ledger, OnceLedger, ScheduleLedger, SessionLedger
from tests.crash.mortal import MortalBroker, Worker

__all__ = [
    "Consumer",
    "DeferringConsumer",
    "OnceConsumer",
    "Producer",
    "ScheduledConsumer",
    "SchedulingProducer",
    "SessionConsumer",
    "SessionProducer",
]

# Messages per receive call.
RECEIVE_COUNT: Final = 50

# Messages. What the SDK may have asked for when its connection is lost: for one call, and what was left of another.
CREDIT_AT_MOST: Final = 2 * RECEIVE_COUNT

# Seconds.
RECEIVE_WAIT_S: Final = 0.5
SEND_LIMIT_S: Final = 20
PAUSE_S: Final = 0.05
# Seconds. How long to wait before a deferred message that was not found is looked for again.
LOOK_AGAIN_S: Final = 1.0

SESSIONS: Final = ("red", "green", "blue")


@contextmanager
def connected(mortal: MortalBroker, retries: int = 2) -> Iterator[ServiceBusClient]:
    # With retries some calls bridge the death of the broker by themselves, and others end in an error.
    client = ServiceBusClient.from_connection_string(
        mortal.broker.connection_string, retry_total=retries, retry_backoff_factor=0.3, retry_mode="fixed"
    )
    with client:
        yield client


def number_of(message: ServiceBusReceivedMessage) -> int:
    return int(str(message))


def sequence_number_of(message: ServiceBusReceivedMessage) -> int:
    assert message.sequence_number is not None
    return message.sequence_number


class Producer(Worker):
    """Sends batches of different sizes, and waits while the consumers have enough to do."""

    is_producer = True
    most_at_once = 150

    def __init__(
        self, mortal: MortalBroker, ledger: Ledger, seed: int, max_waiting: int, pause_s: float = PAUSE_S
    ) -> None:
        """`pause_s` between the calls leaves the interpreter to other threads."""
        super().__init__(mortal, f"producer of {ledger.queue}")
        self.ledger = ledger
        self.random = random.Random(seed)
        self.max_waiting = max_waiting
        self.pause_s = pause_s

    def work(self, life: int) -> None:
        with connected(self.mortal) as client, self.sender(client) as sender:
            while self.goes_on(life):
                if self.ledger.waiting_count > self.max_waiting:
                    time.sleep(PAUSE_S)
                    continue
                numbers = self.ledger.take_numbers(self.random.randint(1, self.most_at_once))
                try:
                    self.send(sender, numbers)
                except Exception:
                    self.ledger.doubt(numbers)
                    raise
                time.sleep(self.pause_s)

    def sender(self, client: ServiceBusClient) -> ServiceBusSender:
        return client.get_queue_sender(self.ledger.queue)

    def message(self, number: int) -> ServiceBusMessage:
        return ServiceBusMessage(str(number))

    def send(self, sender: ServiceBusSender, numbers: Sequence[int]) -> None:
        sender.send_messages([self.message(number) for number in numbers], timeout=SEND_LIMIT_S)
        self.ledger.acknowledge(numbers)


class SchedulingProducer(Producer):
    """Schedules messages for a moment soon."""

    ledger: ScheduleLedger
    most_at_once = 20

    def send(self, sender: ServiceBusSender, numbers: Sequence[int]) -> None:
        due_at = datetime.now(UTC) + timedelta(milliseconds=self.random.randint(200, 4_000))
        # Whole milliseconds, as they are on the wire.
        due_at = due_at.replace(microsecond=due_at.microsecond // 1_000 * 1_000)
        self.ledger.schedule(numbers, due_at.timestamp())
        sender.schedule_messages([ServiceBusMessage(str(number)) for number in numbers], due_at, timeout=SEND_LIMIT_S)
        self.ledger.acknowledge(numbers)


class SessionProducer(Producer):
    """Sends to sessions in turn."""

    ledger: SessionLedger
    most_at_once = 30

    def send(self, sender: ServiceBusSender, numbers: Sequence[int]) -> None:
        session_id = self.random.choice(SESSIONS)
        messages = [ServiceBusMessage(str(number), session_id=session_id) for number in numbers]
        sender.send_messages(messages, timeout=SEND_LIMIT_S)
        self.ledger.acknowledge_in(session_id, numbers)


class Consumer(Worker):
    """Receives with peek-lock and completes."""

    def __init__(self, mortal: MortalBroker, ledger: Ledger) -> None:
        super().__init__(mortal, f"consumer of {ledger.queue}")
        self.ledger = ledger

    def work(self, life: int) -> None:
        with connected(self.mortal) as client, self.receiver(client) as receiver:
            while self.goes_on(life):
                messages = receiver.receive_messages(RECEIVE_COUNT, RECEIVE_WAIT_S)
                for message in messages:
                    self.note(message, life)
                for message in messages:
                    self.complete(receiver, message)

    def receiver(self, client: ServiceBusClient) -> ServiceBusReceiver:
        return client.get_queue_receiver(self.ledger.queue)

    def number(self, message: ServiceBusReceivedMessage) -> int:
        return number_of(message)

    def note(self, message: ServiceBusReceivedMessage, life: int) -> None:
        self.ledger.receive(sequence_number_of(message), self.number(message), life)

    def complete(self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> None:
        sequence_number = sequence_number_of(message)
        self.ledger.attempt(sequence_number, self.number(message))
        receiver.complete_message(message)
        self.ledger.complete(sequence_number, self.mortal.life)


class OnceConsumer(Worker):
    """Receives and deletes in one."""

    def __init__(self, mortal: MortalBroker, ledger: OnceLedger) -> None:
        super().__init__(mortal, f"consumer of {ledger.queue}")
        self.ledger = ledger

    def work(self, life: int) -> None:
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        self.ledger.allow(CREDIT_AT_MOST)
        with (
            # No retries: each would be a connection more that can take messages with it when it is lost.
            connected(self.mortal, retries=0) as client,
            client.get_queue_receiver(self.ledger.queue, receive_mode=mode) as receiver,
        ):
            while self.goes_on(life):
                for message in receiver.receive_messages(RECEIVE_COUNT, RECEIVE_WAIT_S):
                    self.ledger.receive(sequence_number_of(message), number_of(message), life)


class ScheduledConsumer(Consumer):
    """Nothing may come before it is due."""

    ledger: ScheduleLedger

    def note(self, message: ServiceBusReceivedMessage, life: int) -> None:
        self.ledger.check_due(number_of(message), time.time())
        super().note(message, life)


class DeferringConsumer(Consumer):
    """Defers what it receives, and takes it by its sequence number afterwards."""

    def __init__(self, mortal: MortalBroker, ledger: Ledger) -> None:
        super().__init__(mortal, ledger)
        # By sequence number: the life in which the deferral was acknowledged, or none if it is in doubt.
        self.deferred: dict[int, int | None] = {}
        self.look_again_at: dict[int, float] = {}

    def work(self, life: int) -> None:
        with connected(self.mortal, retries=0) as client, client.get_queue_receiver(self.ledger.queue) as receiver:
            while self.goes_on(life):
                self._take_deferred(receiver)
                messages = receiver.receive_messages(RECEIVE_COUNT, RECEIVE_WAIT_S)
                for message in messages:
                    self.note(message, life)
                for message in messages:
                    self._defer(receiver, message)

    def note(self, message: ServiceBusReceivedMessage, life: int) -> None:
        super().note(message, life)
        sequence_number = sequence_number_of(message)
        deferred_in = self.deferred.pop(sequence_number, None)
        if deferred_in is not None and life >= deferred_in:
            with self.ledger.lock:
                self.ledger.break_promise("deferred_and_seen_again", f"sequence number {sequence_number}")

    def _defer(self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> None:
        sequence_number = sequence_number_of(message)
        self.deferred[sequence_number] = None
        receiver.defer_message(message)
        self.deferred[sequence_number] = self.mortal.life

    def _take_deferred(self, receiver: ServiceBusReceiver) -> None:
        """One by one: not found is right for a deferral that did not happen, for a message whose completion in doubt
        did, and for as long as the lock of an earlier try holds it. What stays so is not completed, and so is lost."""
        for sequence_number in list(self.deferred):
            if time.monotonic() < self.look_again_at.get(sequence_number, 0.0):
                continue
            try:
                messages = receiver.receive_deferred_messages(sequence_number)
            except MessageNotFoundError:
                self.look_again_at[sequence_number] = time.monotonic() + LOOK_AGAIN_S
                continue
            self.complete(receiver, messages[0])
            self.deferred.pop(sequence_number, None)


class SessionConsumer(Worker):
    """Accepts one session after the other, and looks at the order of what comes."""

    def __init__(self, mortal: MortalBroker, ledger: SessionLedger) -> None:
        super().__init__(mortal, f"consumer of {ledger.queue}")
        self.ledger = ledger

    def work(self, life: int) -> None:
        with connected(self.mortal) as client:
            while self.goes_on(life):
                for session_id in SESSIONS:
                    with client.get_queue_receiver(self.ledger.queue, session_id=session_id) as receiver:
                        self._take(receiver, session_id, life)

    def _take(self, receiver: ServiceBusReceiver, session_id: str, life: int) -> None:
        on_this_link: set[int] = set()
        for message in receiver.receive_messages(RECEIVE_COUNT, RECEIVE_WAIT_S):
            number, sequence_number = number_of(message), sequence_number_of(message)
            self.ledger.receive(sequence_number, number, life)
            self.ledger.check_order(session_id, number, on_this_link)
            on_this_link.add(number)
            self.ledger.attempt(sequence_number, number)
            receiver.complete_message(message)
            self.ledger.complete(sequence_number, self.mortal.life)
