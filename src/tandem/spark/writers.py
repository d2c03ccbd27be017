"""Writers of both formats: rows are sent from the tasks of a query, at least once, in the order of each partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tandem.spark.columns import check_columns
from tandem.spark.given_options import OptionError

__all__ = ["BatchWriter", "Sent", "StreamWriter", "Target"]


@dataclass
class Sent(WriterCommitMessage):
    """What a task has sent."""

    count: int


class Target(Protocol):
    """What rows are sent to. It travels to the executors."""

    format: ClassVar[str]
    # What a row becomes, in the plural.
    nouns: ClassVar[str]
    columns: ClassVar[StructType]

    def send(self, batches: Iterator[Any]) -> Sent:
        """Send the rows of record batches, and return when the service has all of them."""


class BatchWriter(DataSourceArrowWriter):
    """Of a batch."""

    def __init__(self, target: Target, schema: StructType, overwrite: bool) -> None:
        check_columns(target.format, schema, target.columns)
        if overwrite:
            raise OptionError(
                f'{target.format}: the mode is overwrite; {target.nouns} can only be added: use mode("append")'
            )
        self._target = target

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._target.send(iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Of a stream. A batch that is tried again is sent again; what was sent stays."""

    def __init__(self, target: Target, schema: StructType) -> None:
        check_columns(target.format, schema, target.columns)
        self._target = target

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._target.send(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's own name
        """What was sent has arrived already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - as above
        """What was sent cannot be taken back."""
