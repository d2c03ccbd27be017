from __future__ import annotations

import contextlib
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.encode import encode
from tandem.amqp.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    NO_ENTRIES,
    PROPERTIES,
    SECTION_NAMES,
    Entries,
    Sections,
    data_section,
    locate,
)
from tandem.amqp.types import Symbol, ULong
from tandem.errors import DecodeError
from tandem.limits import MAX_MESSAGES_PER_BATCH
from tests.amqp.message_strategies import ANNOTATIONS, VALUES, section_lists
from tests.markers import spec

HEADER_BYTES = bytes.fromhex("005370 c00605 4040404043")
DELIVERY_ANNOTATIONS_BYTES = bytes.fromhex("005371 c10502 a3017841")
MESSAGE_ANNOTATIONS_BYTES = bytes.fromhex("005372 d100000008 00000002 a3017941")
PROPERTIES_BYTES = bytes.fromhex("005373 c00e0d") + b"\x40" * 13
APPLICATION_PROPERTIES_BYTES = bytes.fromhex("005374 c10502 a1017a42")
DATA_BYTES = bytes.fromhex("005375 a003 616263")
FOOTER_BYTES = bytes.fromhex("005378 c10502 a3017742")

ALL = {
    HEADER: HEADER_BYTES,
    DELIVERY_ANNOTATIONS: DELIVERY_ANNOTATIONS_BYTES,
    MESSAGE_ANNOTATIONS: MESSAGE_ANNOTATIONS_BYTES,
    PROPERTIES: PROPERTIES_BYTES,
    APPLICATION_PROPERTIES: APPLICATION_PROPERTIES_BYTES,
    DATA: DATA_BYTES,
    FOOTER: FOOTER_BYTES,
}
SYMBOLS = {
    HEADER: "amqp:header:list",
    DELIVERY_ANNOTATIONS: "amqp:delivery-annotations:map",
    MESSAGE_ANNOTATIONS: "amqp:message-annotations:map",
    PROPERTIES: "amqp:properties:list",
    APPLICATION_PROPERTIES: "amqp:application-properties:map",
    DATA: "amqp:data:binary",
    AMQP_SEQUENCE: "amqp:amqp-sequence:list",
    AMQP_VALUE: "amqp:amqp-value:*",
    FOOTER: "amqp:footer:map",
}
ONE_OF_EACH_BODY = {
    DATA: DATA_BYTES,
    AMQP_SEQUENCE: bytes.fromhex("005376 c0020141"),
    AMQP_VALUE: bytes.fromhex("005377 a10161"),
}
EACH_KIND = {**ALL, **ONE_OF_EACH_BODY}


def span(sections: Sections, code: int) -> tuple[int, int, int]:
    at = 3 * (code - HEADER)
    start, value, end = sections.spans[at : at + 3]
    return start, value, end


def test_every_section_is_located_by_its_offsets() -> None:
    payload = b"".join(ALL.values())
    sections = locate(payload)
    offset = 0
    for code, section in ALL.items():
        expected = (offset, offset + 3, offset + len(section))
        assert (tuple(sections.body_spans) if code == DATA else span(sections, code)) == expected
        assert sections.raw(code) == section
        offset += len(section)
    assert sections.body_code == DATA
    assert sections.is_canonical
    assert sections.value_span(PROPERTIES) == (span(sections, PROPERTIES)[1], span(sections, PROPERTIES)[2])


def test_an_empty_payload_is_a_message_without_sections() -> None:
    sections = locate(b"")
    assert sections.spans == [-1] * 27
    assert sections.body_code == 0
    assert sections.body_spans == []
    assert sections.bare() == b""
    assert sections.value_span(HEADER) == (-1, -1)
    assert all(sections.raw(code) == b"" for code in SECTION_NAMES)


def test_what_is_located_is_not_shared_between_messages() -> None:
    locate(b"".join(ALL.values()))
    assert locate(b"").spans == [-1] * 27


