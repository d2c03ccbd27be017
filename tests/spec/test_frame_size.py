"""What does not fit into a frame of the peer (part 2.7.1): only messages can be split, everything else has to fit."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from tandem.amqp.connection import AMQP_HEADER
from tandem.amqp.delivery_states import ACCEPTED, AmqpError, Modified, Rejected
from tandem.amqp.encode import encode, encode_described_list
from tandem.amqp.events import LinkAttached, LinkDetached
from tandem.amqp.performatives import RECEIVER, SENDER, Attach, Close, Detach, Disposition, End, Open
from tandem.amqp.settings import Settings
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Described, Symbol, UInt, ULong
from tandem.errors import (
    DecodeError,
    EncodeError,
    FrameSizeTooSmall,
    InvalidField,
    NotAllowed,
    TransferLimitExceeded,
)
from tandem.limits import MAX_NESTING_DEPTH
from tests.markers import spec
from tests.spec.raw_peer import only, server, session_server
from tests.spec.wire import raw_frame

# The longest words that end up in a description: what they quote is cut at 80 characters, of at most 4 bytes each.
LONG_NAME = "\N{HEAVY BLACK HEART}\N{GRINNING FACE}" * 45


def asking_to_send(name: str = "in", handle: int = 0, source: Source | None = None) -> Attach:
    return Attach(name, handle, SENDER, 0, 0, source or Source(), Target("q"), initial_delivery_count=0)


# --- the peer's words -------------------------------------------------------------------------------------------


@spec("amqp:2.7.1", "amqp:2.8.15")
@pytest.mark.parametrize("attach", [asking_to_send("n" * 500), asking_to_send(source=Source("s" * 500))])
def test_an_attach_that_cannot_be_repeated_in_a_frame_of_the_peer_ends_the_session(attach: Attach) -> None:
    peer = session_server(max_frame_size=512)
    peer.send(attach)
    peer.expect_end(FrameSizeTooSmall)
    peer = session_server(max_frame_size=2_048)
    only(peer.send(attach), LinkAttached)


@spec("amqp:2.6.3")
def test_an_attach_nested_as_deep_as_can_be_read_can_be_repeated() -> None:
    deepest = 0
    for depth in range(1, MAX_NESTING_DEPTH + 2):
        value = b"\x40"
        for _ in range(depth):
            value = _list32(value)
        # As far as its filter, with nulls for what stands between.
        source = b"\x00\x53\x28" + _list32(*[b"\x40"] * 7, _map32(b"\xa3\x02xx", value))
        attach = b"\x00\x53\x12" + _list32(b"\xa1\x02in", b"\x43", b"\x42", b"\x40", b"\x40", source)
        peer = session_server()
        peer.write(raw_frame(attach))
        if peer.connection.is_finished:
            peer.expect_close(DecodeError)
            break
        link = peer.connection.sessions[0].links[0]
        link.accept()
        answer = peer.read_one(Attach)
        assert answer.source is not None
        assert link.attach is not None
        assert link.attach.source is not None
        assert answer.source.filter == link.attach.source.filter
        deepest = depth
    assert 20 < deepest < MAX_NESTING_DEPTH


def _list32(*items: bytes) -> bytes:
    """A list by hand: our own encoder does not go as deep."""
    return _compound(0xD0, *items)


def _map32(*items: bytes) -> bytes:
    return _compound(0xD1, *items)


def _compound(code: int, *items: bytes) -> bytes:
    contents = b"".join(items)
    return struct.pack(">BII", code, 4 + len(contents), len(items)) + contents


# --- our words about the peer -----------------------------------------------------------------------------------


@spec("amqp:2.7.1", "amqp:2.6.5")
def test_what_we_say_of_a_link_with_a_long_name_fits_into_the_smallest_frame() -> None:
    settings = Settings("server", max_credit_overrun=0, max_message_size=10)
    peer = session_server(settings, max_frame_size=512)
    name = LONG_NAME[:80]
    # The reader of the raw peer fails on any frame above 512 bytes.
    inward = peer.attach_sender(name, 0, credit=0)
    peer.transfer(0, 0)
    peer.expect_detach(TransferLimitExceeded, inward)
    only(peer.send(Detach(0, True)), LinkDetached)
    outward = peer.attach_receiver(name, 0)
    peer.transfer(0, 0)
    peer.expect_detach(NotAllowed, outward)
    only(peer.send(Detach(0, True)), LinkDetached)
    peer.attach_sender(name, 0)
    peer.send(asking_to_send(name, 1))
    detach = peer.read_one(Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:stolen"


@spec("amqp:2.7.1", "amqp:2.8.15")
@pytest.mark.parametrize(
    "body",
    [
        encode_described_list(0x16, [LONG_NAME]),
        encode_described_list(0x16, [UInt(0), LONG_NAME]),
        encode_described_list(0x15, [True, UInt(0), None, True, LONG_NAME]),
        encode_described_list(0x12, ["in", UInt(0), False, None, None, LONG_NAME]),
        encode(Described(LONG_NAME, [])),
        encode(LONG_NAME),
    ],
    ids=["handle", "closed", "state", "source", "descriptor", "performative"],
)
def test_what_we_say_of_a_malformed_frame_fits_into_the_smallest_frame(body: bytes) -> None:
    peer = session_server(max_frame_size=512)
    peer.write(raw_frame(body))
    peer.expect_close(DecodeError)


@spec("amqp:2.4.1", "amqp:2.7.1")
def test_what_we_say_of_a_bad_open_fits_into_the_smallest_frame() -> None:
    peer = server(Settings("server"))
    peer.reader.max_frame_size = 512
    peer.write(AMQP_HEADER)
    peer.send(Open(LONG_NAME * 20, max_frame_size=512))
    peer.expect_close(InvalidField)


# --- the application's words ------------------------------------------------------------------------------------

TOO_LONG = AmqpError("amqp:internal-error", "x" * 500)


@spec("amqp:2.7.1")
@pytest.mark.parametrize("letter", ["x", "\u00e4", "\U0001f600"])
def test_a_reason_too_long_for_the_peer_is_shortened(letter: str) -> None:
    """A peer cannot stay attached by choosing small frames and long names."""
    reason = AmqpError("amqp:internal-error", letter * 500)
    for number, kind in enumerate((Close, End, Detach)):
        peer = session_server(max_frame_size=512)
        link = peer.attach_sender()
        calls: list[Callable[[AmqpError], None]] = [peer.connection.close, link.session.end, link.detach]
        calls[number](reason)
        ending: object = peer.read_one(kind)
        assert isinstance(ending, Close | End | Detach)
        assert ending.error is not None
        assert ending.error.condition == reason.condition
        assert ending.error.description
        assert set(ending.error.description) == {letter}
        assert link.is_gone


@spec("amqp:2.7.1")
def test_a_reason_whose_condition_alone_is_too_long_is_refused_and_changes_nothing() -> None:
    peer = session_server(max_frame_size=512)
    link = peer.attach_sender()
    for call in (peer.connection.close, link.session.end, link.detach):
        with pytest.raises(EncodeError):
            call(AmqpError("x" * 600))
    assert peer.connection.data_to_send() == b""
    assert link.is_attached
    assert link.session.is_mapped


@spec("amqp:2.7.1", "amqp:2.6.3")
def test_an_answer_too_long_for_the_peer_leaves_the_attach_unanswered() -> None:
    peer = session_server(max_frame_size=512)
    link = peer.attach(asking_to_send())
    reply = link.attach_reply()
    reply.properties = {Symbol("long"): "x" * 500}
    with pytest.raises(EncodeError):
        link.accept(reply)
    assert peer.connection.data_to_send() == b""
    link.accept()
    assert link.is_attached


@spec("amqp:2.7.1", "amqp:2.7.6")
def test_the_description_of_a_rejection_is_shortened_to_the_peers_frames() -> None:
    peer = session_server(max_frame_size=512)
    inward = peer.attach_sender("in", 0)
    peer.transfer(0, 0)
    inward.settle(inward.session.incoming_unsettled[0], Rejected(TOO_LONG))
    state = peer.read_one(Disposition).state
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == TOO_LONG.condition
    assert 0 < len(state.error.description or "") < 500


@spec("amqp:2.7.1", "amqp:2.7.6")
def test_an_outcome_too_long_for_the_peer_leaves_the_delivery_unsettled() -> None:
    peer = session_server(max_frame_size=512)
    inward, outward = peer.attach_sender("in", 0), peer.attach_receiver("out", 1)
    peer.transfer(0, 0)
    received = inward.session.incoming_unsettled[0]
    sent = outward.send(b"m")
    peer.read()
    with pytest.raises(EncodeError):
        inward.settle(received, Modified(None, None, {Symbol("x"): "x" * 500}))
    with pytest.raises(EncodeError):
        outward.settle(sent, Modified(None, None, {Symbol("x"): "x" * 500}))
    assert peer.connection.data_to_send() == b""
    assert not received.is_settled
    assert not sent.is_settled
    inward.settle(received, Rejected(AmqpError("amqp:internal-error", "x" * 400)))
    outward.settle(sent, ACCEPTED)
    written = peer.read()
    assert [type(each) for each in written] == [Disposition, Disposition]


@spec("amqp:3.4.3")
def test_an_outcome_with_foreign_words_is_repeated_as_it_came() -> None:
    peer = session_server()
    outward = peer.attach_receiver()
    sent = outward.send(b"m")
    peer.read()
    state = Rejected(AmqpError("com.example:custom", None, {Symbol("info"): Described(ULong(0x9999), ["any"])}))
    peer.send(Disposition(RECEIVER, 0, 0, False, state))
    outward.settle(sent, sent.state)
    assert peer.read_one(Disposition).state == state
