"""Hypothesis strategies for the parts of a message, and a comparison that sees AMQP types."""

from __future__ import annotations

import string

from hypothesis import strategies as st

from tandem.amqp.encode import encode
from tandem.amqp.message import Header, Properties, encode_message
from tandem.amqp.types import Array, Described, Int, Symbol, Timestamp, UByte, UInt, ULong

UINTS = st.integers(0, 2**32 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
SYMBOLS = st.text(string.ascii_letters + string.digits + "-_.:", max_size=40)
STRINGS = st.text(max_size=40)

SIMPLE_VALUES: st.SearchStrategy[object] = st.one_of(
    st.none(),
    st.booleans(),
    LONGS,
    st.integers(0, 255).map(UByte),
    UINTS.map(UInt),
    st.integers(0, 2**64 - 1).map(ULong),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    LONGS.map(Timestamp),
    st.floats(allow_nan=False),
    STRINGS,
    st.binary(max_size=300),
    st.uuids(),
    SYMBOLS.map(Symbol),
    st.builds(Described, SYMBOLS.map(Symbol), STRINGS),
)
VALUES: st.SearchStrategy[object] = st.recursive(
    SIMPLE_VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(STRINGS, inner, max_size=4),
        st.lists(STRINGS, max_size=3).map(lambda items: Array("string", items)),
    ),
    max_leaves=8,
)
ANNOTATIONS = st.dictionaries(SYMBOLS, VALUES, max_size=4)
APPLICATION_PROPERTIES = st.dictionaries(STRINGS, SIMPLE_VALUES, max_size=4)
MESSAGE_IDS = st.one_of(STRINGS, st.binary(max_size=40), st.integers(0, 2**64 - 1), st.uuids())

HEADERS = st.builds(
    Header,
    durable=st.none() | st.booleans(),
    priority=st.none() | st.integers(0, 255),
    ttl_ms=st.none() | UINTS,
    first_acquirer=st.none() | st.booleans(),
    delivery_count=UINTS,
)
PROPERTIES = st.builds(
    Properties,
    message_id=st.none() | MESSAGE_IDS,
    user_id=st.none() | st.binary(max_size=40),
    to=st.none() | STRINGS,
    subject=st.none() | STRINGS,
    reply_to=st.none() | STRINGS,
    correlation_id=st.none() | MESSAGE_IDS,
    content_type=st.none() | SYMBOLS,
    content_encoding=st.none() | SYMBOLS,
    absolute_expiry_time=st.none() | LONGS,
    creation_time=st.none() | LONGS,
    group_id=st.none() | STRINGS,
    group_sequence=st.none() | UINTS,
    reply_to_group_id=st.none() | STRINGS,
)

# The sections of one message in canonical order, each encoded by itself. An absent section is b"".
BODIES: st.SearchStrategy[list[bytes]] = st.one_of(
    st.just([]),
    st.lists(st.binary(max_size=300).map(lambda octets: encode_message(data=octets)), max_size=3),
    st.lists(st.lists(VALUES, max_size=3).map(lambda items: encode_message(sequence=items)), max_size=3),
    VALUES.map(lambda value: [encode_message(value=value)]),
)


@st.composite
def section_lists(draw: st.DrawFn) -> list[bytes]:
    """All sections of a message, in canonical order."""
    sections = [
        draw(st.just(b"") | HEADERS.map(Header.encode)),
        encode_message(delivery_annotations=draw(ANNOTATIONS)),
        encode_message(message_annotations=draw(ANNOTATIONS)),
        draw(st.just(b"") | PROPERTIES.map(Properties.encode)),
        encode_message(application_properties=draw(APPLICATION_PROPERTIES)),
        *draw(BODIES),
        encode_message(footer=draw(ANNOTATIONS)),
    ]
    return [section for section in sections if section]


def is_same(left: object, right: object) -> bool:
    """Equality with AMQP's types: UInt(1) is not the long 1."""
    return encode(left) == encode(right)
