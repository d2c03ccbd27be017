"""Delivery-ids that are used again too early (part 2.6.12): the Python SDK does it, and expects one answer for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.deliveries import IncomingDelivery
from tandem.amqp.delivery_states import ACCEPTED, RELEASED, DeliveryState
from tandem.amqp.events import SettlementReceived
from tandem.amqp.link import ReceiverLink
from tandem.amqp.performatives import RECEIVER, SENDER, Detach, Disposition, End, Performative
from tandem.amqp.settings import Settings
from tandem.errors import ResourceLimitExceeded
from tests.fuzz.promises import check_books
from tests.markers import spec
from tests.spec.raw_peer import RawPeer, only, session_server


def receive(peer: RawPeer, handle: int, delivery_id: int, payload: bytes = b"m") -> IncomingDelivery:
    delivery = only(peer.transfer(handle, delivery_id, payload), IncomingDelivery)
    check_books(peer.connection)
    return delivery


def settle(peer: RawPeer, delivery: IncomingDelivery, state: DeliveryState | None = ACCEPTED) -> list[Performative]:
    """Decide a delivery; return what is written because of it."""
    delivery.link.settle(delivery, state)
    check_books(peer.connection)
    return peer.read()


def expect_answer(written: list[Performative], delivery_id: int, state: DeliveryState | None) -> None:
    (disposition,) = written
    assert isinstance(disposition, Disposition)
    assert (disposition.role, disposition.first, disposition.settled) == (RECEIVER, delivery_id, True)
    assert disposition.state == state


def expect_nothing_kept(peer: RawPeer) -> None:
    session = peer.connection.sessions[0]
    assert session.incoming_unsettled == {}
    assert session.shared_ids.undecided_count == 0
    assert 5 not in session.shared_ids
    assert peer.connection.undecided_bytes == 0


@spec("amqp:2.6.12", "amqp:2.7.5")
def test_deliveries_under_one_id_all_arrive_and_get_one_answer_when_the_last_is_decided() -> None:
    peer = session_server()
    peer.attach_sender()
    first, second, third = (receive(peer, 0, 5, payload) for payload in (b"one", b"two", b"three"))
    assert [first.payload, second.payload, third.payload] == [b"one", b"two", b"three"]
    assert settle(peer, second) == []
    assert settle(peer, first) == []
    expect_answer(settle(peer, third), 5, ACCEPTED)
    expect_nothing_kept(peer)


@spec("amqp:2.6.12")
def test_a_message_is_not_confirmed_by_a_request_on_another_link_that_took_its_id() -> None:
    """The SDK takes any disposition for the id of a message as the message's own."""
    peer = session_server()
    peer.attach_sender("queue", 0)
    peer.attach_sender("$management", 1)
    message, request = receive(peer, 0, 5), receive(peer, 1, 5)
    assert settle(peer, request) == []
    expect_answer(settle(peer, message), 5, ACCEPTED)
    expect_nothing_kept(peer)


@spec("amqp:2.6.12")
@pytest.mark.parametrize("refused", [0, 1, 2])
def test_one_refusal_refuses_all_deliveries_under_the_id(refused: int) -> None:
    peer = session_server()
    peer.attach_sender()
    deliveries = [receive(peer, 0, 5) for _ in range(3)]
    written = [settle(peer, one, RELEASED if number == refused else ACCEPTED) for number, one in enumerate(deliveries)]
    assert written[:2] == [[], []]
    expect_answer(written[2], 5, RELEASED)


@spec("amqp:2.6.12")
def test_deliveries_that_share_an_id_can_be_settled_without_an_outcome() -> None:
    peer = session_server()
    peer.attach_sender()
    first, second = receive(peer, 0, 5), receive(peer, 0, 5)
    assert settle(peer, first, None) == []
    expect_answer(settle(peer, second, None), 5, None)
    expect_nothing_kept(peer)


@spec("amqp:2.6.12")
def test_an_id_that_was_shared_can_be_used_again_alone() -> None:
    peer = session_server()
    peer.attach_sender()
    for delivery in [receive(peer, 0, 5), receive(peer, 0, 5)]:
        settle(peer, delivery)
    delivery = receive(peer, 0, 5)
    assert peer.connection.sessions[0].incoming_unsettled == {5: delivery}
    expect_answer(settle(peer, delivery), 5, ACCEPTED)


@spec("amqp:2.6.12")
def test_an_id_is_shared_with_a_link_that_took_it_while_the_first_was_incomplete() -> None:
    peer = session_server()
    peer.attach_sender("slow", 0)
    peer.attach_sender("fast", 1)
    peer.transfer(0, 5, b"half ", more=True)
    fast = receive(peer, 1, 5)
    slow = receive(peer, 0, 5, b"half")
    assert slow.payload == b"half half"
    assert settle(peer, fast) == []
    expect_answer(settle(peer, slow), 5, ACCEPTED)
    expect_nothing_kept(peer)


@spec("amqp:2.6.12")
def test_settling_a_delivery_that_shares_its_id_twice_does_nothing() -> None:
    peer = session_server()
    peer.attach_sender()
    first, second = receive(peer, 0, 5), receive(peer, 0, 5)
    assert settle(peer, first) == []
    assert settle(peer, first, RELEASED) == []
    expect_answer(settle(peer, second), 5, ACCEPTED)
    assert settle(peer, second) == []


