"""Publishers and subscribers: with the official SDK, and with Tandem's own driver for volume and transactions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
)

from tandem.amqp import IncomingDelivery, Message
from tandem.amqp.message import encode_message
from tests.crash.driver_workers import DriverConsumer, DriverProducer, TransactionProducer, body_of
from tests.crash.sdk_workers import SEND_LIMIT_S, Consumer, Producer, number_of
from tests.crash.topic_ledger import SubscriptionLedger, TopicLedger, properties_of

__all__ = ["DriverPublisher", "DriverSubscriber", "Publisher", "Subscriber", "TransactionPublisher"]

# Of all calls: those that schedule messages, which the topic keeps until they are due.
SCHEDULED: Final = 0.3


class Publisher(Producer):
    """Sends batches to a topic, and schedules some."""

    ledger: TopicLedger
    most_at_once = 40

    def sender(self, client: ServiceBusClient) -> ServiceBusSender:
        return client.get_topic_sender(self.ledger.queue)

    def message(self, number: int) -> ServiceBusMessage:
        properties = properties_of(number)
        return ServiceBusMessage(str(number), application_properties={name: properties[name] for name in properties})

    def send(self, sender: ServiceBusSender, numbers: Sequence[int]) -> None:
        if self.random.random() > SCHEDULED:
            super().send(sender, numbers)
            return
        due_at = datetime.now(UTC) + timedelta(milliseconds=self.random.randint(100, 2_000))
        sender.schedule_messages([self.message(number) for number in numbers], due_at, timeout=SEND_LIMIT_S)
        self.ledger.acknowledge(numbers)


class Subscriber(Consumer):
    """Receives copies with peek-lock, looks at what is in them and completes."""

    ledger: SubscriptionLedger

    def receiver(self, client: ServiceBusClient) -> ServiceBusReceiver:
        return client.get_subscription_receiver(self.ledger.topic, self.ledger.wish.name)

    def number(self, message: ServiceBusReceivedMessage) -> int:
        return self.ledger.number_of_copy(number_of(message), _properties(message))

    def note(self, message: ServiceBusReceivedMessage, life: int) -> None:
        self.ledger.check_copy(number_of(message), _properties(message))
        super().note(message, life)


def _properties(message: ServiceBusReceivedMessage) -> dict[str, object]:
    """With texts as texts: the SDK has them as they came over the wire."""
    found: dict[str, object] = {}
    for name, value in (message.application_properties or {}).items():
        text = name.decode() if isinstance(name, bytes) else name
        found[text] = value.decode() if isinstance(value, bytes) else value
    return found


class DriverPublisher(DriverProducer):
    """Sends a window of messages to a topic at once."""

    ledger: TopicLedger

    def message(self, number: int) -> bytes:
        return encode_publication(number)


class TransactionPublisher(TransactionProducer):
    """Publishes a few messages in each transaction."""

    ledger: TopicLedger

    def message(self, number: int) -> bytes:
        return encode_publication(number)


def encode_publication(number: int) -> bytes:
    return encode_message(application_properties={**properties_of(number)}, data=b"%d" % number)


class DriverSubscriber(DriverConsumer):
    """Receives copies with a window of credit."""

    ledger: SubscriptionLedger

    def number(self, delivery: IncomingDelivery) -> int:
        return self.ledger.number_of_copy(body_of(delivery), Message(delivery.payload).application_properties or {})

    def note(self, delivery: IncomingDelivery, life: int) -> None:
        self.ledger.check_copy(body_of(delivery), Message(delivery.payload).application_properties or {})
        super().note(delivery, life)
