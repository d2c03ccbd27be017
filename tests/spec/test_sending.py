"""Messages out (parts 2.5.6, 2.6.7 and 2.6.14): as far as credit, window and frame size let us."""

from __future__ import annotations

import pytest

from tandem.amqp.delivery_states import TransactionalState
from tandem.amqp.events import CreditDrained, CreditReceived
from tandem.amqp.link import SenderLink
from tandem.amqp.performatives import Detach, Flow, Transfer
from tandem.amqp.settings import Settings
from tandem.amqp.terminus import Source
from tandem.errors import EncodeError, StateError
from tests.markers import spec
from tests.spec.pipe import Pipe
from tests.spec.raw_peer import RawPeer, only, opened_server, session_server
from tests.spec.wire import Frame


def transfers(peer: RawPeer) -> list[tuple[Transfer, bytes]]:
    found = []
    for frame in peer.read_frames():
        assert isinstance(frame.performative, Transfer)
        found.append((frame.performative, frame.payload))
    return found


def windowed_sender(window: int, *, max_frame_size: int = 512, credit: int = 100) -> tuple[RawPeer, SenderLink]:
    """A link of ours towards a peer that takes so many transfers at a time."""
    peer = opened_server(max_frame_size=max_frame_size)
    peer.begin(window=window)
    link = peer.attach_receiver(credit=0)
    peer.flow(0, credit, window=window)
    return peer, link


@spec("amqp:2.6.12", "amqp:2.7.5")
def test_a_message_that_fits_is_one_transfer() -> None:
    peer = session_server()
    link = peer.attach_receiver(credit=2)
    delivery = link.send(b"payload", b"tag", message_format=0x8001_3700, context="mine")
    ((transfer, payload),) = transfers(peer)
    assert (transfer.handle, transfer.delivery_id, transfer.delivery_tag) == (0, 0, b"tag")
    assert (transfer.message_format, transfer.settled, transfer.more) == (0x8001_3700, False, False)
    assert payload == b"payload"
    assert delivery.context == "mine"
    assert repr(delivery) == "OutgoingDelivery(id=0, tag=b'tag')"
    assert link.session.outgoing_unsettled == {0: delivery}
    assert link.credit == 1


@spec("amqp:2.6.12")
@pytest.mark.parametrize("size", [10, 1_000])
def test_a_prefix_goes_before_the_payload_in_one_frame_or_several(size: int) -> None:
    peer, link = windowed_sender(100)
    link.send(b"p" * size, prefix=b"prefix, ")
    assert b"".join([payload for _, payload in transfers(peer)]) == b"prefix, " + b"p" * size


@spec("amqp:2.6.12")
def test_a_delivery_without_a_tag_is_tagged_with_its_id() -> None:
    peer = session_server()
    link = peer.attach_receiver()
    link.session.next_delivery_id = 0x0102_0304
    link.send(b"m")
    assert transfers(peer)[0][0].delivery_tag == b"\x01\x02\x03\x04"


@spec("amqp:2.6.12")
def test_a_message_sent_settled_is_forgotten_at_once() -> None:
    peer = session_server()
    link = peer.attach_receiver()
    assert link.send(b"m", is_settled=True).is_settled
    assert transfers(peer)[0][0].settled is True
    assert link.session.outgoing_unsettled == {}
    assert link.unsettled == set()


