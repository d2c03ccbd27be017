"""Messages in (part 2.6.12 and 2.6.14): one transfer or many, too large, aborted, too many."""

from __future__ import annotations

import pytest

from tandem.amqp.deliveries import IncomingDelivery
from tandem.amqp.delivery_states import Received, Rejected, TransactionalState
from tandem.amqp.events import DeliveryAborted, DeliveryRefused, LinkDetached
from tandem.amqp.link import ReceiverLink
from tandem.amqp.performatives import SENDER, Attach, Detach, Disposition, Transfer
from tandem.amqp.settings import Settings
from tandem.amqp.terminus import Source, Target
from tandem.errors import InvalidField, MessageSizeExceeded, ResourceLimitExceeded
from tests.markers import spec
from tests.spec.raw_peer import RawPeer, only, session_server
from tests.spec.wire import amqp_frame


@spec("amqp:2.6.12", "amqp:2.7.5")
def test_a_delivery_of_one_transfer_arrives_with_all_that_was_said_of_it() -> None:
    peer = session_server()
    link = peer.attach_sender()
    transfer = Transfer(0, 7, b"tag", 0x8001_3700, False, state=TransactionalState(b"txn"))
    delivery = only(peer.write(amqp_frame(transfer, payload=b"payload")), IncomingDelivery)
    assert (delivery.link, delivery.delivery_id, delivery.delivery_tag) == (link, 7, b"tag")
    assert (delivery.message_format, delivery.is_settled, delivery.payload) == (0x8001_3700, False, b"payload")
    assert delivery.state == TransactionalState(b"txn")
    assert repr(delivery) == "IncomingDelivery(id=7, tag=b'tag', 7 bytes)"
    assert link.session.incoming_unsettled == {7: delivery}
    assert link.unsettled == {7}


@spec("amqp:2.6.12")
def test_a_settled_delivery_is_not_remembered() -> None:
    peer = session_server()
    link = peer.attach_sender()
    delivery = only(peer.transfer(0, 0, settled=True), IncomingDelivery)
    assert delivery.is_settled
    assert link.session.incoming_unsettled == {}
    link.settle(delivery)
    assert peer.connection.data_to_send() == b""


# --- several transfers ------------------------------------------------------------------------------------------


@spec("amqp:2.6.14")
@pytest.mark.parametrize("repeats_id", [True, False])
def test_a_delivery_of_several_transfers_arrives_with_its_last(repeats_id: bool) -> None:
    peer = session_server()
    link = peer.attach_sender()
    assert peer.transfer(0, 3, b"one ", more=True) == []
    assert peer.connection.incomplete_bytes == 4
    again, tag = (3, b"t") if repeats_id else (None, None)
    assert peer.transfer(0, again, b"two ", more=True, tag=tag) == []
    assert peer.transfer(0, again, b"", more=True, tag=tag) == []
    delivery = only(peer.transfer(0, again, b"three", tag=tag), IncomingDelivery)
    assert (delivery.delivery_id, delivery.delivery_tag, delivery.payload) == (3, b"t", b"one two three")
    assert not delivery.is_settled
    assert link.credit == 99
    assert peer.connection.incomplete_bytes == 0


@spec("amqp:2.6.14", "amqp:2.7.5")
def test_a_delivery_is_settled_and_has_a_state_if_any_of_its_transfers_says_so() -> None:
    peer = session_server()
    peer.attach_sender()
    state = Received(0, 3)
    peer.write(amqp_frame(Transfer(0, 0, b"t", 0, more=True), payload=b"a"))
    peer.write(amqp_frame(Transfer(0, None, settled=True, more=True, state=state), payload=b"b"))
    delivery = only(peer.write(amqp_frame(Transfer(0), payload=b"c")), IncomingDelivery)
    assert delivery.is_settled
    assert delivery.state == state
    assert delivery.payload == b"abc"
    assert peer.connection.sessions[0].incoming_unsettled == {}


@spec("amqp:2.6.14")
def test_deliveries_of_several_transfers_may_interleave_between_links() -> None:
    peer = session_server()
    peer.attach_sender("one", 0)
    peer.attach_sender("two", 1)
    peer.transfer(0, 0, b"first ", more=True)
    peer.transfer(1, 1, b"second ", more=True)
    first = only(peer.transfer(0, 0, b"half"), IncomingDelivery)
    second = only(peer.transfer(1, 1, b"half"), IncomingDelivery)
    assert (first.payload, second.payload) == (b"first half", b"second half")


@spec("amqp:2.6.14", "amqp:2.6.5")
def test_a_delivery_that_starts_within_another_detaches_the_link() -> None:
    peer = session_server()
    link = peer.attach_sender()
    peer.transfer(0, 0, b"one", more=True)
    peer.transfer(0, 1, b"two")
    peer.expect_detach(InvalidField, link)
    assert peer.connection.incomplete_bytes == 0


@spec("amqp:2.6.14", "amqp:2.7.5")
def test_an_aborted_delivery_counts_for_nothing() -> None:
    peer = session_server()
    link = peer.attach_sender()
    peer.transfer(0, 4, b"one", more=True)
    event = only(peer.transfer(0, 4, b"ignored", aborted=True), DeliveryAborted)
    assert (event.link, event.delivery_id) == (link, 4)
    assert peer.connection.incomplete_bytes == 0
    assert only(peer.transfer(0, 5, aborted=True), DeliveryAborted).delivery_id == 5
    assert link.session.incoming_unsettled == {}
    assert only(peer.transfer(0, 6, b"next"), IncomingDelivery).payload == b"next"


