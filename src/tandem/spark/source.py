"""The format `eventhubs`: reading a hub in batches and as a stream, and writing to one.

    spark.readStream.format("eventhubs").option("eventHub", "orders").option("connectionStringFile", path).load()

Reading has no state in the service: a task asks for a range of numbers, and may ask again. How far a query has come is
in Spark's checkpoint and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
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

from tandem.spark.given_options import OptionError
from tandem.spark.offsets import EventRange, HubOffset, advance, bounded_by, ranges_between
from tandem.spark.options import FORMAT, EventHubsOptions
from tandem.spark.places import chosen_extent, ending_offset, starting_offset
from tandem.spark.schemas import EVENTS, arrow_schema
from tandem.spark.transport import HubTransport, open_transport

__all__ = ["EventHubsDataSource"]


class EventHubsDataSource(DataSource):
    """What Spark finds under the name `eventhubs`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return EVENTS

    def reader(self, schema: StructType) -> DataSourceReader:
        return _HubReader(EventHubsOptions.parse(dict(self.options)), _projection(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's own name
        return _HubStreamReader(EventHubsOptions.parse(dict(self.options), is_stream=True), _projection(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tandem.spark.sink import HubTarget
        from tandem.spark.writers import BatchWriter

        return BatchWriter(HubTarget(EventHubsOptions.parse(dict(self.options))), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - as above
        from tandem.spark.sink import HubTarget
        from tandem.spark.writers import StreamWriter

        return StreamWriter(HubTarget(EventHubsOptions.parse(dict(self.options))), schema)


def _projection(schema: StructType) -> StructType:
    """The columns that a user asked for by a schema: some of those that there are, as they are."""
    types = {field.name: field.dataType for field in EVENTS}
    for field in schema:
        if types.get(field.name) != field.dataType:
            raise OptionError(
                f"eventhubs: the schema has {field.name} {field.dataType.simpleString()}; there are "
                f"{', '.join(f'{name} {kind.simpleString()}' for name, kind in types.items())}"
            )
    return schema


class _RangePartition(InputPartition):
    """A range of events, of one incarnation of the hub."""

    def __init__(self, wanted: EventRange, incarnation: str) -> None:
        super().__init__((wanted, incarnation))
        self.wanted = wanted
        self.incarnation = incarnation


def _read(transport: HubTransport, partition: InputPartition, schema: StructType) -> Iterator[Any]:
    if not isinstance(partition, _RangePartition):
        # Where there is nothing to read, Spark makes a task of its own, and gives it nothing.
        return
    wanted = arrow_schema(schema)
    for batch in transport.read(partition.wanted, partition.incarnation):
        yield pa.RecordBatch.from_arrays([batch[name] for name in wanted.names], schema=wanted)


class _HubReader(DataSourceReader):
    """From a position to another one, or to the end as it is when the query is planned."""

    def __init__(self, options: EventHubsOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._transport = open_transport(options)

    def partitions(self) -> list[InputPartition]:
        extent = chosen_extent(self._options, self._transport)
        start = starting_offset(self._options, self._transport, extent)
        end = ending_offset(self._options, self._transport, extent)
        wanted = ranges_between(start, end, self._options.min_partitions)
        return [_RangePartition(one, extent.incarnation) for one in wanted]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._transport, partition, self._schema)


class _HubStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """From a checkpoint, or a position, for ever."""

    def __init__(self, options: EventHubsOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._transport = open_transport(options)
        # With Trigger.AvailableNow: what was there when the query began.
        self._target: HubOffset | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's own name
        extent = chosen_extent(self._options, self._transport)
        return starting_offset(self._options, self._transport, extent).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - as above
        # One of the two is all that Spark can be told; both are heeded in any case.
        if self._options.max_events_per_trigger is not None:
            return ReadMaxRows(self._options.max_events_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - as above
        extent = chosen_extent(self._options, self._transport)
        numbers = {partition: found.next for partition, found in extent.partitions.items()}
        self._target = HubOffset(extent.hub, extent.incarnation, numbers)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - as above
        extent = bounded_by(chosen_extent(self._options, self._transport), self._target)
        is_limited = not isinstance(limit, ReadAllAvailable)
        return advance(
            HubOffset.from_json(start),
            extent,
            max_events=self._options.max_events_per_trigger if is_limited else None,
            max_bytes=self._options.max_bytes_per_trigger if is_limited else None,
            fails_on_data_loss=self._options.fails_on_data_loss,
        ).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - as above
        """How far the hub has come, whatever was read of it: the difference is the lag."""
        extent = chosen_extent(self._options, self._transport)
        numbers = {partition: found.next for partition, found in extent.partitions.items()}
        return HubOffset(extent.hub, extent.incarnation, numbers).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        up_to = HubOffset.from_json(end)
        wanted = ranges_between(HubOffset.from_json(start), up_to, self._options.min_partitions)
        return [_RangePartition(one, up_to.incarnation) for one in wanted]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self._transport, partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept in the service. Spark calls this one batch late, and for the last batch never."""

    def stop(self) -> None:
        """Nothing is held open between reads."""
