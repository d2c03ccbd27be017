"""What arrived and was not decided is counted, so that a driver can stop reading before memory does."""

from __future__ import annotations

from tandem.amqp.deliveries import IncomingDelivery
from tandem.amqp.delivery_states import ACCEPTED
from tandem.amqp.performatives import SENDER, Detach, Disposition, End
from tandem.amqp.settings import Settings
from tests.markers import spec
from tests.spec.raw_peer import RawPeer, only, session_server


def saturated() -> tuple[RawPeer, list[IncomingDelivery]]:
    """Three messages of 100 bytes where 250 are the limit."""
    peer = session_server(Settings("server", max_undecided_bytes=250))
    peer.attach_sender()
    deliveries: list[IncomingDelivery] = []
    for number in range(3):
        assert not peer.connection.is_saturated
        deliveries.append(only(peer.transfer(0, number, b"x" * 100), IncomingDelivery))
    assert peer.connection.is_saturated
    return peer, deliveries


@spec("amqp:2.6.12")
def test_a_connection_is_saturated_until_enough_is_settled() -> None:
    peer, deliveries = saturated()
    deliveries[1].link.settle(deliveries[1])
    assert not peer.connection.is_saturated
    assert peer.connection.undecided_bytes == 200


@spec("amqp:2.6.12")
def test_an_outcome_that_waits_for_the_sender_is_decided_all_the_same() -> None:
    """Its settlement has to be read, so reading must go on."""
    peer, deliveries = saturated()
    for delivery in deliveries:
        delivery.link.settle(delivery, ACCEPTED, is_settled=False)
    assert peer.connection.undecided_bytes == 0
    peer.send(Disposition(SENDER, 0, 2, True, ACCEPTED))
    assert peer.connection.undecided_bytes == 0


def test_what_the_sender_settles_or_gives_up_weighs_nothing() -> None:
    peer, _ = saturated()
    peer.send(Disposition(SENDER, 0, 0, True, ACCEPTED))
    assert peer.connection.undecided_bytes == 200
    peer.send(Detach(0, True))
    assert peer.connection.undecided_bytes == 0
    peer, _ = saturated()
    peer.send(End())
    assert peer.connection.undecided_bytes == 0


def test_messages_sent_settled_are_decided_when_they_come() -> None:
    peer = session_server(Settings("server", max_undecided_bytes=250))
    peer.attach_sender()
    peer.transfer(0, 0, b"x" * 1_000, settled=True)
    assert not peer.connection.is_saturated


@spec("amqp:2.6.12")
def test_a_stale_delivery_does_not_settle_the_one_that_took_over_its_id() -> None:
    peer = session_server()
    peer.attach_sender()
    stale = only(peer.transfer(0, 7, b"old"), IncomingDelivery)
    peer.send(Disposition(SENDER, 7, 7, True, ACCEPTED))
    fresh = only(peer.transfer(0, 7, b"new"), IncomingDelivery)
    stale.link.settle(stale)
    assert not fresh.is_settled
    assert peer.connection.undecided_bytes == 3
    assert peer.connection.data_to_send() == b""
