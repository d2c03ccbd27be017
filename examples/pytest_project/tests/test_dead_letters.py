"""Orders that nobody could work on, and why."""

from __future__ import annotations

from azure.servicebus import ServiceBusReceiver

from tandem.testing import Bus

PATIENCE_S = 30


def test_an_order_that_cannot_be_read_is_put_aside_with_the_reason(
    tandem_bus: Bus, kitchen: ServiceBusReceiver
) -> None:
    tandem_bus.send("orders", "%&?!")
    (order,) = kitchen.receive_messages(1, PATIENCE_S)
    kitchen.dead_letter_message(order, reason="unreadable", error_description="no such language")
    (dead,) = tandem_bus.dead_letters("orders")
    assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("unreadable", "no such language")


def test_an_order_that_fails_three_times_is_put_aside(tandem_bus: Bus, kitchen: ServiceBusReceiver) -> None:
    tandem_bus.send("orders", "a round square")
    for _ in range(3):
        (order,) = kitchen.receive_messages(1, PATIENCE_S)
        kitchen.abandon_message(order)
    assert [dead.dead_letter_reason for dead in tandem_bus.dead_letters("orders")] == ["MaxDeliveryCountExceeded"]


def test_an_order_that_was_put_aside_can_be_looked_after(
    tandem_bus: Bus, kitchen: ServiceBusReceiver, dead_orders: ServiceBusReceiver
) -> None:
    tandem_bus.send("orders", "a chair with three legs")
    (order,) = kitchen.receive_messages(1, PATIENCE_S)
    kitchen.dead_letter_message(order, reason="incomplete")
    (dead,) = dead_orders.receive_messages(1, PATIENCE_S)
    assert dead.dead_letter_reason == "incomplete"
    dead_orders.complete_message(dead)
    assert tandem_bus.dead_letters("orders") == []
