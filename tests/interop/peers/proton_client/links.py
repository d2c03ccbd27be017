"""Features of links: credit, drain, settlement and outcomes."""

from __future__ import annotations

from typing import Any, Final

from proton import Delivery, Message
from proton import Link as ProtonLink
from proton.reactor import AtMostOnce, LinkOption

from tests.interop.peers.proton_client.peer import Link, Peer, Received, receive, require_left, send, wait_for

WINDOW: Final = 50


class SettleSecond(LinkOption):  # type: ignore[misc] # proton is not installed where the types are checked
    """The receiver settles after the sender."""

    def apply(self, link: Any) -> None:
        link.snd_settle_mode = ProtonLink.SND_UNSETTLED
        link.rcv_settle_mode = ProtonLink.RCV_SECOND


def send_numbers(connection: Any, address: str, count: int) -> None:
    send(connection, address, *(Message(body=number) for number in range(count)))


def take_one(connection: Any, address: str, body: object = "once") -> tuple[Link, Received]:
    """Send one message and take it, not yet settled."""
    send(connection, address, Message(body=body))
    link = Link(connection, address)
    link.give_credit(1)
    return link, link.take_one()


def credit_window(peer: Peer) -> None:
    with peer.connection() as connection:
        # Not one by one: what is sent at once has to be held back by the server's credit, not by our patience.
        sender = connection.create_sender(peer.address)
        deliveries = []
        for number in range(1000):
            wait_for(connection, lambda: sender.link.credit > 0, "waiting for credit")
            deliveries.append(sender.link.send(Message(body=number)))
        wait_for(connection, lambda: all(delivery.settled for delivery in deliveries), "waiting for all outcomes")
        link = Link(connection, peer.address)
        link.give_credit(WINDOW)
        for number in range(1000):
            received = link.take_one()
            assert received.message.body == number, f"{received.message.body} came in place of {number}"
            received.settle(Delivery.ACCEPTED)
            link.give_credit(1)


def credit_exact(peer: Peer) -> None:
    with peer.connection() as connection:
        send_numbers(connection, peer.address, 10)
        link = Link(connection, peer.address)
        link.give_credit(4)
        first = link.take(4)
        # A round trip on the same session: what the server sent before it is here.
        send_numbers(connection, f"{peer.address}.other", 1)
        assert link.arrived() == [], "more messages came than there was credit for"
        link.give_credit(6)
        second = link.take(6)
        assert [one.message.body for one in first + second] == list(range(10))
        for one in first + second:
            one.settle(Delivery.ACCEPTED)
        receive(connection, f"{peer.address}.other", 1)


def drain(peer: Peer) -> None:
    with peer.connection() as connection:
        send_numbers(connection, peer.address, 3)
        link = Link(connection, peer.address)
        link.give_credit(10)
        received = link.drain()
        assert [one.message.body for one in received] == [0, 1, 2]
        for one in received:
            one.settle(Delivery.ACCEPTED)
        # The link works on, with new credit.
        send_numbers(connection, peer.address, 1)
        assert link.arrived() == [], "a message came without credit"
        link.give_credit(1)
        link.take_one().settle(Delivery.ACCEPTED)


def drain_empty(peer: Peer) -> None:
    with peer.connection() as connection:
        link = Link(connection, peer.address)
        link.give_credit(100)
        assert link.drain() == []


def presettled_send(peer: Peer) -> None:
    with peer.connection() as connection:
        sender = connection.create_sender(peer.address, options=AtMostOnce())
        wait_for(connection, lambda: sender.link.credit >= 10, "waiting for credit")
        for number in range(10):
            sender.send(Message(body=number))
        # Nothing comes back for them: they are gone when they are written.
        wait_for(connection, lambda: sender.link.queued == 0, "writing")
        sender.close()
        assert [one.message.body for one in receive(connection, peer.address, 10)] == list(range(10))


def presettled_receive(peer: Peer) -> None:
    with peer.connection() as connection:
        send_numbers(connection, peer.address, 3)
        link = Link(connection, peer.address, option=AtMostOnce())
        assert link.link.remote_snd_settle_mode == ProtonLink.SND_SETTLED, "the server did not agree to settle"
        link.give_credit(3)
        for one in link.take(3):
            assert one.delivery.settled, "the message came unsettled"
        link.close()
        require_left(connection, peer.address)


def settle_second(peer: Peer) -> None:
    with peer.connection() as connection:
        send(connection, peer.address, Message(body="once"))
        link = Link(connection, peer.address, option=SettleSecond())
        assert link.link.remote_rcv_settle_mode == ProtonLink.RCV_SECOND, "the server did not agree to the mode"
        link.give_credit(1)
        received = link.take_one()
        received.delivery.update(Delivery.ACCEPTED)
        wait_for(connection, lambda: bool(received.delivery.settled), "waiting for the server to settle")
        received.delivery.settle()
        link.close()
        require_left(connection, peer.address)


def outcome_accepted(peer: Peer) -> None:
    with peer.connection() as connection:
        _, received = take_one(connection, peer.address)
        received.settle(Delivery.ACCEPTED)
        require_left(connection, peer.address)


def outcome_rejected(peer: Peer) -> None:
    with peer.connection() as connection:
        _, received = take_one(connection, peer.address)
        received.settle(Delivery.REJECTED)
        require_left(connection, peer.address)


def outcome_released(peer: Peer) -> None:
    with peer.connection() as connection:
        link, received = take_one(connection, peer.address)
        received.settle(Delivery.RELEASED)
        link.give_credit(1)
        again = link.take_one()
        assert again.message.body == "once"
        again.settle(Delivery.ACCEPTED)
        require_left(connection, peer.address)


def take_modified_again(connection: Any, address: str) -> Received:
    """The second delivery of a message that was modified, as failed, after the first."""
    link, received = take_one(connection, address)
    received.delivery.local.failed = True
    received.delivery.local.annotations = {"x-opt-tried-by": "proton"}
    received.settle(Delivery.MODIFIED)
    link.give_credit(1)
    again = link.take_one()
    again.settle(Delivery.ACCEPTED)
    return again


def outcome_modified(peer: Peer) -> None:
    with peer.connection() as connection:
        assert take_modified_again(connection, peer.address).message.body == "once"


def modified_delivery_count(peer: Peer) -> None:
    with peer.connection() as connection:
        again = take_modified_again(connection, peer.address)
        assert again.message.delivery_count == 1, f"delivery count {again.message.delivery_count}"


def batched_dispositions(peer: Peer) -> None:
    with peer.connection() as connection:
        send_numbers(connection, peer.address, 100)
        link = Link(connection, peer.address)
        link.give_credit(100)
        # Proton writes one disposition for neighbours with the same state.
        for one in link.take(100):
            one.settle(Delivery.ACCEPTED)
        link.close()
        require_left(connection, peer.address)


def detach_returns_unsettled(peer: Peer) -> None:
    with peer.connection() as connection:
        link, _ = take_one(connection, peer.address)
        link.close()
        require_left(connection, peer.address, "once")
