"""Protocol headers and frames (parts 2.2 and 2.3): what cannot be delimited or decoded closes the connection."""

from __future__ import annotations

import struct

import pytest

from tandem.amqp.connection import AMQP_HEADER, Connection, Role
from tandem.amqp.deliveries import IncomingDelivery
from tandem.amqp.encode import encode, encode_described_list
from tandem.amqp.events import ConnectionFailed, ConnectionOpened
from tandem.amqp.performatives import SENDER, Attach, Begin, Close, Flow, Open, Transfer
from tandem.amqp.sasl import SASL_HEADER
from tandem.amqp.settings import Settings
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Described, Symbol
from tandem.errors import DecodeError, FramingError, InvalidField, NotAllowed, ResourceLimitExceeded, UnauthorizedAccess
from tandem.limits import MAX_FRAME_SIZE_BEFORE_OPEN_BYTES, MAX_NAME_CHARACTERS
from tests.markers import spec
from tests.spec.raw_peer import RawPeer, only, opened_client, opened_server, server, session_server
from tests.spec.wire import amqp_frame, raw_frame


def frame_header(size: int, data_offset: int = 2, kind: int = 0, channel: int = 0) -> bytes:
    return struct.pack(">IBBH", size, data_offset, kind, channel)


# --- protocol headers -------------------------------------------------------------------------------------------


