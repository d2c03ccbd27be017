"""Queues: send, receive, settle."""

from __future__ import annotations

from azure.servicebus import ServiceBusMessage, ServiceBusReceiver, ServiceBusSender

from tandem.testing import Bus

# Seconds. How long to wait for what must come: it comes at once.
PATIENCE_S = 30


def test_an_order_is_received_and_completed(
    tandem_bus: Bus, orders: ServiceBusSender, kitchen: ServiceBusReceiver
) -> None:
    orders.send_messages(ServiceBusMessage("a table, four chairs"))
    (order,) = kitchen.receive_messages(1, PATIENCE_S)
    assert str(order) == "a table, four chairs"
    kitchen.complete_message(order)
    assert tandem_bus.messages("orders") == []


def test_an_order_carries_its_properties(tandem_bus: Bus, orders: ServiceBusSender) -> None:
    orders.send_messages(
        ServiceBusMessage('{"tables": 1}', subject="furniture", message_id="7", application_properties={"urgent": True})
    )
    (order,) = tandem_bus.messages("orders")
    assert order.json() == {"tables": 1}
    assert (order.subject, order.message_id, order.application_properties) == ("furniture", "7", {"urgent": True})


def test_an_abandoned_order_comes_again(tandem_bus: Bus, kitchen: ServiceBusReceiver) -> None:
    tandem_bus.send("orders", "a lamp")
    (order,) = kitchen.receive_messages(1, PATIENCE_S)
    kitchen.abandon_message(order)
    (again,) = kitchen.receive_messages(1, PATIENCE_S)
    assert (str(again), again.delivery_count) == ("a lamp", 1)


def test_a_deferred_order_waits_until_it_is_asked_for(tandem_bus: Bus, kitchen: ServiceBusReceiver) -> None:
    tandem_bus.send("orders", "a bed, when there is one")
    (order,) = kitchen.receive_messages(1, PATIENCE_S)
    kitchen.defer_message(order)
    assert [message.state for message in tandem_bus.messages("orders")] == ["deferred"]
    assert order.sequence_number is not None
    (later,) = kitchen.receive_deferred_messages([order.sequence_number])
    kitchen.complete_message(later)
    assert tandem_bus.messages("orders") == []


def test_an_order_that_was_only_looked_at_is_still_there(tandem_bus: Bus, kitchen: ServiceBusReceiver) -> None:
    tandem_bus.send("orders", "a mirror")
    assert [str(order) for order in kitchen.peek_messages(5)] == ["a mirror"]
    assert [str(order) for order in tandem_bus.receive_all("orders")] == ["a mirror"]
