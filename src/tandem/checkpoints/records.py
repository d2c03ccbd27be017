"""Ownerships and checkpoints as the official SDK has them, dictionaries, and as the client library has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tandem.client import Checkpoint, Ownership, Stream
from tandem.errors import UsageError

__all__ = ["claims_by_stream", "read_checkpoint", "stream_of", "written_checkpoint", "written_ownership"]

# Any: the SDK declares its records in this way.
Record = Mapping[str, Any]


def stream_of(record: Record) -> Stream:
    return Stream(record["fully_qualified_namespace"], record["eventhub_name"], record["consumer_group"])


def claims_by_stream(records: Iterable[Record]) -> dict[Stream, list[Ownership]]:
    """Return what is claimed. The SDK claims partitions of one consumer group at a time, but does not promise it."""
    claims: dict[Stream, list[Ownership]] = {}
    for record in records:
        # The time is the broker's to set.
        claim = Ownership(record["partition_id"], record["owner_id"], 0.0, record.get("etag"))
        claims.setdefault(stream_of(record), []).append(claim)
    return claims


def written_ownership(stream: Stream, ownership: Ownership) -> dict[str, Any]:
    return {
        "fully_qualified_namespace": stream.namespace,
        "eventhub_name": stream.event_hub_name,
        "consumer_group": stream.consumer_group,
        "partition_id": ownership.partition_id,
        "owner_id": ownership.owner_id,
        "last_modified_time": ownership.renewed_at_s,
        "etag": ownership.etag,
    }


def read_checkpoint(record: Record) -> Checkpoint:
    sequence_number, offset = record.get("sequence_number"), record.get("offset")
    if sequence_number is None:
        raise UsageError("the checkpoint has no sequence_number: pass the one of the event that was processed last")
    return Checkpoint(record["partition_id"], int(sequence_number), None if offset is None else str(offset))


def written_checkpoint(stream: Stream, checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "fully_qualified_namespace": stream.namespace,
        "eventhub_name": stream.event_hub_name,
        "consumer_group": stream.consumer_group,
        "partition_id": checkpoint.partition_id,
        "sequence_number": checkpoint.sequence_number,
        "offset": checkpoint.offset,
    }
