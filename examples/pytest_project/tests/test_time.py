"""Hours that take milliseconds: the broker's clock is moved, and nobody sleeps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.exceptions import MessageLockLostError

from tandem.testing import Bus

PATIENCE_S = 30


def test_an_order_that_takes_too_long_goes_to_somebody_else(tandem_bus: Bus, kitchen: ServiceBusReceiver) -> None:
    tandem_bus.send("orders", "a wardrobe")
    (order,) = kitchen.receive_messages(1, PATIENCE_S)
    tandem_bus.clock.advance(seconds=31)
    with pytest.raises(MessageLockLostError):
        kitchen.complete_message(order)
    (again,) = kitchen.receive_messages(1, PATIENCE_S)
    assert again.delivery_count == 1
    kitchen.complete_message(again)


def test_who_needs_more_time_can_have_it(tandem_bus: Bus, kitchen: ServiceBusReceiver) -> None:
    tandem_bus.send("orders", "a wardrobe with a mirror")
    (order,) = kitchen.receive_messages(1, PATIENCE_S)
    for _ in range(3):
        tandem_bus.clock.advance(seconds=20)
        kitchen.renew_message_lock(order)
    kitchen.complete_message(order)
    assert tandem_bus.messages("orders") == []


def test_an_order_that_nobody_worked_on_in_time_is_put_aside(tandem_bus: Bus, orders: ServiceBusSender) -> None:
    orders.send_messages(ServiceBusMessage("a cake", time_to_live=timedelta(days=2)))
    tandem_bus.clock.advance(days=1)
    assert len(tandem_bus.messages("orders")) == 1
    tandem_bus.clock.advance(days=1)
    assert tandem_bus.messages("orders") == []
    assert [dead.dead_letter_reason for dead in tandem_bus.dead_letters("orders")] == ["TTLExpiredException"]


def test_an_order_for_tomorrow_comes_tomorrow(
    tandem_bus: Bus, orders: ServiceBusSender, kitchen: ServiceBusReceiver
) -> None:
    orders.schedule_messages(ServiceBusMessage("breakfast"), datetime.now(UTC) + timedelta(days=1))
    assert tandem_bus.receive_all("orders") == []
    tandem_bus.clock.advance(days=1)
    (order,) = kitchen.receive_messages(1, PATIENCE_S)
    assert str(order) == "breakfast"


def test_an_order_for_tomorrow_can_be_taken_back(tandem_bus: Bus, orders: ServiceBusSender) -> None:
    numbers = orders.schedule_messages(ServiceBusMessage("breakfast"), datetime.now(UTC) + timedelta(days=1))
    orders.cancel_scheduled_messages(numbers)
    tandem_bus.clock.advance(days=2)
    assert tandem_bus.messages("orders") == []
