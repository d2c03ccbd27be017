"""Hand-tuned codecs for the three performatives that travel once per message: transfer, disposition, flow.

They say nothing that `performatives.py` does not say: a decoder here handles the encodings that real peers write and
hands everything else, malformed input included, to the general codec. An encoder here writes fixed-width integers, so
that one `struct` call makes a whole frame head. `tests/amqp/test_hot_paths.py` proves both equal to the general form.
"""

from __future__ import annotations

import struct
from typing import Final

from tandem.amqp.decode import decode
from tandem.amqp.delivery_states import (
    ACCEPTED,
    ACCEPTED_BYTES,
    RELEASED,
    RELEASED_BYTES,
    DeliveryState,
)
from tandem.amqp.performatives import Disposition, Flow, Transfer, decode_performative
from tandem.amqp.types import UInt
from tandem.errors import DecodeError

__all__ = [
    "decode_disposition",
    "decode_flow",
    "decode_transfer",
    "disposition_frame",
    "flow_frame",
    "frame",
    "transfer_frame_head",
]

NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT0: Final = 0x43
SMALLUINT: Final = 0x52
BOOLEAN: Final = 0x56
UINT: Final = 0x70
VBIN8: Final = 0xA0
LIST8: Final = 0xC0

# Every frame starts: size, data offset 2 (words of 4 bytes), type 0 (AMQP), channel.
FRAME_HEADER: Final = struct.Struct(">II")
AMQP_FRAME: Final = 0x0200_0000
SASL_FRAME: Final = 0x0201_0000

_UINT32: Final = struct.Struct(">I")
_unpack_uint32: Final = _UINT32.unpack_from

# The short ends of transfers and dispositions repeat endlessly: settled, more and a few nulls, or settled and an
# outcome. They are decoded once and looked up by their bytes afterwards. A peer that writes many different ones only
# makes the table start afresh; entries that could hold a peer's data (a state other than the two constants) are
# never kept. Longer ends go to the general codec, which alone counts how deep they nest within their frame.
_MAX_CACHED_TAILS: Final = 256
_MAX_TAIL_BYTES: Final = 16


def frame(channel: int, body: bytes, kind: int = AMQP_FRAME, payload_length: int = 0) -> bytes:
    """A frame around an encoded performative. A payload of that length is for the caller to append."""
    return FRAME_HEADER.pack(8 + len(body) + payload_length, kind | channel) + body


# --- transfer ---------------------------------------------------------------------------------------------------


class _TransferTail:
    """The fields of a transfer from `settled` on."""

    __slots__ = ("aborted", "batchable", "count", "more", "rcv_settle_mode", "resume", "settled", "state")

    def __init__(self, count: int, transfer: Transfer) -> None:
        self.count = count
        self.settled = transfer.settled
        self.more = transfer.more
        self.rcv_settle_mode = transfer.rcv_settle_mode
        self.state = transfer.state
        self.resume = transfer.resume
        self.aborted = transfer.aborted
        self.batchable = transfer.batchable


_transfer_tails: Final[dict[bytes, _TransferTail]] = {}


def _transfer_tail(tail: bytes) -> _TransferTail:
    values: list[object] = [UInt(0), None, None, None]
    offset = 0
    end = len(tail)
    while offset < end:
        value, offset = decode(tail, offset, end)
        values.append(value)
    decoded = _TransferTail(len(values), Transfer.read(values))
    if decoded.state is None:
        if len(_transfer_tails) >= _MAX_CACHED_TAILS:
            _transfer_tails.clear()
        _transfer_tails[tail] = decoded
    return decoded


def _general_transfer(data: bytes, offset: int, end: int) -> tuple[Transfer, int]:
    performative, stop = decode_performative(data, offset, end)
    assert isinstance(performative, Transfer)
    return performative, stop


