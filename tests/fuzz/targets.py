"""The fuzz targets: functions of bytes that return None whatever the bytes are, as long as the promises hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tandem.amqp.batch import locate_batch, partition_key, split_batch
from tandem.amqp.connection import Connection, Role
from tandem.amqp.decode import decode, decode_all, skip
from tandem.amqp.encode import encode
from tandem.amqp.events import AuthenticationRequested
from tandem.amqp.hot_paths import decode_disposition, decode_flow, decode_transfer
from tandem.amqp.message import Header, Message
from tandem.amqp.performatives import DISPOSITION, FLOW, TRANSFER, Performative, decode_performative
from tandem.amqp.rewriting import splice, with_application_properties
from tandem.amqp.settings import Settings
from tandem.amqp.stored import prepare
from tandem.amqp.transactions import decode_transaction_request
from tandem.errors import DecodeError
from tandem.limits import MAX_FRAME_SIZE_BEFORE_OPEN_BYTES
from tests.fuzz.atom import fuzz_atom
from tests.fuzz.conversations import SETTINGS, attached_server, new_client, new_server
from tests.fuzz.program import Program, react
from tests.fuzz.promises import Endpoint, is_same, promise, trace
from tests.fuzz.rules import fuzz_rules

__all__ = ["CONNECTION_TARGETS", "MAX_INPUT_BYTES", "TARGETS"]

_LOCK_TOKEN: Final = bytes(range(16))


def fuzz_decoder(data: bytes) -> None:
    """`skip`, `decode` and `decode_all` agree; what was decoded can be encoded and decoded again without a change."""
    end = len(data)
    skipped = _skipped(data)
    try:
        value, stop = decode(data, 0, end)
    except DecodeError:
        _expect_decode_error(lambda: decode_all(data))
    else:
        promise(skipped == stop, f"skip ends at {skipped}, decode at {stop}")
        if stop == end:
            promise(is_same(decode_all(data), value), "decode_all and decode differ")
        else:
            _expect_decode_error(lambda: decode_all(data))
        # No value is the beginning of another one, and nothing is read at or past `end`.
        _expect_decode_error(lambda: decode(data, 0, stop - 1))
        within, behind = decode(b"\xff" + data[:stop] + b"\xff", 1, stop + 1)
        promise(behind == stop + 1 and is_same(within, value), "decode reads what lies around the value")
        repr(value)
        encoded = encode(value)
        again = decode_all(encoded)
        promise(is_same(again, value), f"{value!r:.200} became {again!r:.200}")
        promise(encode(again) == encoded, f"{value!r:.200} is encoded in two ways")
    if end > 3 and data[0] == 0x00 and data[1] == 0x53 and data[2] in _HOT_DECODERS:
        _compare_hot_path(data)


def _skipped(data: bytes) -> int:
    try:
        return skip(data, 0, len(data))
    except DecodeError:
        return -1


def _expect_decode_error(function: Callable[[], object]) -> None:
    try:
        value = function()
    except DecodeError:
        return
    promise(False, f"{value!r:.200} was decoded of bytes that are cut off or surplus")


def _hot_disposition(data: bytes) -> Performative:
    return decode_disposition(data, 0, len(data))


def _hot_flow(data: bytes) -> Performative:
    return decode_flow(data, 0, len(data))


def _hot_transfer(data: bytes) -> Performative:
    return decode_transfer(data, 0, len(data))[0]


_HOT_DECODERS: Final[dict[int, Callable[[bytes], Performative]]] = {
    DISPOSITION: _hot_disposition,
    FLOW: _hot_flow,
    TRANSFER: _hot_transfer,
}


def _compare_hot_path(data: bytes) -> None:
    """The hand-tuned decoder says what the general one says, also to malformed input."""
    try:
        general, _ = decode_performative(data, 0, len(data))
    except DecodeError:
        _expect_decode_error(lambda: _HOT_DECODERS[data[2]](data))
        return
    hot = _HOT_DECODERS[data[2]](data)
    promise(is_same(hot.values(), general.values()), f"{hot!r:.300} should be {general!r:.300}")


def fuzz_message(data: bytes) -> None:
    """A message is found, read, put into another one, stored and split, or refused by DecodeError."""
    _allow_decode_error(lambda: decode_transaction_request(data))
    try:
        message = Message(data)
    except DecodeError:
        _expect_decode_error(lambda: splice(data))
        _expect_decode_error(lambda: split_batch(data))
        return
    read = _read_sections(message)
    promise(is_same(_read_sections(message), read), "a section read twice is not the same")
    bare = Message(message.bare_bytes)
    promise(bare.sections.is_canonical, "the bare message is not in the order of the specification")
    promise(is_same(_read_sections(bare)[3:], read[3:]), "the bare message is not that of the message")
    promise(bare.bare_bytes == message.bare_bytes, "the bare message of the bare message is another one")
    _splice(message, read)
    _store(message, read)
    _allow_decode_error(lambda: locate_batch(message))
    _allow_decode_error(lambda: partition_key(message))


def _read_sections(message: Message) -> list[object]:
    """Every section as it is read, or the error: header and both annotations, then the bare message."""
    readers: list[Callable[[], object]] = [
        lambda: repr(message.header),
        lambda: message.delivery_annotations,
        lambda: message.message_annotations,
        lambda: repr(message.properties),
        lambda: message.application_properties,
        lambda: message.footer,
        lambda: message.body_kind.value,
        lambda: message.data_sections,
        lambda: message.data,
        lambda: message.sequence,
        lambda: message.value,
    ]
    return [_allow_decode_error(reader) for reader in readers]


def _allow_decode_error(function: Callable[[], object]) -> object:
    try:
        return function()
    except DecodeError:
        return DecodeError


def _splice(message: Message, read: list[object]) -> None:
    fresh: dict[str, object] = {"x-opt-fuzzed": True}
    try:
        spliced = Message(splice(message, Header(delivery_count=3), fresh, fresh))
    except DecodeError:
        promise(DecodeError in read[1:3], "annotations that can be read cannot be added to")
        return
    promise(spliced.sections.is_canonical, "a spliced message is not in the order of the specification")
    promise(spliced.header == Header(delivery_count=3), "a spliced message does not have the header given")
    promise(spliced.bare_bytes == message.bare_bytes, "a spliced message has another bare message")
    after = _read_sections(spliced)
    for place in (1, 2):
        if read[place] is not DecodeError:
            annotations = after[place]
            assert isinstance(annotations, dict)
            promise(annotations.pop("x-opt-fuzzed", None) is True, "an annotation was not added")
            sender = read[place]
            kept = dict(sender) if isinstance(sender, dict) else {}
            kept.pop("x-opt-fuzzed", None)
            promise(is_same(annotations, kept), "the sender's annotations were changed")


def _store(message: Message, read: list[object]) -> None:
    """What a broker does: split once, deliver with a prefix, modify on the way back."""
    try:
        stored = prepare(message)
    except DecodeError:
        promise(DecodeError in read[:3], "a message whose header and annotations can be read cannot be stored")
        return
    delivered = Message(stored.locked_prefix(1, 2**40, 2**41, 2**42, _LOCK_TOKEN) + stored.bare)
    promise(delivered.sections.is_canonical, "a delivery is not in the order of the specification")
    promise(delivered.header is not None and delivered.header.delivery_count == 1, "the delivery-count is another one")
    promise(delivered.bare_bytes == message.bare_bytes, "a delivery has another bare message")
    Message(stored.unlocked_prefix(0, 1, 2) + stored.bare)
    changes: dict[str, object] = {"DeadLetterReason": "fuzzed"}
    try:
        changed = Message(with_application_properties(message, changes))
        stored = stored.modified(changes)
    except DecodeError:
        promise(read[4] is DecodeError, "application-properties that can be read cannot be changed")
        return
    promise(Message(stored.bare).bare_bytes == stored.bare, "a modified message is not in order")
    if read[4] is not DecodeError:
        properties = changed.application_properties
        promise(properties is not None and properties["DeadLetterReason"] == "fuzzed", "a property was not set")


def fuzz_connection_before_open(data: bytes) -> None:
    """A stranger's first bytes, to a server and to a client: whole, then in pieces, with the same outcome."""
    for start in (new_server, _new_strict_server, new_client, _new_client_without_sasl):
        whole = start()
        _feed(whole, data, len(data))
        pieces = start()
        _feed(pieces, data, 1 + len(data) % 13)
        # How much may be under way before SASL is decided is judged by what has arrived: that differs for long inputs.
        if len(data) < MAX_FRAME_SIZE_BEFORE_OPEN_BYTES:
            promise(trace(whole.events) == trace(pieces.events), f"{trace(whole.events)} {trace(pieces.events)}")
            promise(whole.written.last == pieces.written.last, f"{whole.written.last} {pieces.written.last}")


