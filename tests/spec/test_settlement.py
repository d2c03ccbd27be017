"""Settlement (parts 2.6.12 and 2.7.6): who says what of a delivery, one by one and in ranges."""

from __future__ import annotations

import pytest

from tandem.amqp.delivery_states import (
    ACCEPTED,
    RELEASED,
    AmqpError,
    DeliveryState,
    Modified,
    Rejected,
    TransactionalState,
)
from tandem.amqp.events import DispositionReceived, SettlementReceived
from tandem.amqp.performatives import RECEIVER, SENDER, Disposition, Transfer
from tandem.amqp.types import Symbol
from tests.markers import spec
from tests.spec.raw_peer import only, session_server

STATES = [
    ACCEPTED,
    RELEASED,
    Rejected(),
    Rejected(AmqpError("amqp:not-allowed", "x" * 300, {Symbol("key"): 1})),
    Modified(True, None, {Symbol("x-opt"): "v"}),
    TransactionalState(b"txn", ACCEPTED),
    None,
]


# --- ours, of what came -----------------------------------------------------------------------------------------


@spec("amqp:2.7.6", "amqp:3.4")
@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
def test_an_outcome_is_written_with_all_it_says(state: DeliveryState | None) -> None:
    peer = session_server()
    link = peer.attach_sender()
    peer.transfer(0, 5)
    delivery = link.session.incoming_unsettled[5]
    link.settle(delivery, state)
    disposition = peer.read_one(Disposition)
    assert (disposition.role, disposition.first, disposition.last) == (RECEIVER, 5, 5)
    assert disposition.settled
    assert disposition.state == state
    assert delivery.is_settled
    assert link.session.incoming_unsettled == {}


@spec("amqp:2.7.6")
def test_settlements_in_a_row_are_one_disposition() -> None:
    peer = session_server()
    link = peer.attach_sender()
    for number in range(6):
        peer.transfer(0, number)
    deliveries = list(link.session.incoming_unsettled.values())
    for number in (0, 1, 2, 4, 5):
        link.settle(deliveries[number])
    link.settle(deliveries[3], RELEASED)
    written = peer.read()
    assert [(each.first, each.last) for each in written if isinstance(each, Disposition)] == [(0, 2), (4, 5), (3, 3)]
    assert len(written) == 3


@spec("amqp:2.7.6", "amqp:2.8.10")
def test_a_range_of_settlements_may_wrap() -> None:
    peer = session_server()
    link = peer.attach_sender()
    for number in (0xFFFF_FFFE, 0xFFFF_FFFF, 0, 1):
        peer.transfer(0, number)
    for delivery in list(link.session.incoming_unsettled.values()):
        link.settle(delivery)
    disposition = peer.read_one(Disposition)
    assert (disposition.first, disposition.last) == (0xFFFF_FFFE, 1)


@spec("amqp:2.6.12")
def test_settling_twice_says_it_once() -> None:
    peer = session_server()
    link = peer.attach_sender()
    peer.transfer(0, 0)
    delivery = link.session.incoming_unsettled[0]
    link.settle(delivery)
    link.settle(delivery, RELEASED)
    assert peer.read_one(Disposition).state is ACCEPTED


@spec("amqp:2.8.3", "amqp:2.6.12")
def test_with_rcv_settle_mode_second_the_sender_settles() -> None:
    peer = session_server()
    link = peer.attach_sender()
    for number in range(3):
        peer.transfer(0, number)
    deliveries = list(link.session.incoming_unsettled.values())
    for delivery in deliveries:
        link.settle(delivery, ACCEPTED, is_settled=False)
    disposition = peer.read_one(Disposition)
    assert (disposition.first, disposition.last, disposition.settled) == (0, 2, False)
    assert len(link.unsettled) == 3
    event = only(peer.send(Disposition(SENDER, 0, 1, True, ACCEPTED)), SettlementReceived)
    assert (event.link, event.deliveries, event.state) == (link, deliveries[:2], ACCEPTED)
    assert event.is_settled
    assert [delivery.is_settled for delivery in deliveries] == [True, True, False]
    assert list(link.session.incoming_unsettled) == [2]
    link.settle(deliveries[0])
    assert peer.connection.data_to_send() == b""


