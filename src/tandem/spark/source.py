"""The format `eventhubs`: reading hubs in batches and as a stream, and writing to one.

    spark.readStream.format("eventhubs").option("eventHub", "orders").option("connectionStringFile", path).load()

Reading has no state in the service: a task asks for a range of numbers, and may ask again. How far a query has come is
in Spark's checkpoint and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tandem.engine.hubs.rows import head_properties
from tandem.event_columns import HEAD
from tandem.spark.columns import check_projection
from tandem.spark.offsets import EventRange, SourceOffset, advance, bounded_by, head_of, ranges_between, split_ranges
from tandem.spark.options import FORMAT, EventHubsOptions, means_several_hubs
from tandem.spark.pushdown import Bounds, bounds_of
from tandem.spark.read_hubs import ReadHubs
from tandem.spark.refused_stream import stream_reader
from tandem.spark.schemas import EVENTS, EVENTS_OF_HUBS, arrow_schema
from tandem.spark.typed_properties import COLUMN, TEXTS, column_of

__all__ = ["EventHubsDataSource"]


class EventHubsDataSource(DataSource):
    """What Spark finds under the name `eventhubs`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return EVENTS_OF_HUBS if means_several_hubs(dict(self.options)) else EVENTS

    def reader(self, schema: StructType) -> DataSourceReader:
        check_projection(FORMAT, schema, EVENTS_OF_HUBS)
        options = EventHubsOptions.parse(dict(self.options))
        return (_FilteringHubReader if options.pushes_filters else _HubReader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's own name
        def make() -> DataSourceStreamReader:
            check_projection(FORMAT, schema, EVENTS_OF_HUBS)
            return _HubStreamReader(EventHubsOptions.parse(dict(self.options), is_stream=True), schema)

        return stream_reader(make)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tandem.spark.sink import HubTarget
        from tandem.spark.writers import BatchWriter

        return BatchWriter(HubTarget(EventHubsOptions.parse(dict(self.options))), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - as above
        from tandem.spark.sink import HubTarget
        from tandem.spark.writers import StreamWriter

        return StreamWriter(HubTarget(EventHubsOptions.parse(dict(self.options))), schema)


class _RangePartition(InputPartition):
    """A range of events."""

    def __init__(self, wanted: EventRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


def _read(hubs: ReadHubs, partition: InputPartition, schema: StructType) -> Iterator[Any]:
    if not isinstance(partition, _RangePartition):
        # Where there is nothing to read, Spark makes a task of its own, and gives it nothing.
        return
    arrow = arrow_schema(schema)
    names = set(schema.names)
    is_typed = COLUMN in names and schema[COLUMN].dataType != TEXTS
    if is_typed:
        names = names - {COLUMN} | {HEAD}
    for batch in hubs.read(partition.wanted, names):
        columns: list[Any] = []
        for field in schema:
            if field.name == "hub":
                columns.append(pa.repeat(partition.wanted.hub, batch.num_rows))
            elif field.name == COLUMN and is_typed:
                # One whose head is damaged, which is tolerated then, has no properties that can be read.
                rows = [head_properties(head) if head else {} for head in batch.column(HEAD).to_pylist()]
                columns.append(column_of(rows, field.dataType, arrow.field(COLUMN).type))
            else:
                columns.append(batch.column(field.name))
        yield pa.RecordBatch.from_arrays(columns, schema=arrow)


class _HubReader(DataSourceReader):
    """From a position to another one, or to the end as it is when the query is planned."""

    def __init__(self, options: EventHubsOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._hubs = ReadHubs(options)

    def partitions(self) -> list[InputPartition]:
        return [_RangePartition(one) for one in split_ranges(self._ranges(), self._options.min_partitions)]

    def _ranges(self) -> list[EventRange]:
        extents = self._hubs.extents()
        return ranges_between(self._hubs.starting(extents), self._hubs.ending(extents))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._hubs, partition, self._schema)


class _FilteringHubReader(_HubReader):
    """The same, for what filters leave.

    Only on request: up to 4.3, Spark keeps what was planned with filters in the DataFrame that was loaded, and uses it
    for other queries of that DataFrame too, whatever their filters are.
    """

    def __init__(self, options: EventHubsOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._bounds = Bounds()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's own name
        self._bounds, left = bounds_of(filters)
        return left

    def _ranges(self) -> list[EventRange]:
        @cache
        def numbers_at_time(hub: str, time_ms: int) -> dict[str, int]:
            return self._hubs.transport(hub).numbers_at_time(time_ms)

        return self._bounds.apply(
            super()._ranges(), lambda hub, partition, time_ms: numbers_at_time(hub, time_ms)[partition]
        )


class _HubStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """From a checkpoint, or a position, for ever."""

    def __init__(self, options: EventHubsOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._hubs = ReadHubs(options)
        # With Trigger.AvailableNow: what was there when the query began.
        self._target: SourceOffset | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's own name
        return self._hubs.starting(self._hubs.extents()).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - as above
        # One of the two is all that Spark can be told; both are heeded in any case.
        if self._options.max_events_per_trigger is not None:
            return ReadMaxRows(self._options.max_events_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - as above
        self._target = head_of(self._hubs.extents())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - as above
        is_limited = not isinstance(limit, ReadAllAvailable)
        return advance(
            self._offset(start),
            bounded_by(self._hubs.extents(), self._target),
            max_events=self._options.max_events_per_trigger if is_limited else None,
            max_bytes=self._options.max_bytes_per_trigger if is_limited else None,
            fails_on_data_loss=self._options.fails_on_data_loss,
        ).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - as above
        """How far the hubs have come, whatever was read of them: `tandem.spark.lag` makes the lag of it."""
        return head_of(self._hubs.extents()).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        wanted = ranges_between(self._offset(start), self._offset(end))
        return [_RangePartition(one) for one in split_ranges(wanted, self._options.min_partitions)]

    def _offset(self, fields: dict[str, Any]) -> SourceOffset:
        offset = SourceOffset.from_json(fields)
        self._hubs.require_own(offset)
        return offset

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._hubs, partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept in the service. Spark calls this one batch late, and for the last batch never."""

    def stop(self) -> None:
        """Nothing is held open between reads."""
