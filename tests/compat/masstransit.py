"""MassTransit's topology and traffic, as its transport for Azure Service Bus makes them, without .NET.

A message type has a topic, named after its namespace and type. An endpoint has a queue, and a subscription of its name
on the topic of each type that it consumes, which forwards to the queue. A type that implements another one forwards to
the topic of that one. So a published message takes up to three hops:

    Orders/Submitted ─ submit-order ──────────────────▶ submit-order
        └─ Contract-Orders ▶ Orders/Contract ─ audit ─▶ audit
    MassTransit/Fault--Orders/Submitted-- ─ Fault-MassTransit ▶ MassTransit/Fault ─ faults ─▶ faults
    Orders/Billed ─ order-saga ───────────────────────▶ order-saga, a queue with sessions

What an endpoint cannot process goes to the queue of its name with `_error`, and what it does not know to that with
`_skipped`.

Before anything is made it is looked for, and a subscription that is there is compared with what it should be.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from azure.core.exceptions import ResourceNotFoundError

from tests.compat.admin import Admin

__all__ = ["FAULT", "FAULT_OF_SUBMITTED", "REPLY_QUEUE", "Forwarding", "declare"]

SUBMITTED: Final = "Orders/Submitted"
CONTRACT: Final = "Orders/Contract"
BILLED: Final = "Orders/Billed"
FAULT: Final = "MassTransit/Fault"
FAULT_OF_SUBMITTED: Final = "MassTransit/Fault--Orders/Submitted--"
TOPICS: Final = (SUBMITTED, CONTRACT, BILLED, FAULT_OF_SUBMITTED, FAULT)

# Of the process that asks and waits for replies: machine, program, "bus", and an id.
REPLY_QUEUE: Final = "vm_shop_bus_4ioyyy8c8cbyqdqzbdq1j5zhhr"
SESSION_QUEUE: Final = "order-saga"
QUEUES: Final = (
    "submit-order",
    "submit-order_error",
    "submit-order_skipped",
    "audit",
    "faults",
    "reminders",
    "check-order",
    SESSION_QUEUE,
    REPLY_QUEUE,
)

# MassTransit locks for five minutes. A message whose settlement is lost has to come back while a test waits.
LOCK: Final = timedelta(seconds=5)


@dataclass(frozen=True)
class Forwarding:
    """A subscription that forwards to a queue, or to the topic of an implemented type."""

    topic: str
    name: str
    target: str


FORWARDINGS: Final = (
    Forwarding(SUBMITTED, "submit-order", "submit-order"),
    Forwarding(SUBMITTED, "Contract-Orders", CONTRACT),
    Forwarding(CONTRACT, "audit", "audit"),
    Forwarding(FAULT_OF_SUBMITTED, "Fault-MassTransit", FAULT),
    Forwarding(FAULT, "faults", "faults"),
    Forwarding(BILLED, SESSION_QUEUE, SESSION_QUEUE),
)


def declare(admin: Admin) -> list[str]:
    """Make what is missing, as a bus does when it starts. Return what was made or changed."""
    made: list[str] = []
    for topic in TOPICS:
        made += _declare_topic(admin, topic)
    for queue in QUEUES:
        made += _declare_queue(admin, queue)
    for forwarding in FORWARDINGS:
        made += _declare_forwarding(admin, forwarding)
    return made


def _declare_topic(admin: Admin, name: str) -> list[str]:
    try:
        admin.get_topic(name)
    except ResourceNotFoundError:
        admin.create_topic(
            name,
            auto_delete_on_idle=timedelta(days=427),
            default_message_time_to_live=timedelta(days=366),
            enable_batched_operations=True,
        )
        return [name]
    return []


def _declare_queue(admin: Admin, name: str) -> list[str]:
    try:
        admin.get_queue(name)
    except ResourceNotFoundError:
        idle = timedelta(minutes=5) if name == REPLY_QUEUE else timedelta(days=427)
        admin.create_queue(
            name,
            auto_delete_on_idle=idle,
            default_message_time_to_live=timedelta(days=366),
            enable_batched_operations=True,
            dead_lettering_on_message_expiration=True,
            lock_duration=LOCK,
            max_delivery_count=5,
            requires_session=name == SESSION_QUEUE,
        )
        return [name]
    return []


def _declare_forwarding(admin: Admin, wanted: Forwarding) -> list[str]:
    settings: dict[str, Any] = {
        "lock_duration": LOCK,
        "max_delivery_count": 5,
        "enable_batched_operations": True,
        "dead_lettering_on_message_expiration": True,
    }
    try:
        found = admin.get_subscription(wanted.topic, wanted.name)
    except ResourceNotFoundError:
        admin.create_subscription(wanted.topic, wanted.name, forward_to=wanted.target, **settings)
        return [f"{wanted.topic} → {wanted.target}"]
    # The service returns the target as an address; MassTransit compares paths, with regard to their case.
    is_same = urlsplit(found.forward_to).path.strip("/") == wanted.target
    if is_same and all(getattr(found, name) == value for name, value in settings.items()):
        return []
    admin.update_subscription(wanted.topic, found, forward_to=wanted.target, **settings)
    return [f"{wanted.topic} → {wanted.target} again"]