@spec("amqp:4.4.2", "amqp:4.3")
def test_a_transactional_outcome_is_written_before_the_discharge_that_follows_it() -> None:
    peer = session_server()
    inward, controller = peer.attach_sender("in", 0), peer.attach_receiver("controller", 1)
    for number in range(2):
        peer.transfer(0, number)
    for delivery in list(inward.session.incoming_unsettled.values()):
        inward.settle(delivery, TransactionalState(b"txn", ACCEPTED))
    controller.send(b"discharge")
    assert [type(performative) for performative in peer.read()] == [Disposition, Disposition, Transfer]


# --- the peer's, of what we sent --------------------------------------------------------------------------------


@spec("amqp:2.7.6", "amqp:3.4")
@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
def test_the_outcome_of_what_we_sent_arrives_and_the_delivery_is_forgotten(state: DeliveryState | None) -> None:
    peer = session_server()
    link = peer.attach_receiver()
    delivery = link.send(b"m")
    event = only(peer.send(Disposition(RECEIVER, 0, None, True, state)), DispositionReceived)
    assert (event.link, event.deliveries, event.state, event.is_settled) == (link, [delivery], state, True)
    assert delivery.is_settled
    assert delivery.state == state
    assert link.session.outgoing_unsettled == {}
    assert link.unsettled == set()
    assert repr(event) == f"DispositionReceived([{delivery!r}], {state!r}, settled=True)"


@spec("amqp:2.6.12")
def test_an_outcome_that_is_not_settled_waits_for_us() -> None:
    peer = session_server()
    link = peer.attach_receiver()
    delivery = link.send(b"m")
    peer.read()
    event = only(peer.send(Disposition(RECEIVER, 0, 0, False, ACCEPTED)), DispositionReceived)
    assert not event.is_settled
    assert delivery.state is ACCEPTED
    assert list(link.session.outgoing_unsettled) == [0]
    link.settle(delivery, event.state)
    link.settle(delivery, event.state)
    disposition = peer.read_one(Disposition)
    assert (disposition.role, disposition.first, disposition.last, disposition.settled) == (SENDER, 0, 0, True)
    assert disposition.state is ACCEPTED
    assert link.session.outgoing_unsettled == {}


@spec("amqp:2.7.6")
def test_a_state_of_null_leaves_what_was_said_before() -> None:
    peer = session_server()
    outward, inward = peer.attach_receiver("out", 0), peer.attach_sender("in", 1)
    sent = outward.send(b"m")
    peer.transfer(1, 0)
    received = inward.session.incoming_unsettled[0]
    peer.send(Disposition(RECEIVER, 0, 0, False, RELEASED), Disposition(SENDER, 0, 0, False, RELEASED))
    peer.send(Disposition(RECEIVER, 0, 0, True), Disposition(SENDER, 0, 0, True))
    assert sent.state is RELEASED
    assert received.state is RELEASED


@spec("amqp:2.7.6")
@pytest.mark.parametrize("role", [RECEIVER, SENDER])
def test_a_range_over_several_links_is_told_link_by_link_in_order(role: bool) -> None:
    peer = session_server()
    pattern = (0, 0, 1, 1, 0)
    if role is RECEIVER:
        outward = [peer.attach_receiver(f"out {handle}", handle) for handle in range(2)]
        for handle in pattern:
            outward[handle].send(b"m")
    else:
        for handle in range(2):
            peer.attach_sender(f"in {handle}", handle)
        for number, handle in enumerate(pattern):
            peer.transfer(handle, number)
    events = peer.send(Disposition(role, 0, 4, True, ACCEPTED))
    told = []
    for event in events:
        assert isinstance(event, DispositionReceived | SettlementReceived)
        told.append((event.link.handle, [delivery.delivery_id for delivery in event.deliveries]))
    assert told == [(0, [0, 1]), (1, [2, 3]), (0, [4])]


