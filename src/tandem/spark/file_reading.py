"""Files of a table as partitions of a query: what the formats `capture` and `deltalake` read alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tandem.lake.place import Place
from tandem.lake.reading import TableFile, read_file
from tandem.spark.schemas import arrow_schema

__all__ = ["FilesPartition", "read_partition"]


class FilesPartition(InputPartition):
    """Files that one task reads."""

    def __init__(self, files: list[TableFile]) -> None:
        super().__init__(None)
        self.files = files


def read_partition(place: Place, partition: InputPartition, schema: StructType) -> Iterator[Any]:
    if not isinstance(partition, FilesPartition):
        # Where there is nothing to read, Spark makes a task of its own, and gives it nothing.
        return
    columns = arrow_schema(schema)
    for file in partition.files:
        yield from read_file(place, file, columns)
