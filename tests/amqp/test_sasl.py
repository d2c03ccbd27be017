"""SASL on both sides: what is offered, chosen and decided, and every way to be refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.encode import encode
from tandem.amqp.events import AuthenticationFailed, AuthenticationRequested, AuthenticationSucceeded, Event
from tandem.amqp.sasl import SASL_HEADER, SaslClient, SaslServer
from tandem.amqp.settings import ANONYMOUS, EXTERNAL, MSSBCBS, PLAIN, SERVER_MECHANISMS, Settings
from tandem.amqp.states import SaslState
from tandem.amqp.types import Array, Described, Symbol, UByte, ULong
from tandem.errors import DecodeError, NotAllowed, StateError
from tandem.limits import MAX_SASL_RESPONSE_BYTES
from tests.markers import spec

MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = map(ULong, range(0x40, 0x45))


def server(mechanisms: tuple[str, ...] = SERVER_MECHANISMS) -> SaslServer:
    """One that has answered the client's header."""
    found = SaslServer(mechanisms)
    found.on_header()
    return found


def client(user: str | None = None, password: str | None = None) -> SaslClient:
    """One that has had the server's header."""
    found = SaslClient(Settings("c", hostname="h", user=user, password=password))
    found.start()
    found.on_header()
    return found


def tell(side: Callable[[bytes, int, int], object], descriptor: object, values: object) -> object:
    """Hand a frame's body over from the middle of a buffer, as the connection does."""
    body = encode(Described(descriptor, values))
    return side(b"\x00\x00\x00\x21\x02\x01\x00\x00" + body + b"next frame", 8, 8 + len(body))


def init(side: SaslServer, *values: object) -> Event | None:
    event = tell(side.on_frame, INIT, list(values))
    assert event is None or isinstance(event, Event)
    return event


def answer(side: SaslClient, descriptor: object, values: object) -> tuple[bytes, Event | None]:
    found = tell(side.on_frame, descriptor, values)
    assert isinstance(found, tuple)
    return found


# --- server -----------------------------------------------------------------------------------------------------


@spec("amqp:5.3.1", "amqp:5.3.3.1")
def test_a_server_answers_the_header_with_its_own_and_its_mechanisms() -> None:
    side = SaslServer((MSSBCBS, PLAIN))
    frame = "00000020 02010000 005340 c01301 e01002 a3 07 4d535342434253 05 504c41494e"
    assert side.on_header() == b"AMQP\x03\x01\x00\x00" + bytes.fromhex(frame)
    assert side.state is SaslState.AWAITING_INIT


@spec("amqp:5.3.1")
def test_a_second_header_is_not_allowed() -> None:
    with pytest.raises(NotAllowed, match="receive SASL header is not allowed in SASL state AWAITING_INIT"):
        server().on_header()


@pytest.mark.parametrize("mechanism", [ANONYMOUS, EXTERNAL, MSSBCBS])
def test_a_mechanism_without_password_is_put_to_the_application_as_it_came(mechanism: str) -> None:
    side = server()
    event = init(side, Symbol(mechanism), b"trace", "h")
    assert isinstance(event, AuthenticationRequested)
    assert (event.mechanism, event.initial_response, event.hostname) == (mechanism, b"trace", "h")
    assert (event.user, event.password, event.authorization_id) == (None, None, None)
    assert side.state is SaslState.AWAITING_DECISION


@spec("amqp:5.3.3.2")
@pytest.mark.parametrize("values", [(), (None,), (None, None)])
def test_a_client_may_leave_out_all_but_the_mechanism(values: tuple[object, ...]) -> None:
    event = init(server(), Symbol(ANONYMOUS), *values)
    assert isinstance(event, AuthenticationRequested)
    assert (event.initial_response, event.hostname) == (b"", None)


@spec("rfc4616:2")
def test_plain_is_taken_apart_into_its_three_parts() -> None:
    event = init(server(), Symbol(PLAIN), "as\x00us\u00e9r\x00p\u00e4ss".encode())
    assert isinstance(event, AuthenticationRequested)
    assert (event.authorization_id, event.user, event.password) == ("as", "us\u00e9r", "p\u00e4ss")


@spec("rfc4616:2")
@given(st.tuples(*[st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40)] * 3))
def test_any_text_without_nul_goes_through_plain(parts: tuple[str, ...]) -> None:
    event = init(server(), Symbol(PLAIN), "\x00".join(parts).encode())
    assert isinstance(event, AuthenticationRequested)
    assert (event.authorization_id, event.user, event.password) == parts


