"""Sessions (part 2.5): channels, and how far the reach of a mistake goes."""

from __future__ import annotations

import pytest

from tandem.amqp.delivery_states import ACCEPTED, AmqpError
from tandem.amqp.events import ConnectionClosed, SessionBegun, SessionEnded, SessionFailed
from tandem.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Performative,
    Transfer,
)
from tandem.amqp.settings import Settings
from tandem.amqp.states import SessionState
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Symbol
from tandem.errors import (
    EncodeError,
    FramingError,
    InvalidField,
    NotAllowed,
    ResourceLimitExceeded,
    Scope,
    StateError,
    UnattachedHandle,
    WindowViolation,
)
from tests.markers import spec
from tests.spec.pipe import Pipe
from tests.spec.raw_peer import OPEN_WINDOW, only, opened_client, opened_server, session_client, session_server
from tests.spec.wire import amqp_frame

BEGIN = Begin(None, 0, OPEN_WINDOW, OPEN_WINDOW)


# --- channels ---------------------------------------------------------------------------------------------------


@spec("amqp:2.5.1", "amqp:2.7.2")
def test_a_begin_is_answered_on_the_same_channel_and_names_it() -> None:
    peer = opened_server()
    event = only(peer.send(BEGIN, channel=7), SessionBegun)
    (frame,) = peer.read_frames()
    assert isinstance(frame.performative, Begin)
    assert frame.channel == 7
    assert frame.performative.remote_channel == 7
    assert event.session.is_mapped


@spec("amqp:2.7.1", "amqp:2.8.16")
def test_a_begin_above_channel_max_is_a_framing_error() -> None:
    peer = opened_server(Settings("server", channel_max=7))
    peer.send(BEGIN, channel=8)
    peer.expect_close(FramingError)


@spec("amqp:2.5.1")
def test_a_second_begin_on_a_channel_closes_the_connection() -> None:
    peer = session_server()
    peer.send(BEGIN)
    peer.expect_close(NotAllowed)


@spec("amqp:2.7.2")
def test_a_begin_that_answers_nothing_closes_the_connection() -> None:
    peer = opened_server()
    peer.send(Begin(5, 0, 1, 1))
    peer.expect_close(InvalidField)


@spec("amqp:2.7.2")
def test_a_begin_that_answers_a_session_already_answered_closes_the_connection() -> None:
    peer, _ = session_client()
    peer.send(Begin(0, 0, 1, 1), channel=1)
    peer.expect_close(NotAllowed)


@spec("amqp:2.7.1")
def test_our_channels_stay_below_the_channel_max_of_the_peer() -> None:
    peer = opened_server()
    peer.connection.peer_channel_max = 1
    peer.send(BEGIN, channel=9)
    peer.send(BEGIN, channel=8)
    assert [frame.channel for frame in peer.read_frames()] == [0, 1]


@spec("amqp:2.7.1")
def test_a_begin_for_which_no_channel_is_left_closes_the_connection() -> None:
    peer = opened_server(Settings("server", channel_max=0))
    peer.connection.begin()
    peer.read()
    peer.send(BEGIN)
    peer.expect_close(ResourceLimitExceeded)


@spec("amqp:2.7.1")
def test_no_session_can_be_begun_when_all_channels_are_in_use() -> None:
    peer = opened_client(Settings("client", channel_max=1))
    assert [peer.connection.begin().channel for _ in range(2)] == [0, 1]
    with pytest.raises(StateError):
        peer.connection.begin()


@spec("amqp:2.5.1")
@pytest.mark.parametrize(
    "performative",
    [Flow(0, 1, 0, 1), Transfer(0, 0, b"t"), Disposition(True, 0), Attach("x", 0, True), Detach(0), End()],
    ids=lambda performative: type(performative).__name__.lower(),
)
def test_a_frame_on_a_channel_never_begun_closes_the_connection(performative: Performative) -> None:
    peer = session_server()
    peer.send(performative, channel=1)
    peer.expect_close(NotAllowed)


@spec("amqp:2.5.2")
def test_frames_behind_an_end_are_swallowed_until_the_channel_is_begun_again() -> None:
    """The official Python SDK writes detaches behind its end."""
    peer = session_server()
    peer.attach_sender()
    ended = peer.send(End(), Detach(0, True), Flow(0, 1, 0, 1), Transfer(0, 0, b"t"), Disposition(True, 0), End())
    assert [type(event) for event in ended] == [SessionEnded]
    assert isinstance(peer.read_one(End), End)
    session = peer.begin()
    assert session.is_mapped
    peer.send(Detach(0, True))
    peer.expect_end(UnattachedHandle)


