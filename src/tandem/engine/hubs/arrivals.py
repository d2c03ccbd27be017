"""Events as they come over AMQP, into rows: taken apart only as far as the columns need.

What lies before the bare message of events that follow each other differs in a number, a time and an offset, and in
nothing else. So the layout of one is kept, and if all other bytes of the next are the same, those three are read from
where they must be, and its sections are not even looked for. Otherwise they are located, and the annotations walked
through: short symbols as keys, and values of a handful of types. What looks otherwise still is left to the general
decoder.
"""

from __future__ import annotations

import struct
from typing import Final

from tandem.amqp.message import Message
from tandem.amqp.sections import MESSAGE_ANNOTATIONS, PROPERTIES, Entries, Sections, locate
from tandem.engine.hubs.event import EVENT_ANNOTATIONS, Event
from tandem.engine.hubs.rows import Rows
from tandem.wire_names import ENQUEUED_TIME, OFFSET, PARTITION_KEY, PUBLISHER, SEQUENCE_NUMBER

__all__ = ["Arrivals", "EventReader"]

_SEQUENCE_NUMBER: Final = SEQUENCE_NUMBER.encode()
_OFFSET: Final = OFFSET.encode()
_ENQUEUED_TIME: Final = ENQUEUED_TIME.encode()
_PARTITION_KEY: Final = PARTITION_KEY.encode()
_PUBLISHER: Final = PUBLISHER.encode()

_SHORT_SYMBOL: Final = 0xA3
_SHORT_STRING: Final = 0xA1
_LONG_CODE: Final = 0x81
_TIMESTAMP_CODE: Final = 0x83

_LONG: Final = struct.Struct(">q")

# Bytes of a value by its constructor, for those of fixed width (AMQP 1.0 part 1.6).
_WIDTHS: Final = {
    0x40: 0, 0x41: 0, 0x42: 0, 0x43: 0, 0x44: 0, 0x50: 1, 0x51: 1, 0x52: 1, 0x53: 1, 0x54: 1, 0x55: 1, 0x56: 1,
    0x60: 2, 0x61: 2, 0x70: 4, 0x71: 4, 0x72: 4, 0x80: 8, 0x81: 8, 0x82: 8, 0x83: 8, 0x98: 16,
}  # fmt: skip

# The constructor of a value, where it begins, and what is behind it.
_Place = tuple[int, int, int]


class Arrivals:
    """Consecutive events of a partition on their way to a record batch, with the offsets that the service gave them."""

    __slots__ = ("_max_bytes", "_max_rows", "_reader", "next_number", "offsets", "rows")

    def __init__(self, first_number: int, max_rows: int, max_bytes: int) -> None:
        self._reader = EventReader()
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self.rows = Rows(first_number)
        self.offsets: list[bytes | None] = []
        # Of the event that is to come next.
        self.next_number = first_number

    def begin(self, first_number: int) -> None:
        """A new batch."""
        self.rows = Rows(first_number)
        self.offsets = []
        self.next_number = first_number

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def is_full(self) -> bool:
        return len(self.offsets) >= self._max_rows or self.rows.size_bytes >= self._max_bytes

    def fill(self, payloads: list[bytes], start: int, end_number: int) -> int:
        """Add events from an index on while each is the next one, below `end_number`, and there is room.

        The index of the first that was not added. One that was there before is not wanted again.
        """
        reader = self._reader
        rows = self.rows
        offsets = self.offsets
        max_rows, max_bytes = self._max_rows, self._max_bytes
        number = self.next_number
        at = start
        while at < len(payloads) and number < end_number and len(offsets) < max_rows and rows.size_bytes < max_bytes:
            event = reader.read(payloads[at])
            if event is None or event.sequence_number > number:
                break
            at += 1
            if event.sequence_number == number:
                rows.add(event)
                offsets.append(reader.offset)
                number += 1
        self.next_number = number
        return at

    def number_of(self, payload: bytes) -> int | None:
        """The number of an event that was not added; None of what is no event of a hub."""
        event = self._reader.read(payload)
        return None if event is None else event.sequence_number


class _Layout:
    """Where in front of a bare message what varies is, and all the bytes around it."""

    __slots__ = ("constant", "number_at", "offset_at", "offset_end", "size", "time_at")

    def __init__(self, payload: bytes, size: int, number: _Place, time: _Place, offset: _Place) -> None:
        self.size = size
        self.number_at = number[1]
        self.time_at = time[1]
        self.offset_at = offset[1]
        self.offset_end = offset[2]
        self.constant: list[tuple[int, bytes]] = []
        at = 0
        for _, value, behind in sorted((number, time, offset), key=lambda place: place[1]):
            self.constant.append((at, payload[at:value]))
            at = behind
        self.constant.append((at, payload[at:size]))


