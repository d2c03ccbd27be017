"""The sections of a message (AMQP 1.0 part 3.2), found by skipping: where each one lies, not what it says.

A message is a run of described values. The specification gives them one order

    header  delivery-annotations  message-annotations | properties  application-properties  body  | footer
    0x70    0x71                  0x72                | 0x73        0x74  data 0x75               | 0x78
                                                      |                   amqp-sequence 0x76      |
                                                      |                   amqp-value 0x77         |

and the official Python SDK writes delivery-annotations last, so any order is accepted. What lies between the bars is
the bare message, which no broker may change. Nothing here looks into a section: its size is all that is read.

Annotations are worked on as `Entries`: encoded keys and values without the map around them. Entries of a sender and
entries of a broker make one map by concatenation, with a size and a count put in front; no value is ever decoded.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Set
from typing import Final

from tandem.amqp.decimals import to_service_layout
from tandem.amqp.decode import decode, skip
from tandem.amqp.encode import encode
from tandem.amqp.types import Symbol, ULong
from tandem.errors import DecodeError
from tandem.limits import MAX_MESSAGES_PER_BATCH

__all__ = [
    "AMQP_SEQUENCE",
    "AMQP_VALUE",
    "APPLICATION_PROPERTIES",
    "DATA",
    "DECIMAL128",
    "DELIVERY_ANNOTATIONS",
    "FOOTER",
    "HEADER",
    "MESSAGE_ANNOTATIONS",
    "NO_ENTRIES",
    "PROPERTIES",
    "SECTION_NAMES",
    "Entries",
    "Sections",
    "data_section",
    "data_start",
    "locate",
    "symbol_key",
]

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

SECTION_NAMES: Final = {
    HEADER: "header",
    DELIVERY_ANNOTATIONS: "delivery-annotations",
    MESSAGE_ANNOTATIONS: "message-annotations",
    PROPERTIES: "properties",
    APPLICATION_PROPERTIES: "application-properties",
    DATA: "data",
    AMQP_SEQUENCE: "amqp-sequence",
    AMQP_VALUE: "amqp-value",
    FOOTER: "footer",
}

# Peers may name a section by symbol instead of by number (part 1.2).
_BY_SYMBOL: Final[dict[str, int]] = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": AMQP_SEQUENCE,
    "amqp:amqp-value:*": AMQP_VALUE,
    "amqp:footer:map": FOOTER,
}

# What a section holds, by the constructors that may follow its descriptor and how many bytes of size each one has.
_LIST: Final = {0x45: 0, 0xC0: 1, 0xD0: 4}
_MAP: Final = {0xC1: 1, 0xD1: 4}
_BINARY: Final = {0xA0: 1, 0xB0: 4}
_STRING: Final = {0xA1: 1, 0xB1: 4}
# One SDK writes an empty body as a section that holds null.
_NULL: Final = {0x40: 0}
_CONTENTS: Final = {
    HEADER: ("a list", _LIST),
    DELIVERY_ANNOTATIONS: ("a map", _MAP),
    MESSAGE_ANNOTATIONS: ("a map", _MAP),
    PROPERTIES: ("a list", _LIST),
    APPLICATION_PROPERTIES: ("a map", _MAP),
    DATA: ("a binary", {**_BINARY, **_NULL}),
    AMQP_SEQUENCE: ("a list", {**_LIST, **_NULL}),
    # Any value; these are the usual ones, the others are skipped by the decoder.
    AMQP_VALUE: ("a value", {**_LIST, **_MAP, **_BINARY, **_STRING}),
    FOOTER: ("a map", _MAP),
}
# The two tables in one, so that one look-up at descriptor << 8 | constructor judges both: the bytes of size that
# follow, or _UNUSUAL.
_UNUSUAL: Final = 0xFF
_SIZE_WIDTH: Final = bytes(
    [
        _CONTENTS[code][1].get(constructor, _UNUSUAL) if code in _CONTENTS else _UNUSUAL
        for code in range(256)
        for constructor in range(256)
    ]
)

_SIZE_AND_COUNT: Final = struct.Struct(">II")

# Start, value and end of each section of the body. 65,536 data sections cost a fresh message 8 MB, and no more.
_MAX_BODY_SPANS: Final = 3 * MAX_MESSAGES_PER_BATCH

# Places in `Sections.spans`: start, value and end of each of the nine kinds of section.
_NO_SPANS: Final = [-1] * 27
_FOOTER_SPAN: Final = 3 * (FOOTER - HEADER)
_BARE: Final = (PROPERTIES, APPLICATION_PROPERTIES, DATA, AMQP_SEQUENCE, AMQP_VALUE, FOOTER)

# The constructor of a decimal128.
DECIMAL128: Final = b"\x94"

_NOTHING_DROPPED: Final[frozenset[bytes]] = frozenset()


def symbol_key(name: str, constructor: bytes) -> bytes:
    """A symbol of less than 256 characters, and the constructor of the value that follows it."""
    return bytes((0xA3, len(name))) + name.encode() + constructor


class Entries:
    """Keys and values of a map, encoded, without the map around them. `count` counts both, as the wire does."""

    __slots__ = ("count", "encoded")

    def __init__(self, encoded: bytes, count: int) -> None:
        self.encoded = encoded
        self.count = count

    @staticmethod
    def with_symbol_keys(pairs: Mapping[str, object]) -> Entries:
        """For annotations and footer, whose keys are symbols (part 3.2.10)."""
        return _encoded_entries({Symbol(key): value for key, value in pairs.items()})

    @staticmethod
    def with_string_keys(pairs: Mapping[str, object]) -> Entries:
        """For application-properties, whose keys are strings (part 3.2.5)."""
        # str() also of a symbol: properties to modify arrive with the keys of an annotations map.
        return _encoded_entries({str(key): value for key, value in pairs.items()})

    def with_service_decimals(self) -> Entries:
        """The same entries with each decimal128 in the layout that the official SDKs read."""
        # Searching for the byte is cheap, and nearly always shows that there is nothing to do.
        return self if DECIMAL128 not in self.encoded else _with_service_decimals(self)

    def followed_by(self, other: Entries) -> Entries:
        """Both in one map. That no key is in both is the caller's care."""
        if not other.count:
            return self
        return Entries(self.encoded + other.encoded, self.count + other.count) if self.count else other

    def to_section(self, code: int) -> bytes:
        """The section with this descriptor, or nothing when there are no entries."""
        if not self.count:
            return b""
        size = len(self.encoded) + 1
        if size < 256:
            # Each entry takes a byte or more, so the count fits into one byte as well.
            return bytes((0x00, 0x53, code, 0xC1, size, self.count)) + self.encoded
        return bytes((0x00, 0x53, code, 0xD1)) + _SIZE_AND_COUNT.pack(size + 3, self.count) + self.encoded


