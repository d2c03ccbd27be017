"""Delivery states, termini and performatives for tests: strategies for them, and every encoding a peer may choose."""

from __future__ import annotations

import struct
from typing import Final

from hypothesis import strategies as st

from tandem.amqp.delivery_states import (
    ACCEPTED,
    RELEASED,
    AmqpError,
    Declared,
    DeliveryState,
    Modified,
    Received,
    Rejected,
    TransactionalState,
    UnknownState,
)
from tandem.amqp.encode import encode
from tandem.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
)
from tandem.amqp.terminus import Coordinator, Source, Target
from tandem.amqp.types import Described, Symbol, UInt, ULong
from tests.amqp.values import TEXTS, scalars, values

MAX_UINT: Final = 2**32 - 1

# --- Strategies -------------------------------------------------------------------------------------------------


def _numbers(bits: int) -> st.SearchStrategy[int]:
    """Any number, with those at which the encoding changes more often than chance would have them."""
    most = 2**bits - 1
    edges = [number for number in (0, 1, 127, 128, 255, 256, 2**31, most) if number <= most]
    return st.one_of(st.sampled_from(edges), st.integers(0, most))


ubytes: Final = _numbers(8)
ushorts: Final = _numbers(16)
uints: Final = _numbers(32)
ulongs: Final = _numbers(64)
symbols: Final = st.text(st.characters(max_codepoint=127), max_size=40).map(Symbol)
symbol_lists: Final = st.none() | st.lists(symbols, max_size=3)
_keys: Final[st.SearchStrategy[object]] = symbols
maps: Final = st.none() | st.dictionaries(_keys, scalars | values, max_size=3)
flags: Final = st.booleans()
binaries: Final = st.binary(max_size=32) | st.binary(max_size=300)

errors: Final = st.builds(AmqpError, symbols, st.none() | TEXTS, maps)
outcomes: Final[st.SearchStrategy[DeliveryState]] = st.one_of(
    st.just(ACCEPTED),
    st.just(RELEASED),
    st.builds(Rejected, st.none() | errors),
    st.builds(Modified, st.none() | flags, st.none() | flags, maps),
)
# A code that no state of the specification has.
_unknown_states: Final = st.builds(
    lambda descriptor, fields: UnknownState(Described(descriptor, fields)),
    st.just(ULong(0x9_0000)) | st.just(Symbol("com.example:pending:list")),
    st.lists(scalars, max_size=3),
)
states: Final[st.SearchStrategy[DeliveryState]] = st.one_of(
    outcomes,
    st.builds(Received, uints, ulongs),
    st.builds(Declared, binaries),
    st.builds(TransactionalState, binaries, st.none() | outcomes),
    _unknown_states,
)

_terminus: Final = {
    "address": st.none() | TEXTS,
    "durable": uints,
    "expiry_policy": symbols.filter(bool),
    "timeout_s": uints,
    "dynamic": flags,
    "dynamic_node_properties": maps,
    "capabilities": symbol_lists,
}
sources: Final = st.builds(
    Source,
    **_terminus,
    distribution_mode=st.none() | symbols,
    filter=maps,
    default_outcome=st.none() | outcomes,
    outcomes=symbol_lists,
)
targets: Final = st.builds(Target, **_terminus)
coordinators: Final = st.builds(Coordinator, symbol_lists)

opens: Final = st.builds(
    Open,
    TEXTS,
    st.none() | TEXTS,
    uints,
    ushorts,
    st.none() | uints,
    symbol_lists,
    symbol_lists,
    symbol_lists,
    symbol_lists,
    maps,
)
begins: Final = st.builds(Begin, st.none() | ushorts, uints, uints, uints, uints, symbol_lists, symbol_lists, maps)
attaches: Final = st.builds(
    Attach,
    TEXTS,
    uints,
    flags,
    st.none() | ubytes,
    st.none() | ubytes,
    st.none() | sources,
    st.none() | targets | coordinators,
    maps,
    flags,
    st.none() | uints,
    st.none() | ulongs,
    symbol_lists,
    symbol_lists,
    maps,
)
flows: Final = st.builds(
    Flow,
    st.none() | uints,
    uints,
    uints,
    uints,
    st.none() | uints,
    st.none() | uints,
    st.none() | uints,
    st.none() | uints,
    flags,
    flags,
    maps,
)
transfers: Final = st.builds(
    Transfer,
    uints,
    st.none() | uints,
    st.none() | binaries,
    st.none() | uints,
    st.none() | flags,
    flags,
    st.none() | ubytes,
    st.none() | states,
    flags,
    flags,
    flags,
)
dispositions: Final = st.builds(
    Disposition, flags, uints, st.none() | uints, flags, st.none() | st.just(ACCEPTED) | states, flags
)
detaches: Final = st.builds(Detach, uints, flags, st.none() | errors)
ends: Final = st.builds(End, st.none() | errors)
closes: Final = st.builds(Close, st.none() | errors)