@spec("amqp:2.5.2", "amqp:2.5.5")
@pytest.mark.parametrize("error", [None, ResourceLimitExceeded("enough", Scope.SESSION)], ids=["plain", "error"])
def test_frames_behind_our_end_are_swallowed_until_the_peer_has_ended_too(error: ResourceLimitExceeded | None) -> None:
    peer = session_server()
    link = peer.attach_sender()
    session = link.session
    session.end(error)
    assert (peer.read_one(End).error is not None) is (error is not None)
    assert peer.send(Transfer(0, 0, b"t"), Flow(0, 1, 0, 1, 0, 0, 5), Detach(0), Attach("again", 3, True)) == []
    assert peer.connection.data_to_send() == b""
    event = only(peer.send(End()), SessionEnded)
    assert event.session is session
    assert peer.connection.data_to_send() == b""
    assert peer.connection.sessions == {}


@spec("amqp:2.5.3")
def test_two_ends_that_cross_end_a_session_once() -> None:
    pipe = Pipe()
    session = pipe.connect()
    other = pipe.server.connection.sessions[0]
    session.end()
    other.end()
    pipe.pump()
    assert session.state is other.state is SessionState.UNMAPPED
    assert pipe.client.transcript[-1] == "SessionEnded 0 None"
    assert pipe.server.transcript[-1] == "SessionEnded 0 None"
    pipe.close()


@spec("amqp:2.5.2")
def test_the_reason_of_an_end_arrives() -> None:
    peer, session = session_client()
    reason = AmqpError("amqp:session:window-violation", "too fast", {Symbol("by"): 3})
    event = only(peer.send(End(reason)), SessionEnded)
    assert event.session is session
    assert event.error == reason


@spec("amqp:2.5.1")
def test_sessions_do_not_mix() -> None:
    peer = opened_server()
    for channel in (0, 1):
        peer.begin(channel)
    here, there = (peer.attach_sender("in", 0, channel=channel) for channel in (0, 1))
    peer.transfer(0, 0, b"there", channel=1)
    assert here.session.incoming_unsettled == {}
    assert there.session.incoming_unsettled[0].payload == b"there"


# --- the reach of a mistake -------------------------------------------------------------------------------------


@spec("amqp:2.5.4", "amqp:2.8.17")
@pytest.mark.parametrize(
    "performative",
    [Flow(0, 1, 0, 1, 5, 0, 1), Transfer(5, 0, b"t"), Detach(5)],
    ids=lambda performative: type(performative).__name__.lower(),
)
def test_an_unattached_handle_ends_its_session_and_no_other(performative: Performative) -> None:
    peer = opened_server()
    for channel in (0, 1):
        peer.begin(channel)
    survivor = peer.attach_sender("survivor", 0, channel=1)
    peer.send(performative)
    error = peer.expect_end(UnattachedHandle)
    assert error.description is not None
    assert "handle 5" in error.description
    peer.transfer(0, 0, b"still here", channel=1)
    assert len(survivor.unsettled) == 1


@spec("amqp:2.5.4")
def test_a_session_that_was_ended_for_a_mistake_can_be_begun_again() -> None:
    peer = session_server()
    peer.send(Detach(5))
    peer.expect_end(UnattachedHandle)
    only(peer.send(End()), SessionEnded)
    assert peer.begin().is_mapped
    assert peer.attach_sender().is_attached


@spec("amqp:2.5.6", "amqp:2.8.17")
def test_more_transfers_than_the_window_end_the_session() -> None:
    peer = session_server(Settings("server", incoming_window=3))
    link = peer.attach_sender()
    # What we tell the peer is only written when the output is taken: until then it has three.
    data = b"".join(amqp_frame(Transfer(0, number, b"t", 0, True), payload=b"m") for number in range(4))
    events = peer.write(data)
    assert len(events) == 4
    assert isinstance(events[-1], SessionFailed)
    peer.expect_end(WindowViolation)
    assert not link.is_attached


@spec("amqp:2.5.6")
def test_the_window_is_opened_again_when_it_is_half_used() -> None:
    peer = session_server(Settings("server", incoming_window=4))
    peer.attach_sender()
    peer.transfer(0, 0, settled=True)
    assert peer.read() == []
    for number in range(1, 50):
        peer.transfer(0, number, settled=True)
        for flow in peer.read():
            assert isinstance(flow, Flow)
            assert flow.handle is None
            assert flow.incoming_window == 4
            assert flow.next_incoming_id == number + 1
    assert peer.connection.sessions[0].is_mapped