@given(section_lists(), st.randoms(use_true_random=False))
def test_sections_in_any_order_make_the_same_bare_message(parts: list[bytes], shuffler: random.Random) -> None:
    canonical = locate(b"".join(parts))
    # A body's own sections keep their order: the body is their sequence.
    shuffled = list(itertools.chain.from_iterable(_shuffled_groups(parts, shuffler)))
    sections = locate(b"".join(shuffled))
    assert sections.bare() == canonical.bare()
    assert canonical.is_canonical
    assert all(sections.raw(code) == canonical.raw(code) for code in SECTION_NAMES)


def _shuffled_groups(parts: list[bytes], shuffler: random.Random) -> list[list[bytes]]:
    groups = [list(group) for _, group in itertools.groupby(parts, key=lambda part: part[2])]
    shuffler.shuffle(groups)
    return groups


def test_delivery_annotations_behind_the_footer_are_accepted_as_the_official_python_sdk_writes_them() -> None:
    payload = HEADER_BYTES + PROPERTIES_BYTES + DATA_BYTES + FOOTER_BYTES + DELIVERY_ANNOTATIONS_BYTES
    sections = locate(payload)
    assert not sections.is_canonical
    assert sections.raw(DELIVERY_ANNOTATIONS) == DELIVERY_ANNOTATIONS_BYTES
    assert sections.bare() == PROPERTIES_BYTES + DATA_BYTES + FOOTER_BYTES


@spec("amqp:3.2.10")
@pytest.mark.parametrize("header", [b"", HEADER_BYTES], ids=["bare", "header"])
@pytest.mark.parametrize("behind", [b"", DELIVERY_ANNOTATIONS_BYTES], ids=["last", "before-annotations"])
@pytest.mark.parametrize(
    "sent, kept",
    [
        ("c10702 a1016b a10176", "c10702 a3016b a10176"),
        ("d10000000d00000002 b1000000016b a10176", "d10000000d00000002 b3000000016b a10176"),
        ("c10d04 a3016b a10176 a1016c a10177", "c10d04 a3016b a10176 a3016c a10177"),
        ("c10802 a102c3bc a10176", "c10802 a102c3bc a10176"),
        ("c10602 5301 a10176", "c10602 5301 a10176"),
        ("c10100", "c10100"),
        ("c10702 a1096b a10176", "c10702 a1096b a10176"),
    ],
    ids=["string", "long-string", "both", "not-ascii", "number", "empty", "invalid"],
)
def test_the_keys_of_a_footer_become_symbols(header: bytes, behind: bytes, sent: str, kept: str) -> None:
    """The Java SDK writes them as strings, and reads only symbols."""
    payload = header + DATA_BYTES + bytes.fromhex("005378" + sent) + behind
    assert locate(payload).bare() == DATA_BYTES + bytes.fromhex("005378" + kept)


def test_data_sections_apart_from_one_another_are_one_body() -> None:
    sections = locate(DATA_BYTES + FOOTER_BYTES + data_section(b"more"))
    assert sections.raw(DATA) == DATA_BYTES + data_section(b"more")
    assert sections.bare() == DATA_BYTES + data_section(b"more") + FOOTER_BYTES


@spec("amqp:1.2", "amqp:3.2")
@pytest.mark.parametrize("code", EACH_KIND, ids=SECTION_NAMES.get)
def test_a_descriptor_may_be_a_symbol_or_a_ulong_of_any_width_and_becomes_a_smallulong(code: int) -> None:
    usual = EACH_KIND[code]
    eight_bytes = b"\x00\x80" + code.to_bytes(8, "big") + usual[3:]
    symbol8 = b"\x00" + encode(Symbol(SYMBOLS[code])) + usual[3:]
    symbol32 = b"\x00\xb3" + len(SYMBOLS[code]).to_bytes(4, "big") + SYMBOLS[code].encode() + usual[3:]
    for payload in (eight_bytes, symbol8, symbol32):
        sections = locate(payload)
        assert sections.raw(code) == usual
        assert not sections.is_canonical
        assert sections.bare() == (usual if code >= PROPERTIES else b"")