@pytest.mark.parametrize(
    "mechanism, response",
    [
        pytest.param("SCRAM-SHA-256", b"n,,n=u", id="not offered"),
        pytest.param("", b"", id="no mechanism"),
        pytest.param("plain", b"\x00u\x00p", id="in another case"),
        pytest.param(PLAIN, None, id="plain without response"),
        pytest.param(PLAIN, b"", id="plain with an empty response"),
        pytest.param(PLAIN, b"u\x00p", id="plain of two parts"),
        pytest.param(PLAIN, b"\x00u\x00p\x00", id="plain of four parts"),
        pytest.param(PLAIN, b"\xff\x00u\x00p", id="authorization id that is not UTF-8"),
        pytest.param(PLAIN, b"\x00\xff\x00p", id="user that is not UTF-8"),
        pytest.param(PLAIN, b"\x00u\x00\xff", id="password that is not UTF-8"),
        pytest.param(ANONYMOUS, bytes(MAX_SASL_RESPONSE_BYTES + 1), id="response too long"),
    ],
)
def test_a_choice_that_cannot_be_used_is_not_put_to_the_application(mechanism: str, response: bytes | None) -> None:
    side = server()
    assert init(side, Symbol(mechanism), response) is None
    # It is still refused in an orderly way.
    assert side.state is SaslState.AWAITING_DECISION
    assert side.decide(False)


def test_the_longest_response_is_taken() -> None:
    assert init(server(), Symbol(ANONYMOUS), bytes(MAX_SASL_RESPONSE_BYTES)) is not None


def test_a_mechanism_is_refused_where_it_is_not_offered() -> None:
    assert init(server((ANONYMOUS,)), Symbol(PLAIN), b"\x00u\x00p") is None


@spec("amqp:5.3.3.5", "amqp:5.3.3.6")
def test_an_accepted_client_is_told_so() -> None:
    side = server()
    init(side, Symbol(ANONYMOUS))
    assert side.decide(True) == bytes.fromhex("0000001a 02010000 005344 c00d02 5000 a008") + b"Welcome!"
    assert side.state is SaslState.SUCCEEDED


@spec("amqp:5.3.3.5", "amqp:5.3.3.6")
def test_a_refused_client_is_told_so() -> None:
    side = server()
    init(side, Symbol(ANONYMOUS))
    assert side.decide(False) == bytes.fromhex("00000011 02010000 005344 c00402 5001 40")
    assert side.state is SaslState.FAILED


@pytest.mark.parametrize("is_accepted", [True, False])
def test_nothing_is_decided_before_it_is_asked_or_twice(is_accepted: bool) -> None:
    for side in (SaslServer((PLAIN,)), server()):
        with pytest.raises(StateError, match="no authentication was asked for"):
            side.decide(is_accepted)
    side = server()
    init(side, Symbol(ANONYMOUS))
    side.decide(is_accepted)
    with pytest.raises(StateError, match="no authentication was asked for"):
        side.decide(is_accepted)


def test_a_second_choice_is_not_allowed() -> None:
    side = server()
    init(side, Symbol(ANONYMOUS))
    with pytest.raises(NotAllowed, match="receive sasl-init is not allowed in SASL state AWAITING_DECISION"):
        init(side, Symbol(ANONYMOUS))


def test_a_choice_before_the_header_is_not_allowed() -> None:
    with pytest.raises(NotAllowed, match="receive sasl-init is not allowed in SASL state START"):
        init(SaslServer((ANONYMOUS,)), Symbol(ANONYMOUS))


@pytest.mark.parametrize("descriptor", [MECHANISMS, CHALLENGE, RESPONSE, OUTCOME, ULong(0x10), "amqp:sasl-init:list"])
def test_a_server_takes_no_other_frame(descriptor: object) -> None:
    with pytest.raises(NotAllowed, match="a server takes no SASL frame but sasl-init"):
        tell(server().on_frame, descriptor, [Symbol(ANONYMOUS)])


@spec("amqp:1.2")
def test_an_init_may_be_named_by_its_symbol() -> None:
    assert tell(server().on_frame, Symbol("amqp:sasl-init:list"), [Symbol(ANONYMOUS)]) is not None


@pytest.mark.parametrize(
    "values, complaint",
    [
        ([], "sasl-init.mechanism is mandatory and was not set"),
        (["PLAIN"], "sasl-init.mechanism must be a symbol"),
        ([Symbol(PLAIN), None, Symbol("h")], "sasl-init.hostname must be a string"),
        ([Symbol(PLAIN), None, None, None], "sasl-init has 4 fields, it has at most 3"),
    ],
)
def test_a_wrong_field_of_an_init_is_named(values: list[object], complaint: str) -> None:
    with pytest.raises(DecodeError, match=f"^{complaint}"):
        init(server(), *values)


