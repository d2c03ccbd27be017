"""Features of message contents: what is sent comes back, value by value and type by type."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from proton import (
    Array,
    Data,
    Described,
    Message,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

from tests.interop.peers.proton_client.peer import Link, Peer, Received, Unsupported, receive, send, send_encoded

SOME_UUID: Final = UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")

# Every type, at the ends of its range and where one width variant gives way to the next.
SIMPLE_VALUES: Final[dict[str, Any]] = {
    "null": None,
    "true": True,
    "false": False,
    "ubyte": ubyte(255),
    "ushort": ushort(65535),
    "uint-0": uint(0),
    "uint-small": uint(255),
    "uint": uint(2**32 - 1),
    "ulong-0": ulong(0),
    "ulong-small": ulong(255),
    "ulong": ulong(2**64 - 1),
    "byte": byte(-128),
    "short": short(-32768),
    "int-small": int32(-128),
    "int": int32(-(2**31)),
    "long-small": 127,
    "long": -(2**63),
    "float": float32(-0.5),
    "double": 1.7976931348623157e308,
    "decimal32": decimal32(0x2210_0001),
    "decimal64": decimal64(0x2208_0000_0000_0001),
    "decimal128": decimal128(bytes(range(16))),
    "char": char("\N{GRINNING FACE}"),
    "timestamp": timestamp(1_311_704_463_521),
    "timestamp-before-1970": timestamp(-1),
    "uuid": SOME_UUID,
    "binary-empty": b"",
    "binary": bytes(range(256)),
    "string-empty": "",
    "string": "Grüße, Καλημέρα, \N{GRINNING FACE}",
    "string-long": "x" * 256,
    "symbol": symbol("amqp:some:symbol"),
}

DESCRIBED: Final = Described(symbol("example:point:list"), [int32(1), Described(ulong(0x1234_5678_9ABC), "inner")])


def echo(peer: Peer, message: Any) -> Received:
    """The message as it comes back from the server."""
    with peer.connection() as connection:
        send(connection, peer.address, message)
        return receive(connection, peer.address, 1)[0]


def spelled(value: object) -> str:
    """Type and value: Proton's numbers are ints to Python, and only their spelling tells them apart."""
    if isinstance(value, memoryview):  # what Proton makes of a binary
        return repr(bytes(value))
    if isinstance(value, dict):
        return repr([(spelled(key), spelled(item)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return repr([spelled(item) for item in value])
    return repr(value)


def require_same(received: object, sent: object) -> None:
    assert spelled(received) == spelled(sent), f"{received!r} came back for {sent!r}"


def require_same_body(peer: Peer, body: object, *, is_inferred: bool = False) -> None:
    received = echo(peer, Message(body=body, inferred=is_inferred)).message
    require_same(received.body, body)


def body_binary(peer: Peer) -> None:
    for size in (0, 1, 255, 256, 70_000):
        require_same_body(peer, bytes(index % 251 for index in range(size)), is_inferred=True)


def body_string(peer: Peer) -> None:
    for text in ("", "Grüße", "x" * 255, "x" * 256, "\N{GRINNING FACE}" * 10_000):
        require_same_body(peer, text)


def body_null(peer: Peer) -> None:
    require_same_body(peer, None)


def body_list(peer: Peer) -> None:
    values = list(SIMPLE_VALUES.values())
    require_same_body(peer, [])
    require_same_body(peer, [*values, values, [[[[values]]]], {"nested": values}])


def body_map(peer: Peer) -> None:
    require_same_body(peer, {})
    require_same_body(peer, {**SIMPLE_VALUES, symbol("symbol"): 1, ulong(7): "number", SOME_UUID: {"nested": [None]}})


def body_array(peer: Peer) -> None:
    undescribed = Array(None, Data.INT).descriptor
    for array in (
        Array(undescribed, Data.INT, int32(1), int32(-(2**31))),
        Array(undescribed, Data.SYMBOL, symbol("a"), symbol("b" * 300)),
        Array(undescribed, Data.UUID, SOME_UUID),
        Array(undescribed, Data.BOOL, True, False),
    ):
        body = echo(peer, Message(body=[array])).message.body[0]
        require_same(list(body.elements), list(array.elements))
        require_same(body.type, array.type)


def body_described(peer: Peer) -> None:
    require_same_body(peer, DESCRIBED)


def body_sequence(peer: Peer) -> None:
    received = echo(peer, Message(body=[1, "two", [3]], inferred=True))
    assert b"\x00\x53\x76" in received.encoded, "the body did not come back as a sequence section"
    require_same(received.message.body, [1, "two", [3]])


def body_data_sections(peer: Peer) -> None:
    one, two = "005375 a003 6f6e65", "005375 b000000003 74776f"
    require_same_bytes(peer, bytes.fromhex(one + two))


def header(peer: Peer) -> None:
    message = echo(peer, Message(body="x", durable=True, priority=7, ttl=3600.0)).message
    require_same((message.durable, message.priority), (True, 7))
    # A server may count the time that a message waited.
    assert 3500 < message.ttl <= 3600, f"time to live {message.ttl}"


def properties(peer: Peer) -> None:
    sent = {
        "id": "the id",
        "user_id": b"guest",
        "address": "the address",
        "subject": "the subject",
        "reply_to": "the reply",
        "correlation_id": "the correlation",
        "content_type": symbol("text/plain"),
        "content_encoding": symbol("identity"),
        "expiry_time": 4_102_444_800.0,
        "creation_time": 1_311_704_463.5,
        "group_id": "the group",
        "group_sequence": 4_294_967_295,
        "reply_to_group_id": "the reply group",
    }
    message = echo(peer, Message(body="x", **sent)).message
    require_same({name: getattr(message, name) for name in sent}, sent)


def message_id_types(peer: Peer) -> None:
    for identifier in ("text", 2**64 - 1, SOME_UUID, b"\x00\xff"):
        message = echo(peer, Message(body="x", id=identifier, correlation_id=identifier)).message
        require_same((message.id, message.correlation_id), (identifier, identifier))


def message_annotations(peer: Peer) -> None:
    annotations = {symbol("x-opt-text"): "text", symbol("x-opt-list"): [1, DESCRIBED], symbol("x-opt-id"): SOME_UUID}
    message = echo(peer, Message(body="x", annotations=annotations)).message
    # The server may have added annotations of its own.
    for key, value in annotations.items():
        require_same(message.annotations.get(key), value)


def application_properties(peer: Peer) -> None:
    sent = {**SIMPLE_VALUES, "described": DESCRIBED}
    message = echo(peer, Message(body="x", properties=sent)).message
    require_same(dict(message.properties), sent)


def footer(peer: Peer) -> None:
    value, footer_map = "005377 a10178", "005378 c1 07 02 a30163 a00107"
    require_same_bytes(peer, bytes.fromhex(value + footer_map))


def message_format(peer: Peer) -> None:
    raise Unsupported("Proton for Python sends message format 0 only")


def bare_message_bytes(peer: Peer) -> None:
    # Descriptors as 8-byte ulong and as symbol, 4-byte sizes and a 4-byte zero where shorter forms exist.
    wide_properties = "0080 0000000000000073 d0 0000000b 00000001 b1 00000002 6964"
    wide_application_properties = "0080 0000000000000074 d1 0000000f 00000002 b1 00000001 6b 70 00000000"
    symbolic_value = "00a3 0c 616d71703a76616c75653a2a 81 0000000000000001"
    require_same_bytes(peer, bytes.fromhex(wide_properties + wide_application_properties + symbolic_value))


def require_same_bytes(peer: Peer, bare_message: bytes) -> None:
    with peer.connection() as connection:
        send_encoded(connection, peer.address, bare_message)
        received = receive(connection, peer.address, 1)[0]
    # The server may put a header and annotations in front, never touch what follows.
    assert received.encoded.endswith(bare_message), f"{received.encoded.hex()} came back for {bare_message.hex()}"


def large_message(peer: Peer) -> None:
    body = bytes(index % 251 for index in range(300_000))
    with peer.connection(max_frame_size=4096) as connection:
        send(connection, peer.address, Message(body=body, inferred=True))
        received = receive(connection, peer.address, 1)[0]
        assert received.message.body == body


def session_window(peer: Peer) -> None:
    # Proton hands out whole messages only, so that its window has to hold one: 25 of its 32 frames.
    bodies = [bytes([number]) * 100_000 for number in range(5)]
    with peer.connection(max_frame_size=4096) as connection:
        session = connection.conn.session()
        session.incoming_capacity = 32 * 4096
        session.open()
        send(connection, peer.address, *(Message(body=body, inferred=True) for body in bodies))
        link = Link(connection, peer.address, session=session)
        link.give_credit(5)
        for received, body in zip(link.take(5), bodies, strict=True):
            assert received.message.body == body
            received.settle(received.delivery.ACCEPTED)
