"""Rows of events as Arrow record batches, with the columns that readers of a hub see; and arrays made of their buffers.

This is one of the few modules that load pyarrow, which takes a tenth of a second and 40 MB: it is imported where it is
needed and not before. Arrays are made of their buffers and not by `pa.array`, which is three times as fast and does not
load pandas where that happens to be installed, nor by casts, which load pyarrow.compute: either takes a second.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from tandem.arrow import load_arrow
from tandem.engine.hubs.rows import Pairs, Rows

__all__ = [
    "HEAD",
    "HEAD_SCHEMA",
    "PUBLIC_SCHEMA",
    "binaries",
    "head_batch",
    "heads_of",
    "integers",
    "nullable_binaries",
    "public_batch",
]

pa: Final = load_arrow()

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


# What lies before the body in the bare message, as it was sent: in it, application properties have their own types. The
# whole message of an event whose body is not one data section; null where it cannot be read.
HEAD: Final = "head"
HEAD_SCHEMA: Final = pa.schema([("sequenceNumber", pa.int64()), (HEAD, pa.binary())])


def heads_of(rows: Rows) -> Any:
    """The heads of consecutive events."""
    return binaries(pa.binary(), rows.heads)


def head_batch(first: int, heads: Any) -> Any:
    """A record batch of heads, the first of which is that of the event `first`."""
    numbers = integers(pa.int64(), "q", range(first, first + len(heads)))
    return pa.RecordBatch.from_arrays([numbers, heads], schema=HEAD_SCHEMA)


def public_batch(rows: Rows, partition_id: int, offsets: Sequence[bytes | None] | None = None) -> Any:
    """What readers see of consecutive events. Without `offsets` these are as Tandem writes them: the numbers."""
    count = len(rows)
    first = rows.first_sequence_number
    numbers = range(first, first + count)
    if offsets is None:
        offset_column = binaries(pa.string(), [b"%d" % number for number in numbers])
    else:
        offset_column = nullable_binaries(pa.string(), offsets)
    times = integers(pa.timestamp("us", tz="UTC"), "q", [1_000 * time_ms for time_ms in rows.times_ms])
    columns = [
        binaries(pa.binary(), rows.bodies),
        binaries(pa.string(), [b"%d" % partition_id] * count),
        offset_column,
        integers(pa.int64(), "q", numbers),
        times,
        _texts(rows.publishers),
        _texts(rows.partition_keys),
        _maps(rows.properties),
        _maps(rows.system_properties),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=PUBLIC_SCHEMA)


def integers(kind: Any, code: str, values: Sequence[int]) -> Any:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(code, values))])


def binaries(kind: Any, values: Sequence[bytes]) -> Any:
    if any(values):
        ends = array("i", [0])
        ends.extend(accumulate(map(len, values)))
    else:
        # Annotations, footers and properties of most events.
        ends = array("i", bytes(4 * (len(values) + 1)))
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))])


def nullable_binaries(kind: Any, values: Sequence[bytes | None]) -> Any:
    present = [b"" if value is None else value for value in values]
    if None not in values:
        return binaries(kind, present)
    # One bit for each value, that of the first is the lowest.
    bits = "".join(["0" if value is None else "1" for value in reversed(values)])
    validity = pa.py_buffer(int(bits, 2).to_bytes((len(bits) + 7) // 8, "little"))
    return pa.Array.from_buffers(kind, len(values), [validity, *binaries(kind, present).buffers()[1:]])


def _texts(values: list[str | None]) -> Any:
    if values.count(None) == len(values):
        return pa.nulls(len(values), pa.string())
    return nullable_binaries(pa.string(), [None if value is None else value.encode() for value in values])


def _maps(pairs: Pairs) -> Any:
    ends = integers(pa.int32(), "i", pairs.ends)
    keys = binaries(pa.string(), [key.encode() for key in pairs.keys])
    values = binaries(pa.string(), [value.encode() for value in pairs.values])
    return pa.MapArray.from_arrays(ends, keys, values, type=_TEXT_MAP)
