"""Who processes the partitions of a hub for a consumer group, and how far: ownerships and checkpoints.

Processors of one consumer group share the partitions of a hub among themselves. The hub keeps a record for each group
and partition and decides by etags: a claim that was made on an older record than the present one is refused, so that
of two processors that want the same partition one gets it. The hub draws no conclusions. Ownership does not give the
right to read, and a checkpoint does not move a reader: both are what processors tell each other through the hub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.effects import DropProgress, PutProgress
from tandem.errors import ArgumentOutOfRange
from tandem.limits import MAX_OFFSET_CHARACTERS, MAX_OWNER_ID_CHARACTERS

if TYPE_CHECKING:
    from tandem.engine.hubs.hub import EventHub

__all__ = ["NEVER_CLAIMED", "GroupProgress", "HubProgress"]

# The etag of a partition that nobody has claimed yet.
NEVER_CLAIMED: Final = 0


class GroupProgress:
    """One partition as one consumer group processes it.

    `etag` is NEVER_CLAIMED before the first claim. An empty `owner_id` is nobody. `checkpointed_at_ms` is 0 before the
    first checkpoint.
    """

    __slots__ = (
        "checkpointed_at_ms",
        "claimed_at_ms",
        "etag",
        "group",
        "offset",
        "owner_id",
        "partition_id",
        "sequence_number",
    )

    def __init__(self, group: str, partition_id: int) -> None:
        self.group = group
        self.partition_id = partition_id
        self.owner_id = ""
        self.etag = NEVER_CLAIMED
        self.claimed_at_ms = 0
        self.sequence_number = 0
        self.offset: str | None = None
        self.checkpointed_at_ms = 0

    def to_fields(self) -> dict[str, object]:
        """Return the record as a store keeps it."""
        return {
            "owner_id": self.owner_id,
            "etag": self.etag,
            "claimed_at_ms": self.claimed_at_ms,
            "sequence_number": self.sequence_number,
            "offset": self.offset,
            "checkpointed_at_ms": self.checkpointed_at_ms,
        }

    def fill(self, fields: dict[str, object]) -> None:
        """Take over what a store has kept."""
        owner_id, offset = fields.get("owner_id"), fields.get("offset")
        self.owner_id = owner_id if isinstance(owner_id, str) else ""
        self.offset = offset if isinstance(offset, str) else None
        self.etag = _number(fields, "etag")
        self.claimed_at_ms = _number(fields, "claimed_at_ms")
        self.sequence_number = _number(fields, "sequence_number")
        self.checkpointed_at_ms = _number(fields, "checkpointed_at_ms")


class HubProgress:
    """The progress of all consumer groups of one hub."""

    __slots__ = ("_hub", "_last_etag", "_records")

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        # By the name of the group in lower case, and the partition.
        self._records: dict[str, dict[int, GroupProgress]] = {}
        self._last_etag = NEVER_CLAIMED

    def of_group(self, group: str) -> list[GroupProgress]:
        """Return the records of a group in the order of the partitions; a partition without one is left out."""
        records = self._records.get(group.lower(), {})
        return [records[partition_id] for partition_id in sorted(records)]

    def claim(self, group: str, partition_id: int, owner_id: str, etag: int) -> GroupProgress | None:
        """Make this the owner of a partition; None if the record has changed since the claimer has read it."""
        _check_length("owner_id", owner_id, MAX_OWNER_ID_CHARACTERS)
        record = self._record(group, partition_id)
        if record.etag != etag:
            return None
        # With the time in it, the etag of a group that is deleted and made again is a new one.
        self._last_etag = max(self._last_etag + 1, self._hub.namespace.now_ms)
        record.etag = self._last_etag
        record.owner_id = owner_id
        record.claimed_at_ms = self._hub.namespace.now_ms
        self._keep(record)
        return record

    def checkpoint(self, group: str, partition_id: int, sequence_number: int, offset: str | None) -> GroupProgress:
        """Remember up to and with which event a partition was processed. It may also go back."""
        if offset is not None:
            _check_length("offset", offset, MAX_OFFSET_CHARACTERS)
        record = self._record(group, partition_id)
        record.sequence_number = sequence_number
        record.offset = offset
        record.checkpointed_at_ms = self._hub.namespace.now_ms
        self._keep(record)
        return record

    def forget(self, group: str) -> None:
        """The group was deleted. One that is made later under its name begins anew."""
        if self._records.pop(group.lower(), None) is not None:
            self._hub.namespace.effects.changes.append(DropProgress(self._hub.number, group.lower()))

    def restore(self, group: str, partition_id: int, fields: dict[str, object]) -> None:
        """Add a record that was on disk when the broker started."""
        record = GroupProgress(group.lower(), partition_id)
        record.fill(fields)
        self._records.setdefault(record.group, {})[partition_id] = record
        self._last_etag = max(self._last_etag, record.etag)

    def _record(self, group: str, partition_id: int) -> GroupProgress:
        """Return the record of a partition; one that is new is kept with the first change of it."""
        record = self._records.get(group.lower(), {}).get(partition_id)
        return GroupProgress(group.lower(), partition_id) if record is None else record

    def _keep(self, record: GroupProgress) -> None:
        self._records.setdefault(record.group, {})[record.partition_id] = record
        self._hub.namespace.effects.changes.append(
            PutProgress(self._hub.number, record.partition_id, record.group, record.to_fields())
        )


def _number(fields: dict[str, object], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) else 0


def _check_length(field: str, text: str, most: int) -> None:
    if len(text) > most:
        raise ArgumentOutOfRange.of(
            "{field} has {value} characters; at most {most} are allowed", field, value=len(text), most=most
        )
