"""Rows as Arrow record batches: the public columns, and those that only readers over AMQP need.

This is one of the few modules that load pyarrow, which takes a tenth of a second and 40 MB: it is imported where it is
needed and not before. Arrays are made of their buffers and not by `pa.array`, which is three times as fast and does not
load pandas where that happens to be installed, nor by casts, which load pyarrow.compute: either takes a second.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa

from tandem.engine.hubs.event import Event
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.rows import Pairs, Rows

__all__ = [
    "AMQP_SCHEMA",
    "END_OF_STREAM",
    "PUBLIC_SCHEMA",
    "amqp_batch",
    "batches_of",
    "public_batch",
    "rows_of",
    "with_metadata",
]

_TEXT_MAP: Final = pa.map_(pa.string(), pa.string())

# Exactly what Spark makes of its own schema: all nullable, microseconds in UTC, no large types, no dictionaries.
PUBLIC_SCHEMA: Final = pa.schema(
    [
        ("body", pa.binary()),
        ("partition", pa.string()),
        ("offset", pa.string()),
        ("sequenceNumber", pa.int64()),
        ("enqueuedTime", pa.timestamp("us", tz="UTC")),
        ("publisher", pa.string()),
        ("partitionKey", pa.string()),
        ("properties", _TEXT_MAP),
        ("systemProperties", _TEXT_MAP),
    ]
)

# The sender's annotations, encoded and counted, and the bare message around the body. No footer means that the head is
# the whole bare message.
AMQP_SCHEMA: Final = pa.schema(
    [
        ("annotations", pa.binary()),
        ("annotationCount", pa.int32()),
        ("head", pa.binary()),
        ("footer", pa.binary()),
    ]
)

# What a stream of Arrow IPC ends with: a message without length.
END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def rows_of(records: Iterable[list[Event]], limits: LogLimits) -> Iterator[Rows]:
    """Consecutive events, those of one record after those of another, in portions of the size of a record batch."""
    rows: Rows | None = None
    for events in records:
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
    """Consecutive events as batches of the public columns."""
    for rows in rows_of(records, limits):
        yield public_batch(rows, partition_id)


def public_batch(rows: Rows, partition_id: int) -> Any:
    count = len(rows)
    first = rows.first_sequence_number
    numbers = range(first, first + count)
    times = _integers(pa.timestamp("us", tz="UTC"), "q", [1_000 * time_ms for time_ms in rows.times_ms])
    columns = [
        _binaries(pa.binary(), rows.bodies),
        _binaries(pa.string(), [b"%d" % partition_id] * count),
        _binaries(pa.string(), [b"%d" % number for number in numbers]),
        _integers(pa.int64(), "q", numbers),
        times,
        _texts(rows.publishers),
        _texts(rows.partition_keys),
        _maps(rows.properties),
        _maps(rows.system_properties),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PUBLIC_SCHEMA)


def amqp_batch(rows: Rows) -> Any:
    columns = [
        _binaries(pa.binary(), rows.annotations),
        _integers(pa.int32(), "i", rows.annotation_counts),
        _binaries(pa.binary(), rows.heads),
        _nullable_binaries(pa.binary(), rows.footers),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=AMQP_SCHEMA)


def with_metadata(schema: Any, metadata: Mapping[str, object]) -> Any:
    """A schema that says more: the values as text."""
    return schema.with_metadata({key: str(value) for key, value in metadata.items()})


def _integers(kind: Any, code: str, values: Sequence[int]) -> Any:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(code, values))])


def _binaries(kind: Any, values: Sequence[bytes]) -> Any:
    if any(values):
        ends = array("i", [0])
        ends.extend(accumulate(map(len, values)))
    else:
        # Annotations, footers and properties of most events.
        ends = array("i", bytes(4 * (len(values) + 1)))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])


def _nullable_binaries(kind: Any, values: Sequence[bytes | None]) -> Any:
    present = [b"" if value is None else value for value in values]
    if None not in values:
        return _binaries(kind, present)
    # One bit for each value, that of the first is the lowest.
    bits = "".join(["0" if value is None else "1" for value in reversed(values)])
    validity = pa.py_buffer(int(bits, 2).to_bytes((len(bits) + 7) // 8, "little"))
    return pa.Array.from_buffers(kind, len(values), [validity, *_binaries(kind, present).buffers()[1:]])


def _texts(values: list[str | None]) -> Any:
    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.string())
    return _nullable_binaries(pa.string(), [None if value is None else value.encode() for value in values])


def _maps(pairs: Pairs) -> Any:
    ends = _integers(pa.int32(), "i", pairs.ends)
    keys = _binaries(pa.string(), [key.encode() for key in pairs.keys])
    values = _binaries(pa.string(), [value.encode() for value in pairs.values])
    return pa.MapArray.from_arrays(ends, keys, values, type=_TEXT_MAP)
