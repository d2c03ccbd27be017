"""A message as a broker keeps it: split once when it arrives, so that a delivery only puts a few bytes before it.

    received   header  delivery-annotations  message-annotations  properties ... footer      (in any order)
    kept       four    sender's entries      sender's entries     bare, as received
               fields
    delivered  header  lock token + entries  broker's + entries   bare
               \\_________________ prefix ___________________/

The annotations are those that the official SDKs read. A broker that has others to add, as an event hub has, hands
them over as `Entries`, encoded once per message.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from tandem import wire_names
from tandem.amqp.decode import decode
from tandem.amqp.message import Header, Message
from tandem.amqp.rewriting import with_application_properties, with_lifetime
from tandem.amqp.sections import (
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    NO_ENTRIES,
    Entries,
    locate,
    symbol_key,
)
from tandem.errors import EncodeError

__all__ = ["BROKER_ANNOTATIONS", "Stored", "prepare", "prepare_with_ttl"]

# What only the broker may say. A message that was received from a broker and is sent on by its receiver still carries
# these; they were true of the other copy.
BROKER_ANNOTATIONS: Final = frozenset(
    name.encode()
    for name in (
        wire_names.ENQUEUED_TIME,
        wire_names.SEQUENCE_NUMBER,
        wire_names.LOCKED_UNTIL,
        wire_names.LOCK_TOKEN,
        wire_names.ENQUEUE_SEQUENCE_NUMBER,
        wire_names.MESSAGE_STATE,
        wire_names.DEAD_LETTER_SOURCE,
        wire_names.PARTITION_ID,
        wire_names.OFFSET,
        wire_names.SEQUENCE_NUMBER_EPOCH,
        wire_names.PUBLISHER,
    )
)

_TIMESTAMP: Final = b"\x83"
_LONG: Final = b"\x81"
_UUID: Final = b"\x98"

_ENQUEUED_TIME_KEY: Final = symbol_key(wire_names.ENQUEUED_TIME, _TIMESTAMP)
_SEQUENCE_NUMBER_KEY: Final = symbol_key(wire_names.SEQUENCE_NUMBER, _LONG)
_LOCKED_UNTIL_KEY: Final = symbol_key(wire_names.LOCKED_UNTIL, _TIMESTAMP)
_LOCK_TOKEN_KEY: Final = symbol_key(wire_names.LOCK_TOKEN, _UUID)

# The delivery annotations when the sender had none: only the 16 bytes of the token are missing.
_LOCK_TOKEN_SECTION: Final = bytes((0x00, 0x53, 0x71, 0xC1, 1 + len(_LOCK_TOKEN_KEY) + 16, 2)) + _LOCK_TOKEN_KEY
# The delivery annotations of a message that is handed out for good, when the sender had none: the service writes an
# empty map, and the Python SDK shows it.
_NO_DELIVERY_ANNOTATIONS: Final = bytes((0x00, 0x53, 0x71, 0xC1, 1, 0))
# The message annotations up to their size: a map of less than 256 bytes.
_SMALL_MESSAGE_ANNOTATIONS: Final = b"\x00\x53\x72\xc1"

_pack_unlocked: Final = struct.Struct(f">{len(_ENQUEUED_TIME_KEY)}sq{len(_SEQUENCE_NUMBER_KEY)}sq").pack
_LOCKED_ENTRIES_FORMAT: Final = f"{len(_ENQUEUED_TIME_KEY)}sq{len(_SEQUENCE_NUMBER_KEY)}sq{len(_LOCKED_UNTIL_KEY)}sq"
_pack_locked: Final = struct.Struct(f">{_LOCKED_ENTRIES_FORMAT}").pack
# One byte for the count, which the size of a map includes, and the three entries.
_LOCKED_ENTRIES_SIZE: Final = 1 + struct.calcsize(f">{_LOCKED_ENTRIES_FORMAT}")
# The message annotations up to the first value, when the sender had none.
_LOCKED_START: Final = _SMALL_MESSAGE_ANNOTATIONS + bytes((_LOCKED_ENTRIES_SIZE, 6)) + _ENQUEUED_TIME_KEY

_MAX_UINT: Final = 0xFFFF_FFFF
_NULL: Final = b"\x40"
_NO_HEADER_FIELDS: Final = 4 * _NULL
_SMALL_UINT: Final = (b"\x43", *[bytes((0x52, number)) for number in range(1, 256)])
# A header up to its fields, by the bytes these take: at most 1 + 2 + 5 + 1 + 5.
_HEADER_START: Final = tuple([bytes((0x00, 0x53, 0x70, 0xC0, 1 + size, 5)) for size in range(15)])
# A whole prefix, by the bytes of its header. Few arguments, since each takes its time: constants that follow each
# other are one.
_PREFIX_FORMAT: Final = (
    f"{len(_LOCK_TOKEN_SECTION)}s16s{len(_LOCKED_START)}sq{len(_SEQUENCE_NUMBER_KEY)}sq{len(_LOCKED_UNTIL_KEY)}sq"
)
_pack_prefix: Final = tuple([struct.Struct(f">{size}s{_PREFIX_FORMAT}").pack for size in range(21)])


class Stored:
    """The parts of a received message that its deliveries are made of.

    `header_fields` are durable, priority, ttl and first-acquirer, encoded as in the sender's header; the fifth field,
    delivery-count, is the broker's. All of it is bytes and counts: a store can write it down and make it again.

    The bare message is `front` and `tail`. The tail is empty unless copies of a message share it (`split`).
    """

    __slots__ = ("delivery_annotations", "front", "header_fields", "message_annotations", "tail")

    def __init__(
        self,
        header_fields: bytes,
        delivery_annotations: Entries,
        message_annotations: Entries,
        front: bytes,
        tail: bytes = b"",
    ) -> None:
        self.header_fields = header_fields
        self.delivery_annotations = delivery_annotations
        self.message_annotations = message_annotations
        self.front = front
        self.tail = tail

    @property
    def bare(self) -> bytes:
        """The bare message: properties, application properties, body and footer."""
        return self.front + self.tail if self.tail else self.front

    def split(self, front_bytes: int) -> Stored:
        """Return the same with a tail of its own, so that copies with other fronts need no tail of theirs."""
        bare = self.bare
        return self._with_bare(bare[:front_bytes], bare[front_bytes:])

    def locked_prefix(
        self,
        delivery_count: int,
        sequence_number: int,
        enqueued_time_ms: int,
        locked_until_ms: int,
        lock_token: bytes,
        further: Entries = NO_ENTRIES,
    ) -> bytes:
        """What goes before `bare` when a message is delivered under a lock.

        `lock_token` is the token's 16 bytes in the order of RFC 4122, `further` are message annotations with keys
        that are among BROKER_ANNOTATIONS, so that the sender's cannot have the same.
        """
        if len(lock_token) != 16:
            raise EncodeError(f"a lock token is a uuid of 16 bytes, not {len(lock_token)}")
        header = self._header(delivery_count)
        kept = further.followed_by(self.message_annotations)
        size = _LOCKED_ENTRIES_SIZE + len(kept.encoded)
        try:
            if size < 256 and not self.delivery_annotations.count:
                start = _LOCKED_START
                if kept.count:
                    start = _SMALL_MESSAGE_ANNOTATIONS + bytes((size, 6 + kept.count)) + _ENQUEUED_TIME_KEY
                prefix: bytes = _pack_prefix[len(header)](
                    header,
                    _LOCK_TOKEN_SECTION,
                    lock_token,
                    start,
                    enqueued_time_ms,
                    _SEQUENCE_NUMBER_KEY,
                    sequence_number,
                    _LOCKED_UNTIL_KEY,
                    locked_until_ms,
                )
                return prefix + kept.encoded if kept.count else prefix
            encoded = _pack_locked(
                _ENQUEUED_TIME_KEY,
                enqueued_time_ms,
                _SEQUENCE_NUMBER_KEY,
                sequence_number,
                _LOCKED_UNTIL_KEY,
                locked_until_ms,
            )
        except struct.error as error:
            raise EncodeError(f"an annotation of the delivery is out of range: {error}") from None
        token = Entries(_LOCK_TOKEN_KEY + lock_token, 2).followed_by(self.delivery_annotations)
        annotations = Entries(encoded, 6).followed_by(kept)
        return header + token.to_section(DELIVERY_ANNOTATIONS) + annotations.to_section(MESSAGE_ANNOTATIONS)

    def handed_out_prefix(
        self, delivery_count: int, sequence_number: int, enqueued_time_ms: int, further: Entries = NO_ENTRIES
    ) -> bytes:
        """Return what goes before `bare` when a message is removed as it is delivered."""
        annotations = self._unlocked_annotations(sequence_number, enqueued_time_ms, further)
        sender = self.delivery_annotations.to_section(DELIVERY_ANNOTATIONS) or _NO_DELIVERY_ANNOTATIONS
        return self._header(delivery_count) + sender + annotations

    def unlocked_prefix(
        self, delivery_count: int, sequence_number: int, enqueued_time_ms: int, further: Entries = NO_ENTRIES
    ) -> bytes:
        """Return what goes before `bare` when a message is browsed."""
        annotations = self._unlocked_annotations(sequence_number, enqueued_time_ms, further)
        sender = self.delivery_annotations.to_section(DELIVERY_ANNOTATIONS)
        return self._header(delivery_count) + sender + annotations

    def _unlocked_annotations(self, sequence_number: int, enqueued_time_ms: int, further: Entries) -> bytes:
        try:
            encoded = _pack_unlocked(_ENQUEUED_TIME_KEY, enqueued_time_ms, _SEQUENCE_NUMBER_KEY, sequence_number)
        except struct.error as error:
            raise EncodeError(f"an annotation of the delivery is out of range: {error}") from None
        annotations = Entries(encoded, 4).followed_by(further).followed_by(self.message_annotations)
        return annotations.to_section(MESSAGE_ANNOTATIONS)

    def modified(self, changes: Mapping[str, object]) -> Stored:
        """With application properties set anew, as a receiver may ask when it gives a message back."""
        return self.with_bare(with_application_properties(self.bare, changes))

    def with_bare(self, bare: bytes) -> Stored:
        """The same with another bare message. Parts are shared between messages, so none is ever changed."""
        return self._with_bare(bare, b"")

    def with_front(self, front: bytes) -> Stored:
        """The same with another front."""
        return self._with_bare(front, self.tail)

    def _with_bare(self, front: bytes, tail: bytes) -> Stored:
        return Stored(self.header_fields, self.delivery_annotations, self.message_annotations, front, tail)

    def with_time_to_live(self, ttl_ms: int) -> Stored:
        """The same with another time to live in its header, as far as a header can say it."""
        values: list[object] = []
        offset = 0
        while offset < len(self.header_fields):
            value, offset = decode(self.header_fields, offset, len(self.header_fields))
            values.append(value)
        durable, priority, _, first_acquirer = values
        header = Header(
            durable if isinstance(durable, bool) else None,
            int(priority) if isinstance(priority, int) else None,
            min(ttl_ms, _MAX_UINT),
            first_acquirer if isinstance(first_acquirer, bool) else None,
        )
        fields = _header_fields(header)
        return Stored(fields, self.delivery_annotations, self.message_annotations, self.front, self.tail)

    def with_lifetime(self, creation_time_ms: int, ttl_ms: int) -> Stored:
        """The same with the time to live that its entity grants, and with the two times that follow from it.

        Clients compute the time to live from the times if both are set, since it fits the header only up to 49 days.
        """
        bare = with_lifetime(self.bare, creation_time_ms, creation_time_ms + ttl_ms)
        return self.with_time_to_live(ttl_ms).with_bare(bare)

    def with_annotations(self, changes: Mapping[str, object]) -> Stored:
        """The same with some message annotations set anew or, by None, taken away, and others as they were."""
        section = self.message_annotations.to_section(MESSAGE_ANNOTATIONS)
        kept = locate(section).entries(MESSAGE_ANNOTATIONS, {key.encode() for key in changes})
        fresh = Entries.with_symbol_keys({key: value for key, value in changes.items() if value is not None})
        annotations = kept.followed_by(fresh)
        return Stored(self.header_fields, self.delivery_annotations, annotations, self.front, self.tail)

    def _header(self, delivery_count: int) -> bytes:
        fields = self.header_fields + _uint(delivery_count)
        return _HEADER_START[len(fields)] + fields


def prepare(message: Message) -> Stored:
    """Split a received message. The header is decoded and the annotations are walked through, nothing else is."""
    return prepare_with_ttl(message)[0]


def prepare_with_ttl(message: Message) -> tuple[Stored, int | None]:
    """The same, and the time to live in milliseconds that the header asks for."""
    sections = message.sections
    start, end = sections.value_span(HEADER)
    header_fields = _NO_HEADER_FIELDS
    ttl_ms: int | None = None
    if start >= 0:
        encoded = sections.payload[start:end]
        known = _HEADERS.get(encoded)
        if known is None:
            known = _learn_header(message, encoded)
        header_fields, ttl_ms = known
    stored = Stored(
        header_fields,
        sections.entries(DELIVERY_ANNOTATIONS, BROKER_ANNOTATIONS),
        sections.entries(MESSAGE_ANNOTATIONS, BROKER_ANNOTATIONS),
        sections.bare(),
    )
    return stored, ttl_ms


# What the last headers came down to: all messages of a sender have the same few.
_HEADERS: Final[dict[bytes, tuple[bytes, int | None]]] = {}
_MAX_HEADERS: Final = 256


def _learn_header(message: Message, encoded: bytes) -> tuple[bytes, int | None]:
    header = message.header
    assert header is not None
    if len(_HEADERS) >= _MAX_HEADERS:
        _HEADERS.clear()
    known = _HEADERS[encoded] = (_header_fields(header), header.ttl_ms)
    return known


def _header_fields(header: Header) -> bytes:
    priority = _NULL if header.priority is None else bytes((0x50, header.priority))
    ttl = _NULL if header.ttl_ms is None else _uint(header.ttl_ms)
    return _boolean(header.durable) + priority + ttl + _boolean(header.first_acquirer)


def _boolean(flag: bool | None) -> bytes:
    if flag is None:
        return _NULL
    return b"\x41" if flag else b"\x42"


def _uint(number: int) -> bytes:
    if 0 <= number < 256:
        return _SMALL_UINT[number]
    if 0 <= number <= 0xFFFF_FFFF:
        return b"\x70" + number.to_bytes(4, "big")
    raise EncodeError(f"{number} is not within the 0 to 4294967295 of a uint")
