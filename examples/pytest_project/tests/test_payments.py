"""Sessions: the messages of one customer, in order, for one receiver at a time."""

from __future__ import annotations

from azure.servicebus import ServiceBusMessage, ServiceBusReceiver, ServiceBusSender

from tandem.testing import Bus

PATIENCE_S = 30


def test_a_customer_s_payments_come_in_order_and_leave_others_alone(
    tandem_bus: Bus, payments: ServiceBusSender, ada: ServiceBusReceiver
) -> None:
    for number, customer in enumerate(["ada", "bob", "ada"]):
        payments.send_messages(ServiceBusMessage(f"payment {number}", session_id=customer))
    received = [ada.receive_messages(1, PATIENCE_S)[0] for _ in range(2)]
    assert [str(payment) for payment in received] == ["payment 0", "payment 2"]
    for payment in received:
        ada.complete_message(payment)
    ada.session.set_state("paid")
    assert ada.session.get_state() == b"paid"
    assert [(str(one), one.session_id) for one in tandem_bus.messages("payments")] == [("payment 1", "bob")]