NO_ENTRIES: Final = Entries(b"", 0)


def _with_service_decimals(entries: Entries) -> Entries:
    encoded = entries.encoded
    end = len(encoded)
    pieces: list[bytes] = []
    copied = at = 0
    for _ in range(entries.count // 2):
        value = skip(encoded, at, end)
        at = skip(encoded, value, end)
        if encoded[value] == DECIMAL128[0]:
            pieces += (encoded[copied : value + 1], to_service_layout(encoded[value + 1 : at]))
            copied = at
    pieces.append(encoded[copied:])
    return Entries(b"".join(pieces), entries.count)


def _encoded_entries(pairs: dict[str, object]) -> Entries:
    # Encoded as the map that they will be part of, which counts towards the limit of nesting; then the map is cut off.
    encoded = encode(pairs)
    return Entries(encoded[3 if encoded[0] == 0xC1 else 9 :], 2 * len(pairs))


class Sections:
    """Where the sections of `payload` lie.

    A span is three offsets: of the section, of the value behind its descriptor, and of what follows it. `spans` has
    them one after the other in the order of the descriptors, -1 where there is no such section. Those of the body are
    in `body_spans` instead, flat in the same way, because there may be many. `body_code` is DATA, AMQP_SEQUENCE,
    AMQP_VALUE, or 0 when the message has no body. `is_canonical` says that the sections have the specification's order
    and the three-byte descriptors 00 53 7x, which some SDKs count on when they read.
    """

    __slots__ = ("body_code", "body_spans", "is_canonical", "payload", "spans")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.is_canonical: bool = True
        self.spans: list[int] = _NO_SPANS.copy()
        self.body_code: int = 0
        self.body_spans: list[int] = []

    def raw(self, code: int) -> bytes:
        """One section with its descriptor, or b""; all sections of the body for the descriptor of its kind."""
        if DATA <= code <= AMQP_VALUE:
            spans = self.body_spans if code == self.body_code else []
        else:
            at = 3 * (code - HEADER)
            spans = self.spans[at : at + 3] if self.spans[at] >= 0 else []
        descriptor = bytes((0x00, 0x53, code))
        return b"".join([descriptor + self.payload[spans[at + 1] : spans[at + 2]] for at in range(0, len(spans), 3)])

    def value_span(self, code: int) -> tuple[int, int]:
        """Where the value of a section that is not of the body begins and ends; (-1, -1) if there is none."""
        at = 3 * (code - HEADER)
        return self.spans[at + 1], self.spans[at + 2]

    def bare(self) -> bytes:
        """Return the bare message and the footer, in the order of the specification and with the usual descriptors.

        The keys of the footer are symbols, as the specification wants them.
        """
        spans = self.spans
        if self.is_canonical:
            # As nearly every sender writes it: the bare message is what follows the header and annotations.
            bare = self.payload[max(0, spans[2], spans[5], spans[8]) :]
        else:
            bare = b"".join([self.raw(code) for code in _BARE])
        value, end = spans[_FOOTER_SPAN + 1], spans[_FOOTER_SPAN + 2]
        return bare if value < 0 else bare[: value - end] + _with_symbol_keys(self.payload, value, end)

    def entries(self, code: int, dropped: Set[bytes] = _NOTHING_DROPPED) -> Entries:
        """The entries of a map section as they were received, without those whose key, as text, is in `dropped`."""
        at = 3 * (code - HEADER)
        if self.spans[at] < 0:
            return NO_ENTRIES
        return _entries(self.payload, self.spans[at + 1], self.spans[at + 2], dropped)

    def body_start(self) -> int:
        """The offset of the first section of body or footer: where a section that belongs before them can be put."""
        if self.body_spans:
            return self.body_spans[0]
        footer = self.spans[_FOOTER_SPAN]
        return len(self.payload) if footer < 0 else footer


def data_section(octets: bytes) -> bytes:
    """The only section that is often large: written without the general encoder, and so with a single copy."""
    size = len(octets)
    if size < 256:
        return bytes((0x00, 0x53, DATA, 0xA0, size)) + octets
    return b"\x00\x53\x75\xb0" + size.to_bytes(4, "big") + octets


def data_start(payload: bytes, value: int) -> int:
    """Return where the octets of a data section begin, given the offset of its value. A null has none."""
    constructor = payload[value]
    if constructor == 0xA0:
        return value + 2
    return value + 1 if constructor == 0x40 else value + 5


def locate(payload: bytes) -> Sections:
    """One pass over the sections of a message. DecodeError names the offset of the section that is wrong."""
    sections = Sections(payload)
    spans = sections.spans
    body_spans = sections.body_spans
    size_width = _SIZE_WIDTH
    end = len(payload)
    offset = 0
    last_code = 0
    try:
        while offset < end:
            # Every SDK writes descriptors as smallulong: 00 53 7x. Indexing past the last byte raises IndexError.
            if payload[offset] == 0x00 and payload[offset + 1] == 0x53:
                code = payload[offset + 2]
                value = offset + 3
            else:
                code, value = _unusual_descriptor(payload, offset, end)
                sections.is_canonical = False
            if code < last_code:
                sections.is_canonical = False
            last_code = code
            width = size_width[code << 8 | payload[value]]
            if width == 1:
                stop = value + 2 + payload[value + 1]
            elif width == 4:
                stop = (payload[value + 1] << 24) + (payload[value + 2] << 16)
                stop += (payload[value + 3] << 8) + payload[value + 4] + value + 5
            elif width == 0:
                stop = value + 1
            else:
                stop = _unusual_value(payload, offset, code, value, end)
            if stop > end:
                raise DecodeError(f"message section at offset {offset} ends at {stop}, the message at {end}")
            if DATA <= code <= AMQP_VALUE:
                if code != sections.body_code or code == AMQP_VALUE:
                    _begin_body(sections, code, offset)
                elif len(body_spans) >= _MAX_BODY_SPANS:
                    raise DecodeError(
                        f"message section at offset {offset} is one more {SECTION_NAMES[code]} than the "
                        f"{MAX_MESSAGES_PER_BATCH} a message may have"
                    )
                body_spans += (offset, value, stop)
            else:
                at = 3 * (code - HEADER)
                if spans[at] >= 0:
                    raise DecodeError(f"message section at offset {offset} is a second {SECTION_NAMES[code]}")
                spans[at] = offset
                spans[at + 1] = value
                spans[at + 2] = stop
            offset = stop
    except IndexError:
        raise DecodeError(f"message section at offset {offset} is cut off by the message's end at {end}") from None
    return sections


def _unusual_descriptor(payload: bytes, offset: int, end: int) -> tuple[int, int]:
    """Descriptor of a section that does not begin with 00 53, and the offset of its value."""
    if payload[offset] != 0x00:
        raise DecodeError(f"a message section was expected at offset {offset}, found 0x{payload[offset]:02x}")
    descriptor, value = decode(payload, offset + 1, end)
    code: int | None = None
    if isinstance(descriptor, ULong):
        code = int(descriptor)
    elif isinstance(descriptor, Symbol):
        code = _BY_SYMBOL.get(descriptor)
    if code is None or code not in _CONTENTS:
        raise DecodeError(f"message section at offset {offset} has the unknown descriptor {descriptor!r:.80}")
    return code, value


def _unusual_value(payload: bytes, offset: int, code: int, value: int, end: int) -> int:
    """The end of a section whose constructor is not one of the usual ones: only an amqp-value may have it."""
    if code == AMQP_VALUE:
        return skip(payload, value, end)
    if code not in _CONTENTS:
        raise DecodeError(f"message section at offset {offset} has the unknown descriptor 0x{code:02x}")
    raise DecodeError(
        f"message section at offset {offset}: {SECTION_NAMES[code]} must hold {_CONTENTS[code][0]}, "
        f"found constructor 0x{payload[value]:02x}"
    )


def _begin_body(sections: Sections, code: int, offset: int) -> None:
    """A body is one amqp-value, or some data sections, or some amqp-sequence sections (part 3.2)."""
    if sections.body_code == code:
        raise DecodeError(f"message section at offset {offset} is a second {SECTION_NAMES[code]}")
    if sections.body_code:
        other = SECTION_NAMES[sections.body_code]
        raise DecodeError(f"message section at offset {offset} is {SECTION_NAMES[code]} in a body of {other}")
    sections.body_code = code


def _entries(payload: bytes, offset: int, end: int, dropped: Set[bytes]) -> Entries:
    """The entries of the map between `offset` and `end`, which `locate` has found to be a map."""
    count, first = _count_and_first(payload, offset, end)
    at = first
    kept_count = count
    pieces: list[bytes] = []
    for _ in range(count // 2):
        if end - at >= 2 and payload[at] == 0xA3:
            behind_key = at + 2 + payload[at + 1]
        else:
            behind_key = skip(payload, at, end)
        behind_value = skip(payload, behind_key, end)
        if dropped and _text(payload, at, behind_key) in dropped:
            pieces.append(payload[first:at])
            first = behind_value
            kept_count -= 2
        at = behind_value
    if at != end or count % 2:
        raise DecodeError(f"map at offset {offset} holds {count} keys and values that end at {at}, its size says {end}")
    pieces.append(payload[first:end])
    return Entries(b"".join(pieces), kept_count)


def _with_symbol_keys(payload: bytes, offset: int, end: int) -> bytes:
    """Return the map between `offset` and `end` with each key that is an ASCII string as a symbol (part 3.2.10).

    The Java SDK writes the keys of a footer as strings, and fails to read any that is not a symbol. Both take the same
    bytes behind their constructor. A map that is not valid AMQP stays as it is.
    """
    changed = bytearray(payload[offset:end])
    try:
        count, at = _count_and_first(payload, offset, end)
        for _ in range(count // 2):
            behind_key = skip(payload, at, end)
            text = _text(payload, at, behind_key)
            if text is not None and text.isascii():
                # 0xA1 and 0xB1 become 0xA3 and 0xB3.
                changed[at - offset] |= 0x02
            at = skip(payload, behind_key, end)
    except DecodeError:
        return payload[offset:end]
    return bytes(changed)


def _count_and_first(payload: bytes, offset: int, end: int) -> tuple[int, int]:
    """How many keys and values the map at `offset` has, and where the first one is."""
    if payload[offset] == 0xC1:
        counted_at, first = offset + 2, offset + 3
    else:
        counted_at, first = offset + 5, offset + 9
    if first > end:
        raise DecodeError(f"map at offset {offset} has a size too small for its own count")
    return int.from_bytes(payload[counted_at:first], "big"), first


def _text(payload: bytes, start: int, end: int) -> bytes | None:
    """The characters of the key between `start` and `end`, None for a key that is not a symbol or string."""
    # 0xA1 and 0xB1 are strings, 0xA3 and 0xB3 are symbols, with one and four bytes of size.
    constructor = payload[start] & 0xFD
    if constructor == 0xA1:
        return payload[start + 2 : end]
    return payload[start + 5 : end] if constructor == 0xB1 else None