@pytest.mark.parametrize("data", [b"", b"\x45", encode(Described(INIT, {})), encode(["init"])])
def test_a_sasl_frame_without_a_described_list_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        server().on_frame(data, 0, len(data))


def test_bytes_behind_the_list_of_a_sasl_frame_are_refused() -> None:
    data = encode(Described(INIT, [Symbol(ANONYMOUS)])) + b"12"
    with pytest.raises(DecodeError, match="2 bytes follow the SASL frame's list"):
        server().on_frame(data, 0, len(data))
    with pytest.raises(DecodeError, match="2 bytes follow the SASL frame's list"):
        client().on_frame(data, 0, len(data))


# --- client -----------------------------------------------------------------------------------------------------


@spec("amqp:5.3.1")
def test_a_client_starts_with_the_sasl_header() -> None:
    side = SaslClient(Settings("c"))
    assert side.start() == SASL_HEADER == b"AMQP\x03\x01\x00\x00"
    side.on_header()
    assert side.state is SaslState.AWAITING_MECHANISMS


def test_a_client_does_not_start_twice_nor_take_a_header_it_did_not_ask_for() -> None:
    side = SaslClient(Settings("c"))
    with pytest.raises(NotAllowed, match="receive SASL header is not allowed in SASL state START"):
        side.on_header()
    side.start()
    with pytest.raises(NotAllowed, match="send SASL header is not allowed"):
        side.start()
    side.on_header()
    with pytest.raises(NotAllowed, match="receive SASL header is not allowed"):
        side.on_header()


@spec("amqp:5.3.3.2")
def test_a_client_without_a_user_chooses_anonymous() -> None:
    side = client()
    output, event = answer(side, MECHANISMS, [Array.of_symbols(SERVER_MECHANISMS)])
    assert output == bytes.fromhex("0000001e 02010000 005341 c01103 a309") + b"ANONYMOUS" + bytes.fromhex("a000 a10168")
    assert event is None
    assert side.state is SaslState.AWAITING_OUTCOME


@spec("amqp:5.3.3.2", "rfc4616:2")
def test_a_client_with_a_user_chooses_plain() -> None:
    side = client("us\u00e9r", "pass")
    output, event = answer(side, MECHANISMS, [Array.of_symbols(SERVER_MECHANISMS)])
    response = "\x00us\u00e9r\x00pass".encode()
    body = b"\xa3\x05PLAIN" + b"\xa0\x0b" + response + b"\xa1\x01h"
    assert output == bytes.fromhex("00000025 02010000 005341 c01803") + body
    assert event is None


@spec("amqp:1.4", "amqp:5.3.3.1")
def test_a_server_may_offer_one_mechanism_without_an_array() -> None:
    output, event = answer(client(), MECHANISMS, [Symbol(ANONYMOUS)])
    assert output
    assert event is None


@pytest.mark.parametrize(
    "user, password, offered",
    [
        pytest.param(None, None, [PLAIN, EXTERNAL], id="no anonymous"),
        pytest.param("u", "p", [ANONYMOUS], id="no plain"),
        pytest.param(None, None, [], id="nothing"),
    ],
)
def test_a_client_that_is_not_offered_what_it_needs_gives_up(
    user: str | None, password: str | None, offered: list[str]
) -> None:
    side = client(user, password)
    output, event = answer(side, MECHANISMS, [Array.of_symbols(offered)])
    assert output == b""
    assert isinstance(event, AuthenticationFailed)
    assert (event.code, event.offered) == (1, offered)
    assert side.state is SaslState.FAILED


def test_a_server_that_offers_null_offers_nothing() -> None:
    _, event = answer(client(), MECHANISMS, [None])
    assert isinstance(event, AuthenticationFailed)
    assert event.offered == []


@spec("amqp:5.3.3.5")
@pytest.mark.parametrize("data", [b"Welcome!", None])
def test_a_client_that_is_accepted_says_so(data: bytes | None) -> None:
    side = client()
    answer(side, MECHANISMS, [Symbol(ANONYMOUS)])
    output, event = answer(side, OUTCOME, [UByte(0), data])
    assert output == b""
    assert isinstance(event, AuthenticationSucceeded)
    assert event.additional_data == data
    assert side.state is SaslState.SUCCEEDED


@spec("amqp:5.3.3.6")
@pytest.mark.parametrize("code", [1, 2, 3, 4, 255])
def test_a_client_that_is_refused_says_why_and_what_was_offered(code: int) -> None:
    side = client()
    answer(side, MECHANISMS, [Array.of_symbols([PLAIN, ANONYMOUS])])
    output, event = answer(side, OUTCOME, [UByte(code)])
    assert output == b""
    assert isinstance(event, AuthenticationFailed)
    assert (event.code, event.offered) == (code, [PLAIN, ANONYMOUS])
    assert side.state is SaslState.FAILED


