"""SASL (AMQP 1.0 part 5.3) with mechanisms of one step: ANONYMOUS, PLAIN, EXTERNAL and MSSBCBS.

Whether credentials are good is not decided here: the server side asks by an event, the client side reports by one.
"""

from __future__ import annotations

from typing import Final

from tandem import limits
from tandem.amqp.delivery_states import type_code
from tandem.amqp.encode import encode_described_list
from tandem.amqp.events import AuthenticationFailed, AuthenticationRequested, AuthenticationSucceeded, Event
from tandem.amqp.fields import Fields, decode_composite, symbols
from tandem.amqp.hot_paths import SASL_FRAME, frame
from tandem.amqp.settings import ANONYMOUS, PLAIN, Settings
from tandem.amqp.states import SASL_CLIENT_TABLE, SASL_SERVER_TABLE, SaslInput, SaslState
from tandem.amqp.types import Symbol, UByte
from tandem.errors import DecodeError, NotAllowed, StateError

__all__ = ["SASL_HEADER", "SaslClient", "SaslServer"]

SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"

MECHANISMS: Final = 0x40
INIT: Final = 0x41
OUTCOME: Final = 0x44

_BY_SYMBOL: Final[dict[str, int]] = {
    "amqp:sasl-mechanisms:list": MECHANISMS,
    "amqp:sasl-init:list": INIT,
    "amqp:sasl-outcome:list": OUTCOME,
}

OUTCOME_OK: Final = 0
OUTCOME_AUTH: Final = 1

# What the service says; clients are seen to log it.
WELCOME: Final = b"Welcome!"


def _sasl_frame(code: int, values: list[object]) -> bytes:
    return frame(0, encode_described_list(code, values), SASL_FRAME)


def _sasl_fields(data: bytes, offset: int, end: int) -> tuple[int, list[object]]:
    descriptor, values, stop = decode_composite(data, offset, end)
    if stop != end:
        raise DecodeError(f"{end - stop} bytes follow the SASL frame's list")
    return type_code(descriptor, _BY_SYMBOL), values


class SaslServer:
    """The server's side: offer, hear the choice, wait for the application's decision."""

    __slots__ = ("hostname", "mechanisms", "state")

    def __init__(self, mechanisms: tuple[str, ...]) -> None:
        self.mechanisms = mechanisms
        # The host that the client asks for, if it names one.
        self.hostname: str | None = None
        self.state = SaslState.START

    def _step(self, step: SaslInput) -> None:
        following = SASL_SERVER_TABLE.get((self.state, step))
        if following is None:
            raise NotAllowed(f"{step.value} is not allowed in SASL state {self.state.value}")
        self.state = following

    def on_header(self) -> bytes:
        """The client's SASL header arrived: answer with ours and the mechanisms."""
        self._step(SaslInput.RECEIVE_HEADER)
        offered = symbols([Symbol(mechanism) for mechanism in self.mechanisms])
        return SASL_HEADER + _sasl_frame(MECHANISMS, [offered])

    def on_frame(self, data: bytes, offset: int, end: int) -> Event | None:
        """None when the client's choice cannot be used: the application has nothing to decide, fail it."""
        code, values = _sasl_fields(data, offset, end)
        if code != INIT:
            raise NotAllowed("a server takes no SASL frame but sasl-init: all its mechanisms have one step")
        self._step(SaslInput.RECEIVE_INIT)
        fields = Fields("sasl-init", ("mechanism", "initial-response", "hostname"), values)
        mechanism = fields.required(0, fields.symbol(0))
        response = _secret(fields.any(1))
        hostname = self.hostname = fields.string(2)
        if mechanism not in self.mechanisms or len(response) > limits.MAX_SASL_RESPONSE_BYTES:
            return None
        if mechanism == PLAIN:
            return _plain(response, hostname)
        return AuthenticationRequested(mechanism, response, hostname)

    def decide(self, is_accepted: bool) -> bytes:
        """The application's decision, as the outcome to send."""
        if self.state is not SaslState.AWAITING_DECISION:
            raise StateError(f"no authentication was asked for in SASL state {self.state.value}")
        self._step(SaslInput.SUCCEED if is_accepted else SaslInput.FAIL)
        if is_accepted:
            return _sasl_frame(OUTCOME, [UByte(OUTCOME_OK), WELCOME])
        return _sasl_frame(OUTCOME, [UByte(OUTCOME_AUTH), None])


def _secret(response: object) -> bytes:
    """The initial response. A complaint does not repeat it as others would: it holds a password and is logged."""
    if response is None:
        return b""
    if not isinstance(response, bytes):
        raise DecodeError("sasl-init.initial-response must be a binary")
    return response


def _plain(response: bytes, hostname: str | None) -> AuthenticationRequested | None:
    """RFC 4616: authorization id, NUL, user, NUL, password."""
    parts = response.split(b"\x00")
    if len(parts) != 3:  # the three parts named above
        return None
    try:
        authorization_id, user, password = parts[0].decode(), parts[1].decode(), parts[2].decode()
    except UnicodeDecodeError:
        return None
    return AuthenticationRequested(PLAIN, response, hostname, user, password, authorization_id)


class SaslClient:
    """The client's side: PLAIN with a user, ANONYMOUS without."""

    __slots__ = ("offered", "settings", "state")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = SaslState.START
        self.offered: list[str] = []

    def _step(self, step: SaslInput) -> None:
        following = SASL_CLIENT_TABLE.get((self.state, step))
        if following is None:
            raise NotAllowed(f"{step.value} is not allowed in SASL state {self.state.value}")
        self.state = following

    def start(self) -> bytes:
        self._step(SaslInput.SEND_HEADER)
        return SASL_HEADER

    def on_header(self) -> None:
        self._step(SaslInput.RECEIVE_HEADER)

    def on_frame(self, data: bytes, offset: int, end: int) -> tuple[bytes, Event | None]:
        """What to send, and what to tell the application."""
        code, values = _sasl_fields(data, offset, end)
        if code == MECHANISMS:
            return self._on_mechanisms(Fields("sasl-mechanisms", ("sasl-server-mechanisms",), values))
        if code == OUTCOME:
            return b"", self._on_outcome(Fields("sasl-outcome", ("code", "additional-data"), values))
        raise NotAllowed("a client with mechanisms of one step takes no SASL frame but sasl-mechanisms and -outcome")

    def _on_mechanisms(self, fields: Fields) -> tuple[bytes, Event | None]:
        offered = fields.symbols(0) or []
        user, password = self.settings.user, self.settings.password
        wanted = ANONYMOUS if user is None else PLAIN
        self._step(SaslInput.RECEIVE_MECHANISMS)
        self.offered = [str(name) for name in offered]
        if wanted not in offered:
            self._step(SaslInput.FAIL)
            return b"", AuthenticationFailed(OUTCOME_AUTH, self.offered)
        response = b"" if user is None else f"\x00{user}\x00{password}".encode()
        return _sasl_frame(INIT, [Symbol(wanted), response, self.settings.hostname]), None

    def _on_outcome(self, fields: Fields) -> Event:
        code = fields.required(0, fields.ubyte(0))
        if code == OUTCOME_OK:
            self._step(SaslInput.SUCCEED)
            return AuthenticationSucceeded(fields.binary(1))
        self._step(SaslInput.FAIL)
        return AuthenticationFailed(code, self.offered)
