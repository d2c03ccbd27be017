"""Tiers of a namespace, as the official SDK meets them: sizes of messages and batches, settings, answers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from tandem.client import MessagingFactory, NamespaceManager
from tandem.errors import RemoteError
from tandem.pairing.backlog import backlog_queue_description
from tandem.testing import Broker
from tests.compat.admin import SYNC, Admin, new_name
from tests.markers import mission

FORMATS = Path(__file__).parent.parent / "store" / "formats"
KILOBYTE = 1_024
KEY = "SAS_KEY_VALUE"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("tiers")) as broker:
        yield broker


@pytest.fixture(params=["tandem", "standard", "premium"])
def tier(broker: Broker, request: pytest.FixtureRequest) -> str:
    return have(broker, request.param)


def have(broker: Broker, tier: str) -> str:
    broker.request("PATCH", "/$api/v1/namespace", {"tier": tier})
    return tier


def send(broker: Broker, queue: str, kilobytes: int) -> None:
    with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage(b"x" * (kilobytes * KILOBYTE)))


def test_the_namespace_reports_its_tier_and_tandem_as_standard(broker: Broker, tier: str) -> None:
    shown = broker.request("GET", "/$api/v1/namespace")
    assert (shown["name"], shown["tier"]) == ("sbemulatorns", tier)
    sku = "Premium" if tier == "premium" else "Standard"
    assert shown["messaging_sku"] == sku
    with Admin(broker, SYNC, KEY) as admin:
        properties = admin.get_namespace_properties()
    assert properties.messaging_sku == sku
    assert properties.messaging_units == (1 if tier == "premium" else None)


@pytest.mark.parametrize(
    "tier, taken, refused", [("tandem", 250, 260), ("standard", 250, 260), ("premium", 1_000, 1_030)]
)
def test_a_queue_takes_the_largest_message_of_the_tier_and_no_larger_one(
    broker: Broker, tier: str, taken: int, refused: int
) -> None:
    have(broker, tier)
    name = new_name("size")
    with Admin(broker, SYNC, KEY) as admin:
        queue = admin.create_queue(name)
        assert queue.max_message_size_in_kilobytes == (1_024 if tier == "premium" else 256)
    send(broker, name, taken)
    with pytest.raises(MessageSizeExceededError):
        send(broker, name, refused)


def test_an_entity_of_tandem_or_premium_takes_large_messages_if_it_says_so(broker: Broker) -> None:
    for tier in ("tandem", "premium"):
        have(broker, tier)
        name = new_name("large")
        with Admin(broker, SYNC, KEY) as admin:
            admin.create_queue(name, max_message_size_in_kilobytes=4_096)
        send(broker, name, 4_000)


@pytest.mark.parametrize("tier, limit", [("standard", 256), ("premium", 1_024)])
def test_a_batch_of_the_sdk_holds_what_the_tier_permits(broker: Broker, tier: str, limit: int) -> None:
    have(broker, tier)
    name = new_name("batch")
    with Admin(broker, SYNC, KEY) as admin:
        admin.create_queue(name)
    with (
        ServiceBusClient.from_connection_string(broker.connection_string) as client,
        client.get_queue_sender(name) as sender,
    ):
        batch = sender.create_message_batch()
        assert batch.max_size_in_bytes == limit * KILOBYTE


@pytest.mark.parametrize(
    "tier, settings, reason",
    [
        (
            "standard",
            {"max_message_size_in_kilobytes": 1_024},
            "MaxMessageSizeInKilobytes is 1024; in the tier standard",
        ),
        ("standard", {"max_size_in_megabytes": 81_920}, "MaxSizeInMegabytes is 81920; in the tier standard"),
        ("standard", {"max_delivery_count": 2_001}, "MaxDeliveryCount is 2001; in the tier standard"),
        ("premium", {"enable_partitioning": True}, "EnablePartitioning is true: the tier premium"),
        ("premium", {"max_message_size_in_kilobytes": 256}, "must be between 1024 and 102400"),
    ],
)
def test_a_setting_beyond_the_tier_is_a_bad_request_that_names_the_element(
    broker: Broker, tier: str, settings: dict[str, Any], reason: str
) -> None:
    have(broker, tier)
    with Admin(broker, SYNC, KEY) as admin:
        with pytest.raises(HttpResponseError) as refused:
            admin.create_queue(new_name("refused"), **settings)
        assert refused.value.status_code == 400
        assert "SubCode=40000." in refused.value.message
        assert reason in refused.value.message
        if "max_delivery_count" not in settings:
            with pytest.raises(HttpResponseError, match=reason):
                admin.create_topic(new_name("refused"), **settings)


def test_what_the_sdk_was_shown_it_can_send_back_in_every_tier(broker: Broker, tier: str) -> None:
    name = new_name("again")
    with Admin(broker, SYNC, KEY) as admin:
        queue = admin.create_queue(name, enable_partitioning=tier != "premium")
        queue = admin.get_queue(name)
        queue.max_delivery_count = 7
        admin.update_queue(queue)
        again = admin.get_queue(name)
    assert again.max_delivery_count == 7
    assert again.max_message_size_in_kilobytes == queue.max_message_size_in_kilobytes


@mission("M21")
async def test_backlog_queues_can_be_created_in_every_tier(broker: Broker, tier: str) -> None:
    path = f"{new_name('primary')}/x-servicebus-transfer/0"
    async with MessagingFactory.from_connection_string(broker.connection_string):
        manager = NamespaceManager.from_connection_string(broker.connection_string)
        largest = await manager.max_message_size_in_kilobytes()
        assert largest == (256 if tier == "standard" else 102_400)
        await manager.create_queue(backlog_queue_description(path, largest))
    queue = broker.request("GET", f"/$api/v1/queues/{path}")
    assert queue["max_delivery_count"] == 2_147_483_647
    assert queue["max_message_size_in_kilobytes"] == largest


def test_another_name_for_a_tier_is_refused(broker: Broker) -> None:
    with pytest.raises(RemoteError, match="tier"):
        broker.request("PATCH", "/$api/v1/namespace", {"tier": "basic"})


def test_a_store_from_before_has_the_tier_tandem_and_keeps_the_one_it_is_given(tmp_path: Path) -> None:
    shutil.copytree(FORMATS / "3", tmp_path / "data")
    with Broker(tmp_path / "data") as broker:
        assert broker.request("GET", "/$api/v1/namespace")["tier"] == "tandem"
        have(broker, "standard")
        broker.kill()
        broker.start()
        assert broker.request("GET", "/$api/v1/namespace")["tier"] == "standard"
