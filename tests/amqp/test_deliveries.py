"""Deliveries of both directions: what is known of a message until both ends have settled."""

from __future__ import annotations

from tandem.amqp.connection import Connection, Role
from tandem.amqp.deliveries import IncomingDelivery, OutgoingDelivery
from tandem.amqp.delivery_states import ACCEPTED, RELEASED
from tandem.amqp.events import Event
from tandem.amqp.link import ReceiverLink, SenderLink
from tandem.amqp.session import Session
from tandem.amqp.settings import Settings

SESSION = Session(Connection(Role.SERVER, Settings("c")), 0)
RECEIVER_LINK = ReceiverLink(SESSION, "in", 1)
SENDER_LINK = SenderLink(SESSION, "out", 2)


def test_an_arrived_message_is_an_event_with_the_bytes_as_they_came() -> None:
    delivery = IncomingDelivery(RECEIVER_LINK, 7, b"tag", 0x8001_3700, True, RELEASED, b"payload")
    assert isinstance(delivery, Event)
    assert delivery.link is RECEIVER_LINK
    assert (delivery.delivery_id, delivery.delivery_tag, delivery.message_format) == (7, b"tag", 0x8001_3700)
    assert (delivery.is_settled, delivery.state, delivery.payload) == (True, RELEASED, b"payload")
    assert delivery.context is None


def test_a_message_on_its_way_out_keeps_no_payload() -> None:
    context = object()
    delivery = OutgoingDelivery(SENDER_LINK, 8, b"tag", False, context)
    assert delivery.link is SENDER_LINK
    assert (delivery.delivery_id, delivery.delivery_tag, delivery.is_settled) == (8, b"tag", False)
    assert delivery.context is context
    assert not hasattr(delivery, "payload")


def test_the_receiver_has_said_nothing_of_a_new_message() -> None:
    delivery = OutgoingDelivery(SENDER_LINK, 8, b"tag", False, None)
    assert delivery.state is None
    delivery.state = ACCEPTED
    assert delivery.state is ACCEPTED


def test_the_application_may_leave_a_note_on_a_delivery() -> None:
    delivery = IncomingDelivery(RECEIVER_LINK, 7, b"tag", 0, False, None, b"")
    delivery.context = "note"
    assert delivery.context == "note"


def test_deliveries_show_their_number_and_tag_but_never_their_contents() -> None:
    incoming = IncomingDelivery(RECEIVER_LINK, 7, b"tag", 0, False, None, b"private")
    assert repr(incoming) == "IncomingDelivery(id=7, tag=b'tag', 7 bytes)"
    assert repr(OutgoingDelivery(SENDER_LINK, 8, b"tag", False, "private")) == "OutgoingDelivery(id=8, tag=b'tag')"
