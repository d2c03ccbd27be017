"""Filters of a query, as bounds on what is read of each partition. Nothing here reads.

partition, hub      =, in                     exact: Spark need not look again
sequenceNumber      =, <, <=, >, >=           exact
enqueuedTime        =, <, <=, >, >=           found by time; Spark filters the rows again
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

from tandem.spark.offsets import EventRange

__all__ = ["Bounds", "bounds_of"]

# Returns the first event of a time or later, in milliseconds since 1970, of a partition of a hub.
NumberAtTime = Callable[[str, str, int], int]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass
class Bounds:
    """What all filters together leave to be read."""

    # In lower case; None for all.
    hubs: set[str] | None = None
    partitions: set[str] | None = None
    first_number: int = 0
    # Without this one.
    end_number: int | None = None
    # Milliseconds since 1970: events of these times or later, and before these.
    from_ms: list[int] = field(default_factory=list)
    before_ms: list[int] = field(default_factory=list)

    def apply(self, ranges: Iterable[EventRange], number_at_time: NumberAtTime) -> list[EventRange]:
        """Return what is left of ranges."""
        left: list[EventRange] = []
        for one in ranges:
            if self.hubs is not None and one.hub.lower() not in self.hubs:
                continue
            if self.partitions is not None and one.partition not in self.partitions:
                continue
            firsts = [one.first, self.first_number]
            firsts += [number_at_time(one.hub, one.partition, time_ms) for time_ms in self.from_ms]
            ends = [one.end] if self.end_number is None else [one.end, self.end_number]
            ends += [number_at_time(one.hub, one.partition, time_ms) for time_ms in self.before_ms]
            first, end = max(firsts), min(ends)
            if first < end:
                left.append(EventRange(one.hub, one.incarnation, one.partition, first, end))
        return left


def bounds_of(filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """Return the bounds that filters mean, and the filters that Spark has to apply to the rows nevertheless."""
    bounds = Bounds()
    left = [one for one in filters if not _take(bounds, one)]
    return bounds, left


def _take(bounds: Bounds, one: Filter) -> bool:
    """Narrow the bounds by a filter. Returns True if they are all that the filter means."""
    if not isinstance(one, EqualTo | In | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        return False
    if one.attribute == ("partition",):
        return _take_names(one, lambda values: _narrow(bounds, "partitions", values))
    if one.attribute == ("hub",):
        # Hubs are compared without case where they are looked up, and with case by Spark.
        _take_names(one, lambda values: _narrow(bounds, "hubs", {value.lower() for value in values}))
        return False
    if one.attribute == ("sequenceNumber",):
        return _take_number(bounds, one)
    if one.attribute == ("enqueuedTime",):
        _take_time(bounds, one)
    return False


def _take_names(one: Filter, narrow: Callable[[set[str]], None]) -> bool:
    values = list(one.value) if isinstance(one, In) else [one.value] if isinstance(one, EqualTo) else []
    if not values or not all(isinstance(value, str) for value in values):
        return False
    narrow(set(values))
    return True


def _narrow(bounds: Bounds, name: str, values: set[str]) -> None:
    before: set[str] | None = getattr(bounds, name)
    setattr(bounds, name, values if before is None else before & values)


def _take_number(bounds: Bounds, one: Any) -> bool:
    value = one.value
    if isinstance(one, In) or isinstance(value, bool) or not isinstance(value, int):
        return False
    if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
        bounds.first_number = max(bounds.first_number, value + isinstance(one, GreaterThan))
    if isinstance(one, EqualTo | LessThan | LessThanOrEqual):
        end = value + (not isinstance(one, LessThan))
        bounds.end_number = end if bounds.end_number is None else min(bounds.end_number, end)
    return True


def _take_time(bounds: Bounds, one: Any) -> None:
    """Times of events are whole milliseconds; those of filters have microseconds."""
    value = one.value
    if isinstance(one, In) or not isinstance(value, datetime):
        return
    time_ms = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - _EPOCH
    later_ms = math.floor(time_ms / _MILLISECOND) + 1
    this_ms = -(-time_ms // _MILLISECOND)
    if isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual):
        bounds.from_ms.append(later_ms if isinstance(one, GreaterThan) else this_ms)
    if isinstance(one, EqualTo | LessThan | LessThanOrEqual):
        bounds.before_ms.append(this_ms if isinstance(one, LessThan) else later_ms)
