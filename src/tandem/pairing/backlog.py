"""The backlog queues of the secondary namespace: their names, how they are made, and that they are there."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import Final, TypeVar

from tandem.client.descriptions import NEVER, QueueDescription
from tandem.client.errors import MessagingEntityAlreadyExistsError, MessagingError
from tandem.client.namespace_manager import NamespaceManager
from tandem.client.service_address import ServiceAddress
from tandem.cost.backlog_capacity import BACKLOG_QUEUE_MEGABYTES
from tandem.errors import ConfigurationError

__all__ = [
    "BACKLOG_BATCH_BYTES",
    "MAX_BACKLOG_QUEUES",
    "backlog_queue_description",
    "backlog_queue_path",
    "detour_size_text",
    "ensure_backlog_queues",
    "find_backlog_queues",
    "primary_namespace_name",
]

# Queues. More than that spread nothing further, and each costs a long poll for ever.
MAX_BACKLOG_QUEUES: Final = 1_000

# Bytes. What messages share one transfer to a backlog queue; a message that is larger travels alone. Every tier takes
# that much, and a transfer of that size is soon answered however large a message the queue would take.
BACKLOG_BATCH_BYTES: Final = 262_144

_TRANSFER: Final = "x-servicebus-transfer"

# Hosts whose first label is the name of the namespace: the cloud service's in each of its clouds, and Tandem's own.
_NAMED_HOSTS: Final = (".servicebus.", ".localhost")

# "For ever": a message that is on its way is never given up because of the number of tries.
_MAX_DELIVERY_COUNT: Final = 2_147_483_647
_LOCK_DURATION: Final = timedelta(minutes=1)

Result = TypeVar("Result")


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


def backlog_queue_description(path: str, max_message_size_in_kilobytes: int | None = None) -> QueueDescription:
    """Return the description that a backlog queue is created with. Properties not named here have their defaults.

    A backlog queue takes messages of every entity of the primary, rewritten and so a little larger. It therefore gets
    the largest message size that the secondary permits, where the secondary offers that choice.
    """
    return QueueDescription(
        path,
        max_size_in_megabytes=BACKLOG_QUEUE_MEGABYTES,
        max_delivery_count=_MAX_DELIVERY_COUNT,
        default_message_time_to_live=NEVER,
        auto_delete_on_idle=NEVER,
        lock_duration=_LOCK_DURATION,
        dead_lettering_on_message_expiration=True,
        enable_batched_operations=True,
        max_message_size_in_kilobytes=max_message_size_in_kilobytes,
    )


def detour_size_text(path: str, reason: str) -> str:
    """Say that a message for an entity is too large for the detour, and what to do."""
    return (
        f"'{path}' cannot be sent to, and a message is too large for the detour, for which it is rewritten and grows: "
        f"{reason}. Send smaller messages, or raise the largest message size of the backlog queue"
    )


async def ensure_backlog_queues(manager: NamespaceManager, primary_namespace: str, count: int) -> int:
    """Find or make the queues 0 to count - 1, and return how many there are.

    One that exists is used as it is, also with other settings. Others are left alone, and nothing is ever deleted.
    """
    paths = [backlog_queue_path(primary_namespace, index) for index in range(count)]
    missing = [path for path in paths if not await _noted(manager, path, manager.queue_exists(path))]
    if missing:
        max_message_size_in_kilobytes = await manager.max_message_size_in_kilobytes()
        for path in missing:
            description = backlog_queue_description(path, max_message_size_in_kilobytes)
            await _noted(manager, path, _make(manager, description))
    return count


async def find_backlog_queues(manager: NamespaceManager, primary_namespace: str) -> list[str]:
    """Return the paths of all backlog queues of a primary. ConfigurationError if the secondary has none."""
    paths = [queue.path for queue in await manager.get_queues()]
    found = [path for path in paths if path.lower().startswith(backlog_queue_path(primary_namespace, 0)[:-1].lower())]
    if not found:
        others = {path.partition(f"/{_TRANSFER}/")[0] for path in paths if f"/{_TRANSFER}/" in path}
        known = f"It has those of {', '.join(map(repr, sorted(others)))}" if others else "Nothing was paired yet"
        raise ConfigurationError(
            f"{manager.address} has no backlog queues of '{primary_namespace}'. {known}: pair a program first, or give "
            "the options that it has"
        )
    return sorted(found, key=lambda path: (len(path), path))


async def _noted(manager: NamespaceManager, path: str, attempt: Awaitable[Result]) -> Result:
    """Await a request about a backlog queue; an error of it names that queue."""
    try:
        return await attempt
    except MessagingError as error:
        error.add_note(f"while the backlog queue '{path}' was looked for or made at {manager.address}")
        raise


async def _make(manager: NamespaceManager, description: QueueDescription) -> None:
    try:
        await manager.create_queue(description)
    except MessagingEntityAlreadyExistsError:
        # Another application that pairs the same namespaces made it in the meantime; or it is no queue.
        if not await manager.queue_exists(description.path):
            raise ConfigurationError(
                f"'{description.path}' at {manager.address} exists and is not a queue: backlog queues need its name; "
                "rename it"
            ) from None
