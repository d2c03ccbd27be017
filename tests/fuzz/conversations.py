"""Connections that are past their opening, and the bytes with which a peer gets them there."""

from __future__ import annotations

from functools import cache
from typing import Final

from tandem.amqp.connection import AMQP_HEADER, Connection, Role
from tandem.amqp.encode import encode_described_list
from tandem.amqp.events import Event, LinkAttached
from tandem.amqp.hot_paths import SASL_FRAME, frame
from tandem.amqp.link import ReceiverLink, SenderLink
from tandem.amqp.performatives import RECEIVER, SENDER, Attach, Begin, Flow, Open, Transfer
from tandem.amqp.sasl import SASL_HEADER
from tandem.amqp.settings import Settings
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Array, Symbol, UByte
from tests.fuzz.promises import Endpoint, Written

__all__ = [
    "CLIENT_LOGIN",
    "MESSAGE",
    "PEER_LINKS",
    "PEER_OPENING",
    "PEER_TRAFFIC",
    "SERVER_LOGIN",
    "SETTINGS",
    "attached_client",
    "attached_server",
    "new_client",
    "new_server",
]

# Small limits: a fuzzer's inputs are short, and what happens at a limit is the point.
SETTINGS: Final = Settings(
    "fuzzed",
    max_frame_size=4_096,
    channel_max=2,
    handle_max=3,
    incoming_window=8,
    max_message_size=600,
    max_incomplete=1_000,
    max_unsettled=6,
    max_credit_overrun=2,
)

# A message with a data section: what is sent both ways.
MESSAGE: Final = b"\x00\x53\x75\xa0\x05hello"

# What a client says before the server has to decide, and what a server says until it is the client's turn again.
CLIENT_LOGIN: Final = SASL_HEADER + frame(
    0, encode_described_list(0x41, [Symbol("ANONYMOUS"), b"fuzz", "localhost"]), SASL_FRAME
)
SERVER_LOGIN: Final = b"".join(
    (
        SASL_HEADER,
        frame(0, encode_described_list(0x40, [Array.of_symbols(["PLAIN", "ANONYMOUS"])]), SASL_FRAME),
        frame(0, encode_described_list(0x44, [UByte(0), b"Welcome!"]), SASL_FRAME),
    )
)
# The frames that we may write to this peer are as small as the specification lets it ask for.
_PEER_OPEN: Final = AMQP_HEADER + frame(0, Open("peer", "localhost", 512, 7, 60_000).encode())
PEER_OPENING: Final = _PEER_OPEN + frame(0, Begin(None, 0, 6, 100, 7).encode())
_PEER_ANSWERS_BEGIN: Final = frame(0, Begin(0, 0, 6, 100, 7).encode())
# The peer sends on handle 0 and receives on handle 1.
PEER_LINKS: Final = b"".join(
    (
        frame(0, Attach("in", 0, SENDER, 2, 0, Source("here"), Target("queue"), initial_delivery_count=0).encode()),
        frame(0, Attach("out", 1, RECEIVER, 2, 1, Source("queue"), Target("here")).encode()),
    )
)
# Credit for us, one whole delivery and the first half of another.
PEER_TRAFFIC: Final = b"".join(
    (
        frame(0, Flow(1, 6, 0, 100, 1, 0, 4, 0).encode()),
        frame(0, Transfer(0, 0, b"tag0", 0, False).encode() + MESSAGE),
        frame(0, Transfer(0, 1, b"tag1", 0, False, True).encode() + MESSAGE),
    )
)


def new_server() -> Endpoint:
    return Endpoint(Connection(Role.SERVER, SETTINGS))


def new_client() -> Endpoint:
    """A client that has written its SASL header."""
    connection = Connection(Role.CLIENT, SETTINGS)
    connection.open()
    return Endpoint(connection)


def attached_server() -> Endpoint:
    """A server past SASL, open and begin, with a link each way, credit on both and unsettled deliveries on both."""
    connection = Connection(Role.SERVER, SETTINGS)
    connection.receive(CLIENT_LOGIN)
    connection.accept_authentication()
    events = connection.receive(PEER_OPENING + PEER_LINKS)
    for event in events:
        if isinstance(event, LinkAttached):
            event.link.accept()
    return _exchange(connection, events)


def attached_client() -> Endpoint:
    """A client in the same place: it asked for the session and the links itself."""
    connection = Connection(Role.CLIENT, SETTINGS)
    connection.open()
    connection.receive(SERVER_LOGIN + _PEER_OPEN)
    session = connection.begin()
    connection.receive(_PEER_ANSWERS_BEGIN)
    session.attach_receiver("in", Source("queue"))
    session.attach_sender("out", Target("queue"))
    return _exchange(connection, connection.receive(PEER_LINKS))


def _exchange(connection: Connection, events: list[Event]) -> Endpoint:
    """With both links attached: credit and deliveries both ways, none of them settled yet."""
    links = [event.link for event in events if isinstance(event, LinkAttached)]
    receiver, sender = links
    assert isinstance(receiver, ReceiverLink)
    assert isinstance(sender, SenderLink)
    receiver.grant(3)
    connection.receive(PEER_TRAFFIC)
    sender.send(MESSAGE)
    sender.send(MESSAGE * 60)
    written = _judged(connection.data_to_send(), connection.peer_max_frame_size, connection.peer_channel_max)
    return Endpoint(connection, written.copy())


@cache
def _judged(data: bytes, max_frame_size: int, channel_max: int) -> Written:
    """What attached connections have written is always the same, so that it is judged once."""
    written = Written()
    written.read(data, max_frame_size, channel_max)
    return written
