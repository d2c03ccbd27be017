"""Event hubs and consumer groups through the service's management API."""

from __future__ import annotations

import pytest

from tandem.client import (
    EntityStatus,
    EventData,
    EventHubClient,
    EventHubDescription,
    InvalidOperationError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityNotFoundError,
    NamespaceManager,
    QueueDescription,
    UnauthorizedAccessError,
    sync,
)
from tandem.testing import Broker
from tests.markers import mission
from tests.patience import PATIENCE_S


@mission("M4", "M10")
async def test_a_hub_is_created_fetched_updated_listed_and_deleted(
    broker: Broker, manager: NamespaceManager, name: str
) -> None:
    described = EventHubDescription(name, message_retention_in_days=3, partition_count=2, user_metadata=" <ours> ")
    created = await manager.create_event_hub(described)
    assert created == described
    assert created.created_at is not None
    async with EventHubClient.from_connection_string(broker.connection_string, name) as hub:
        await hub.create_producer().send(EventData("21.5"), partition_id="1")
        got = await manager.get_event_hub(name)
        assert got == described
        assert got.size_in_bytes
        got.message_retention_in_days = 5
        got.user_metadata = None
        got.status = EntityStatus.SEND_DISABLED
        assert await manager.update_event_hub(got) == got
        assert await manager.get_event_hub(name) == got
        # An update disturbs neither events nor readers.
        consumer = hub.create_consumer("$Default", "1")
        assert [event.body for event in await consumer.receive_batch(10, PATIENCE_S)] == [b"21.5"]
    assert name in [hub.path for hub in await manager.get_event_hubs()]
    assert await manager.event_hub_exists(name)
    await manager.delete_event_hub(name)
    assert not await manager.event_hub_exists(name)
    with pytest.raises(MessagingEntityNotFoundError, match=f"no event hub '{name}'"):
        await manager.get_event_hub(name)
    with pytest.raises(MessagingEntityNotFoundError):
        await manager.delete_event_hub(name)


@mission("M10")
async def test_a_hub_from_its_name_alone_has_the_defaults(broker: Broker, manager: NamespaceManager, name: str) -> None:
    assert await manager.create_event_hub(f"{name}/with/slashes") == EventHubDescription(f"{name}/with/slashes")
    assert broker.hub(f"{name}/with/slashes")["retention_ms"] == 7 * 86_400_000


@mission("M10")
async def test_a_consumer_group_is_created_fetched_listed_and_deleted(
    broker: Broker, manager: NamespaceManager, name: str
) -> None:
    await manager.create_event_hub(EventHubDescription(name, partition_count=1))
    created = await manager.create_consumer_group(name, "Dashboards")
    assert (created.event_hub_path, created.name) == (name, "Dashboards")
    assert await manager.get_consumer_group(name, "dashboards") == created
    assert [group.name for group in await manager.get_consumer_groups(name)] == ["$Default", "Dashboards"]
    async with EventHubClient.from_connection_string(broker.connection_string, name) as hub:
        await hub.create_producer().send(EventData("seen"))
        consumer = hub.create_consumer("Dashboards", "0")
        assert [event.body for event in await consumer.receive_batch(10, PATIENCE_S)] == [b"seen"]
    assert await manager.consumer_group_exists(name, "Dashboards")
    await manager.delete_consumer_group(name, "Dashboards")
    assert not await manager.consumer_group_exists(name, "Dashboards")
    with pytest.raises(MessagingEntityNotFoundError, match="Dashboards' was not found"):
        await manager.get_consumer_group(name, "Dashboards")


async def test_what_cannot_be_is_refused(manager: NamespaceManager, name: str) -> None:
    hub = await manager.create_event_hub(EventHubDescription(name, partition_count=2))
    with pytest.raises(MessagingEntityAlreadyExistsError):
        await manager.create_event_hub(name)
    with pytest.raises(MessagingEntityAlreadyExistsError):
        await manager.create_consumer_group(name, "$Default")
    with pytest.raises(InvalidOperationError, match=r"\$Default"):
        await manager.delete_consumer_group(name, "$Default")
    with pytest.raises(MessagingEntityNotFoundError):
        await manager.create_consumer_group(f"{name}-other", "group")
    with pytest.raises(InvalidOperationError, match="partition_count is 5000"):
        await manager.create_event_hub(EventHubDescription(f"{name}-wide", partition_count=5_000))
    with pytest.raises(InvalidOperationError, match="message_retention_in_days is 0; it must be between 1 and"):
        await manager.create_event_hub(EventHubDescription(f"{name}-short", message_retention_in_days=0))
    hub.partition_count = 3
    with pytest.raises(InvalidOperationError, match="cannot be changed"):
        await manager.update_event_hub(hub)
    with pytest.raises(MessagingEntityNotFoundError):
        await manager.update_event_hub(EventHubDescription(f"{name}-other"))


async def test_an_entity_of_another_kind_is_not_a_hub(manager: NamespaceManager, name: str) -> None:
    await manager.create_event_hub(name)
    await manager.create_queue(QueueDescription(f"{name}-queue"))
    assert not await manager.queue_exists(name)
    assert not await manager.topic_exists(name)
    assert not await manager.event_hub_exists(f"{name}-queue")
    assert name not in [queue.path for queue in await manager.get_queues()]
    with pytest.raises(MessagingEntityAlreadyExistsError):
        await manager.create_queue(name)


async def test_an_update_keeps_what_the_document_cannot_say(
    broker: Broker, manager: NamespaceManager, name: str
) -> None:
    """Retention of 90 minutes and a bound in bytes have no element; `None` days mean that there is no bound in time."""
    broker.create_hub(name, partition_count=1, retention_ms=5_400_000, retention_bytes=1 << 30)
    hub = await manager.get_event_hub(name)
    assert hub.message_retention_in_days == 1
    hub.user_metadata = "changed"
    await manager.update_event_hub(hub)
    kept = broker.hub(name)
    assert (kept["retention_ms"], kept["retention_bytes"], kept["user_metadata"]) == (5_400_000, 1 << 30, "changed")

    broker.create_hub(f"{name}-endless", partition_count=1, retention_ms=None)
    endless = await manager.get_event_hub(f"{name}-endless")
    assert endless.message_retention_in_days is None
    await manager.update_event_hub(endless)
    assert broker.hub(f"{name}-endless")["retention_ms"] is None


async def test_hubs_are_for_those_who_may_manage(broker: Broker, manager: NamespaceManager, name: str) -> None:
    await manager.create_event_hub(name)
    stranger = NamespaceManager.from_connection_string(
        broker.connection_string.replace("SAS_KEY_VALUE", "c3RyYW5nZXI=")
    )
    for attempt in (
        stranger.get_event_hub(name),
        stranger.get_event_hubs(),
        stranger.create_event_hub(f"{name}-2"),
        stranger.create_consumer_group(name, "group"),
        stranger.delete_event_hub(name),
    ):
        with pytest.raises(UnauthorizedAccessError):
            await attempt
    assert await manager.event_hub_exists(name)


def test_a_plain_program_manages_hubs_too(broker: Broker, name: str) -> None:
    manager = sync.NamespaceManager.from_connection_string(broker.connection_string)
    manager.create_event_hub(sync.EventHubDescription(name, partition_count=1))
    manager.create_consumer_group(name, "group")
    assert [group.name for group in manager.get_consumer_groups(name)] == ["$Default", "group"]
    manager.delete_event_hub(name)
