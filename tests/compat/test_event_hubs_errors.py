"""Refusals of event hubs, as the error classes of the official SDK."""

from __future__ import annotations

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub.exceptions import AuthenticationError, ConnectError, EventDataSendError, EventHubError

from tandem.errors import RemoteError
from tests.compat.hubs import Hub, Reading, new_hub
from tests.compat.sdk import AT_ONCE, ROOT_KEY, ROOT_RULE, Bus, connection_string
from tests.markers import mission

pytestmark = AT_ONCE


def _producer(bus: Bus, hub: str, key: str, rule: str = ROOT_RULE) -> EventHubProducerClient:
    address = connection_string(bus.broker, key, rule)
    return EventHubProducerClient.from_connection_string(address, eventhub_name=hub, retry_total=0)


@mission("M10", "M17")
@pytest.mark.parametrize("rule, key", [(ROOT_RULE, "wrong"), ("NoSuchRule", ROOT_KEY)])
def test_a_wrong_key_does_not_get_in(bus: Bus, rule: str, key: str) -> None:
    hub = new_hub(bus)
    with _producer(bus, hub.name, key, rule) as producer, pytest.raises(AuthenticationError):
        producer.send_event(EventData("a"))
    with _producer(bus, hub.name, key, rule) as producer, pytest.raises(EventHubError):
        producer.get_eventhub_properties()
    assert hub.place()["is_empty"]


@mission("M10")
def test_who_may_only_listen_does_not_send(bus: Bus) -> None:
    hub = new_hub(bus)
    with _producer(bus, hub.name, "key-of-listener", "Listener") as producer:
        assert producer.get_partition_ids() == ["0"]
        with pytest.raises(EventHubError, match="'Send' claim"):
            producer.send_event(EventData("a"))
    assert hub.place()["is_empty"]


@mission("M10")
def test_who_may_only_send_does_not_read(bus: Bus) -> None:
    hub = new_hub(bus)
    with _producer(bus, hub.name, "key-of-sender", "Sender") as producer:
        producer.send_event(EventData("a"))
    address = connection_string(bus.broker, "key-of-sender", "Sender")
    consumer = EventHubConsumerClient.from_connection_string(address, "$Default", eventhub_name=hub.name, retry_total=0)
    reading = Reading(hub, partition_id="0")
    reading._client = consumer
    with reading:
        error = reading.wait_for_error()
    assert "'Listen' claim" in str(error)
    assert reading.texts == []


@mission("M10")
def test_a_hub_that_is_not_there_is_not_found(bus: Bus) -> None:
    nowhere = Hub(bus, "no-such-hub")
    # The token is for an entity that is not there, which this SDK takes for a failure to authenticate.
    with nowhere.producer() as producer, pytest.raises(AuthenticationError, match="CBS Token authentication failed"):
        producer.send_event(EventData("a"))
    with nowhere.producer() as producer, pytest.raises(ConnectError):
        producer.get_eventhub_properties()
    with Reading(nowhere, partition_id="0") as reading:
        assert isinstance(reading.wait_for_error(), AuthenticationError)


@mission("M10")
def test_a_consumer_group_that_is_not_there_is_not_found(bus: Bus) -> None:
    hub = new_hub(bus)
    with Reading(hub, group="no-such-group", partition_id="0") as reading:
        error = reading.wait_for_error()
    assert "no-such-group" in str(error)
    assert "could not be found" in str(error)


@mission("M10")
def test_the_sdk_learns_from_the_broker_which_partitions_there_are(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=2)
    with hub.producer() as producer:
        with pytest.raises(ConnectError, match="Invalid partition 2"):
            producer.send_event(EventData("a"), partition_id="2")
        with pytest.raises(EventHubError, match="Status code: 400"):
            producer.get_partition_properties("two")
    with Reading(hub, partition_id="7") as reading:
        error = reading.wait_for_error()
    assert str(error) == "Wrong partition id:7. The eventhub has partitions: ['0', '1']."


@mission("M10")
@pytest.mark.parametrize("status, can_send", [("Disabled", False), ("SendDisabled", False), ("ReceiveDisabled", True)])
def test_a_disabled_hub_says_so(bus: Bus, status: str, can_send: bool) -> None:
    hub = new_hub(bus)
    with hub.producer() as producer:
        producer.send_event(EventData("a"))
        bus.broker.update_hub(hub.name, status=status)
        if can_send:
            producer.send_event(EventData("b"))
        else:
            with pytest.raises(EventDataSendError, match="is currently disabled"):
                producer.send_event(EventData("b"))
    if status != "SendDisabled":
        with Reading(hub, partition_id="0") as reading:
            error = reading.wait_for_error()
        assert "is currently disabled" in str(error)
    bus.broker.update_hub(hub.name, status="Active")
    assert [event.body_as_str() for event in hub.read(1 + can_send)] == ["a", "b"][: 1 + can_send]


@mission("M10")
def test_the_name_of_a_queue_is_no_event_hub_and_the_other_way_round(bus: Bus) -> None:
    queue, hub = bus.queue(), new_hub(bus)
    with Hub(bus, queue.name).producer() as producer, pytest.raises(ConnectError, match="404"):
        producer.get_eventhub_properties()
    with pytest.raises(RemoteError, match="exists already"):
        bus.broker.create_queue(hub.name)
    with pytest.raises(RemoteError, match="exists already"):
        bus.broker.create_hub(queue.name)