def _new_strict_server() -> Endpoint:
    return Endpoint(Connection(Role.SERVER, Settings("strict", max_frame_size=512, is_sasl_required=True)))


def _new_client_without_sasl() -> Endpoint:
    endpoint = Endpoint(Connection(Role.CLIENT, SETTINGS))
    endpoint.connection.open(sasl=False)
    return endpoint


def _feed(endpoint: Endpoint, data: bytes, piece: int) -> None:
    """Hand over `data`, letting in whoever asks, and take what is written."""
    for offset in range(0, len(data), piece or 1):
        events = endpoint.receive(data[offset : offset + piece])
        while events and isinstance(events[-1], AuthenticationRequested):
            endpoint.call(endpoint.connection.accept_authentication)
            events = endpoint.receive(b"")
        endpoint.flush()


def fuzz_connection_after_open(data: bytes) -> None:
    """Raw bytes into a server with links, credit and unsettled deliveries: whole, then in pieces. Then it answers."""
    whole = attached_server()
    whole.receive(data)
    pieces = attached_server()
    piece = 1 + len(data) % 13
    for offset in range(0, len(data), piece):
        pieces.receive(data[offset : offset + piece])
    promise(trace(whole.events) == trace(pieces.events), f"{trace(whole.events)} {trace(pieces.events)}")
    for event in list(whole.events):
        react(whole, event)
    for endpoint in (whole, pieces):
        endpoint.flush()
        endpoint.receive(data[:64])
        endpoint.tick(30_000)
        endpoint.flush()


def fuzz_frames(data: bytes) -> None:
    """The input as a program: frames of a peer and calls of an application, see `program.py`."""
    Program(data).run()


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "decoder": fuzz_decoder,
    "message": fuzz_message,
    "before-open": fuzz_connection_before_open,
    "after-open": fuzz_connection_after_open,
    "frames": fuzz_frames,
    "rules": fuzz_rules,
    "atom": fuzz_atom,
}

# What together makes the connection level.
CONNECTION_TARGETS: Final = ("before-open", "after-open", "frames")

# Bytes. Enough for every construct, past the 8,192 that a stranger may send in a frame, and past the 1,024 characters
# of a rule.
MAX_INPUT_BYTES: Final = {
    "decoder": 2_048,
    "message": 2_048,
    "before-open": 9_000,
    "after-open": 2_048,
    "frames": 768,
    "rules": 1_400,
    "atom": 1_400,
}
