"""The tuned codecs say exactly what the general ones say, for whatever bytes a peer may write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tandem._form import form
from tandem.amqp import hot_paths
from tandem.amqp.delivery_states import ACCEPTED, RELEASED, Accepted, AmqpError, DeliveryState, Modified, Rejected
from tandem.amqp.hot_paths import (
    AMQP_FRAME,
    SASL_FRAME,
    TRANSFER_HEAD_BYTES,
    decode_disposition,
    decode_flow,
    decode_transfer,
    disposition_frame,
    flow_frame,
    frame,
    transfer_frame_head,
)
from tandem.amqp.performatives import Disposition, Flow, Performative, Transfer, decode_performative
from tandem.errors import DecodeError, EncodeError
from tandem.limits import MAX_NESTING_DEPTH
from tests.amqp.composites import (
    MAX_UINT,
    descriptor_spellings,
    dispositions,
    flows,
    list_spellings,
    mutated,
    spelled,
    states,
    transfers,
    uints,
    ushorts,
)
from tests.drawing import examples
from tests.markers import spec

# What a decoder made of bytes: the performative and where its payload starts, or None for a DecodeError.
Result = tuple[Performative, int] | None
Decoder = Callable[[bytes, int, int], Result]

TRANSFER: Final = descriptor_spellings(0x14, "transfer")
DISPOSITION: Final = descriptor_spellings(0x15, "disposition")
FLOW: Final = descriptor_spellings(0x13, "flow")


def general(data: bytes, offset: int, end: int) -> Result:
    try:
        return decode_performative(data, offset, end)
    except DecodeError:
        return None


def general_without_payload(data: bytes, offset: int, end: int) -> Result:
    """For performatives that are the whole of their frame: the connection sees to that, not their decoders."""
    found = general(data, offset, end)
    return None if found is None else (found[0], end)


def tuned_transfer(data: bytes, offset: int, end: int) -> Result:
    try:
        return decode_transfer(data, offset, end)
    except DecodeError:
        return None


def tuned_disposition(data: bytes, offset: int, end: int) -> Result:
    try:
        return decode_disposition(data, offset, end), end
    except DecodeError:
        return None


def tuned_flow(data: bytes, offset: int, end: int) -> Result:
    try:
        return decode_flow(data, offset, end), end
    except DecodeError:
        return None


def assert_agree(kind: Kind, data: bytes, offset: int, end: int) -> None:
    expected = kind.general(data, offset, end)
    # Twice: the first time may fill the table of tails, the second reads from it.
    for _ in range(2):
        found = kind.tuned(data, offset, end)
        assert found == expected
        if found is not None and expected is not None:
            assert type(found[0]) is type(expected[0])
            assert repr(found[0]) == repr(expected[0])


def assert_nothing_behind_the_end_is_read(kind: Kind, data: bytes, behind: bytes) -> None:
    """Whatever follows, in the buffer, the frame's last byte: the result is that of the frame alone."""
    assert kind.tuned(data + behind, 0, len(data)) == kind.tuned(data, 0, len(data))


class Kind(NamedTuple):
    """One of the three tuned performatives."""

    general: Decoder
    tuned: Decoder
    strategy: st.SearchStrategy[Performative]
    descriptors: list[bytes]
    # The fields of one that the tuned decoder reads to its end, each as it is written.
    plain: list[bytes]


def fields(*spellings: str) -> list[bytes]:
    return [bytes.fromhex(spelling) for spelling in spellings]


KINDS: Final = {
    "transfer": Kind(
        general,
        tuned_transfer,
        transfers,
        TRANSFER,
        fields("5201", "7000000002", "a003746167", "43", "41", "42", "40", "40", "42", "42", "42"),
    ),
    "disposition": Kind(
        general_without_payload,
        tuned_disposition,
        dispositions,
        DISPOSITION,
        fields("41", "5201", "7000000002", "41", "00532445", "42"),
    ),
    "flow": Kind(
        general_without_payload,
        tuned_flow,
        flows,
        FLOW,
        fields("43", "5201", "7000000002", "43", "40", "5203", "7000000004", "43", "41", "42", "40"),
    ),
}
every_kind = pytest.mark.parametrize("name", KINDS)


