"""The backlog queues of the secondary namespace: their names, how they are made, and that they are there."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from tandem.client.descriptions import NEVER, QueueDescription
from tandem.client.errors import MessagingEntityAlreadyExistsError, MessagingError
from tandem.client.namespace_manager import NamespaceManager
from tandem.client.service_address import ServiceAddress
from tandem.errors import ConfigurationError

__all__ = [
    "MAX_BACKLOG_QUEUES",
    "backlog_queue_description",
    "backlog_queue_path",
    "ensure_backlog_queues",
    "loss_risks",
    "primary_namespace_name",
]

# Queues. More than that spread nothing further, and each costs a long poll for ever.
MAX_BACKLOG_QUEUES: Final = 1_000

_TRANSFER: Final = "x-servicebus-transfer"

# Hosts whose first label is the name of the namespace: the cloud service's in each of its clouds, and Tandem's own.
_NAMED_HOSTS: Final = (".servicebus.", ".localhost")

_MAX_SIZE_MEGABYTES: Final = 5_120
# "For ever": a message that is on its way is never given up because of the number of tries.
_MAX_DELIVERY_COUNT: Final = 2_147_483_647
_LOCK_DURATION: Final = timedelta(minutes=1)

# Deliveries. The syphon gives messages back without counting a delivery, but each time that it is killed, or loses the
# secondary, counts one for what it had in hand. Below this number a bad day dead-letters messages.
_MIN_DELIVERY_COUNT: Final = 1_000


def primary_namespace_name(address: str) -> str:
    """The name of a namespace as its address tells it.

    `sb://contoso.servicebus.windows.net` is `contoso`, and `amqp://sales.localhost` is `sales`. An address without a
    name in it stands for itself, with its port: two brokers on one machine must not share backlog queues.
    """
    parts = ServiceAddress.parse(address)
    host = parts.host.lower()
    if any(named in host for named in _NAMED_HOSTS):
        return host.partition(".")[0]
    name = host.replace(":", "-").strip("-")
    return name if parts.port is None else f"{name}-{parts.port}"


def backlog_queue_path(primary_namespace: str, index: int) -> str:
    return f"{primary_namespace}/{_TRANSFER}/{index}"


def backlog_queue_description(path: str) -> QueueDescription:
    """How a backlog queue is made. All that is not said here is as the service has it by default."""
    return QueueDescription(
        path,
        max_size_in_megabytes=_MAX_SIZE_MEGABYTES,
        max_delivery_count=_MAX_DELIVERY_COUNT,
        default_message_time_to_live=NEVER,
        auto_delete_on_idle=NEVER,
        lock_duration=_LOCK_DURATION,
        dead_lettering_on_message_expiration=True,
        enable_batched_operations=True,
    )


def loss_risks(queue: QueueDescription) -> list[str]:
    """Settings of an existing queue by which messages can leave the backlog before the syphon has moved them."""
    risks: list[str] = []
    if queue.max_delivery_count < _MIN_DELIVERY_COUNT:
        risks.append(
            f"max_delivery_count is {queue.max_delivery_count:,}: a message is dead-lettered after as many crashes of "
            f"a syphon; set at least {_MIN_DELIVERY_COUNT:,}"
        )
    if queue.default_message_time_to_live != NEVER:
        end = "dead-lettered" if queue.dead_lettering_on_message_expiration else "lost"
        risks.append(
            f"default_message_time_to_live is {queue.default_message_time_to_live}: messages are {end} in a longer "
            "outage; set it to unlimited"
        )
    if queue.auto_delete_on_idle != NEVER:
        risks.append(
            f"auto_delete_on_idle is {queue.auto_delete_on_idle}: the queue is deleted with its messages; set it to "
            "never"
        )
    if queue.forward_to:
        risks.append(f"forward_to is {queue.forward_to}: messages leave the backlog; remove it")
    return risks


async def ensure_backlog_queues(manager: NamespaceManager, primary_namespace: str, count: int) -> int:
    """Find or make the queues 0 to count - 1, and return how many there are.

    One that exists is used as it is, also with other settings. Others are left alone, and nothing is ever deleted.
    """
    for index in range(count):
        path = backlog_queue_path(primary_namespace, index)
        try:
            await _ensure(manager, path)
        except MessagingError as error:
            error.add_note(f"while the backlog queue '{path}' was looked for or made at {manager.address}")
            raise
    return count


async def _ensure(manager: NamespaceManager, path: str) -> None:
    if await manager.queue_exists(path):
        return
    try:
        await manager.create_queue(backlog_queue_description(path))
    except MessagingEntityAlreadyExistsError:
        # Another application that pairs the same namespaces made it in the meantime; or it is no queue.
        if not await manager.queue_exists(path):
            raise ConfigurationError(
                f"'{path}' at {manager.address} exists and is no queue: backlog queues need its name; rename it"
            ) from None