@pytest.mark.parametrize(
    "descriptor",
    ["536f", "5379", "5300", "44", "800000000000000079", "8000000000000a0075", "a30b", "5273", "40", "a10573"],
)
def test_an_unknown_descriptor_is_refused_with_its_offset(descriptor: str) -> None:
    descriptor_bytes = bytes.fromhex(descriptor)
    if descriptor == "a30b":
        descriptor_bytes += b"amqp:header"
    if descriptor == "a10573":
        descriptor_bytes = encode("amqp:header:list")
    with pytest.raises(DecodeError, match=f"section at offset {len(HEADER_BYTES)} has the unknown descriptor"):
        locate(HEADER_BYTES + b"\x00" + descriptor_bytes + b"\xc0\x01\x00")


@pytest.mark.parametrize("code", sorted(set(ALL) - {DATA}), ids=SECTION_NAMES.get)
def test_a_section_that_may_be_there_once_is_refused_the_second_time(code: int) -> None:
    with pytest.raises(DecodeError, match=f"offset {len(ALL[code])} is a second {SECTION_NAMES[code]}"):
        locate(ALL[code] + ALL[code])


@spec("amqp:3.2")
def test_a_second_amqp_value_is_refused() -> None:
    value = ONE_OF_EACH_BODY[AMQP_VALUE]
    with pytest.raises(DecodeError, match=f"offset {len(value)} is a second amqp-value"):
        locate(value + value)


@spec("amqp:3.2")
@pytest.mark.parametrize("first, second", list(itertools.permutations(ONE_OF_EACH_BODY, 2)))
def test_a_body_of_two_kinds_is_refused(first: int, second: int) -> None:
    names = SECTION_NAMES
    offset = len(ONE_OF_EACH_BODY[first])
    with pytest.raises(DecodeError, match=f"offset {offset} is {names[second]} in a body of {names[first]}"):
        locate(ONE_OF_EACH_BODY[first] + ONE_OF_EACH_BODY[second])


@pytest.mark.parametrize("code", [DATA, AMQP_SEQUENCE], ids=SECTION_NAMES.get)
def test_a_body_of_several_sections_of_one_kind_is_located_whole(code: int) -> None:
    section = ONE_OF_EACH_BODY[code]
    sections = locate(section * 3)
    assert sections.body_code == code
    assert sections.body_spans[::3] == [0, len(section), 2 * len(section)]
    assert sections.bare() == section * 3


WRONG_CONTENTS = [
    (HEADER, "c10100", "a list"),
    (DELIVERY_ANNOTATIONS, "45", "a map"),
    (MESSAGE_ANNOTATIONS, "40", "a map"),
    (PROPERTIES, "a000", "a list"),
    (APPLICATION_PROPERTIES, "c00100", "a map"),
    (DATA, "a100", "a binary"),
    (AMQP_SEQUENCE, "c10100", "a list"),
    (FOOTER, "c00100", "a map"),
]


@pytest.mark.parametrize("code, contents, wanted", WRONG_CONTENTS)
def test_a_section_with_contents_of_the_wrong_type_is_refused(code: int, contents: str, wanted: str) -> None:
    with pytest.raises(DecodeError, match=f"offset 0: {SECTION_NAMES[code]} must hold {wanted}, found constructor 0x"):
        locate(bytes((0x00, 0x53, code)) + bytes.fromhex(contents))


@pytest.mark.parametrize("garbage", [b"\x40", b"\x45", b"\xff", DATA_BYTES[2:]])
def test_bytes_behind_the_last_section_are_refused(garbage: bytes) -> None:
    with pytest.raises(DecodeError, match=f"a message section was expected at offset {len(DATA_BYTES)}, found 0x"):
        locate(DATA_BYTES + garbage)


@pytest.mark.parametrize("form", ["usual", "symbolic"])
def test_a_message_cut_off_within_a_section_is_refused_at_every_offset(form: str) -> None:
    parts = [section for code, section in ALL.items() if code != DATA] + [data_section(bytes(300))]
    if form == "symbolic":
        parts = [b"\x00" + encode(Symbol(SYMBOLS[part[2]])) + part[3:] for part in parts]
    boundaries = {0, *itertools.accumulate(len(part) for part in parts)}
    payload = b"".join(parts)
    for length in range(len(payload)):
        if length in boundaries:
            locate(payload[:length])
        else:
            with pytest.raises(DecodeError):
                locate(payload[:length])


