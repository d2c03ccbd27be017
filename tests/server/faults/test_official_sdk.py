"""What the official SDK makes of faults: each of the ways in which a client sees trouble, and what bridges it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from tandem.errors import EntityDisabled, ServerBusy
from tandem.limits import MAX_FAULT_DELAY_MS
from tandem.server.faults import FaultKind, FaultSettings
from tandem.testing import Broker, Bus
from tests.markers import mission
from tests.patience import PATIENCE_S

# The SDK leaves its socket open when it is refused.


@pytest.fixture(scope="module")
def module_bus() -> Iterator[Bus]:
    with Bus() as bus:
        yield bus


@pytest.fixture
def bus(module_bus: Bus) -> Iterator[Bus]:
    kept = module_bus.take_stock()
    module_bus.create_queue("q")
    yield module_bus
    module_bus.clean(kept)


def client_of(connection_string: str, retries: int = 0) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(
        connection_string, retry_total=retries, retry_backoff_factor=0.05, retry_mode="fixed"
    )


def bodies(client: ServiceBusClient, count: int) -> list[str]:
    with client.get_queue_receiver("q") as receiver:
        received: list[str] = []
        while len(received) < count:
            messages = receiver.receive_messages(max_message_count=count, max_wait_time=PATIENCE_S)
            if not messages:
                break
            for message in messages:
                receiver.complete_message(message)
                received.append(str(message))
        return received


@mission("M12")
def test_a_client_that_cannot_send_is_told_why(bus: Bus) -> None:
    with client_of(bus.connection_string) as client, client.get_queue_sender("q") as sender:
        sender.send_messages(ServiceBusMessage("before"))
        with bus.break_sends("q", error=ServerBusy), pytest.raises(ServiceBusServerBusyError):
            sender.send_messages(ServiceBusMessage("busy"))
        sender.send_messages(ServiceBusMessage("after"))
        assert bodies(client, 2) == ["before", "after"]


@mission("M12", "M17")
def test_a_client_that_cannot_receive_is_told_why(bus: Bus) -> None:
    bus.send("q", "x")
    with client_of(bus.connection_string) as client:
        with (
            bus.break_receives("q", error=EntityDisabled),
            pytest.raises(MessagingEntityDisabledError),
            client.get_queue_receiver("q") as receiver,
        ):
            receiver.receive_messages(max_wait_time=1)
        assert bodies(client, 1) == ["x"]


@mission("M12")
def test_a_client_that_cannot_reach_the_service_fails_to_connect_and_connects_later(bus: Bus) -> None:
    with client_of(bus.connection_string) as client:
        with (
            bus.inject(FaultSettings(FaultKind.DROP_CONNECTIONS)),
            pytest.raises(ServiceBusConnectionError),
            client.get_queue_sender("q") as sender,
        ):
            sender.send_messages(ServiceBusMessage("lost"))
        with client.get_queue_sender("q") as sender:
            sender.send_messages(ServiceBusMessage("sent"))
        assert bodies(client, 1) == ["sent"]


@mission("M15", "M17")
def test_the_retry_of_the_sdk_bridges_a_restart_of_the_entity(bus: Bus) -> None:
    with client_of(bus.connection_string, retries=5) as client, client.get_queue_sender("q") as sender:
        sender.send_messages(ServiceBusMessage("0"))
        for number in range(1, 4):
            bus.inject(FaultSettings(FaultKind.RESTART_ENTITY, "q"))
            sender.send_messages(ServiceBusMessage(str(number)))
        with client.get_queue_receiver("q") as receiver:
            first = receiver.receive_messages(max_wait_time=PATIENCE_S)
            receiver.complete_message(first[0])
            bus.inject(FaultSettings(FaultKind.RESTART_ENTITY, "q"))
        assert [str(first[0]), *bodies(client, 3)] == ["0", "1", "2", "3"]


@mission("M14")
def test_delayed_messages_survive_kill_9_and_appear_at_the_next_start_in_order_and_before_later_ones(
    tmp_path: Path,
) -> None:
    with Broker(tmp_path, arguments=("--dev", "--tls", "off", "--allow-faults")) as broker:
        broker.create_queue("q")
        order = {"kind": "delay-visibility", "entity": "q", "delay_ms": MAX_FAULT_DELAY_MS}
        broker.request("POST", "/$api/v1/faults", order)
        with client_of(broker.connection_string) as client, client.get_queue_sender("q") as sender:
            for number in range(10):
                sender.send_messages(ServiceBusMessage(str(number)))
        assert broker.queue("q")["active_message_count"] == 0
        broker.kill()
        broker.start()
        with client_of(broker.connection_string, retries=3) as client:
            with client.get_queue_sender("q") as sender:
                sender.send_messages(ServiceBusMessage("10"))
            assert bodies(client, 11) == [str(number) for number in range(11)]
        left = broker.queue("q")
        assert (left["active_message_count"], left["scheduled_message_count"]) == (0, 0)


@mission("M12")
def test_who_cannot_prove_who_they_are_is_refused_only_if_the_fault_says_so(bus: Bus) -> None:
    for includes_authentication in (False, True):
        settings = FaultSettings(FaultKind.REFUSE_MANAGEMENT, includes_authentication=includes_authentication)
        with bus.inject(settings), client_of(bus.connection_string) as client:
            if includes_authentication:
                with pytest.raises(ServiceBusError), client.get_queue_sender("q") as sender:
                    sender.send_messages(ServiceBusMessage("refused"))
            else:
                with client.get_queue_sender("q") as sender:
                    sender.send_messages(ServiceBusMessage("sent"))
    assert [one.body for one in bus.messages("q")] == [b"sent"]
