"""What a user can choose about an event hub: each property with its default and its bounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tandem.addresses import split_hub_path, validate_entity_name
from tandem.auth.keys import AuthorizationRule
from tandem.engine.description import EntityDescription, EntityStatus, FieldTypes, checked_fields, within
from tandem.errors import ArgumentError, ArgumentOutOfRange
from tandem.limits import (
    MAX_CONSUMER_GROUP_NAME_CHARACTERS,
    MAX_CONSUMER_GROUPS,
    MAX_EVENT_SIZE_KILOBYTES,
    MAX_PARTITIONS,
    MAX_RETENTION_MS,
    MIN_RETENTION_BYTES,
    MIN_RETENTION_MS,
)

__all__ = ["DEFAULT_CONSUMER_GROUP", "OPERATIONS_HUB", "EventHubDescription"]

DEFAULT_CONSUMER_GROUP: Final = "$Default"

# The hub in which a broker writes down what it does. Only the broker makes it, and only the broker sends to it.
OPERATIONS_HUB: Final = "$operations"

_DEFAULT_PARTITION_COUNT: Final = 16
# Seven days.
_DEFAULT_RETENTION_MS: Final = 604_800_000
_DEFAULT_MAX_EVENT_SIZE_KILOBYTES: Final = 1_024


class EventHubDescription(EntityDescription):
    """The chosen properties of one hub.

    Retention is by time, and by bytes of each partition: whichever is reached first. None means that there is no such
    bound.
    """

    __slots__ = (
        "consumer_groups",
        "max_event_size_in_kilobytes",
        "partition_count",
        "retention_bytes",
        "retention_ms",
    )

    def __init__(
        self,
        name: str,
        partition_count: int = _DEFAULT_PARTITION_COUNT,
        retention_ms: int | None = _DEFAULT_RETENTION_MS,
        retention_bytes: int | None = None,
        max_event_size_in_kilobytes: int = _DEFAULT_MAX_EVENT_SIZE_KILOBYTES,
        status: EntityStatus = EntityStatus.ACTIVE,
        user_metadata: str | None = None,
        consumer_groups: Iterable[object] | None = None,
        authorization_rules: list[AuthorizationRule] | None = None,
    ) -> None:
        super().__init__(name, status, user_metadata, authorization_rules)
        self.partition_count = partition_count
        self.retention_ms = retention_ms
        self.retention_bytes = retention_bytes
        self.max_event_size_in_kilobytes = max_event_size_in_kilobytes
        # The default group is always there, and always first.
        self.consumer_groups = [DEFAULT_CONSUMER_GROUP]
        for group in consumer_groups or []:
            self.add_group(group)
        self._check()

    def _check(self) -> None:
        if self.name != OPERATIONS_HUB:
            validate_entity_name(self.name)
            if split_hub_path(self.name).hub != self.name:
                raise ArgumentError(
                    f"name is {self.name!r:.80}, which reads as a part of the hub "
                    f"{split_hub_path(self.name).hub!r:.80}: leave out the segment 'Partitions', 'ConsumerGroups' or "
                    "'Publishers'"
                )
        within("partition_count", self.partition_count, 1, MAX_PARTITIONS)
        within("max_event_size_in_kilobytes", self.max_event_size_in_kilobytes, 1, MAX_EVENT_SIZE_KILOBYTES)
        if self.retention_ms is not None:
            within("retention_ms", self.retention_ms, MIN_RETENTION_MS, MAX_RETENTION_MS)
        if self.retention_bytes is not None and self.retention_bytes < MIN_RETENTION_BYTES:
            raise ArgumentOutOfRange(
                f"retention_bytes is {self.retention_bytes}; it must be at least {MIN_RETENTION_BYTES}, or null"
            )
        self.check_common()

    def add_group(self, name: object) -> None:
        """A further consumer group; one that is there already stays as it is."""
        if not isinstance(name, str):
            raise ArgumentError(f"consumer_groups must hold names, got {name!r:.80}")
        if self.find_group(name) is not None:
            return
        if len(name) > MAX_CONSUMER_GROUP_NAME_CHARACTERS:
            raise ArgumentOutOfRange(
                f"consumer_groups: a name has {len(name)} characters; at most {MAX_CONSUMER_GROUP_NAME_CHARACTERS} "
                "are allowed"
            )
        validate_entity_name(name, "consumer_groups")
        if "/" in name:
            raise ArgumentError(f"consumer_groups: {name!r} holds a slash, which stands between the parts of a path")
        if len(self.consumer_groups) >= MAX_CONSUMER_GROUPS:
            raise ArgumentOutOfRange(
                f"consumer_groups has {len(self.consumer_groups)} groups; at most {MAX_CONSUMER_GROUPS} are allowed"
            )
        self.consumer_groups.append(name)

    def find_group(self, name: str) -> str | None:
        """The group as it was spelled when it was made: in a path its case does not matter."""
        for group in self.consumer_groups:
            if group.lower() == name.lower():
                return group
        return None

    @property
    def kind(self) -> str:
        return "hub"

    @property
    def max_event_size_bytes(self) -> int:
        return self.max_event_size_in_kilobytes << 10

    def to_fields(self) -> dict[str, object]:
        return {
            "name": self.name,
            "partition_count": self.partition_count,
            "retention_ms": self.retention_ms,
            "retention_bytes": self.retention_bytes,
            "max_event_size_in_kilobytes": self.max_event_size_in_kilobytes,
            "status": self.status.value,
            "user_metadata": self.user_metadata,
            "consumer_groups": list(self.consumer_groups),
        }

    @staticmethod
    def from_fields(fields: dict[str, object]) -> EventHubDescription:
        """A hub from plain values by name. ArgumentError names the field that is wrong."""
        values = checked_fields("hub", fields, _FIELD_TYPES, EventHubDescription("defaults").to_fields())
        return EventHubDescription(**values)  # type: ignore[arg-type] # every type was checked against _FIELD_TYPES


_FIELD_TYPES: Final[FieldTypes] = {
    "name": (str, False),
    "partition_count": (int, False),
    "retention_ms": (int, True),
    "retention_bytes": (int, True),
    "max_event_size_in_kilobytes": (int, False),
    "status": (str, False),
    "user_metadata": (str, True),
    "consumer_groups": (list, False),
    "authorization_rules": (list, True),
}
