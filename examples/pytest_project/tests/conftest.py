"""The shop's queues and topics, and links to them, once for all tests: Tandem empties them after each."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceiver, ServiceBusSender, ServiceBusSubQueue

from tandem.testing import Bus


class Links:
    """The shop's connections. Opening and closing one takes the SDK half a second, most of it asleep, so all are
    opened at once, and closed at once."""

    def __init__(self, client: ServiceBusClient) -> None:
        self.orders = client.get_queue_sender("orders")
        self.payments = client.get_queue_sender("payments")
        self.events = client.get_topic_sender("events")
        self.kitchen = client.get_queue_receiver("orders")
        self.dead_orders = client.get_queue_receiver("orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        self.audit = client.get_subscription_receiver("events", "audit")
        self.europe = client.get_subscription_receiver("events", "europe")
        self._pool = ThreadPoolExecutor(len(vars(self)))
        self._all = [link for link in vars(self).values() if isinstance(link, ServiceBusSender | ServiceBusReceiver)]
        list(self._pool.map(lambda link: link.__enter__(), self._all))

    def close_later(self, link: ServiceBusReceiver) -> None:
        """Whoever opened a link for one test need not wait for its end."""
        self._pool.submit(link.close)

    def close(self) -> None:
        list(self._pool.map(lambda link: link.close(), self._all))
        self._pool.shutdown()


@pytest.fixture(scope="session")
def shop(tandem_session_bus: Bus) -> Bus:
    bus = tandem_session_bus
    bus.create_queue("orders", lock_duration_ms=30_000, max_delivery_count=3, dead_lettering_on_message_expiration=True)
    bus.create_queue("payments", requires_session=True)
    bus.create_topic("events")
    bus.create_subscription("events", "audit")
    in_euros = {
        "name": "eu",
        "filter": {"kind": "sql", "expression": "region = 'eu'"},
        "action": {"expression": "SET currency = 'EUR'"},
    }
    bus.create_subscription("events", "europe", rules=[in_euros])
    return bus


@pytest.fixture(scope="session")
def client(shop: Bus) -> Iterator[ServiceBusClient]:
    # Short pauses between attempts: the tests of outages would spend their time in them.
    with ServiceBusClient.from_connection_string(
        shop.connection_string, retry_total=3, retry_backoff_factor=0.05
    ) as client:
        yield client


@pytest.fixture(scope="session")
def links(client: ServiceBusClient) -> Iterator[Links]:
    links = Links(client)
    yield links
    links.close()


@pytest.fixture
def orders(links: Links) -> ServiceBusSender:
    """What customers order."""
    return links.orders


@pytest.fixture
def kitchen(links: Links) -> ServiceBusReceiver:
    """Who works on orders."""
    return links.kitchen


@pytest.fixture
def dead_orders(links: Links) -> ServiceBusReceiver:
    """Orders that nobody could work on."""
    return links.dead_orders


@pytest.fixture
def events(links: Links) -> ServiceBusSender:
    """What is announced to whom it may concern."""
    return links.events


@pytest.fixture
def audit(links: Links) -> ServiceBusReceiver:
    """Gets every event."""
    return links.audit


@pytest.fixture
def europe(links: Links) -> ServiceBusReceiver:
    """Gets events of its region, in its currency."""
    return links.europe


@pytest.fixture
def payments(links: Links) -> ServiceBusSender:
    """Payments, in sessions: one for each customer."""
    return links.payments


@pytest.fixture
def ada(client: ServiceBusClient, links: Links) -> Iterator[ServiceBusReceiver]:
    """Receives the payments of the customer Ada, and holds her session."""
    receiver = client.get_queue_receiver("payments", session_id="ada")
    yield receiver
    links.close_later(receiver)
