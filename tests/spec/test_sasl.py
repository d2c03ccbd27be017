"""SASL (part 5.3) as the connection does it: what is decided by whom, and what waits for the decision."""

from __future__ import annotations

import pytest

from tandem.amqp.connection import AMQP_HEADER, Connection, Role
from tandem.amqp.encode import encode_described_list
from tandem.amqp.events import (
    AuthenticationFailed,
    AuthenticationRequested,
    AuthenticationSucceeded,
    ConnectionFailed,
    ConnectionOpened,
    LinkAttached,
    SessionBegun,
)
from tandem.amqp.performatives import SENDER, Attach, Begin, Open
from tandem.amqp.sasl import SASL_HEADER
from tandem.amqp.settings import SERVER_MECHANISMS, Settings
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Array, Symbol, UByte
from tandem.errors import DecodeError, FramingError, UnauthorizedAccess
from tandem.limits import MAX_FRAME_SIZE_BEFORE_OPEN_BYTES, MAX_SASL_RESPONSE_BYTES
from tests.markers import spec
from tests.spec.pipe import PASSWORD, Pipe
from tests.spec.raw_peer import RawPeer, only, server
from tests.spec.wire import amqp_frame, raw_frame

MECHANISMS = 0x40
INIT = 0x41
OUTCOME = 0x44


def sasl_frame(code: int, *fields: object) -> bytes:
    return raw_frame(encode_described_list(code, list(fields)), kind=1)


def init(mechanism: str, response: bytes | None = None, hostname: str | None = None) -> bytes:
    return SASL_HEADER + sasl_frame(INIT, Symbol(mechanism), response, hostname)


def outcome_code(peer: RawPeer) -> object:
    frame = peer.read_frames()[-1]
    assert frame.sasl_code == OUTCOME
    return frame.sasl_fields[0]


@spec("amqp:5.3.1", "amqp:5.3.3.1")
def test_a_server_offers_its_mechanisms_right_behind_its_header() -> None:
    peer = server()
    peer.write(SASL_HEADER)
    header, mechanisms = peer.read_frames()
    assert header.header == SASL_HEADER
    assert mechanisms.sasl_code == MECHANISMS
    assert mechanisms.sasl_fields == (Array.of_symbols(SERVER_MECHANISMS),)


@spec("amqp:5.3.3.2")
@pytest.mark.parametrize("mechanism", ["ANONYMOUS", "EXTERNAL", "MSSBCBS"])
def test_a_mechanism_without_credentials_is_for_the_application_to_decide(mechanism: str) -> None:
    peer = server()
    request = only(peer.write(init(mechanism, b"trace", "bus.example")), AuthenticationRequested)
    assert (request.mechanism, request.initial_response, request.hostname) == (mechanism, b"trace", "bus.example")
    assert (request.user, request.password, request.authorization_id) == (None, None, None)
    peer.connection.accept_authentication()
    assert outcome_code(peer) == 0


@spec("amqp:5.3.3.2", "rfc4616:2")
def test_plain_is_taken_apart_for_the_application() -> None:
    peer = server()
    request = only(peer.write(init("PLAIN", b"on behalf\x00me\x00sesame")), AuthenticationRequested)
    assert (request.user, request.password, request.authorization_id) == ("me", "sesame", "on behalf")
    assert "sesame" not in repr(request)
    peer.connection.reject_authentication()
    assert outcome_code(peer) == 1
    assert peer.connection.is_finished


@spec("amqp:5.3.3.6", "rfc4616:2")
@pytest.mark.parametrize(
    "data",
    [
        init("GSSAPI"),
        init("PLAIN"),
        init("PLAIN", b"me\x00sesame"),
        init("PLAIN", b"\x00\xff\x00sesame"),
        init("ANONYMOUS", bytes(MAX_SASL_RESPONSE_BYTES + 1)),
    ],
    ids=["unknown mechanism", "no response", "two parts", "not utf-8", "too long"],
)
def test_what_cannot_be_used_is_refused_without_asking_the_application(data: bytes) -> None:
    peer = server()
    failed = only(peer.write(data), ConnectionFailed)
    assert isinstance(failed.error, UnauthorizedAccess)
    assert outcome_code(peer) == 1
    assert peer.connection.is_finished


@spec("amqp:5.3.3.2")
def test_a_malformed_init_ends_the_connection() -> None:
    peer = server()
    failed = only(peer.write(SASL_HEADER + sasl_frame(INIT, None)), ConnectionFailed)
    assert isinstance(failed.error, DecodeError)
    assert peer.connection.is_finished