@spec("amqp:2.7.6")
@pytest.mark.parametrize("role", [RECEIVER, SENDER])
def test_ids_that_are_not_held_are_skipped(role: bool) -> None:
    peer = session_server()
    if role is RECEIVER:
        outward = peer.attach_receiver()
        for _ in range(4):
            outward.send(b"m")
    else:
        peer.attach_sender()
        for number in range(4):
            peer.transfer(0, number)
    session = peer.connection.sessions[0]
    held = session.outgoing_unsettled if role is RECEIVER else session.incoming_unsettled
    peer.send(Disposition(role, 1, 1, True, ACCEPTED))
    assert peer.send(Disposition(role, 1, 1, True, ACCEPTED)) == []
    assert peer.send(Disposition(role, 90, 91, True, ACCEPTED)) == []
    # As many as are held, and one of them is not.
    (event,) = peer.send(Disposition(role, 0, 2, True, ACCEPTED))
    assert isinstance(event, DispositionReceived | SettlementReceived)
    assert [delivery.delivery_id for delivery in event.deliveries] == [0, 2]
    assert list(held) == [3]


@spec("amqp:2.7.6", "amqp:2.8.10")
@pytest.mark.parametrize("role", [RECEIVER, SENDER])
def test_a_range_of_the_peer_may_wrap(role: bool) -> None:
    peer = session_server()
    session = peer.connection.sessions[0]
    if role is RECEIVER:
        outward = peer.attach_receiver()
        session.next_delivery_id = 0xFFFF_FFFD
        for _ in range(6):
            outward.send(b"m")
    else:
        peer.attach_sender()
        for number in (0xFFFF_FFFD, 0xFFFF_FFFE, 0xFFFF_FFFF, 0, 1, 2):
            peer.transfer(0, number)
    (event,) = peer.send(Disposition(role, 0xFFFF_FFFE, 1, True, ACCEPTED))
    assert isinstance(event, DispositionReceived | SettlementReceived)
    assert [delivery.delivery_id for delivery in event.deliveries] == [0xFFFF_FFFE, 0xFFFF_FFFF, 0, 1]
    held = session.outgoing_unsettled if role is RECEIVER else session.incoming_unsettled
    assert list(held) == [0xFFFF_FFFD, 2]


@spec("amqp:2.7.6")
@pytest.mark.parametrize("role", [RECEIVER, SENDER])
def test_a_huge_range_costs_no_more_than_what_is_held(role: bool) -> None:
    peer = session_server()
    if role is RECEIVER:
        outward = peer.attach_receiver()
        for _ in range(3):
            outward.send(b"m")
    else:
        peer.attach_sender()
        for number in range(3):
            peer.transfer(0, number)
    # Counting to 2^31 once would take a minute, and a hundred times longer than a test may.
    (event,) = peer.send(Disposition(role, 0, 0x7FFF_FFFF, True, ACCEPTED))
    assert peer.send(*[Disposition(role, 0, 0x7FFF_FFFF, True, ACCEPTED)] * 100) == []
    assert isinstance(event, DispositionReceived | SettlementReceived)
    assert len(event.deliveries) == 3


@spec("amqp:2.6.12")
def test_a_delivery_can_be_settled_only_through_its_own_link() -> None:
    peer = session_server()
    one, two = peer.attach_receiver("one", 0), peer.attach_receiver("two", 1)
    delivery = one.send(b"m")
    peer.read()
    two.settle(delivery, ACCEPTED)
    assert peer.connection.data_to_send() == b""
    assert list(one.session.outgoing_unsettled) == [0]