def test_a_server_may_refuse_before_it_offers_anything() -> None:
    _, event = answer(client(), OUTCOME, [UByte(3)])
    assert isinstance(event, AuthenticationFailed)
    assert (event.code, event.offered) == (3, [])


def test_a_server_may_not_accept_before_it_was_asked() -> None:
    with pytest.raises(NotAllowed, match="sasl-outcome ok is not allowed in SASL state AWAITING_MECHANISMS"):
        answer(client(), OUTCOME, [UByte(0)])


@pytest.mark.parametrize("offered", [[ANONYMOUS], [PLAIN]])
def test_a_second_offer_is_not_allowed(offered: list[str]) -> None:
    side = client()
    answer(side, MECHANISMS, [Symbol(ANONYMOUS)])
    with pytest.raises(NotAllowed, match="receive sasl-mechanisms is not allowed in SASL state AWAITING_OUTCOME"):
        answer(side, MECHANISMS, [Array.of_symbols(offered)])
    assert side.state is SaslState.AWAITING_OUTCOME


@pytest.mark.parametrize("code", [0, 1])
def test_a_second_outcome_is_not_allowed(code: int) -> None:
    side = client()
    answer(side, MECHANISMS, [Symbol(ANONYMOUS)])
    answer(side, OUTCOME, [UByte(0)])
    with pytest.raises(NotAllowed):
        answer(side, OUTCOME, [UByte(code)])


@pytest.mark.parametrize("descriptor", [INIT, CHALLENGE, RESPONSE, ULong(0x10), Symbol("amqp:sasl-challenge:list")])
def test_a_client_takes_no_other_frame(descriptor: object) -> None:
    with pytest.raises(NotAllowed, match="a client with mechanisms of one step takes no SASL frame but"):
        answer(client(), descriptor, [b""])


@pytest.mark.parametrize(
    "descriptor, values, complaint",
    [
        (MECHANISMS, ["PLAIN"], "sasl-mechanisms.sasl-server-mechanisms must be symbols"),
        (MECHANISMS, [None, None], "sasl-mechanisms has 2 fields, it has at most 1"),
        (OUTCOME, [], "sasl-outcome.code is mandatory and was not set"),
        (OUTCOME, [0], "sasl-outcome.code must be a ubyte"),
        (OUTCOME, [UByte(0), "Welcome!"], "sasl-outcome.additional-data must be a binary"),
        (OUTCOME, [UByte(0), None, None], "sasl-outcome has 3 fields, it has at most 2"),
    ],
)
def test_a_wrong_field_from_a_server_is_named(descriptor: ULong, values: list[object], complaint: str) -> None:
    side = client()
    if descriptor == OUTCOME:
        answer(side, MECHANISMS, [Symbol(ANONYMOUS)])
    with pytest.raises(DecodeError, match=f"^{complaint}"):
        answer(side, descriptor, values)


# --- both -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user, password", [(None, None), ("RootManageSharedAccessKey", "SAS_KEY_VALUE")])
def test_a_client_and_a_server_come_to_an_understanding(user: str | None, password: str | None) -> None:
    ours, theirs = SaslClient(Settings("c", user=user, password=password)), SaslServer(SERVER_MECHANISMS)
    assert ours.start() == SASL_HEADER
    offer = theirs.on_header()
    assert offer.startswith(SASL_HEADER)
    ours.on_header()
    choice, _ = ours.on_frame(offer, 16, len(offer))
    event = theirs.on_frame(choice, 8, len(choice))
    assert isinstance(event, AuthenticationRequested)
    assert (event.user, event.password) == (user, password)
    outcome = theirs.decide(True)
    _, answered = ours.on_frame(outcome, 8, len(outcome))
    assert isinstance(answered, AuthenticationSucceeded)
    assert answered.additional_data == b"Welcome!"


def test_a_password_is_never_shown() -> None:
    event = init(server(), Symbol(PLAIN), b"\x00user\x00secret", "h")
    assert "secret" not in repr(event)
    assert "secret" not in str(event)
    assert "user" in repr(event)
    ours = client("user", "secret")
    answer(ours, MECHANISMS, [Symbol(PLAIN)])
    assert "secret" not in repr(ours)
    assert "secret" not in repr(ours.settings)
    with pytest.raises(NotAllowed) as caught:
        answer(ours, MECHANISMS, [Symbol(PLAIN)])
    assert "secret" not in repr(caught.value)


def test_a_response_of_the_wrong_type_is_refused_without_being_repeated() -> None:
    with pytest.raises(DecodeError, match=r"^sasl-init\.initial-response must be a binary$"):
        init(server(), Symbol(PLAIN), "\x00user\x00secret")
