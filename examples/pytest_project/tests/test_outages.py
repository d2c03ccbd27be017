"""What the shop does when the bus does not do its part."""

from __future__ import annotations

from threading import Timer

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusSender
from azure.servicebus.exceptions import ServiceBusError, ServiceBusQuotaExceededError

from tandem.errors import QuotaExceeded
from tandem.testing import Bus


def test_an_order_is_sent_again_until_the_bus_takes_it(tandem_bus: Bus, orders: ServiceBusSender) -> None:
    outage = tandem_bus.break_sends("orders")
    Timer(0.1, outage.restore).start()
    orders.send_messages(ServiceBusMessage("a table"))
    assert [str(order) for order in tandem_bus.messages("orders")] == ["a table"]


def test_an_outage_of_one_queue_is_none_of_another_and_is_told_in_the_end(
    tandem_bus: Bus, orders: ServiceBusSender, events: ServiceBusSender
) -> None:
    with tandem_bus.break_sends("orders"):
        events.send_messages(ServiceBusMessage("still open"))
        with pytest.raises(ServiceBusError, match="broken on purpose"):
            orders.send_messages(ServiceBusMessage("a table"))
    orders.send_messages(ServiceBusMessage("a chair"))
    assert [str(order) for order in tandem_bus.messages("orders")] == ["a chair"]


def test_a_full_queue_is_told_at_once(tandem_bus: Bus, orders: ServiceBusSender) -> None:
    with tandem_bus.break_sends("orders", error=QuotaExceeded), pytest.raises(ServiceBusQuotaExceededError):
        orders.send_messages(ServiceBusMessage("a table"))
