"""Topics: everybody gets a copy, of what it wants."""

from __future__ import annotations

from azure.servicebus import ServiceBusMessage, ServiceBusReceiver, ServiceBusSender

from tandem.testing import Bus

PATIENCE_S = 30


def event(body: str, region: str) -> ServiceBusMessage:
    return ServiceBusMessage(body, application_properties={"region": region})


def test_each_subscription_has_its_own_copy(
    tandem_bus: Bus, events: ServiceBusSender, audit: ServiceBusReceiver, europe: ServiceBusReceiver
) -> None:
    events.send_messages(event("sold", region="eu"))
    (first,) = audit.receive_messages(1, PATIENCE_S)
    (second,) = europe.receive_messages(1, PATIENCE_S)
    audit.complete_message(first)
    assert len(tandem_bus.messages("events/Subscriptions/europe")) == 1
    europe.complete_message(second)
    assert tandem_bus.messages("events/Subscriptions/europe") == []


def test_a_subscription_gets_what_its_rule_selects(tandem_bus: Bus, events: ServiceBusSender) -> None:
    events.send_messages([event("sold", region="eu"), event("sold", region="us"), event("returned", region="eu")])
    assert len(tandem_bus.messages("events/Subscriptions/audit")) == 3
    assert [str(one) for one in tandem_bus.messages("events/Subscriptions/europe")] == ["sold", "returned"]


def test_a_rule_can_add_to_what_it_selects(events: ServiceBusSender, europe: ServiceBusReceiver) -> None:
    events.send_messages(event("sold", region="eu"))
    (received,) = europe.receive_messages(1, PATIENCE_S)
    assert (received.application_properties or {})[b"currency"] == b"EUR"
