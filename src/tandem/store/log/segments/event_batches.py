"""Events in portions of the size of a record batch, and the columns that only readers over AMQP need.

It loads pyarrow, as `tandem.event_columns` does, and is imported where it is needed and not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from tandem.arrow import load_arrow
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.rows import Rows
from tandem.event_columns import binaries, head_batch, heads_of, integers, nullable_binaries, public_batch
from tandem.store.log.log_limits import LogLimits

__all__ = ["AMQP_SCHEMA", "END_OF_STREAM", "amqp_batch", "batches_of", "head_batches_of", "rows_of", "with_metadata"]

pa: Final = load_arrow()

# The sender's annotations, encoded and counted, and the bare message around the body. No footer means that the head is
# the whole bare message. Older segments have no columns for delivery annotations.
AMQP_SCHEMA: Final = pa.schema(
    [
        ("annotations", pa.binary()),
        ("annotationCount", pa.int32()),
        ("head", pa.binary()),
        ("footer", pa.binary()),
        ("deliveryAnnotations", pa.binary()),
        ("deliveryAnnotationCount", pa.int32()),
    ]
)

# What a stream of Arrow IPC ends with: a message without length.
END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def rows_of(records: Iterable[list[Event]], limits: LogLimits) -> Iterator[Rows]:
    """Events of one record after those of another, in portions of the size of a record batch, which have no gaps."""
    rows: Rows | None = None
    for events in records:
        if rows is not None and events and events[0].sequence_number != rows.first_sequence_number + len(rows):
            yield rows
            rows = None
        at = 0
        while at < len(events):
            if rows is None:
                rows = Rows(events[at].sequence_number)
            at = rows.fill(events, at, limits.batch_rows, limits.batch_bytes)
            if at < len(events):
                yield rows
                rows = None
    if rows is not None:
        yield rows


def batches_of(records: Iterable[list[Event]], partition_id: int, limits: LogLimits) -> Iterator[Any]:
    """Events as batches of the public columns."""
    for rows in rows_of(records, limits):
        yield public_batch(rows, partition_id)


def head_batches_of(records: Iterable[list[Event]], limits: LogLimits) -> Iterator[Any]:
    """The heads of events as batches."""
    for rows in rows_of(records, limits):
        yield head_batch(rows.first_sequence_number, heads_of(rows))


def amqp_batch(rows: Rows) -> Any:
    columns = [
        binaries(pa.binary(), rows.annotations),
        integers(pa.int32(), "i", rows.annotation_counts),
        binaries(pa.binary(), rows.heads),
        nullable_binaries(pa.binary(), rows.footers),
        binaries(pa.binary(), rows.delivery_annotations),
        integers(pa.int32(), "i", rows.delivery_annotation_counts),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=AMQP_SCHEMA)


def with_metadata(schema: Any, metadata: Mapping[str, object]) -> Any:
    """A schema that says more: the values as text."""
    return schema.with_metadata({key: str(value) for key, value in metadata.items()})
