"""Checkpoints: where they are, and the id of the query that each of them belongs to.

Numbers of batches mean something within one checkpoint. Whatever a query commits carries the id beside them, and a new
checkpoint gets a new id.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from tandem.errors import ConfigurationError
from tandem.lake.capture_names import OWN_FOLDER
from tandem.lake.layout import file_name
from tandem.lake.place import Place

__all__ = ["claim", "default_checkpoint", "query_of"]

_CHECKPOINT: Final = "_checkpoint"
_NOTE: Final = "tandem-query"


def default_checkpoint(out: Place) -> Place:
    """Return the place of a checkpoint beside its output, where Spark can keep one there."""
    if out.is_ours and not out.is_local:
        raise ConfigurationError(
            f"{out} cannot hold a checkpoint, since Spark has no file system for {out.scheme}: give the checkpoint a "
            "folder, and keep it as long as the output"
        )
    return out.child(_CHECKPOINT)


def query_of(spark: SparkSession, checkpoint: Place) -> str:
    """Return the id of the query that the checkpoint belongs to. Make one for a new checkpoint."""
    if checkpoint.is_local:
        note = checkpoint.local_path / _NOTE
        if not note.exists():
            note.parent.mkdir(parents=True, exist_ok=True)
            fresh = Path(f"{note}.{uuid.uuid4().hex}")
            fresh.write_text(str(uuid.uuid4()), encoding="ascii")
            fresh.replace(note)
        return note.read_text(encoding="ascii")
    return _query_in_hadoop(spark, str(checkpoint.child(_NOTE)))


def _query_in_hadoop(spark: SparkSession, uri: str) -> str:
    """The same on a file system that only Spark has."""
    jvm: Any = spark._jvm
    if jvm is None:
        raise ConfigurationError(f"{uri} cannot be read over Spark Connect: give the checkpoint a folder of the driver")
    path = jvm.org.apache.hadoop.fs.Path(uri)
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())
    if not files.exists(path):
        stream = files.create(path)
        stream.write(bytearray(str(uuid.uuid4()).encode()))
        stream.close()
    stream = files.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


def claim(out: Place, hub: str, query: str, checkpoint: Place) -> None:
    """Note which query captures a hub to this place, and refuse another one: it would write every event again."""
    note = f"{OWN_FOLDER}/captures/{file_name(hub)}.json"
    text = out.read_text(note)
    if text is None:
        out.write_text(note, json.dumps({"hub": hub, "query": query, "checkpoint": str(checkpoint)}))
        return
    earlier = json.loads(text)
    if earlier["query"] != query:
        raise ConfigurationError(
            f"{out} has events of '{hub}' that were captured with the checkpoint {earlier['checkpoint']}; with "
            f"{checkpoint} they would be written again. Use that checkpoint, or another place"
        )
