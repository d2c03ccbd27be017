"""The format `deltalake`: Delta tables read by Spark without a jar, on disks and S3-compatible stores.

    spark.read.format("deltalake").load("s3://lake/orders")

The log is read by delta-rs on the driver, the files by Arrow on the executors. For tables whose features this does not
cover, such as deletion vectors, use the format `delta` of the project Delta Lake.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tandem.lake.delta_table import open_table, table_files
from tandem.lake.place import Place
from tandem.lake.reading import TableFile, grouped
from tandem.spark.file_reading import FilesPartition, read_partition
from tandem.spark.given_options import GivenOptions, Option, OptionError
from tandem.spark.storage_options import STORAGE_OPTIONS, place_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["FORMAT", "KNOWN_OPTIONS", "DeltaLakeDataSource"]

FORMAT: Final = "deltalake"

KNOWN_OPTIONS: Final = (
    Option("path", "The folder of the table, or `s3://bucket/prefix`."),
    Option("versionAsOf", "The version of the table to read; the newest if left out."),
    *STORAGE_OPTIONS,
)

# What a table may have without changing how its files are read.
_HARMLESS_FEATURES: Final = frozenset({"timestampNtz"})


class DeltaLakeDataSource(DataSource):
    """What Spark finds under the name `deltalake`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        _, table = self._table()
        return from_arrow_schema(pa.schema(table.schema().to_arrow()))

    def reader(self, schema: StructType) -> DataSourceReader:
        place, table = self._table()
        return _DeltaReader(place, table_files(table), schema)

    def _table(self) -> tuple[Place, DeltaTable]:
        given = GivenOptions(FORMAT, KNOWN_OPTIONS, dict(self.options), ())
        place = place_of(FORMAT, given)
        table = open_table(place)
        if table is None:
            raise OptionError(f"deltalake: there is no Delta table in {place}")
        version = given.number("versionAsOf", 0)
        if version is not None:
            table.load_as_version(version)
        unknown = sorted(set(table.protocol().reader_features or []) - _HARMLESS_FEATURES)
        if unknown:
            raise OptionError(f"deltalake: {place} needs the feature {unknown[0]}, which this format does not have")
        return place, table


class _DeltaReader(DataSourceReader):
    def __init__(self, place: Place, files: list[TableFile], schema: StructType) -> None:
        self._place = place
        self._files = files
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [FilesPartition(group) for group in grouped(self._files)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self._place, partition, self._schema)
