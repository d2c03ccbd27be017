"""The backlog queues of the secondary namespace: their names, how they are made, and that they are there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from tandem.client.entities.entity import NEVER
from tandem.client.entities.generated import QueueDescription
from tandem.client.entities.namespace_manager import NamespaceManager
from tandem.client.errors import MessagingEntityAlreadyExistsError, MessagingError
from tandem.cost.backlog_capacity import BACKLOG_QUEUE_MEGABYTES
from tandem.errors import ConfigurationError
from tandem.pairing.marks import BacklogMark
from tandem.pairing.ownership import TRANSFER, BacklogOwner, BacklogQueue, backlog_queues_of

__all__ = [
    "BACKLOG_BATCH_BYTES",
    "backlog_queue_description",
    "backlog_queue_path",
    "detour_size_text",
    "ensure_backlog_queues",
    "list_backlog_queues",
    "loss_risks",
]

# Bytes. What messages share one transfer to a backlog queue; a message that is larger travels alone. Every tier takes
# that much, and a transfer of that size is soon answered however large a message the queue would take.
BACKLOG_BATCH_BYTES: Final = 262_144

# "For ever": a message that is on its way is never given up because of the number of tries.
_MAX_DELIVERY_COUNT: Final = 2_147_483_647
_LOCK_DURATION: Final = timedelta(minutes=1)

# Deliveries. The syphon gives messages back without counting a delivery, but each time that it is killed, or loses the
# secondary, counts one for what it had in hand. Below this number a bad day dead-letters messages.
_MIN_DELIVERY_COUNT: Final = 1_000


def backlog_queue_path(primary_namespace: str, index: int) -> str:
    return f"{primary_namespace}/{TRANSFER}/{index}"


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


async def list_backlog_queues(manager: NamespaceManager) -> list[BacklogQueue]:
    """List the backlog queues of a secondary, of whatever primary."""
    try:
        return backlog_queues_of(await manager.get_queues())
    except MessagingError as error:
        error.add_note(f"while the backlog queues at {manager.address} were listed")
        raise


async def ensure_backlog_queues(
    manager: NamespaceManager, owner: BacklogOwner, count: int, existing: Sequence[BacklogQueue]
) -> int:
    """Find or make the queues 0 to count - 1 of a primary, and return how many there are.

    A queue that exists is used as it is, also with other settings; only the mark on one that has a mark is brought up
    to date. Others are left alone, and nothing is ever deleted.
    """
    owner.require_own(existing, manager.address)
    found = {queue.index: queue for queue in existing if owner.has_name(queue)}
    is_complete = all(index in found for index in range(count))
    max_message_size_in_kilobytes = None if is_complete else await manager.max_message_size_in_kilobytes()
    for index in range(count):
        path = backlog_queue_path(owner.name, index)
        try:
            if index in found:
                await _update_mark(manager, owner, found[index])
            else:
                await _create(manager, backlog_queue_description(path, max_message_size_in_kilobytes), owner.mark)
        except MessagingError as error:
            error.add_note(f"while the backlog queue '{path}' was looked for or made at {manager.address}")
            raise
    await _forget_address(manager, owner, existing)
    return count


async def _create(manager: NamespaceManager, description: QueueDescription, mark: BacklogMark) -> None:
    try:
        await manager.create_queue(dataclasses.replace(description, user_metadata=mark.to_text()))
    except MessagingEntityAlreadyExistsError:
        # Another application that pairs the same namespaces made it in the meantime; or it is not a queue.
        if not await manager.queue_exists(description.path):
            raise ConfigurationError(
                f"'{description.path}' at {manager.address} exists and is not a queue: backlog queues need its name; "
                "rename it"
            ) from None


async def _update_mark(manager: NamespaceManager, owner: BacklogOwner, queue: BacklogQueue) -> None:
    """Add what is new: the id of a primary that was reached for the first time, and the address that this program uses,
    which one of the queues is enough to remember."""
    mark = queue.mark
    if mark is None:
        return
    updated = mark if owner.id is None else dataclasses.replace(mark, id=owner.id)
    if queue.index == 0 and owner.addresses[0] not in mark.addresses:
        updated = updated.with_address(owner.addresses[0])
    await _put_mark(manager, queue, updated)


async def _forget_address(manager: NamespaceManager, owner: BacklogOwner, existing: Sequence[BacklogQueue]) -> None:
    """Remove the address of a primary that was reached from the marks of namespaces that had it before."""
    if owner.id is None:
        return
    for queue in existing:
        mark = queue.mark
        if mark is not None and mark.id is not None and not owner.owns(queue):
            await _put_mark(manager, queue, mark.without_address(owner.addresses[0]))


async def _put_mark(manager: NamespaceManager, queue: BacklogQueue, mark: BacklogMark) -> None:
    if mark != queue.mark:
        await manager.update_queue(dataclasses.replace(queue.description, user_metadata=mark.to_text()))