def test_a_section_that_claims_more_bytes_than_the_message_has_is_refused_with_both_ends() -> None:
    with pytest.raises(DecodeError, match="offset 0 ends at 4294967303, the message at 9"):
        locate(bytes.fromhex("005375 b0ffffffff 00"))
    with pytest.raises(DecodeError, match="offset 0 is cut off by the message's end at 6"):
        locate(bytes.fromhex("005375 b0ffff"))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_nothing_but_decode_errors(payload: bytes) -> None:
    _locate_or_refuse(payload)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0x00, 0x53, 0x40]),
            st.sampled_from([0x53, 0x80, 0xA3, 0x44]),
            st.integers(0x6F, 0x79),
            st.sampled_from([0x45, 0xC0, 0xC1, 0xD0, 0xD1, 0xA0, 0xB0, 0xA1, 0x40, 0x00, 0xE0]),
            st.binary(max_size=8),
        )
    )
)
def test_nearly_valid_bytes_raise_nothing_but_decode_errors(parts: list[tuple[int, int, int, int, bytes]]) -> None:
    _locate_or_refuse(b"".join(bytes(part[:4]) + part[4] for part in parts))


def _locate_or_refuse(payload: bytes) -> None:
    try:
        sections = locate(payload)
    except DecodeError:
        return
    # Every byte belongs to a section.
    offset = 0
    spans = sections.spans + sections.body_spans
    for start, value, end in sorted(zip(spans[::3], spans[1::3], spans[2::3], strict=True)):
        if start >= 0:
            assert start == offset
            assert start < value < end
            offset = end
    assert offset == len(payload)
    for code in (DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, APPLICATION_PROPERTIES, FOOTER):
        with contextlib.suppress(DecodeError):
            sections.entries(code, {b"x"})


@given(VALUES)
def test_an_amqp_value_of_any_type_is_skipped(value: object) -> None:
    payload = bytes((0x00, 0x53, AMQP_VALUE)) + encode(value)
    assert locate(payload + FOOTER_BYTES).body_spans == [0, 3, len(payload)]


@pytest.mark.parametrize(
    "body",
    ["005377 c10501 ffffffff", "005376 c00309 ff00", "005377 a102 c328", "005375 a000", "005375 40", "005376 40"],
)
def test_a_body_is_located_whatever_it_holds(body: str) -> None:
    payload = bytes.fromhex(body)
    assert locate(PROPERTIES_BYTES + payload).bare() == PROPERTIES_BYTES + payload


def test_a_list0_has_no_size_and_is_located() -> None:
    payload = bytes.fromhex("00537045 00537345 00537645")
    sections = locate(payload)
    assert sections.raw(PROPERTIES) == payload[4:8]
    assert sections.bare() == payload[4:]


def test_the_number_of_body_sections_is_bounded() -> None:
    most = data_section(b"") * MAX_MESSAGES_PER_BATCH
    assert len(locate(most).body_spans) == 3 * MAX_MESSAGES_PER_BATCH
    with pytest.raises(DecodeError, match=f"one more data than the {MAX_MESSAGES_PER_BATCH} a message may have"):
        locate(most + data_section(b""))


def test_what_belongs_before_body_and_footer_can_be_put_at_the_first_of_them() -> None:
    before = HEADER_BYTES + PROPERTIES_BYTES
    assert locate(before + DATA_BYTES + FOOTER_BYTES).body_start() == len(before)
    assert locate(before + FOOTER_BYTES).body_start() == len(before)
    assert locate(before).body_start() == len(before)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_a_data_section_is_what_the_general_encoder_makes(size: int) -> None:
    assert data_section(bytes(size)) == b"\x00\x53\x75" + encode(bytes(size))


# --- Entries ----------------------------------------------------------------------------------------------------


@given(ANNOTATIONS)
def test_entries_make_the_section_that_the_general_encoder_makes(pairs: dict[str, object]) -> None:
    symbols = {Symbol(key): value for key, value in pairs.items()}
    expected = b"\x00\x53\x72" + encode(symbols) if pairs else b""
    assert Entries.with_symbol_keys(pairs).to_section(MESSAGE_ANNOTATIONS) == expected
    expected = b"\x00\x53\x74" + encode(pairs) if pairs else b""
    assert Entries.with_string_keys(pairs).to_section(APPLICATION_PROPERTIES) == expected


