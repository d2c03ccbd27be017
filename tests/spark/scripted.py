"""A workload whose cost is known to the unit, and an outage whose times are known to the second."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from tandem.client import MessagingFactorySettings
from tandem.client.sync import BrokeredMessage, EventData, EventHubClient, MessagingFactory
from tandem.testing import Broker
from tests.patience import PATIENCE_S

__all__ = ["BACKLOG", "LEDGER", "do_workload", "tell_outage", "tell_pairing_events"]

BACKLOG: Final = "shop/x-servicebus-transfer"

# Units by place, operation and stage: what the workload is charged for, and what is free beside it.
LEDGER: Final = {
    ("orders", "send", "direct"): 7 + 2,
    ("orders", "ping", "direct"): 3,
    ("backlog", "send", "backlog"): 5,
    ("backlog", "receive", "syphon"): 5,
    ("backlog", "complete", "syphon"): 5,
    ("orders", "send", "syphon"): 5,
    ("orders", "receive", "direct"): 12 + 2,
    ("orders", "complete", "direct"): 13,
    ("backlog", "empty-receive", "syphon"): 40,
}


def do_workload(broker: Broker) -> None:
    """Twelve small messages, five of them on the detour, a large one, three pings, four empty polls of ten queues."""
    small, large = b"x" * 100, b"x" * 100_000
    syphon_settings = MessagingFactorySettings(user_agent="tandem-syphon")
    for number in range(10):
        broker.create_queue(f"{BACKLOG}/{number}")
    broker.create_queue("orders")
    with (
        MessagingFactory.from_connection_string(broker.connection_string) as application,
        MessagingFactory.from_connection_string(broker.connection_string, syphon_settings) as pump,
    ):
        orders = application.create_queue_client("orders")
        for body in [small] * 7 + [large]:
            orders.send(BrokeredMessage(body))
        for _ in range(3):
            ping = BrokeredMessage(content_type="application/vnd.ms-servicebus-ping", time_to_live=timedelta(seconds=1))
            orders.send(ping)
        backlog = application.create_message_sender(f"{BACKLOG}/0")
        for _ in range(5):
            backlog.send(BrokeredMessage(small))
        target, source = pump.create_message_sender("orders"), pump.create_message_receiver(f"{BACKLOG}/0")
        for _ in range(5):
            message = source.receive(timeout=PATIENCE_S)
            assert message is not None
            target.send(message.clone())
            message.complete()
        for _ in range(13):
            message = orders.receive(timeout=PATIENCE_S)
            assert message is not None
            message.complete()
        for number in range(10):
            receiver = pump.create_message_receiver(f"{BACKLOG}/{number}")
            for _ in range(4):
                assert receiver.receive(timeout=0.02) is None


def tell_outage(broker: Broker, entity: str) -> datetime:
    """What a paired client tells of an outage, at times after the moment that is returned."""
    script: list[tuple[float, str, dict[str, object]]] = [
        (0, "failing", {"reason": "no"}),
        (10, "failed-over", {}),
        (11, "diverted", {"count": 100, "queue": 3}),
        (70, "ping", {"outcome": "ok"}),
        (71, "restored", {}),
        (75, "syphoned", {"count": 100, "queue": 3}),
    ]
    return tell_pairing_events(broker, entity, script)


def tell_pairing_events(
    broker: Broker, entity: str, script: Sequence[tuple[float, str, dict[str, object]]], **everywhere: object
) -> datetime:
    """Events of a paired client: how many seconds after the moment that is returned, their names and their details."""
    # All of it is over by now: what a test does afterwards comes after it.
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=max(seconds for seconds, _, _ in script))
    usual = {"kind": "pairing", "entity": entity, "client": "test", "primary": "p", "secondary": "s", **everywhere}
    events: list[EventData] = []
    for seconds, name, details in script:
        moment = (start + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        events.append(EventData(json.dumps({**usual, "time": moment, "event": name, **details})))
    with EventHubClient.from_connection_string(broker.connection_string, "$operations") as client:
        client.create_producer().send_batch(events)
    return start