@pytest.fixture(autouse=True)
def _empty_tables() -> Iterator[None]:
    hot_paths._transfer_tails.clear()
    hot_paths._disposition_tails.clear()
    yield
    assert len(hot_paths._transfer_tails) <= hot_paths._MAX_CACHED_TAILS
    assert len(hot_paths._disposition_tails) <= hot_paths._MAX_CACHED_TAILS


# --- decoding: whatever is written ------------------------------------------------------------------------------


@spec("amqp:2.7.5", "amqp:2.7.6", "amqp:2.7.4")
@every_kind
@given(data=st.data())
@settings(max_examples=examples(150))
def test_a_tuned_decoder_agrees_with_the_general_one_in_every_encoding(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    performative = data.draw(kind.strategy)
    written = data.draw(spelled(performative, kind.descriptors))
    assert general(written, 0, len(written)) == (performative, len(written))
    assert_agree(kind, written, 0, len(written))


@every_kind
@given(data=st.data())
@settings(max_examples=examples(150))
def test_a_tuned_decoder_agrees_with_the_general_one_on_bytes_gone_wrong(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    # The connection looks at the descriptor before it asks for a tuned decoder, so that alone is kept.
    descriptor = kind.descriptors[0]
    written = data.draw(mutated(data.draw(spelled(data.draw(kind.strategy), [descriptor])), len(descriptor)))
    assert_agree(kind, written, 0, len(written))
    assert_nothing_behind_the_end_is_read(kind, written, data.draw(st.binary(max_size=20)))


@every_kind
@given(data=st.data())
@settings(max_examples=examples(150))
def test_a_tuned_decoder_agrees_with_the_general_one_on_any_fields(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    # Fields of the right width in wrong places reach deeper into a tuned decoder than random bytes do.
    elements = data.draw(
        st.lists(st.sampled_from(kind.plain + fields("5601", "5000", "a3016d", "44", "45")), max_size=13)
    )
    contents = b"".join(elements)
    count = data.draw(st.integers(max(0, len(elements) - 1), len(elements) + 1))
    size = data.draw(st.integers(max(0, len(contents) - 2), len(contents) + 3))
    written = kind.descriptors[0] + bytes([0xC0, size, count]) + contents
    assert_agree(kind, written, 0, len(written))


@every_kind
@given(data=st.data())
def test_a_tuned_decoder_reads_a_frame_within_a_larger_buffer(name: str, data: st.DataObject) -> None:
    kind = KINDS[name]
    written = data.draw(spelled(data.draw(kind.strategy), kind.descriptors))
    before, behind = data.draw(st.binary(max_size=20)), data.draw(st.binary(max_size=20))
    buffer = before + written + behind
    assert_agree(kind, buffer, len(before), len(before) + len(written))
    # What follows the list may also be part of the frame: a transfer's payload.
    assert_agree(kind, buffer, len(before), len(buffer))


@every_kind
@given(data=st.data())
def test_a_tuned_decoder_reads_no_byte_behind_the_end_of_a_frame_that_is_cut_short(
    name: str, data: st.DataObject
) -> None:
    kind = KINDS[name]
    written = data.draw(spelled(data.draw(kind.strategy), [kind.descriptors[0]]))
    end = data.draw(st.integers(3, len(written) - 1))
    # All that was cut off still lies behind the end, where it must not be found.
    assert kind.tuned(written, 0, end) is None
    assert general(written[:end], 0, end) is None


@every_kind
@pytest.mark.parametrize("trim", range(9))
def test_a_plain_list_is_cut_at_every_byte_and_never_read_beyond(name: str, trim: int) -> None:
    kind = KINDS[name]
    elements = kind.plain[: len(kind.plain) - trim]
    written = kind.descriptors[0] + list_spellings(elements)[0]
    assert_agree(kind, written, 0, len(written))
    for end in range(3, len(written)):
        assert kind.tuned(written, 0, end) is None
        assert kind.tuned(written[:end], 0, end) is None
        # The same, with a list that claims to end where the frame does: fields now reach beyond their list.
        if end > 5:
            shortened = written[:4] + bytes([end - 5]) + written[5:]
            assert_agree(kind, shortened, 0, end)
            assert_agree(kind, shortened, 0, len(shortened))


@every_kind
def test_a_field_of_every_type_is_judged_as_the_general_decoder_does(name: str) -> None:
    kind = KINDS[name]
    others = fields(
        "40", "41", "42", "43", "44", "45", "5001", "5101", "5201", "5301", "5401", "5501", "5600", "5601", "5602"
    )
    others += fields("600001", "7000000001", "7100000001", "7200000000", "a00161", "a10161", "a30161", "b00000000161")
    others += fields("c00100", "c10100", "e00100", "00532445", "00532645", "00532545", "005399a100", "0045", "ff")
    for index in range(len(kind.plain)):
        for other in others:
            elements = [*kind.plain[:index], other, *kind.plain[index + 1 :]]
            for written in list_spellings(elements):
                data = kind.descriptors[0] + written
                assert_agree(kind, data, 0, len(data))


@pytest.mark.parametrize("name", ["transfer", "disposition"])
def test_a_state_that_nests_too_deep_for_its_frame_is_refused(name: str) -> None:
    # The state is two levels below the frame's list: a decoder that starts at the state would count from nothing.
    kind = KINDS[name]
    index = kind.plain.index(b"\x40") + 1 if name == "transfer" else 4
    for levels in range(MAX_NESTING_DEPTH - 4, MAX_NESTING_DEPTH + 1):
        state = b"\x40"
        for _ in range(levels):
            state = list_spellings([state])[0]
        elements = [*kind.plain[:index], b"\x00\x53\x99" + state, *kind.plain[index + 1 :]]
        data = kind.descriptors[0] + list_spellings(elements)[0]
        assert_agree(kind, data, 0, len(data))
        # Described, list, described, and `levels` lists.
        assert (general(data, 0, len(data)) is None) == (levels + 3 > MAX_NESTING_DEPTH)


@every_kind
def test_a_list_without_fields_is_refused_in_all_its_encodings(name: str) -> None:
    kind = KINDS[name]
    for written in list_spellings([]):
        data = kind.descriptors[0] + written
        assert kind.tuned(data, 0, len(data)) is None
        assert general(data, 0, len(data)) is None


def test_the_payload_of_a_transfer_starts_behind_its_list() -> None:
    kind = KINDS["transfer"]
    for written in list_spellings(kind.plain):
        data = kind.descriptors[0] + written
        transfer, start = decode_transfer(data + b"payload", 0, len(data) + 7)
        assert start == len(data)
        assert transfer == Transfer(1, 2, b"tag", 0, True)


def test_the_last_delivery_of_a_disposition_may_be_null() -> None:
    data = DISPOSITION[0] + list_spellings(fields("42", "43", "40", "42", "00532645"))[0]
    assert decode_disposition(data, 0, len(data)) == Disposition(False, 0, None, False, RELEASED)


def test_common_outcomes_are_read_as_the_constants() -> None:
    for code, state in (("24", ACCEPTED), ("26", RELEASED)):
        for spelling in ("45", "c00100", "d00000000400000000"):
            data = DISPOSITION[0] + list_spellings(fields("41", "43", "43", "41", f"0053{code}{spelling}"))[0]
            assert decode_disposition(data, 0, len(data)).state is state


# --- decoding: what is fast -------------------------------------------------------------------------------------

# As written by this library, the official Python SDK, Qpid Proton and .NET: widths and flags in all their mixtures.
UINTS: Final = ["43", "5207", "7000000007"]
TUNED_TRANSFERS: Final = [
    (handle, delivery_id, tag, message_format, *tail)
    for handle in UINTS
    for delivery_id in UINTS
    for tag in ("a000", "a003746167")
    for message_format in ("43", "7080013700")
    for tail in ((), ("41",), ("42", "41"), ("5600", "5601", "40", "40", "40", "40", "40"), ("40", "42"))
]
TUNED_DISPOSITIONS: Final = [
    (role, first, last, *tail)
    for role in ("41", "42", "5600", "5601")
    for first in UINTS
    for last in ("40", *UINTS)
    for tail in (("41", "00532445"), ("5601", "00532645", "40"), ("41", "005324c00100", "42"))
]
TUNED_FLOWS: Final = [
    (number, "43", "5207", "7000000007", *rest)
    for number in ("40", *UINTS)
    for rest in ((), (number,), (number, "43", "5207", "40", "41", "42"), ("40", "40", "40", "40", "40", "40", "40"))
]


def is_tuned(number: int) -> bool:
    """Whether a tuned decoder made the number. The general one makes a UInt; compiled, both store a machine integer."""
    return type(number) is int or form() == "compiled"


@pytest.mark.parametrize("spelling", TUNED_TRANSFERS, ids="-".join)
def test_a_transfer_as_real_peers_write_it_is_read_by_the_tuned_decoder_itself(spelling: tuple[str, ...]) -> None:
    data = TRANSFER[0] + list_spellings(fields(*spelling))[0]
    assert_agree(KINDS["transfer"], data + b"payload", 0, len(data) + 7)
    assert list(hot_paths._transfer_tails) == [b"".join(fields(*spelling[4:]))]
    assert is_tuned(decode_transfer(data, 0, len(data))[0].handle)


@pytest.mark.parametrize("spelling", TUNED_DISPOSITIONS, ids="-".join)
def test_a_disposition_as_real_peers_write_it_is_read_by_the_tuned_decoder_itself(spelling: tuple[str, ...]) -> None:
    data = DISPOSITION[0] + list_spellings(fields(*spelling))[0]
    assert_agree(KINDS["disposition"], data, 0, len(data))
    assert list(hot_paths._disposition_tails) == [b"".join(fields(*spelling[3:]))]
    assert is_tuned(decode_disposition(data, 0, len(data)).first)


@pytest.mark.parametrize("spelling", TUNED_FLOWS, ids="-".join)
def test_a_flow_as_real_peers_write_it_is_read_by_the_tuned_decoder_itself(spelling: tuple[str, ...]) -> None:
    data = FLOW[0] + list_spellings(fields(*spelling))[0]
    assert_agree(KINDS["flow"], data, 0, len(data))
    assert is_tuned(decode_flow(data, 0, len(data)).incoming_window)


# --- decoding: the tables of tails ------------------------------------------------------------------------------


def cached_states() -> set[DeliveryState | None]:
    found: set[DeliveryState | None] = {tail.state for tail in hot_paths._transfer_tails.values()}
    return found | {tail.state for tail in hot_paths._disposition_tails.values()}


def transfer_with_tail(*tail: str) -> bytes:
    return TRANSFER[0] + list_spellings(fields("43", "43", "a000", "43", *tail))[0]


def disposition_with_tail(*tail: str) -> bytes:
    return DISPOSITION[0] + list_spellings(fields("41", "43", "43", *tail))[0]


def test_a_tail_that_was_seen_is_found_again() -> None:
    data = transfer_with_tail("41", "42")
    decode_transfer(data, 0, len(data))
    assert list(hot_paths._transfer_tails) == [b"\x41\x42"]
    tail = hot_paths._transfer_tails[b"\x41\x42"]
    decode_transfer(data, 0, len(data))
    assert hot_paths._transfer_tails[b"\x41\x42"] is tail


def test_the_tables_never_grow_beyond_their_bound() -> None:
    bound = hot_paths._MAX_CACHED_TAILS
    for number in range(3 * bound):
        # rcv-settle-mode takes 256 values, settled three.
        flag, mode = ("41", "42", "40")[number // 256], f"50{number % 256:02x}"
        data = transfer_with_tail(flag, "40", mode)
        decode_transfer(data, 0, len(data))
        # An outcome without fields may all the same be given some, which nobody reads.
        data = disposition_with_tail("41", f"005324c0040160{number:04x}")
        assert decode_disposition(data, 0, len(data)).state is ACCEPTED
        assert 0 < len(hot_paths._transfer_tails) <= bound
        assert 0 < len(hot_paths._disposition_tails) <= bound


def test_no_more_links_are_remembered_than_are_busy_at_a_time() -> None:
    for handle in range(2 * hot_paths._MAX_CACHED_TAILS):
        head = transfer_frame_head(1, handle, 0, b"", 0, True, False, 0)
        assert decode_transfer(head, 8, len(head))[0].handle == handle
        assert 0 < len(hot_paths._transfer_starts) <= hot_paths._MAX_CACHED_TAILS


def test_only_short_tails_are_kept() -> None:
    longest = hot_paths._MAX_TAIL_BYTES
    for extra in range(20):
        text = f"a0{extra:02x}" + "00" * extra
        data = disposition_with_tail("41", f"005324c0{extra + 3:02x}01{text}")
        assert decode_disposition(data, 0, len(data)).state is ACCEPTED
    assert max(map(len, hot_paths._disposition_tails)) == longest


def test_a_tail_with_a_peers_own_data_is_never_kept() -> None:
    for tail in ("00532545", "00532745", "00539945", "40", "005333c00401a00174"):
        data = disposition_with_tail("41", tail)
        decode_disposition(data, 0, len(data))
        data = transfer_with_tail("41", "42", "40", tail)
        decode_transfer(data, 0, len(data))
    data = transfer_with_tail("41", "42", "40", "00532445")
    assert decode_transfer(data, 0, len(data))[0].state is ACCEPTED
    assert cached_states() == {None}
    assert hot_paths._disposition_tails == {}


@given(st.lists(transfers | dispositions, min_size=1, max_size=20), st.data())
def test_no_traffic_makes_the_tables_hold_a_state_other_than_the_constants(
    traffic: list[Performative], data: st.DataObject
) -> None:
    for performative in traffic:
        if isinstance(performative, Transfer):
            written = data.draw(spelled(performative, TRANSFER[:1]))
            decode_transfer(written, 0, len(written))
        else:
            written = data.draw(spelled(performative, DISPOSITION[:1]))
            decode_disposition(written, 0, len(written))
    assert all(tail.state is None for tail in hot_paths._transfer_tails.values())
    assert all(tail.state is ACCEPTED or tail.state is RELEASED for tail in hot_paths._disposition_tails.values())


# --- encoding ---------------------------------------------------------------------------------------------------


def split(data: bytes, payload_length: int = 0) -> tuple[int, bytes]:
    """The channel and the body of a frame whose payload is still to be appended."""
    assert int.from_bytes(data[:4]) == len(data) + payload_length
    assert data[4:6] == b"\x02\x00"
    return int.from_bytes(data[6:8]), data[8:]


@spec("amqp:2.3.1")
def test_a_frame_starts_with_its_size_offset_type_and_channel() -> None:
    assert frame(7, b"body") == bytes.fromhex("0000000c 02 00 0007") + b"body"
    assert frame(0xFFFF, b"body", AMQP_FRAME, 100) == bytes.fromhex("00000070 02 00 ffff") + b"body"
    assert frame(0, b"", SASL_FRAME) == bytes.fromhex("00000008 02 01 0000")


@given(
    channel=ushorts,
    handle=uints,
    delivery_id=uints,
    tag=st.binary(max_size=32),
    message_format=uints,
    settled=st.booleans(),
    more=st.booleans(),
    payload_length=st.integers(0, 2**20),
)
def test_a_tuned_transfer_reads_as_the_transfer_it_was_made_of(
    channel: int,
    handle: int,
    delivery_id: int,
    tag: bytes,
    message_format: int,
    settled: bool,
    more: bool,
    payload_length: int,
) -> None:
    head = transfer_frame_head(channel, handle, delivery_id, tag, message_format, settled, more, payload_length)
    assert len(head) == TRANSFER_HEAD_BYTES + len(tag)
    found, body = split(head, payload_length)
    assert found == channel
    expected = Transfer(handle, delivery_id, tag, message_format, settled, more)
    assert decode_performative(body, 0, len(body)) == (expected, len(body))
    assert decode_transfer(body, 0, len(body)) == (expected, len(body))


@spec("amqp:2.7.5")
def test_a_tuned_transfer_has_all_its_fields_in_exactly_these_bytes() -> None:
    head = transfer_frame_head(1, 2, 3, b"tag", 0x8001_3700, True, False, 5)
    expected = "0000002e 02000001 005314 c01c0b 7000000002 7000000003 a003746167 7080013700 41 42 40 40 42 42 42"
    assert head == bytes.fromhex(expected)


@given(channel=ushorts, role=st.booleans(), first=uints, last=uints, settled=st.booleans(), state=st.none() | states)
@example(0, True, 0, 0, True, ACCEPTED)
@example(0, True, 0, 0, True, RELEASED)
@example(0, True, 0, 0, True, Accepted())
@example(0, True, 0, 0, True, None)
@example(0, True, 0, 0, True, Rejected(AmqpError("amqp:not-found", "x" * 300)))
def test_a_tuned_disposition_reads_as_the_disposition_it_was_made_of(
    channel: int, role: bool, first: int, last: int, settled: bool, state: DeliveryState | None
) -> None:
    found, body = split(disposition_frame(channel, role, first, last, settled, state))
    assert found == channel
    expected = Disposition(role, first, last, settled, state)
    assert decode_performative(body, 0, len(body)) == (expected, len(body))
    assert decode_disposition(body, 0, len(body)) == expected


def test_a_state_of_any_length_fits_a_tuned_disposition() -> None:
    # Around 240 bytes the tuned form ends and the general one takes over; around 255 list8 becomes list32.
    for length in range(200, 280):
        state = Modified(None, None, {"a": b"x" * length})
        _, body = split(disposition_frame(0, True, 1, 2, True, state))
        assert decode_disposition(body, 0, len(body)) == Disposition(True, 1, 2, True, state)


@spec("amqp:2.7.6")
def test_a_tuned_disposition_has_all_its_fields_in_exactly_these_bytes() -> None:
    expected = "00000021 02000001 005315 c01406 41 7000000002 7000000003 41 005324c00100 42"
    assert disposition_frame(1, True, 2, 3, True, ACCEPTED) == bytes.fromhex(expected)
    expected = "0000001c 02000001 005315 c00f06 42 7000000002 7000000003 42 40 42"
    assert disposition_frame(1, False, 2, 3, False, None) == bytes.fromhex(expected)


@given(channel=ushorts, flow=flows)
@example(0, Flow(0, 0, 0, 0, 0, 0, 0, 0, True, False))
@example(2**16 - 1, Flow(MAX_UINT, MAX_UINT, MAX_UINT, MAX_UINT, MAX_UINT, MAX_UINT, MAX_UINT, MAX_UINT, False, True))
def test_a_tuned_flow_reads_as_the_flow_it_was_made_of(channel: int, flow: Flow) -> None:
    found, body = split(flow_frame(channel, flow))
    assert found == channel
    assert decode_performative(body, 0, len(body)) == (flow, len(body))
    assert decode_flow(body, 0, len(body)) == flow


@spec("amqp:2.7.4")
def test_a_tuned_flow_has_all_its_fields_in_exactly_these_bytes() -> None:
    expected = (
        "00000039 02000009 005313 c02c0b 7000000001 7000000002 7000000003 7000000004"
        "7000000005 7000000006 7000000007 7000000008 41 42 40"
    )
    assert flow_frame(9, Flow(1, 2, 3, 4, 5, 6, 7, 8, True, False)) == bytes.fromhex(expected)


@spec("amqp:2.7.4")
def test_a_flow_of_a_session_alone_says_nothing_of_any_link() -> None:
    expected = "0000001d 02000009 005313 c0100b 5201 5202 5203 5204 40 40 40 40 42 42 40"
    assert flow_frame(9, Flow(1, 2, 3, 4)) == bytes.fromhex(expected)


@pytest.mark.parametrize("field", Flow(0, 0, 0, 0).field_names()[:8])
@pytest.mark.parametrize("number", [-1, 2**32])
def test_a_number_out_of_range_in_a_flow_is_an_encode_error(field: str, number: int) -> None:
    flow = Flow(0, 0, 0, 0, 0, 0, 0, 0)
    setattr(flow, field.replace("-", "_"), number)
    with pytest.raises(EncodeError, match="out of the range of uint"):
        flow_frame(0, flow)