@spec("amqp:2.7.6")
def test_a_disposition_that_ends_before_it_starts_ends_the_session() -> None:
    peer = session_server()
    peer.send(Disposition(True, 5, 4, True, ACCEPTED))
    peer.expect_end(InvalidField)


@spec("amqp:2.7.4")
def test_a_session_flow_with_echo_is_answered_and_one_without_is_not() -> None:
    peer = session_server()
    assert peer.flow() == []
    assert peer.read() == []
    assert peer.flow(echo=True) == []
    flow = peer.read_one(Flow)
    assert (flow.handle, flow.link_credit, flow.echo) == (None, None, False)
    assert (flow.next_incoming_id, flow.incoming_window, flow.next_outgoing_id) == (0, 5000, 1)


# --- close ------------------------------------------------------------------------------------------------------


@spec("amqp:2.4.3")
def test_nothing_is_written_behind_a_close_whatever_the_application_does() -> None:
    peer = session_server()
    inward, outward = peer.attach_sender("in", 0), peer.attach_receiver("out", 1)
    asked = peer.attach(Attach("asked", 2, True, 0, 0, Source("q"), Target()))
    reply = asked.attach_reply()
    peer.transfer(0, 0)
    (delivery,) = inward.session.incoming_unsettled.values()
    sent = outward.send(b"m")
    session = inward.session
    peer.connection.close()
    assert isinstance(peer.read()[-1], Close)
    inward.settle(delivery)
    outward.settle(sent, ACCEPTED)
    outward.drained()
    inward.grant(5)
    inward.detach()
    asked.accept()
    asked.accept(reply)
    asked.refuse(ResourceLimitExceeded("no"))
    for call in (
        inward.write_flow,
        lambda: outward.send(b"m"),
        outward.write_flow,
        session.end,
        lambda: session.attach_sender("x", Target("q")),
        lambda: session.attach_receiver("x", Source("q")),
        peer.connection.begin,
        peer.connection.close,
        lambda: peer.connection.close(ResourceLimitExceeded("no")),
    ):
        with pytest.raises(StateError):
            call()
    peer.transfer(0, 1)
    peer.flow(1, 10, echo=True)
    peer.send(Detach(0), End(), Begin(None, 0, 1, 1))
    assert peer.connection.data_to_send() == b""
    only(peer.send(Close()), ConnectionClosed)
    assert peer.connection.is_finished
    assert peer.connection.data_to_send() == b""


@spec("amqp:2.4.3")
def test_what_was_settled_before_a_close_is_written_before_it() -> None:
    peer = session_server()
    link = peer.attach_sender()
    peer.transfer(0, 0)
    link.settle(link.session.incoming_unsettled[0])
    peer.connection.close()
    assert [type(performative) for performative in peer.read()] == [Disposition, Close]


@spec("amqp:2.4.3", "amqp:2.4.4")
def test_garbage_behind_our_close_is_no_reason_for_a_second_one() -> None:
    peer = session_server()
    peer.connection.close()
    peer.read_one(Close)
    peer.write(b"\xff" * 16)
    assert peer.connection.data_to_send() == b""
    assert peer.connection.is_finished


@spec("amqp:2.4.4")
def test_two_closes_that_cross_end_the_connection_once() -> None:
    pipe = Pipe()
    pipe.connect()
    pipe.server.connection.close()
    pipe.close()
    assert pipe.client.transcript[-1] == "ConnectionClosed None"
    assert pipe.server.transcript[-1] == "ConnectionClosed None"


@spec("amqp:2.4.3", "amqp:2.8.14")
def test_the_reason_of_a_close_arrives() -> None:
    peer = session_server()
    reason = AmqpError("amqp:connection:redirect", None, {Symbol("hostname"): "elsewhere"})
    event = only(peer.send(Close(reason)), ConnectionClosed)
    assert event.error == reason
    assert peer.read_one(Close).error is None
    assert peer.connection.is_finished


@spec("amqp:2.8.14")
def test_a_reason_that_cannot_be_encoded_changes_nothing() -> None:
    peer = session_server()
    link = peer.attach_sender()
    impossible = AmqpError("nötig")
    for call in (peer.connection.close, link.session.end, link.detach):
        with pytest.raises(EncodeError):
            call(impossible)
    assert peer.connection.data_to_send() == b""
    assert link.is_attached
    assert link.session.is_mapped
    assert peer.connection.is_open