@spec("amqp:2.2")
@pytest.mark.parametrize(
    "header", [b"GET / HT", b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x00", b"\x16\x03\x01\x02\x00\x01\x00\x01"]
)
def test_an_unknown_protocol_header_is_answered_with_ours_and_the_end(header: bytes) -> None:
    peer = server()
    failed = only(peer.write(header), ConnectionFailed)
    assert isinstance(failed.error, FramingError)
    assert [frame.header for frame in peer.read_frames()] == [SASL_HEADER]
    assert peer.connection.is_finished


@spec("amqp:2.2")
def test_an_unknown_protocol_header_behind_sasl_is_answered_with_that_of_amqp() -> None:
    peer = server()
    peer.write(SASL_HEADER)
    peer.write(raw_frame(encode_described_list(0x41, [Symbol("ANONYMOUS"), b"", None]), kind=1))
    peer.connection.accept_authentication()
    peer.read_frames()
    only(peer.write(b"AMQP\x00\x02\x00\x00"), ConnectionFailed)
    assert [frame.header for frame in peer.read_frames()] == [AMQP_HEADER]


@spec("amqp:2.2")
def test_a_client_says_nothing_more_to_a_server_that_speaks_something_else() -> None:
    peer = RawPeer(Connection(Role.CLIENT, Settings("client")))
    peer.connection.open(sasl=False)
    peer.read_frames()
    failed = only(peer.write(b"HTTP/1.1 400 Bad Request\r\n"), ConnectionFailed)
    assert isinstance(failed.error, FramingError)
    assert peer.connection.data_to_send() == b""
    assert peer.connection.is_finished


@spec("amqp:2.2", "amqp:5.3.1")
def test_a_server_that_requires_sasl_answers_the_amqp_header_with_that_of_sasl() -> None:
    peer = server(Settings("server", is_sasl_required=True))
    failed = only(peer.write(AMQP_HEADER + amqp_frame(Open("raw"))), ConnectionFailed)
    assert isinstance(failed.error, UnauthorizedAccess)
    assert [frame.header for frame in peer.read_frames()] == [SASL_HEADER]
    assert peer.connection.is_finished


@spec("amqp:2.2", "amqp:2.4.1")
def test_a_server_that_does_not_require_sasl_takes_the_amqp_header_alone() -> None:
    peer = server()
    assert isinstance(only(peer.write(AMQP_HEADER + amqp_frame(Open("raw"))), ConnectionOpened), ConnectionOpened)
    assert [frame.header for frame in peer.read_frames()] == [AMQP_HEADER, b""]
    assert peer.connection.is_open


@spec("amqp:2.2")
def test_a_client_gives_up_on_a_server_that_answers_sasl_with_amqp() -> None:
    peer = RawPeer(Connection(Role.CLIENT, Settings("client")))
    peer.connection.open()
    peer.read_frames()
    failed = only(peer.write(AMQP_HEADER), ConnectionFailed)
    assert isinstance(failed.error, NotAllowed)
    assert peer.connection.is_finished
    assert peer.connection.data_to_send() == b""


@spec("amqp:2.2", "amqp:5.3.1")
def test_a_client_without_sasl_gives_up_on_a_server_that_wants_it() -> None:
    peer = RawPeer(Connection(Role.CLIENT, Settings("client")))
    peer.connection.open(sasl=False)
    peer.read_frames()
    failed = only(peer.write(SASL_HEADER), ConnectionFailed)
    assert isinstance(failed.error, NotAllowed)
    assert peer.connection.data_to_send() == b""


# --- frames -----------------------------------------------------------------------------------------------------


@spec("amqp:2.3.1", "amqp:2.4.1")
def test_before_the_open_a_frame_of_8193_bytes_is_refused_on_its_header_alone() -> None:
    peer = server()
    peer.write(AMQP_HEADER)
    peer.read()
    assert peer.write(frame_header(MAX_FRAME_SIZE_BEFORE_OPEN_BYTES + 1)[:7]) == []
    peer.write(frame_header(MAX_FRAME_SIZE_BEFORE_OPEN_BYTES + 1)[7:])
    peer.expect_close(FramingError)


@spec("amqp:2.3.1", "amqp:2.4.1")
def test_before_the_open_a_frame_of_8192_bytes_is_waited_for() -> None:
    peer = server()
    peer.write(AMQP_HEADER)
    assert peer.write(frame_header(MAX_FRAME_SIZE_BEFORE_OPEN_BYTES)) == []
    assert not peer.connection.is_finished


@spec("amqp:2.3.1", "amqp:5.3.2")
def test_a_sasl_frame_of_8193_bytes_is_refused_on_its_header_alone() -> None:
    peer = server()
    peer.write(SASL_HEADER + frame_header(MAX_FRAME_SIZE_BEFORE_OPEN_BYTES + 1, kind=1))
    failed = only(peer.events, ConnectionFailed)
    assert isinstance(failed.error, FramingError)
    assert peer.connection.is_finished


@spec("amqp:2.7.1")
def test_a_frame_longer_than_max_frame_size_closes_the_connection() -> None:
    peer = opened_server(Settings("server", max_frame_size=1000))
    assert peer.write(frame_header(1000)) == []
    peer = opened_server(Settings("server", max_frame_size=1000))
    peer.write(frame_header(1001))
    peer.expect_close(FramingError)


@spec("amqp:2.7.1")
def test_a_small_max_frame_size_of_ours_holds_before_the_open_too() -> None:
    peer = server(Settings("server", max_frame_size=512))
    peer.write(AMQP_HEADER + frame_header(513))
    peer.expect_close(FramingError)


@spec("amqp:2.3.1")
@pytest.mark.parametrize(
    "header",
    [frame_header(8, data_offset=0), frame_header(8, data_offset=1), frame_header(11, data_offset=3), frame_header(7)],
    ids=["offset 0", "offset 1", "offset beyond the frame", "size below 8"],
)
def test_a_data_offset_outside_the_frame_closes_the_connection(header: bytes) -> None:
    peer = opened_server()
    peer.write(header)
    peer.expect_close(FramingError)


@spec("amqp:2.3.1")
def test_an_extended_header_is_skipped() -> None:
    peer = opened_server()
    body = Begin(None, 0, 1, 1).encode()
    peer.write(frame_header(16 + len(body), data_offset=4) + b"extended" + body)
    assert isinstance(peer.read_one(Begin), Begin)


@spec("amqp:2.3.1")
@pytest.mark.parametrize("kind", [2, 3, 255])
def test_an_unknown_frame_type_closes_the_connection(kind: int) -> None:
    peer = opened_server()
    peer.write(raw_frame(b"", kind=kind))
    peer.expect_close(FramingError)


@spec("amqp:2.3.1", "amqp:5.3.1")
def test_a_sasl_frame_on_an_open_connection_closes_it() -> None:
    peer = opened_server()
    peer.write(raw_frame(b"", kind=1))
    peer.expect_close(NotAllowed)


@spec("amqp:2.3.2", "amqp:2.8.15")
@pytest.mark.parametrize(
    "body",
    [
        b"\x40",
        b"\x00\x53",
        b"\x00\x53\x12",
        b"\x00\x53\x12\xc0\xff\x01",
        b"\x00\x53\x99\x45",
        b"\x00\x53\x12\x45",
        b"\x00\x53\x14\xc0\x02\x01\x40",
        b"\x00\x53\x13\xc0\x02\x01\x40",
        b"\x00\x53\x15\xc0\x02\x01\x40",
        b"\x00\xa3\x08no:thing\x45",
        Flow(0, 1, 0, 1).encode()[:-1],
        Attach("name", 0, False).encode() + b"more",
        Close().encode() + b"more",
    ],
)
def test_a_frame_that_cannot_be_decoded_closes_the_connection(body: bytes) -> None:
    peer = session_server()
    peer.write(raw_frame(body))
    peer.expect_close(DecodeError)


@spec("amqp:2.4.3")
def test_a_malformed_frame_before_the_open_is_answered_with_open_and_close() -> None:
    peer = server()
    peer.write(AMQP_HEADER)
    peer.read()
    peer.write(raw_frame(b"\x40"))
    opened, closed = peer.read()
    assert isinstance(opened, Open)
    assert isinstance(closed, Close)
    assert closed.error is not None
    assert closed.error.condition == "amqp:decode-error"
    assert peer.connection.is_finished


@spec("amqp:2.3.2", "amqp:1.2")
def test_a_performative_may_be_named_by_its_symbol() -> None:
    peer = session_server()
    link = peer.attach_sender()
    body = encode(Described(Symbol("amqp:transfer:list"), Transfer(0, 0, b"t", 0, True).values()))
    delivery = only(peer.write(raw_frame(body + b"payload")), IncomingDelivery)
    assert delivery.payload == b"payload"
    assert link.credit == 99


@spec("amqp:2.4.5", "amqp:2.3.2")
def test_an_empty_frame_means_nothing() -> None:
    peer = session_server()
    assert peer.write(raw_frame(b"") * 3) == []
    assert peer.write(raw_frame(b"", channel=900)) == []
    assert peer.connection.data_to_send() == b""


# --- open -------------------------------------------------------------------------------------------------------


@spec("amqp:2.7.1")
@pytest.mark.parametrize(
    "received",
    [Open("raw", max_frame_size=511), Open("x" * (MAX_NAME_CHARACTERS + 1)), Open("raw", idle_timeout_ms=999)],
    ids=["max-frame-size", "container-id", "idle-time-out"],
)
@pytest.mark.parametrize("role", [Role.CLIENT, Role.SERVER])
def test_an_open_with_a_field_out_of_range_closes_the_connection(role: Role, received: Open) -> None:
    peer = RawPeer(Connection(role, Settings("ours")))
    if role is Role.CLIENT:
        peer.connection.open(sasl=False)
    peer.write(AMQP_HEADER)
    peer.send(received)
    peer.expect_close(InvalidField)


@spec("amqp:2.7.1")
def test_what_the_peer_opens_with_is_kept() -> None:
    peer = opened_client()
    assert peer.connection.open_received is not None
    assert peer.connection.open_received.container_id == "raw"
    assert peer.connection.peer_max_frame_size == 1_048_576


@spec("amqp:2.7.1")
def test_an_open_without_limits_means_the_largest() -> None:
    peer = server()
    peer.write(AMQP_HEADER + raw_frame(encode_described_list(0x10, ["raw"])))
    assert peer.connection.is_open
    # No frame of ours is larger than what we take ourselves, however much the peer would take.
    assert peer.connection.peer_max_frame_size == peer.connection.settings.max_frame_size
    assert peer.connection.peer_channel_max == 65_535


@spec("amqp:2.4.1")
def test_a_second_open_closes_the_connection() -> None:
    peer = opened_server()
    peer.send(Open("raw"))
    peer.expect_close(NotAllowed)


@spec("amqp:2.3")
def test_a_performative_larger_than_any_honest_one_is_not_kept() -> None:
    peer = session_server()
    properties: dict[object, object] = {Symbol("padding"): b"x" * 65_536}
    peer.send(Attach("link", 0, SENDER, 0, 0, Source(), Target("q"), initial_delivery_count=0, properties=properties))
    peer.expect_close(ResourceLimitExceeded)
