"""What a capture has written, read without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["avro_bodies", "delta_bodies", "numbers_of"]


def delta_bodies(folder: Path) -> Iterator[bytes]:
    """Of the files that the log of the table names, and of no others."""
    from deltalake import DeltaTable

    for file in DeltaTable(str(folder)).file_uris():
        yield from pq.read_table(file, partitioning=None)["body"].to_pylist()


def avro_bodies(folder: Path) -> Iterator[bytes]:
    import fastavro

    for file in folder.glob("tandem/**/*.avro"):
        with file.open("rb") as opened:
            records: Any = fastavro.reader(opened)
            yield from (record["Body"] for record in records)


def numbers_of(bodies: Iterator[bytes]) -> Counter[int]:
    """How often each number was captured, of events whose bodies are numbers."""
    return Counter(map(int, bodies))