@spec("amqp:2.6.14", "amqp:2.7.1")
@pytest.mark.parametrize("size", [0, 1, 469, 470, 471, 5000])
@pytest.mark.parametrize("state", [None, TransactionalState(b"x" * 200)], ids=["stateless", "transactional"])
def test_a_message_is_split_at_the_frame_size_of_the_peer(size: int, state: TransactionalState | None) -> None:
    peer = session_server(max_frame_size=512)
    link = peer.attach_receiver()
    payload = bytes(number % 251 for number in range(size))
    link.send(payload, b"t", state=state, is_settled=True)
    # The reader of the raw peer fails on any frame above 512 bytes.
    parts = transfers(peer)
    assert b"".join(part for _, part in parts) == payload
    assert [transfer.more for transfer, _ in parts] == [True] * (len(parts) - 1) + [False]
    assert {transfer.delivery_id for transfer, _ in parts} == {0}
    assert [transfer.state for transfer, _ in parts] == [state] + [None] * (len(parts) - 1)
    if state is None:
        # 38 bytes of head beside a tag of one: what fits in one frame is one frame.
        assert len(parts) == max(1, -(-size // (512 - 39)))


@spec("amqp:2.7.5")
def test_what_no_transfer_can_carry_is_refused_and_changes_nothing() -> None:
    peer = session_server()
    link = peer.attach_receiver(credit=3)
    with pytest.raises(EncodeError):
        link.send(b"m", bytes(33))
    with pytest.raises(EncodeError):
        link.send(b"m", state=TransactionalState(bytes(300)))
    for message_format in (-1, 2**32):
        with pytest.raises(EncodeError):
            link.send(b"m", message_format=message_format)
    assert link.credit == 3
    assert link.session.outgoing_unsettled == {}
    assert peer.connection.data_to_send() == b""
    assert link.send(b"m", bytes(32), message_format=2**32 - 1).delivery_id == 0


# --- credit -----------------------------------------------------------------------------------------------------


@spec("amqp:2.6.7")
def test_nothing_is_sent_without_credit() -> None:
    peer = session_server()
    link = peer.attach_receiver(credit=2)
    link.send(b"m")
    link.send(b"m")
    with pytest.raises(StateError):
        link.send(b"m")
    assert len(transfers(peer)) == 2
    # Counted from the first delivery it has seen, the peer grants one more than is under way.
    event = only(peer.flow(0, 2, delivery_count=1), CreditReceived)
    assert event.link is link
    assert link.credit == 1


@spec("amqp:2.6.7")
def test_credit_taken_back_is_gone_and_never_negative() -> None:
    peer = session_server()
    link = peer.attach_receiver(credit=5)
    for _ in range(4):
        link.send(b"m")
    peer.flow(0, 2, delivery_count=0)
    assert link.credit == 0
    peer.flow(0, 0, delivery_count=4)
    assert link.credit == 0


@spec("amqp:2.6.7")
def test_a_link_flow_without_credit_leaves_the_credit_alone() -> None:
    peer = session_server()
    link = peer.attach_receiver(credit=5)
    peer.flow(0, None)
    assert link.credit == 5


@spec("amqp:2.6.7")
def test_a_drain_uses_the_credit_up() -> None:
    peer = session_server()
    link = peer.attach_receiver(credit=0)
    only(peer.flow(0, 5, drain=True), CreditReceived)
    assert link.is_draining
    link.send(b"m", is_settled=True)
    link.drained()
    transfer, flow = peer.read()
    assert isinstance(transfer, Transfer)
    assert isinstance(flow, Flow)
    assert (flow.handle, flow.delivery_count, flow.link_credit, flow.drain) == (0, 5, 0, True)
    assert link.credit == 0


@spec("amqp:2.6.7", "amqp:2.6.8")
def test_a_receiver_hears_that_its_drain_is_done() -> None:
    pipe = Pipe()
    session = pipe.connect()
    pipe.client.credit = 0
    session.attach_receiver("in", Source("q"))
    pipe.pump()
    receiver = pipe.client.receivers["in"]
    receiver.grant(3)
    pipe.pump()
    pipe.server.senders["in"].send(b"one")
    receiver.grant(3, drain=True)
    pipe.pump()
    assert pipe.client.transcript[-1] == f"{CreditDrained.__name__} in"
    assert receiver.credit == 0
    assert pipe.server.senders["in"].credit == 0
    assert receiver.flow_state.delivery_count == pipe.server.senders["in"].flow_state.delivery_count


# --- the window of the peer -------------------------------------------------------------------------------------


@spec("amqp:2.5.6")
def test_a_message_of_several_frames_waits_for_the_window_and_goes_on_in_order() -> None:
    peer, link = windowed_sender(2)
    large = bytes(number % 251 for number in range(1800))
    link.send(large, b"1")
    link.send(b"small", b"2")
    first = transfers(peer)
    assert len(first) == 2
    assert all(transfer.more for transfer, _ in first)
    assert link.session.outgoing_window.remote_window == 0
    # A session flow that names no new transfer opens nothing.
    peer.flow(window=2, next_incoming_id=1)
    assert transfers(peer) == []
    peer.flow(window=2, next_incoming_id=3)
    second = transfers(peer)
    assert [transfer.delivery_tag for transfer, _ in second] == [b"1", b"1"]
    assert b"".join(part for _, part in first + second) == large
    peer.flow(window=1, next_incoming_id=5)
    ((transfer, payload),) = transfers(peer)
    assert (transfer.delivery_id, transfer.delivery_tag, payload) == (1, b"2", b"small")
    assert not link.session.outbox.pending


@spec("amqp:2.5.6")
def test_a_link_flow_opens_the_window_too() -> None:
    peer, link = windowed_sender(1)
    for _ in range(3):
        link.send(b"m", is_settled=True)
    assert len(transfers(peer)) == 1
    peer.flow(0, 100, window=5, next_incoming_id=2)
    assert len(transfers(peer)) == 2


@spec("amqp:2.5.6")
def test_the_window_is_shared_by_the_links_of_a_session_in_the_order_of_sending() -> None:
    peer, link = windowed_sender(1)
    other = peer.attach_receiver("other", 1, credit=0)
    peer.flow(1, 10, window=1)
    link.send(b"0")
    other.send(b"1")
    link.send(b"2")
    sent = transfers(peer)
    peer.flow(window=10, next_incoming_id=2)
    sent += transfers(peer)
    assert [payload for _, payload in sent] == [b"0", b"1", b"2"]
    assert [transfer.handle for transfer, _ in sent] == [0, 1, 0]


@spec("amqp:2.5.6", "amqp:2.6.4")
def test_what_waits_for_the_window_is_dropped_with_its_link_and_nothing_else_is() -> None:
    peer, link = windowed_sender(0)
    other = peer.attach_receiver("other", 1, credit=0)
    peer.flow(1, 10, window=0)
    link.send(b"dropped")
    other.send(b"kept")
    link.detach()
    peer.read_one(Detach)
    peer.flow(window=10)
    assert [payload for _, payload in transfers(peer)] == [b"kept"]
    assert list(link.session.outgoing_unsettled) == [1]


@spec("amqp:2.5.6", "amqp:2.6.7")
def test_a_flow_of_ours_does_not_overtake_the_deliveries_it_counts() -> None:
    peer, link = windowed_sender(1, credit=5)
    link.send(b"1", is_settled=True)
    link.send(b"2", is_settled=True)
    peer.flow(0, 5, drain=True, window=1, next_incoming_id=1)
    link.drained()
    # Asked again while it waits, it still is one flow.
    peer.flow(0, 5, drain=True, echo=True, window=1, next_incoming_id=1)
    assert [payload for _, payload in transfers(peer)] == [b"1"]
    peer.flow(window=1, next_incoming_id=2)
    transfer, flow = peer.read()
    assert isinstance(transfer, Transfer)
    assert isinstance(flow, Flow)
    assert (flow.delivery_count, flow.link_credit, flow.drain) == (5, 0, True)


@spec("amqp:2.5.6", "amqp:2.6.4")
def test_a_flow_that_waits_is_dropped_with_its_link() -> None:
    peer, link = windowed_sender(0)
    link.send(b"dropped")
    link.write_flow()
    link.detach()
    peer.flow(window=10)
    assert [type(performative) for performative in peer.read()] == [Detach]


@spec("amqp:2.5.6", "amqp:2.7.4")
def test_a_flow_that_does_not_know_our_begin_counts_from_our_first_transfer() -> None:
    peer, link = windowed_sender(3)
    link.send(b"m", is_settled=True)
    transfers(peer)
    peer.flow(window=3, next_incoming_id=None)
    assert link.session.outgoing_window.remote_window == 2


# --- numbers that wrap ------------------------------------------------------------------------------------------


@spec("amqp:2.8.8", "amqp:2.8.10")
def test_delivery_ids_transfer_ids_and_delivery_counts_wrap_around() -> None:
    peer, link = windowed_sender(100)
    session = link.session
    session.next_delivery_id = 0xFFFF_FFFE
    session.outgoing_window.next_outgoing_id = 0xFFFF_FFFE
    link.flow_state.delivery_count = 0xFFFF_FFFE
    peer.flow(0, 5, delivery_count=0xFFFF_FFFE, window=3, next_incoming_id=0xFFFF_FFFE)
    assert link.credit == 5
    deliveries = [link.send(b"%d" % number) for number in range(5)]
    assert [delivery.delivery_id for delivery in deliveries] == [0xFFFF_FFFE, 0xFFFF_FFFF, 0, 1, 2]
    assert [transfer.delivery_id for transfer, _ in transfers(peer)] == [0xFFFF_FFFE, 0xFFFF_FFFF, 0]
    assert session.outgoing_window.next_outgoing_id == 1
    peer.flow(0, 5, delivery_count=0, window=10, next_incoming_id=0)
    assert [payload for _, payload in transfers(peer)] == [b"3", b"4"]
    assert session.outgoing_window.next_outgoing_id == 3
    # It has seen two of five deliveries and none of the transfers since: 5 - 3 and 10 - 1 - 2 are left.
    assert link.credit == 2
    assert session.outgoing_window.remote_window == 7


@spec("amqp:2.8.8", "amqp:2.8.10")
def test_two_stacks_wrap_around_together() -> None:
    settings = Settings("small", max_frame_size=512, incoming_window=4)
    pipe = Pipe(settings, settings)
    session = pipe.connect()
    other = pipe.server.connection.sessions[0]
    session.next_delivery_id = 0xFFFF_FFF0
    session.outgoing_window.next_outgoing_id = other.incoming_window.next_incoming_id = 0xFFFF_FFF8
    link = session.attach_sender("out", None)
    pipe.pump()
    for number in range(40):
        link.send(b"%d" % number * 700)
        pipe.pump()
        pipe.server.receivers["out"].grant(10)
        pipe.pump()
    arrived = [line for line in pipe.server.transcript if line.startswith("IncomingDelivery")]
    assert len(arrived) == 40
    assert session.outgoing_unsettled == {}
    assert other.incoming_unsettled == {}
    assert session.outgoing_window.next_outgoing_id == other.incoming_window.next_incoming_id


@spec("amqp:2.5.6")
def test_frames_of_a_pending_delivery_have_their_own_numbers() -> None:
    peer, link = windowed_sender(1)
    link.send(bytes(1200), is_settled=True)
    seen: list[Frame] = peer.read_frames()
    for number in range(2, 4):
        peer.flow(window=1, next_incoming_id=number)
        seen += peer.read_frames()
    assert len(seen) == 3
    assert link.session.outgoing_window.next_outgoing_id == 4
