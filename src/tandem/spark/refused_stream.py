"""A stream that cannot be read, which says why when Spark asks it for anything.

If `streamReader` itself raises, pyspark answers with an UnboundLocalError of its own behind the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from tandem.errors import ConfigurationError

__all__ = ["RefusedStreamReader", "stream_reader"]


def stream_reader(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """Return the reader of a stream, or one that raises the error by which it was refused."""
    try:
        return make()
    except ConfigurationError as error:
        return RefusedStreamReader(error)


class RefusedStreamReader(DataSourceStreamReader):
    """Raises one error, whatever it is asked for."""

    def __init__(self, error: ConfigurationError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        # A traceback would lead to where the error was made, and not to what is wrong.
        raise self._error.with_traceback(None)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's own name
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - as above
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._refuse()