@spec("amqp:5.3.1", "amqp:2.4.2")
def test_everything_written_in_one_go_works_once_the_application_has_accepted() -> None:
    peer = server()
    attach = Attach("in", 0, SENDER, 0, 0, Source(), Target("q"), initial_delivery_count=0)
    pipelined = b"".join(amqp_frame(each) for each in (Open("raw"), Begin(None, 0, 1, 1), attach))
    only(peer.write(init("ANONYMOUS") + AMQP_HEADER + pipelined), AuthenticationRequested)
    assert [frame.sasl_code for frame in peer.read_frames()] == [0, MECHANISMS]
    peer.connection.accept_authentication()
    events = peer.write(b"")
    assert [type(event) for event in events] == [ConnectionOpened, SessionBegun, LinkAttached]
    outcome, header, *answers = peer.read_frames()
    assert outcome.sasl_fields == (UByte(0), b"Welcome!")
    assert header.header == AMQP_HEADER
    assert [type(frame.performative) for frame in answers] == [Open, Begin]


@spec("amqp:5.3.2")
def test_what_a_stranger_can_make_us_keep_while_the_application_decides_is_bounded() -> None:
    peer = server()
    peer.write(init("ANONYMOUS"))
    for _ in range(MAX_FRAME_SIZE_BEFORE_OPEN_BYTES):
        assert peer.write(b"x") == []
    failed = only(peer.write(b"x"), ConnectionFailed)
    assert isinstance(failed.error, FramingError)
    assert peer.connection.is_finished
    assert peer.connection.unread.fragment == b""
    assert peer.write(bytes(100)) == []


@spec("amqp:5.3.2")
def test_input_kept_back_is_dropped_with_a_rejection() -> None:
    peer = server()
    peer.write(init("ANONYMOUS") + AMQP_HEADER + amqp_frame(Open("raw")))
    peer.connection.reject_authentication()
    assert peer.write(b"") == []
    assert peer.connection.open_received is None


@spec("amqp:5.3.3.1")
def test_a_client_without_a_user_is_anonymous() -> None:
    peer = RawPeer(Connection(Role.CLIENT, Settings("client", hostname="bus.example")))
    peer.connection.open()
    peer.write(SASL_HEADER + sasl_frame(MECHANISMS, Array.of_symbols(["PLAIN", "ANONYMOUS"])))
    assert peer.read_frames()[-1].sasl_fields == (Symbol("ANONYMOUS"), b"", "bus.example")


@spec("amqp:5.3.3.1", "rfc4616:2")
def test_a_client_with_a_user_sends_plain() -> None:
    peer = RawPeer(Connection(Role.CLIENT, Settings("client", user="me", password="sesame")))
    peer.connection.open()
    peer.write(SASL_HEADER + sasl_frame(MECHANISMS, Symbol("PLAIN")))
    assert peer.read_frames()[-1].sasl_fields == (Symbol("PLAIN"), b"\x00me\x00sesame", None)


@spec("amqp:5.3.3.1")
def test_a_client_that_is_offered_nothing_it_can_do_gives_up() -> None:
    peer = RawPeer(Connection(Role.CLIENT, Settings("client", user="me", password="sesame")))
    peer.connection.open()
    peer.read_frames()
    event = only(peer.write(SASL_HEADER + sasl_frame(MECHANISMS, Symbol("ANONYMOUS"))), AuthenticationFailed)
    assert event.offered == ["ANONYMOUS"]
    assert peer.connection.is_finished
    assert peer.connection.data_to_send() == b""


@spec("amqp:5.3.3.5")
def test_a_client_learns_that_it_is_welcome_and_opens() -> None:
    pipe = Pipe(Settings("client", user="me", password=PASSWORD))
    pipe.client.connection.open()
    pipe.pump()
    assert pipe.client.transcript[0].startswith(AuthenticationSucceeded.__name__)
    assert pipe.client.connection.is_open
    assert pipe.server.connection.is_open


@spec("amqp:5.3.3.5")
def test_a_client_learns_that_it_is_turned_away() -> None:
    pipe = Pipe(Settings("client", user="me", password="a guess"))
    pipe.client.connection.open()
    pipe.pump()
    assert pipe.client.transcript == [f"AuthenticationFailed 1 {list(SERVER_MECHANISMS)}"]
    assert pipe.client.connection.is_finished
    assert pipe.server.connection.is_finished


@spec("amqp:5.3.3.5")
def test_an_outcome_without_a_code_ends_the_connection() -> None:
    peer = RawPeer(Connection(Role.CLIENT, Settings("client")))
    peer.connection.open()
    peer.write(SASL_HEADER + sasl_frame(MECHANISMS, Symbol("ANONYMOUS")))
    failed = only(peer.write(sasl_frame(OUTCOME, None, None)), ConnectionFailed)
    assert isinstance(failed.error, DecodeError)