@spec("amqp:2.6.4")
def test_a_detach_drops_what_was_incomplete() -> None:
    peer = session_server()
    link = peer.attach_sender()
    peer.transfer(0, 0, b"one", more=True)
    only(peer.send(Detach(0, True)), LinkDetached)
    assert peer.connection.incomplete_bytes == 0
    assert link.session.incoming_unsettled == {}


# --- ids --------------------------------------------------------------------------------------------------------


@spec("amqp:2.7.5")
def test_delivery_ids_may_wrap_and_may_skip() -> None:
    peer = session_server()
    link = peer.attach_sender()
    for delivery_id in (0xFFFF_FFFE, 0xFFFF_FFFF, 0, 7):
        peer.transfer(0, delivery_id)
    assert list(link.session.incoming_unsettled) == [0xFFFF_FFFE, 0xFFFF_FFFF, 0, 7]


# --- too large --------------------------------------------------------------------------------------------------


def receiver_of_10_bytes() -> tuple[RawPeer, ReceiverLink]:
    peer = session_server(Settings("server", max_message_size=10))
    return peer, peer.attach_sender()


def expect_rejection(peer: RawPeer, delivery_id: int) -> None:
    disposition = peer.read_one(Disposition)
    assert (disposition.first, disposition.last, disposition.settled) == (delivery_id, delivery_id, True)
    assert isinstance(disposition.state, Rejected)
    assert disposition.state.error is not None
    assert disposition.state.error.condition == "amqp:link:message-size-exceeded"


@spec("amqp:2.7.3", "amqp:2.8.18")
def test_a_message_over_the_limit_is_rejected_and_the_link_lives() -> None:
    peer, link = receiver_of_10_bytes()
    event = only(peer.transfer(0, 0, bytes(11)), DeliveryRefused)
    assert (event.link, event.delivery_id, event.size_bytes) == (link, 0, 11)
    expect_rejection(peer, 0)
    assert link.session.incoming_unsettled == {}
    assert only(peer.transfer(0, 1, bytes(10)), IncomingDelivery).payload == bytes(10)


@spec("amqp:2.7.3", "amqp:2.6.14", "amqp:2.8.18")
def test_a_message_over_the_limit_in_sum_is_discarded_as_it_comes_and_then_rejected() -> None:
    peer, _ = receiver_of_10_bytes()
    for size in (6, 4, 1, 100):
        assert peer.transfer(0, 0, bytes(size), more=True) == []
    assert peer.connection.incomplete_bytes == 0
    event = only(peer.transfer(0, 0, bytes(1)), DeliveryRefused)
    assert event.size_bytes == 112
    expect_rejection(peer, 0)
    assert only(peer.transfer(0, 1, b"next"), IncomingDelivery).payload == b"next"


@spec("amqp:2.7.3", "amqp:2.8.18")
@pytest.mark.parametrize("is_split", [True, False])
def test_a_settled_message_over_the_limit_detaches_the_link_since_nothing_else_would_tell(is_split: bool) -> None:
    peer, link = receiver_of_10_bytes()
    if is_split:
        peer.transfer(0, 0, bytes(8), settled=True, more=True)
    peer.transfer(0, 0, bytes(11), settled=True)
    peer.expect_detach(MessageSizeExceeded, link)
    assert peer.connection.incomplete_bytes == 0


@spec("amqp:2.7.3")
def test_the_limit_of_a_link_is_the_lower_of_ours_and_what_we_announced() -> None:
    peer = session_server(Settings("server", max_message_size=10))
    for name, announced, limit in (("none", None, 10), ("zero", 0, 10), ("lower", 5, 5), ("higher", 20, 10)):
        handle = len(peer.connection.sessions[0].links)
        attach = Attach(name, handle, SENDER, source=Source(), target=Target(), initial_delivery_count=0)
        link = peer.attach(attach)
        reply = link.attach_reply()
        reply.max_message_size = announced
        link.accept(reply)
        assert isinstance(link, ReceiverLink)
        assert link.max_message_size == limit


# --- too many ---------------------------------------------------------------------------------------------------


@spec("amqp:2.8.15")
def test_too_many_unsettled_deliveries_end_the_session() -> None:
    peer = session_server(Settings("server", max_unsettled=3))
    link = peer.attach_sender()
    for number in range(3):
        peer.transfer(0, number)
    link.settle(link.session.incoming_unsettled[1])
    peer.transfer(0, 3)
    peer.transfer(0, 4)
    peer.expect_end(ResourceLimitExceeded)
    assert link.session.incoming_unsettled == {}


@spec("amqp:2.8.15")
def test_too_many_bytes_in_incomplete_deliveries_close_the_connection() -> None:
    peer = session_server(Settings("server", max_incomplete=100, max_message_size=60))
    for handle in range(3):
        peer.attach_sender(f"link {handle}", handle)
    for handle in range(2):
        peer.transfer(handle, handle, bytes(50), more=True)
    assert peer.connection.incomplete_bytes == 100
    peer.transfer(2, 2, bytes(1), more=True)
    peer.expect_close(ResourceLimitExceeded)