@spec("amqp:2.6.12")
def test_the_sender_settles_all_deliveries_under_an_id_at_once() -> None:
    peer = session_server()
    peer.attach_sender()
    deliveries = [receive(peer, 0, 4), receive(peer, 0, 5), receive(peer, 0, 5)]
    event = only(peer.send(Disposition(SENDER, 4, 5, True, ACCEPTED)), SettlementReceived)
    assert event.deliveries == deliveries
    assert all(delivery.is_settled for delivery in deliveries)
    expect_nothing_kept(peer)
    assert settle(peer, deliveries[2]) == []


@spec("amqp:2.6.12")
def test_what_the_sender_says_without_settling_is_noted_on_all_deliveries_under_an_id() -> None:
    peer = session_server()
    peer.attach_sender()
    deliveries = [receive(peer, 0, 5), receive(peer, 0, 5)]
    event = only(peer.send(Disposition(SENDER, 5, 5, False, RELEASED)), SettlementReceived)
    assert event.deliveries == deliveries
    assert [delivery.state for delivery in deliveries] == [RELEASED, RELEASED]
    settle(peer, deliveries[0])
    expect_answer(settle(peer, deliveries[1]), 5, ACCEPTED)


@spec("amqp:2.6.12")
def test_a_detached_link_gives_its_part_of_a_shared_id_up_and_the_others_are_answered() -> None:
    peer = session_server()
    peer.attach_sender("leaves", 0)
    peer.attach_sender("stays", 1)
    undecided, decided = receive(peer, 0, 5), receive(peer, 1, 5)
    assert settle(peer, decided) == []
    peer.send(Detach(0, True))
    check_books(peer.connection)
    written = peer.read()
    assert isinstance(written[0], Detach)
    expect_answer(written[1:], 5, ACCEPTED)
    expect_nothing_kept(peer)
    assert settle(peer, undecided) == []


@spec("amqp:2.6.12")
def test_nothing_is_answered_to_links_that_have_left() -> None:
    peer = session_server()
    peer.attach_sender("leaves", 0)
    peer.attach_sender("leaves too", 1)
    receive(peer, 0, 5)
    settle(peer, receive(peer, 1, 5))
    peer.send(Detach(1, True), Detach(0, True))
    assert [type(one) for one in peer.read()] == [Detach, Detach]
    expect_nothing_kept(peer)


@spec("amqp:2.6.12")
def test_nothing_is_written_about_a_shared_id_after_the_end_of_its_session() -> None:
    peer = session_server()
    peer.attach_sender("one", 0)
    peer.attach_sender("other", 1)
    receive(peer, 0, 5, b"undecided")
    settle(peer, receive(peer, 1, 5))
    peer.send(End())
    assert [type(one) for one in peer.read()] == [End]
    assert peer.connection.undecided_bytes == 0
    assert peer.connection.data_to_send() == b""


@spec("amqp:2.8.15")
def test_deliveries_that_share_an_id_are_bounded_as_others_are() -> None:
    peer = session_server(Settings("server", max_unsettled=3))
    peer.attach_sender()
    for _ in range(3):
        receive(peer, 0, 5)
    peer.transfer(0, 5)
    peer.expect_end(ResourceLimitExceeded)
    assert peer.connection.undecided_bytes == 0


Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("transfer"), st.integers(0, 5)),
        st.tuples(st.just("accept"), st.integers(0, 9)),
        st.tuples(st.just("release"), st.integers(0, 9)),
        st.tuples(st.just("settle"), st.integers(0, 2)),
        st.tuples(st.just("attach again"), st.integers(0, 1)),
    ),
    max_size=40,
)


@spec("amqp:2.6.12")
@given(STEPS)
def test_however_ids_are_shared_every_delivery_is_answered_once_and_nothing_is_kept(steps: list[Step]) -> None:
    """Two links, three ids, in any order. An answer comes with the decision of the last delivery under its id."""
    peer = session_server()
    links: dict[int, ReceiverLink] = {handle: peer.attach_sender(f"link {handle}", handle) for handle in (0, 1)}
    undecided: list[IncomingDelivery] = []
    for what, number in [*steps, *[("accept", 0)] * (len(steps))]:
        if what == "transfer":
            undecided.append(receive(peer, number % 2, number // 2))
        elif what in {"accept", "release"} and undecided:
            delivery = undecided.pop(number % len(undecided))
            written = settle(peer, delivery, ACCEPTED if what == "accept" else RELEASED)
            is_last = all(one.delivery_id != delivery.delivery_id for one in undecided)
            assert len(written) == is_last
        elif what == "settle":
            peer.send(Disposition(SENDER, number, number, True, ACCEPTED))
            undecided = [one for one in undecided if one.delivery_id != number]
        elif what == "attach again":
            peer.send(Detach(number, True))
            undecided = [one for one in undecided if one.link is not links[number]]
            peer.read()
            links[number] = peer.attach_sender(f"link {number}", number)
        check_books(peer.connection)
    assert not undecided
    expect_nothing_kept(peer)