# Longer than 60 lines: a call per field would cost more than the field.
def decode_transfer(data: bytes, offset: int, end: int) -> tuple[Transfer, int]:
    """The transfer whose `00 53 14` stands at `offset`, and where its payload starts."""
    try:
        if data[offset + 3] != LIST8:
            return _general_transfer(data, offset, end)
        stop = offset + 5 + data[offset + 4]
        count = data[offset + 5]
        position = offset + 6
        code = data[position]
        if code == SMALLUINT:
            handle = data[position + 1]
            position += 2
        elif code == UINT0:
            handle = 0
            position += 1
        elif code == UINT:
            handle = _unpack_uint32(data, position + 1)[0]
            position += 5
        else:
            return _general_transfer(data, offset, end)
        code = data[position]
        delivery_id: int | None
        if code == UINT:
            delivery_id = _unpack_uint32(data, position + 1)[0]
            position += 5
        elif code == SMALLUINT:
            delivery_id = data[position + 1]
            position += 2
        elif code == UINT0:
            delivery_id = 0
            position += 1
        else:
            return _general_transfer(data, offset, end)
        if data[position] != VBIN8:
            return _general_transfer(data, offset, end)
        tag_end = position + 2 + data[position + 1]
        delivery_tag = data[position + 2 : tag_end]
        code = data[tag_end]
        message_format: int | None
        if code == UINT0:
            message_format = 0
            position = tag_end + 1
        elif code == UINT:
            message_format = _unpack_uint32(data, tag_end + 1)[0]
            position = tag_end + 5
        else:
            return _general_transfer(data, offset, end)
        if position > stop or stop > end or stop - position > _MAX_TAIL_BYTES:
            return _general_transfer(data, offset, end)
        tail_bytes = data[position:stop]
        tail = _transfer_tails.get(tail_bytes)
        if tail is None:
            tail = _transfer_tail(tail_bytes)
        if tail.count != count:
            return _general_transfer(data, offset, end)
    except (IndexError, struct.error, DecodeError):
        return _general_transfer(data, offset, end)
    transfer = Transfer(
        handle,
        delivery_id,
        delivery_tag,
        message_format,
        tail.settled,
        tail.more,
        tail.rcv_settle_mode,
        tail.state,
        tail.resume,
        tail.aborted,
        tail.batchable,
    )
    return transfer, stop


# size | type, channel, 00 53 14 c0, list size, count, 0x70, handle, 0x70 | delivery-id | 0xa0 and length, tag | 0x70,
# message-format, settled, more, rcv-settle-mode, state, resume, aborted, batchable
#
# Few arguments, since each takes its time: what is the same for all transfers of a link is one of them.
_TRANSFER_HEADS: Final = [struct.Struct(f">I16sI2s{tag_length}s12s") for tag_length in range(33)]
_TAG_STARTS: Final = [bytes((VBIN8, tag_length)) for tag_length in range(33)]
_pack_transfer_start: Final = struct.Struct(">IIBHIB").pack
_transfer_starts: Final[dict[int, bytes]] = {}
_TRANSFER_FLAGS: Final = [
    bytes([FALSE, FALSE, NULL, NULL, FALSE, FALSE, FALSE]),
    bytes([TRUE, FALSE, NULL, NULL, FALSE, FALSE, FALSE]),
    bytes([FALSE, TRUE, NULL, NULL, FALSE, FALSE, FALSE]),
    bytes([TRUE, TRUE, NULL, NULL, FALSE, FALSE, FALSE]),
]
_PLAIN_ENDS: Final = [bytes([UINT, 0, 0, 0, 0]) + flags for flags in _TRANSFER_FLAGS]

# Bytes of a frame before its payload, beside the delivery tag.
TRANSFER_HEAD_BYTES: Final = 38


def _transfer_start(channel: int, handle: int, tag_length: int) -> bytes:
    """The second argument; remembered, as of all the tables here, for as many links as are busy at a time."""
    key = (channel << 32 | handle) << 6 | tag_length
    start = _transfer_starts.get(key)
    if start is None:
        if len(_transfer_starts) >= _MAX_CACHED_TAILS:
            _transfer_starts.clear()
        start = _pack_transfer_start(AMQP_FRAME | channel, 0x0053_14C0, 25 + tag_length, 0x0B70, handle, UINT)
        _transfer_starts[key] = start
    return start


def transfer_frame_head(
    channel: int,
    handle: int,
    delivery_id: int,
    delivery_tag: bytes,
    message_format: int,
    settled: bool,
    more: bool,
    payload_length: int,
) -> bytes:
    """A transfer's frame up to its payload, which the caller appends. The tag is at most 32 bytes."""
    tag_length = len(delivery_tag)
    flags = (1 if settled else 0) + (2 if more else 0)
    end = _PLAIN_ENDS[flags]
    if message_format:
        end = bytes((UINT,)) + _UINT32.pack(message_format) + _TRANSFER_FLAGS[flags]
    return _TRANSFER_HEADS[tag_length].pack(
        TRANSFER_HEAD_BYTES + tag_length + payload_length,
        _transfer_start(channel, handle, tag_length),
        delivery_id,
        _TAG_STARTS[tag_length],
        delivery_tag,
        end,
    )