performatives: Final[st.SearchStrategy[Performative]] = st.one_of(
    opens, begins, attaches, flows, transfers, dispositions, detaches, ends, closes
)

# --- Encodings --------------------------------------------------------------------------------------------------

# Flags that are false when they are absent, by position.
_OPTIONAL_FLAGS: Final[dict[type[Performative], tuple[int, ...]]] = {
    Transfer: (5, 8, 9, 10),
    Disposition: (3, 5),
    Flow: (8, 9),
}


def _uint_spellings(value: int) -> list[bytes]:
    found = [struct.pack(">BI", 0x70, value)]
    if value <= 255:
        found.append(bytes([0x52, value]))
    if value == 0:
        found.append(b"\x43")
    return found


def _ulong_spellings(value: int) -> list[bytes]:
    found = [struct.pack(">BQ", 0x80, value)]
    if value <= 255:
        found.append(bytes([0x53, value]))
    if value == 0:
        found.append(b"\x44")
    return found


def _octets_spellings(small_code: int, octets: bytes) -> list[bytes]:
    found = [struct.pack(">BI", small_code + 0x10, len(octets)) + octets]
    if len(octets) <= 255:
        found.append(bytes([small_code, len(octets)]) + octets)
    return found


def list_spellings(elements: list[bytes]) -> list[bytes]:
    """list8 first where the elements fit it, then list32, then list0 where there are none."""
    contents = b"".join(elements)
    found = [struct.pack(">BII", 0xD0, len(contents) + 4, len(elements)) + contents]
    if len(contents) <= 254 and len(elements) <= 255:
        found.insert(0, bytes([0xC0, len(contents) + 1, len(elements)]) + contents)
    if not elements:
        found.append(b"\x45")
    return found


@st.composite
def spellings(draw: st.DrawFn, value: object) -> bytes:
    """One of the encodings of a value. Maps and arrays, which no tuned codec looks into, have only ours."""
    if isinstance(value, bool):
        return draw(st.sampled_from([b"\x41", b"\x56\x01"] if value else [b"\x42", b"\x56\x00"]))
    if isinstance(value, UInt):
        return draw(st.sampled_from(_uint_spellings(value)))
    if isinstance(value, ULong):
        return draw(st.sampled_from(_ulong_spellings(value)))
    if isinstance(value, bytes):
        return draw(st.sampled_from(_octets_spellings(0xA0, value)))
    if isinstance(value, Symbol):
        return draw(st.sampled_from(_octets_spellings(0xA3, value.encode())))
    if isinstance(value, Described):
        return b"\x00" + draw(spellings(value.descriptor)) + draw(spellings(value.value))
    if isinstance(value, list):
        return draw(st.sampled_from(list_spellings([draw(spellings(item)) for item in value])))
    return encode(value)


def descriptor_spellings(code: int, name: str) -> list[bytes]:
    """`00 53 code` first, which the tuned codecs are made for."""
    symbol = f"amqp:{name}:list".encode()
    numbers = sorted(_ulong_spellings(code), key=len)
    return [b"\x00" + spelling for spelling in [*numbers, *_octets_spellings(0xA3, symbol)]]


@st.composite
def spelled(draw: st.DrawFn, performative: Performative, descriptors: list[bytes]) -> bytes:
    """A performative as some peer would write it: any width, defaults as null, and nulls left out at the end."""
    fields = performative.values()
    for index in _OPTIONAL_FLAGS.get(type(performative), ()):
        if fields[index] is False and draw(st.booleans()):
            fields[index] = None
    if draw(st.booleans()):
        while fields and fields[-1] is None:
            fields.pop()
    elements = [draw(spellings(field)) for field in fields]
    return draw(st.sampled_from(descriptors)) + draw(st.sampled_from(list_spellings(elements)))


@st.composite
def mutated(draw: st.DrawFn, data: bytes, keep: int) -> bytes:
    """`data` with up to four octets changed, added or removed, none of them among the first `keep`."""
    octets = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(keep, len(octets)))
        # Octets removed, and octets put in their place.
        removed = draw(st.sampled_from([0, 1, len(octets)]))
        octets[position : position + removed] = draw(st.binary(max_size=1))
    return bytes(octets)