@pytest.mark.parametrize("length", range(245, 260))
def test_entries_around_the_size_where_a_map_needs_four_bytes(length: int) -> None:
    section = Entries.with_symbol_keys({"k": bytes(length)}).to_section(FOOTER)
    assert section == b"\x00\x53\x78" + encode({Symbol("k"): bytes(length)})


def test_keys_of_application_properties_are_strings_even_when_given_as_symbols() -> None:
    assert Entries.with_string_keys({Symbol("k"): True}).encoded == b"\xa1\x01k\x41"


@given(ANNOTATIONS, ANNOTATIONS)
def test_entries_of_two_maps_are_joined_without_being_encoded_again(
    first: dict[str, object], second: dict[str, object]
) -> None:
    second = {f"second-{key}": value for key, value in second.items()}
    joined = Entries.with_symbol_keys(first).followed_by(Entries.with_symbol_keys(second))
    together = Entries.with_symbol_keys({**first, **second})
    assert (joined.encoded, joined.count) == (together.encoded, together.count)


@given(ANNOTATIONS, st.data())
def test_entries_are_taken_out_of_a_section_without_those_dropped(
    pairs: dict[str, object], data: st.DataObject
) -> None:
    dropped = data.draw(st.sets(st.sampled_from(sorted(pairs))) if pairs else st.just(set()))
    sections = locate(Entries.with_symbol_keys(pairs).to_section(MESSAGE_ANNOTATIONS))
    kept = sections.entries(MESSAGE_ANNOTATIONS, {key.encode() for key in dropped})
    expected = Entries.with_symbol_keys({key: value for key, value in pairs.items() if key not in dropped})
    assert (kept.encoded, kept.count) == (expected.encoded, expected.count)
    everything = sections.entries(MESSAGE_ANNOTATIONS)
    assert everything.to_section(MESSAGE_ANNOTATIONS) == sections.raw(MESSAGE_ANNOTATIONS)


def test_a_section_that_is_not_there_has_no_entries() -> None:
    assert locate(b"").entries(FOOTER) is NO_ENTRIES


KEYS = {
    "symbol of one byte size": b"\xa3\x01k",
    "symbol of four bytes size": b"\xb3\x00\x00\x00\x01k",
    "string of one byte size": b"\xa1\x01k",
    "string of four bytes size": b"\xb1\x00\x00\x00\x01k",
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("is_large", [False, True], ids=["map8", "map32"])
def test_a_dropped_key_is_known_by_its_text_however_it_is_encoded(key: bytes, is_large: bool) -> None:
    entries = b"\xa3\x01a\x41" + key + b"\x42" + encode(ULong(7)) + b"\x40"
    if is_large:
        section = b"\x00\x53\x72\xd1" + (len(entries) + 4).to_bytes(4, "big") + b"\0\0\0\x06" + entries
    else:
        section = bytes((0x00, 0x53, 0x72, 0xC1, len(entries) + 1, 6)) + entries
    # A key that is not text is kept, whatever is dropped.
    kept = locate(section).entries(MESSAGE_ANNOTATIONS, {b"k", b""})
    assert kept.encoded == b"\xa3\x01a\x41\x53\x07\x40"
    assert kept.count == 4


@pytest.mark.parametrize(
    "contents, complaint",
    [
        ("c100", "has a size too small for its own count"),
        ("d10000000400", "cut off|ends at"),
        ("d100000003 000000", "has a size too small for its own count"),
        ("c10200 41", "holds 0 keys and values that end at 6, its size says 7"),
        ("c10301 a300", "holds 1 keys and values that end at 6, its size says 8"),
        ("c10101", "holds 1 keys and values that end at 6, its size says 6"),
        ("c10202 41", "value"),
        ("c10402 a30561", "within|value|symbol"),
        ("c10302 a300", "value"),
        ("c10202 a3", "symbol"),
    ],
)
def test_a_map_whose_count_and_size_disagree_is_refused(contents: str, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        locate(bytes.fromhex("005372" + contents)).entries(MESSAGE_ANNOTATIONS, {b"k"})