# --- disposition ------------------------------------------------------------------------------------------------


class _DispositionTail:
    """The fields of a disposition from `settled` on."""

    __slots__ = ("batchable", "count", "settled", "state")

    def __init__(self, count: int, disposition: Disposition) -> None:
        self.count = count
        self.settled = disposition.settled
        self.state = disposition.state
        self.batchable = disposition.batchable


_disposition_tails: Final[dict[bytes, _DispositionTail]] = {}


def _disposition_tail(tail: bytes) -> _DispositionTail:
    values: list[object] = [False, UInt(0), None]
    offset = 0
    end = len(tail)
    while offset < end:
        value, offset = decode(tail, offset, end)
        values.append(value)
    decoded = _DispositionTail(len(values), Disposition.read(values))
    if decoded.state is ACCEPTED or decoded.state is RELEASED:
        if len(_disposition_tails) >= _MAX_CACHED_TAILS:
            _disposition_tails.clear()
        _disposition_tails[tail] = decoded
    return decoded


def _general_disposition(data: bytes, offset: int, end: int) -> Disposition:
    performative, _ = decode_performative(data, offset, end)
    assert isinstance(performative, Disposition)
    return performative


def decode_disposition(data: bytes, offset: int, end: int) -> Disposition:
    """The disposition whose `00 53 15` stands at `offset`."""
    try:
        if data[offset + 3] != LIST8:
            return _general_disposition(data, offset, end)
        stop = offset + 5 + data[offset + 4]
        count = data[offset + 5]
        code = data[offset + 6]
        position = offset + 7
        if code == TRUE or code == FALSE:
            role = code == TRUE
        elif code == BOOLEAN and data[position] <= 1:
            # In full, as the official Python SDK writes every boolean.
            role = data[position] == 1
            position += 1
        else:
            return _general_disposition(data, offset, end)
        first = _small_uint(data, position)
        position += _small_uint_width(data, position)
        last: int | None = None
        if data[position] == NULL:
            position += 1
        else:
            last = _small_uint(data, position)
            position += _small_uint_width(data, position)
        if position > stop or stop > end or stop - position > _MAX_TAIL_BYTES:
            return _general_disposition(data, offset, end)
        tail_bytes = data[position:stop]
        tail = _disposition_tails.get(tail_bytes)
        if tail is None:
            tail = _disposition_tail(tail_bytes)
        if tail.count != count:
            return _general_disposition(data, offset, end)
    except (IndexError, struct.error, DecodeError):
        return _general_disposition(data, offset, end)
    return Disposition(role, first, last, tail.settled, tail.state, tail.batchable)


def _small_uint(data: bytes, offset: int) -> int:
    """A uint in one of its three forms; DecodeError for anything else, which sends the caller to the general codec."""
    code = data[offset]
    if code == UINT:
        value: int = _unpack_uint32(data, offset + 1)[0]
        return value
    if code == SMALLUINT:
        return data[offset + 1]
    if code == UINT0:
        return 0
    raise DecodeError(f"no uint at offset {offset}")


def _small_uint_width(data: bytes, offset: int) -> int:
    code = data[offset]
    if code == UINT:
        return 5
    return 2 if code == SMALLUINT else 1


# size, frame type and channel | 00 53 15 c0, list size, count and role | 0x70, first | 0x70, last | settled
_DISPOSITION_HEAD: Final = struct.Struct(">IIIBHBIBIB")
_NULL_BYTES: Final = bytes([NULL])
_MAX_LIST8_STATE_BYTES: Final = 240


