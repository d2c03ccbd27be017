"""Checkpoints: where they are, and the id of the query that each of them belongs to.

Numbers of batches mean something within one checkpoint. Whatever a query commits carries the id beside them, and a new
checkpoint gets a new id.
"""

from __future__ import annotations

import json
import uuid
from typing import Final

from tandem.errors import ConfigurationError
from tandem.lake.capture_names import OWN_FOLDER
from tandem.lake.layout import file_name
from tandem.lake.place import Place
from tandem.location import Location

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


def query_of(checkpoint: Place) -> str:
    """Return the id of the query that the checkpoint belongs to. Make one for a new checkpoint."""
    note = Location(str(checkpoint)) / _NOTE
    if not note.exists():
        note.write_text(str(uuid.uuid4()))
    return note.read_text()


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
