"""Bytes as frames: how the tests read what a stack wrote, and what every stack must write, whatever happens to it.

`WireReader` decodes with the general codec only, so that the hand-tuned encoders are seen from outside, and it audits
each frame: all fields present, compact descriptors, nothing on a handle or channel that is not in use, nothing behind
a close.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Final

from tandem.amqp.connection import AMQP_HEADER
from tandem.amqp.decode import decode
from tandem.amqp.fields import decode_composite
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
    decode_performative,
)
from tandem.amqp.sasl import SASL_HEADER
from tandem.amqp.types import Described, ULong

# Every field is written, nulls included: clients index the decoded list by position.
FIELD_COUNTS: Final = {
    0x10: 10,  # open
    0x11: 8,  # begin
    0x12: 14,  # attach
    0x13: 11,  # flow
    0x14: 11,  # transfer
    0x15: 6,  # disposition
    0x16: 3,  # detach
    0x17: 1,  # end
    0x18: 1,  # close
    0x1D: 3,  # error
    0x25: 1,  # rejected
    0x27: 3,  # modified
    0x28: 11,  # source
    0x29: 7,  # target
    0x30: 1,  # coordinator
    0x33: 1,  # declared
    0x34: 2,  # transactional-state
    0x40: 1,  # sasl-mechanisms
    0x41: 3,  # sasl-init
    0x44: 2,  # sasl-outcome
}


def amqp_frame(performative: Performative, channel: int = 0, payload: bytes = b"") -> bytes:
    """A frame as any peer would write it."""
    return raw_frame(performative.encode() + payload, channel)


def raw_frame(body: bytes, channel: int = 0, kind: int = 0) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, kind, channel) + body


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One protocol header (`header` is set) or one frame."""

    raw: bytes
    header: bytes = b""
    kind: int = 0
    channel: int = 0
    performative: Performative | None = None
    # What a SASL frame holds, since its frames have no classes of their own.
    sasl_code: int = 0
    sasl_fields: tuple[object, ...] = ()
    payload: bytes = b""


class WireReader:
    """Reads one direction of a connection, from its first byte on."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.is_closed = False
        self.is_opened = False
        self.max_frame_size = 0xFFFF_FFFF
        # Handles in use, by channel. The specification lets a handle be used between its attach and its detach.
        self.handles: dict[int, set[int]] = {}

    def read(self, data: bytes) -> list[Frame]:
        """The frames in `data`, audited. A stack writes whole frames only."""
        found: list[Frame] = []
        offset = 0
        while offset < len(data):
            if data[offset : offset + 4] == b"AMQP":
                header = data[offset : offset + 8]
                assert header in {AMQP_HEADER, SASL_HEADER}
                found.append(Frame(header, header=header))
                offset += 8
                continue
            (size,) = struct.unpack_from(">I", data, offset)
            assert 8 <= size <= len(data) - offset, "a frame is written in part"
            assert size <= self.max_frame_size, "a frame is larger than the peer's max-frame-size"
            found.append(self._frame(data[offset : offset + size]))
            offset += size
        self.frames += found
        return found

    def _frame(self, raw: bytes) -> Frame:
        _, data_offset, kind, channel = struct.unpack_from(">IBBH", raw)
        assert data_offset == 2
        assert not self.is_closed, "a frame is written behind a close"
        if len(raw) == 8:
            return Frame(raw)
        assert raw[8:10] == b"\x00\x53", "a descriptor is not a smallulong"
        if kind == 1:
            descriptor, fields, stop = decode_composite(raw, 8, len(raw))
            assert stop == len(raw)
            assert isinstance(descriptor, ULong)
            _audit_fields(int(descriptor), fields)
            return Frame(raw, kind=1, sasl_code=int(descriptor), sasl_fields=tuple(fields))
        assert kind == 0
        value, stop = decode(raw, 8, len(raw))
        assert isinstance(value, Described)
        _audit(value)
        performative, _ = decode_performative(raw, 8, len(raw))
        payload = raw[stop:]
        assert not payload or isinstance(performative, Transfer)
        self._follow(channel, performative)
        return Frame(raw, channel=channel, performative=performative, payload=payload)

    def _follow(self, channel: int, performative: Performative) -> None:
        """Keep the books that tell whether a frame may be written here and now."""
        if isinstance(performative, Open):
            assert not self.is_opened
            self.is_opened = True
            return
        assert self.is_opened, "a frame is written before the open"
        if isinstance(performative, Close):
            self.is_closed = True
        elif isinstance(performative, Begin):
            assert channel not in self.handles, "a channel is begun twice"
            self.handles[channel] = set()
        else:
            assert channel in self.handles, "a frame is written on a channel that is not begun"
            if isinstance(performative, End):
                del self.handles[channel]
            else:
                _follow_link(self.handles[channel], performative)


def _follow_link(handles: set[int], performative: Performative) -> None:
    if isinstance(performative, Attach):
        assert performative.handle not in handles, "a handle is attached twice"
        handles.add(performative.handle)
    elif isinstance(performative, Detach):
        assert performative.handle in handles, "a handle is detached that was not attached"
        assert performative.closed, "a detach does not close"
        handles.remove(performative.handle)
    elif isinstance(performative, Transfer):
        assert performative.handle in handles, "a transfer is written on a handle that is not attached"
        assert performative.delivery_id is not None
        assert performative.delivery_tag is not None
        assert performative.message_format is not None
        assert performative.settled is not None
    elif isinstance(performative, Flow):
        assert performative.handle is None or performative.handle in handles, "a flow is written for no handle"
        assert performative.next_incoming_id is not None
    else:
        assert isinstance(performative, Disposition)
        assert performative.last is not None, "a disposition is written without its last"


def _audit(value: object) -> None:
    """Every composite of ours has all its fields, wherever it stands."""
    if isinstance(value, Described):
        if isinstance(value.descriptor, ULong) and isinstance(value.value, list):
            _audit_fields(int(value.descriptor), value.value)
    elif isinstance(value, list):
        for item in value:
            _audit(item)


def _audit_fields(code: int, fields: list[object]) -> None:
    assert len(fields) == FIELD_COUNTS.get(code, len(fields)), f"composite {code:#x} has {len(fields)} fields"
    for field in fields:
        _audit(field)
