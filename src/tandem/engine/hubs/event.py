"""One event, as it lies in a partition and as it is delivered."""

from __future__ import annotations

import struct
from typing import Final

from tandem import wire_names
from tandem.amqp.rewriting import with_service_decimals
from tandem.amqp.sections import (
    DATA,
    DECIMAL128,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    NO_ENTRIES,
    Entries,
    symbol_key,
)

__all__ = ["EVENT_ANNOTATIONS", "RUNTIME_METRICS", "Event", "offset_of", "size_of"]

# The epoch of the numbers is always -1: it rises when a namespace is failed over by geo-replication, which is not here.
_START: Final = (
    symbol_key(wire_names.SEQUENCE_NUMBER_EPOCH, b"\x54") + b"\xff" + symbol_key(wire_names.SEQUENCE_NUMBER, b"\x81")
)
_OFFSET_KEY: Final = symbol_key(wire_names.OFFSET, b"\xa1")
_TIME_KEY: Final = symbol_key(wire_names.ENQUEUED_TIME, b"\x83")
_PARTITION_KEY: Final = symbol_key(wire_names.PARTITION_KEY, b"")
_PUBLISHER_KEY: Final = symbol_key(wire_names.PUBLISHER, b"")

_LONG: Final = struct.Struct(">q")

# How a section of data begins.
_DATA_SECTION: Final = bytes((0x00, 0x53, DATA))

# Annotations that the hub itself says of an event; those of the sender under the same names are dropped.
EVENT_ANNOTATIONS: Final = frozenset(
    name.encode()
    for name in (
        wire_names.ENQUEUED_TIME,
        wire_names.SEQUENCE_NUMBER,
        wire_names.SEQUENCE_NUMBER_EPOCH,
        wire_names.OFFSET,
        wire_names.PARTITION_KEY,
        wire_names.PUBLISHER,
        wire_names.PARTITION_ID,
        wire_names.PRODUCER_EPOCH,
        wire_names.PRODUCER_ID,
        wire_names.PRODUCER_SEQUENCE_NUMBER,
    )
)

# Delivery annotations in which the hub reports, to readers that ask for it, how far a partition is. Those of the sender
# under the same names are dropped: an SDK would take them for a report.
RUNTIME_METRICS: Final = frozenset(
    {
        b"last_enqueued_sequence_number",
        b"last_enqueued_sequence_number_epoch",
        b"last_enqueued_offset",
        b"last_enqueued_time_utc",
        b"runtime_info_retrieval_time_utc",
    }
)


def offset_of(sequence_number: int) -> str:
    """Offsets are opaque to clients, except that they rise. Here they say the same as the sequence number."""
    return str(sequence_number)


class Event:
    """An event as a reader gets it: the hub's annotations, those of the sender, and the bare message as it was sent."""

    __slots__ = (
        "_encoded",
        "annotations",
        "bare",
        "delivery_annotations",
        "enqueued_at_ms",
        "partition_key",
        "publisher",
        "sequence_number",
    )

    def __init__(
        self,
        sequence_number: int,
        enqueued_at_ms: int,
        partition_key: str | None,
        publisher: str | None,
        annotations: Entries,
        bare: bytes,
        delivery_annotations: Entries = NO_ENTRIES,
    ) -> None:
        self.sequence_number = sequence_number
        self.enqueued_at_ms = enqueued_at_ms
        self.partition_key = partition_key
        self.publisher = publisher
        # The sender's, without those in EVENT_ANNOTATIONS.
        self.annotations = annotations
        # Properties to footer.
        self.bare = bare
        # The sender's, without those in RUNTIME_METRICS.
        self.delivery_annotations = delivery_annotations
        self._encoded: bytes | None = None

    @property
    def size_bytes(self) -> int:
        return len(self.bare) + len(self.annotations.encoded) + len(self.delivery_annotations.encoded)

    def encoded(self, metrics: Entries = NO_ENTRIES) -> bytes:
        """Return the event as it is delivered. All but the delivery annotations is made once, for every reader.

        Decimals get the layout that SDKs read: a reader that fails at one event never gets beyond it.
        """
        encoded = self._encoded
        if encoded is None:
            bare = self.bare
            # A message that begins with its body has no application properties. Others are searched, which is cheap.
            if not bare.startswith(_DATA_SECTION) and DECIMAL128 in bare:
                bare = with_service_decimals(bare)
            encoded = self._encoded = self._annotations().to_section(MESSAGE_ANNOTATIONS) + bare
        if not metrics.count and not self.delivery_annotations.count:
            return encoded
        sent = self.delivery_annotations.with_service_decimals()
        return metrics.followed_by(sent).to_section(DELIVERY_ANNOTATIONS) + encoded

    def _annotations(self) -> Entries:
        """Return the annotations of the hub, followed by those of the sender."""
        offset = offset_of(self.sequence_number).encode()
        own = b"".join(
            (
                _START,
                _LONG.pack(self.sequence_number),
                _OFFSET_KEY,
                bytes((len(offset),)),
                offset,
                _TIME_KEY,
                _LONG.pack(self.enqueued_at_ms),
            )
        )
        count = 8
        if self.partition_key is not None:
            own += _PARTITION_KEY + _string(self.partition_key)
            count += 2
        if self.publisher is not None:
            own += _PUBLISHER_KEY + _string(self.publisher)
            count += 2
        return Entries(own, count).followed_by(self.annotations.with_service_decimals())


def _string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) < 256:
        return bytes((0xA1, len(encoded))) + encoded
    return b"\xb1" + len(encoded).to_bytes(4, "big") + encoded


def size_of(events: list[Event]) -> int:
    """Return how many bytes events have together."""
    size_bytes = 0
    for event in events:
        size_bytes += event.size_bytes
    return size_bytes