def disposition_frame(
    channel: int, role: bool, first: int, last: int, settled: bool, state: DeliveryState | None
) -> bytes:
    """A whole disposition frame."""
    if state is ACCEPTED:
        state_bytes = ACCEPTED_BYTES
    elif state is None:
        state_bytes = _NULL_BYTES
    elif state is RELEASED:
        state_bytes = RELEASED_BYTES
    else:
        state_bytes = state.encoded()
        if len(state_bytes) > _MAX_LIST8_STATE_BYTES:
            return frame(channel, Disposition(role, first, last, settled, state).encode())
    length = len(state_bytes)
    head = _DISPOSITION_HEAD.pack(
        # 8 of the frame header, 4 of the descriptor and the list's code, 1 of its size, and the list.
        13 + 14 + length,
        AMQP_FRAME | channel,
        0x0053_15C0,
        # count, role, twice 0x70 and 4 bytes, settled, batchable; and the state.
        14 + length,
        0x0600 | (TRUE if role else FALSE),
        UINT,
        first,
        UINT,
        last,
        TRUE if settled else FALSE,
    )
    return head + state_bytes + b"\x42"


# --- flow -------------------------------------------------------------------------------------------------------


def _general_flow(data: bytes, offset: int, end: int) -> Flow:
    performative, _ = decode_performative(data, offset, end)
    assert isinstance(performative, Flow)
    return performative


_MANDATORY_FLOW_FIELDS: Final = 4
_FLOW_UINTS: Final = 8
_FLOW_FLAGS: Final = 10


def decode_flow(data: bytes, offset: int, end: int) -> Flow:
    """The flow whose `00 53 13` stands at `offset`."""
    numbers: list[int | None] = [None] * _FLOW_UINTS
    flags = [False, False]
    try:
        if data[offset + 3] != LIST8:
            return _general_flow(data, offset, end)
        stop = offset + 5 + data[offset + 4]
        count = data[offset + 5]
        if count < _MANDATORY_FLOW_FIELDS or stop > end:
            return _general_flow(data, offset, end)
        position = offset + 6
        for index in range(count):
            code = data[position]
            if code == NULL:
                position += 1
            elif index < _FLOW_UINTS:
                numbers[index] = _small_uint(data, position)
                position += _small_uint_width(data, position)
            elif index < _FLOW_FLAGS and (code == TRUE or code == FALSE):
                flags[index - _FLOW_UINTS] = code == TRUE
                position += 1
            else:
                return _general_flow(data, offset, end)
        incoming_window = numbers[1]
        next_outgoing_id = numbers[2]
        outgoing_window = numbers[3]
        is_plain = position == stop and count <= _FLOW_FLAGS + 1
        if incoming_window is None or next_outgoing_id is None or outgoing_window is None or not is_plain:
            return _general_flow(data, offset, end)
    except (IndexError, struct.error, DecodeError):
        return _general_flow(data, offset, end)
    return Flow(
        numbers[0],
        incoming_window,
        next_outgoing_id,
        outgoing_window,
        numbers[4],
        numbers[5],
        numbers[6],
        numbers[7],
        flags[0],
        flags[1],
    )


# size, frame type and channel | 00 53 13 c0, list size, count and 0x70, next-incoming-id | three more uints |
# handle, delivery-count, link-credit, available | drain, echo, properties
_FLOW_FRAME: Final = struct.Struct(">IIIBHIBIBIBIBIBIBIBIBBB")


def flow_frame(channel: int, flow: Flow) -> bytes:
    """A whole flow frame. The form with every number set is the one sent per batch of messages."""
    next_incoming_id = flow.next_incoming_id
    handle = flow.handle
    delivery_count = flow.delivery_count
    link_credit = flow.link_credit
    available = flow.available
    if (
        next_incoming_id is None
        or handle is None
        or delivery_count is None
        or link_credit is None
        or available is None
        or flow.properties is not None
    ):
        return frame(channel, flow.encode())
    try:
        return _FLOW_FRAME.pack(
            _FLOW_FRAME.size,
            AMQP_FRAME | channel,
            0x0053_13C0,
            _FLOW_FRAME.size - 13,
            0x0B70,
            next_incoming_id,
            UINT,
            flow.incoming_window,
            UINT,
            flow.next_outgoing_id,
            UINT,
            flow.outgoing_window,
            UINT,
            handle,
            UINT,
            delivery_count,
            UINT,
            link_credit,
            UINT,
            available,
            TRUE if flow.drain else FALSE,
            TRUE if flow.echo else FALSE,
            NULL,
        )
    except struct.error:
        # A number is out of range: the general encoder says which.
        return frame(channel, flow.encode())
