"""The columns of tables: which a table to be sent may have, which a reader may ask for, and rows of a record batch."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from pyspark.sql.types import BinaryType, StringType, StructType

from tandem.spark import typed_properties
from tandem.spark.given_options import OptionError

__all__ = ["check_columns", "check_projection", "rows_of"]


def check_columns(format_name: str, given: StructType, allowed: StructType) -> None:
    """Refuse a table before any of it is sent. A body may be text, too."""
    types = {field.name: field.dataType for field in allowed}
    for field in given:
        wanted = types.get(field.name)
        if wanted is None:
            near = difflib.get_close_matches(field.name, types, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(types)}"
            raise OptionError(f"{format_name}: there is no column {field.name!r:.80}; {hint}")
        if field.name == typed_properties.COLUMN:
            typed_properties.check_type(format_name, field.dataType)
            continue
        is_text_for_bytes = isinstance(wanted, BinaryType) and isinstance(field.dataType, StringType)
        if field.dataType.simpleString() != wanted.simpleString() and not is_text_for_bytes:
            raise OptionError(
                f"{format_name}: the column {field.name} is {field.dataType.simpleString()}; it must be "
                f"{wanted.simpleString()}"
            )
    if "body" not in given.names:
        raise OptionError(f"{format_name}: the column body is missing")


def check_projection(format_name: str, given: StructType, table: StructType) -> None:
    """Refuse a schema of a reader, unless it is some of the columns of a table, as they are. Properties have types."""
    types = {field.name: field.dataType for field in table}
    for field in given:
        if field.name == typed_properties.COLUMN:
            typed_properties.check_type(format_name, field.dataType)
        elif types.get(field.name) != field.dataType:
            raise OptionError(
                f"{format_name}: the schema has {field.name} {field.dataType.simpleString()}; there are "
                f"{', '.join(f'{name} {kind.simpleString()}' for name, kind in types.items())}"
            )


def rows_of(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of a record batch, with maps as dicts and the body as bytes."""
    for row in batch.to_pylist(maps_as_pydicts="strict"):
        body = row["body"]
        row["body"] = body.encode() if isinstance(body, str) else body or b""
        yield row
