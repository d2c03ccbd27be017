"""The events of one transfer, as they are appended to a partition: whole, and not taken apart before somebody reads."""

from __future__ import annotations

from zlib import crc32

from tandem.amqp.batch import partition_key, split_batch
from tandem.amqp.message import Message
from tandem.amqp.rewriting import with_service_decimals
from tandem.amqp.sections import (
    APPLICATION_PROPERTIES,
    DECIMAL128,
    DELIVERY_ANNOTATIONS,
    MESSAGE_ANNOTATIONS,
    NO_ENTRIES,
    Entries,
    Sections,
)
from tandem.engine.hubs.event import EVENT_ANNOTATIONS, RUNTIME_METRICS, Event
from tandem.errors import DecodeError

__all__ = ["EventRecord", "ProducerMark", "transfer_checksum"]


class ProducerMark:
    """Where an idempotent producer stands: the number of its last event, and the transfer that this event came in.

    `count` and `checksum` are those of that transfer, 0 if it is not known. A record carries the mark that it leaves.
    """

    __slots__ = ("checksum", "count", "epoch", "producer_id", "sequence_number")

    def __init__(self, producer_id: int, epoch: int, sequence_number: int, count: int = 0, checksum: int = 0) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence_number = sequence_number
        self.count = count
        self.checksum = checksum


def transfer_checksum(payload: bytes | memoryview) -> int:
    """Return what tells the transfer that is sent again from another one with the same numbers."""
    return crc32(payload)


class EventRecord:
    """One append. All its events have one publisher, one enqueued time, and the key of the transfer if it has one."""

    __slots__ = (
        "_events",
        "count",
        "enqueued_at_ms",
        "first_sequence_number",
        "hub_number",
        "is_batch",
        "partition_id",
        "partition_key",
        "payload",
        "producer",
        "publisher",
    )

    def __init__(
        self,
        hub_number: int,
        partition_id: int,
        first_sequence_number: int,
        count: int,
        enqueued_at_ms: int,
        payload: bytes,
        is_batch: bool,
        partition_key: str | None = None,
        publisher: str | None = None,
        producer: ProducerMark | None = None,
    ) -> None:
        self.hub_number = hub_number
        self.partition_id = partition_id
        self.first_sequence_number = first_sequence_number
        self.count = count
        self.enqueued_at_ms = enqueued_at_ms
        # As it came: one message, or the envelope around many.
        self.payload = payload
        self.is_batch = is_batch
        self.partition_key = partition_key
        self.publisher = publisher
        self.producer = producer
        self._events: list[Event] | None = None

    @property
    def next_sequence_number(self) -> int:
        return self.first_sequence_number + self.count

    @property
    def size_bytes(self) -> int:
        return len(self.payload)

    def events(self) -> list[Event]:
        """One by one. They are taken apart once, however many read them."""
        events = self._events
        if events is None:
            pieces = split_batch(self.payload) if self.is_batch else [self.payload]
            number = self.first_sequence_number
            events = []
            for piece in pieces:
                message = Message(piece)
                sections = message.sections
                key = self.partition_key
                if key is None and self.is_batch:
                    # A client that knows where keys belong sends a partition what is for it, of many keys.
                    key = partition_key(message)
                events.append(
                    Event(
                        number,
                        self.enqueued_at_ms,
                        key,
                        self.publisher,
                        sections.entries(MESSAGE_ANNOTATIONS, EVENT_ANNOTATIONS).with_service_decimals(),
                        _bare(sections),
                        _delivery_annotations(sections),
                    )
                )
                number += 1
            self._events = events
        return events


def _bare(sections: Sections) -> bytes:
    """Return the bare message as it is delivered: as it was sent, but for the layout of decimals, which SDKs must be
    able to read. A reader that fails at an event never gets beyond it."""
    bare = sections.bare()
    start, end = sections.value_span(APPLICATION_PROPERTIES)
    return with_service_decimals(bare) if sections.payload.find(DECIMAL128, start, max(0, end)) >= 0 else bare


def _delivery_annotations(sections: Sections) -> Entries:
    try:
        return sections.entries(DELIVERY_ANNOTATIONS, RUNTIME_METRICS).with_service_decimals()
    except DecodeError:
        # A hub refuses them when they are sent; a version that ignored them has stored such events.
        return NO_ENTRIES
