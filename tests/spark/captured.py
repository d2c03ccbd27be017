"""What a capture has written, read without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tandem.lake import delta_table, manifests
from tandem.lake.place import Place
from tandem.lake.reading import TableFile, file_of, read_file

__all__ = ["captured_bodies", "listed_bodies", "numbers_of"]

_BODY = pa.schema([("body", pa.binary())])


def captured_bodies(place: Place) -> Iterator[bytes]:
    """Of the files that the log of a Delta table or the manifests name, and of no others."""
    table = delta_table.open_table(place)
    if table is None:
        return _bodies(place, map(file_of, manifests.captured_files(place)))
    root = f"{place}/"
    return _bodies(place, [TableFile(uri.removeprefix(root), 0, {}) for uri in table.file_uris()])


def listed_bodies(place: Place) -> Iterator[bytes]:
    """Of all files that somebody finds who lists the folder."""
    files = (one.path for one in place.files() if not one.path.startswith("_"))
    return _bodies(place, [TableFile(path, 0, {}) for path in files if path.endswith((".parquet", ".avro"))])


def _bodies(place: Place, files: Iterable[TableFile]) -> Iterator[bytes]:
    for file in files:
        for batch in read_file(place, file, _BODY):
            yield from batch.column("body").to_pylist()


def numbers_of(bodies: Iterable[bytes]) -> Counter[int]:
    """How often each number was captured, of events whose bodies are numbers."""
    return Counter(map(int, bodies))