class EventReader:
    """Reads events of one partition, one after the other."""

    __slots__ = ("_last", "_layout", "offset")

    def __init__(self) -> None:
        self._layout: _Layout | None = None
        # The one that the layout was taken from: the next ones of it have the same but for a number and a time.
        self._last: Event | None = None
        # Of the event that was read last.
        self.offset: bytes | None = None

    def read(self, payload: bytes) -> Event | None:
        """None for what carries no sequence number: that is no event of a hub."""
        event = self._recognized(payload)
        if event is not None:
            return event
        sections = locate(payload)
        event = self._walked(sections)
        return event if event is not None else self._decoded(sections)

    def _recognized(self, payload: bytes) -> Event | None:
        layout, last = self._layout, self._last
        if layout is None or last is None:
            return None
        size = layout.size
        # What follows is the bare message if it begins like one; an event without one is rare enough.
        if len(payload) < size + 3 or payload[size + 2] < PROPERTIES:
            return None
        for at, constant in layout.constant:
            if not payload.startswith(constant, at):
                return None
        offset = payload[layout.offset_at : layout.offset_end]
        if not offset.isascii():
            return None
        self.offset = offset
        return Event(
            int(_LONG.unpack_from(payload, layout.number_at)[0]),
            int(_LONG.unpack_from(payload, layout.time_at)[0]),
            last.partition_key,
            last.publisher,
            last.annotations,
            payload[size:],
        )

    def _walked(self, sections: Sections) -> Event | None:
        payload = sections.payload
        start, end = sections.value_span(MESSAGE_ANNOTATIONS)
        if start < 0:
            return None
        at = start + (3 if payload[start] == 0xC1 else 9)
        places: dict[bytes, _Place] = {}
        kept: list[bytes] = []
        try:
            while at < end:
                if payload[at] != _SHORT_SYMBOL:
                    return None
                key_end = at + 2 + payload[at + 1]
                key, kind = payload[at + 2 : key_end], payload[key_end]
                width = _WIDTHS.get(kind)
                value = key_end + 1
                if width is None:
                    if kind not in {_SHORT_STRING, _SHORT_SYMBOL}:
                        return None
                    value, width = key_end + 2, payload[key_end + 1]
                behind = value + width
                if key in EVENT_ANNOTATIONS:
                    places[key] = (kind, value, behind)
                else:
                    kept.append(payload[at:behind])
                at = behind
        except IndexError:
            return None
        return self._made(sections, places, Entries(b"".join(kept), 2 * len(kept))) if at == end else None

    def _made(self, sections: Sections, places: dict[bytes, _Place], annotations: Entries) -> Event | None:
        """The event, and its layout for those that follow."""
        payload = sections.payload
        number, time, offset = places.get(_SEQUENCE_NUMBER), places.get(_ENQUEUED_TIME), places.get(_OFFSET)
        if number is None or time is None or offset is None:
            return None
        if number[0] != _LONG_CODE or time[0] != _TIMESTAMP_CODE or offset[0] != _SHORT_STRING:
            return None
        try:
            texts = {
                key: payload[place[1] : place[2]].decode() for key, place in places.items() if place[0] == _SHORT_STRING
            }
        except UnicodeDecodeError:
            return None
        for key in (_PARTITION_KEY, _PUBLISHER):
            if key in places and key not in texts:
                return None
        event = Event(
            int(_LONG.unpack_from(payload, number[1])[0]),
            int(_LONG.unpack_from(payload, time[1])[0]),
            texts.get(_PARTITION_KEY),
            texts.get(_PUBLISHER),
            annotations,
            sections.bare(),
        )
        self.offset = payload[offset[1] : offset[2]]
        # In another order of sections, what is in front of the bare message is not all in one piece.
        if sections.is_canonical:
            _, end = sections.value_span(MESSAGE_ANNOTATIONS)
            self._layout = _Layout(payload, end, number, time, offset)
            self._last = event
        return event

    def _decoded(self, sections: Sections) -> Event | None:
        """By the general decoder."""
        annotations = Message(sections.payload).message_annotations or {}
        marks = {str(key): value for key, value in annotations.items()}
        number, time_ms = marks.get(_SEQUENCE_NUMBER.decode()), marks.get(_ENQUEUED_TIME.decode())
        offset = marks.get(_OFFSET.decode())
        key, publisher = marks.get(_PARTITION_KEY.decode()), marks.get(_PUBLISHER.decode())
        if not isinstance(number, int):
            return None
        self.offset = offset.encode() if isinstance(offset, str) else None
        return Event(
            int(number),
            int(time_ms) if isinstance(time_ms, int) else 0,
            str(key) if isinstance(key, str) else None,
            str(publisher) if isinstance(publisher, str) else None,
            sections.entries(MESSAGE_ANNOTATIONS, EVENT_ANNOTATIONS),
            sections.bare(),
        )
