"""Events in columns, as a hub has them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from tandem.event_columns import PUBLIC_SCHEMA

__all__ = ["START", "event", "events"]

# Two seconds before another hour.
START: Final = datetime(2026, 11, 16, 7, 59, 58, tzinfo=UTC)


def event(number: int, *, partition: str = "0", body: bytes | None = None, **more: object) -> dict[str, object]:
    """Event number n is enqueued n seconds after the start."""
    return {
        "body": str(number).encode() if body is None else body,
        "partition": partition,
        "offset": str(number),
        "sequenceNumber": number,
        "enqueuedTime": START + timedelta(seconds=number),
        "properties": [],
        "systemProperties": [],
        **more,
    }


def events(numbers: Iterable[int], *, partition: str = "0", body: bytes | None = None) -> Any:
    rows = [event(number, partition=partition, body=body) for number in numbers]
    return pa.RecordBatch.from_pylist(rows, schema=PUBLIC_SCHEMA)
