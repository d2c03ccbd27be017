"""Descriptions of event hubs."""

from __future__ import annotations

from typing import Final

from tandem.addresses import split_hub_path, validate_entity_name
from tandem.auth.keys import AuthorizationRule
from tandem.engine.description import EntityDescription, number, optional_number, take_names, take_rules
from tandem.entity_settings import DEFAULT_CONSUMER_GROUP, HUB
from tandem.errors import ArgumentError, ArgumentOutOfRange
from tandem.limits import MAX_CONSUMER_GROUP_NAME_CHARACTERS, MAX_CONSUMER_GROUPS

__all__ = ["DEFAULT_CONSUMER_GROUP", "OPERATIONS_HUB", "EventHubDescription"]

# The hub in which a broker writes down what it does. Only the broker makes it, and only the broker sends to it.
OPERATIONS_HUB: Final = "$operations"

_GROUPS: Final = "consumer_groups"


class EventHubDescription(EntityDescription):
    """The chosen settings of one hub.

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
        self, name: str, authorization_rules: list[AuthorizationRule] | None = None, **settings: object
    ) -> None:
        """Settings are given by name, as JSON has them; those that are left out have their defaults."""
        super().__init__(name, authorization_rules, settings)
        self.check_name()
        self.partition_count = number(self.values["partition_count"])
        self.max_event_size_in_kilobytes = number(self.values["max_event_size_in_kilobytes"])
        self.retention_ms = optional_number(self.values["retention_ms"])
        self.retention_bytes = optional_number(self.values["retention_bytes"])
        # The default group is always there, and always first.
        self.consumer_groups = [DEFAULT_CONSUMER_GROUP]
        groups = self.values[_GROUPS]
        assert isinstance(groups, list)
        for group in groups:
            self.add_group(group)

    def check_name(self) -> None:
        if self.name == OPERATIONS_HUB:
            return
        validate_entity_name(self.name)
        hub = split_hub_path(self.name).hub
        if hub != self.name:
            raise ArgumentError.of(
                "{field} is {value}, which reads as a part of the hub {hub}: leave out the segment 'Partitions', "
                "'ConsumerGroups' or 'Publishers'",
                "name",
                value=self.name,
                hub=hub,
            )

    def add_group(self, name: object) -> None:
        """Add a consumer group; one that is there already stays as it is."""
        if not isinstance(name, str):
            raise ArgumentError.of("{field} must hold names, got {value}", _GROUPS, value=name)
        if self.find_group(name) is not None:
            return
        if len(name) > MAX_CONSUMER_GROUP_NAME_CHARACTERS:
            raise ArgumentOutOfRange.of(
                "{field}: a name has {value} characters; at most {most} are allowed",
                _GROUPS,
                value=len(name),
                most=MAX_CONSUMER_GROUP_NAME_CHARACTERS,
            )
        validate_entity_name(name, _GROUPS)
        if "/" in name:
            raise ArgumentError.of(
                "{field}: {value} holds a slash, which stands between the parts of a path", _GROUPS, value=name
            )
        if len(self.consumer_groups) >= MAX_CONSUMER_GROUPS:
            raise ArgumentOutOfRange.of(
                "{field} has {value} groups; at most {most} are allowed",
                _GROUPS,
                value=len(self.consumer_groups) + 1,
                most=MAX_CONSUMER_GROUPS,
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
        return HUB

    @property
    def max_event_size_bytes(self) -> int:
        return self.max_event_size_in_kilobytes << 10

    def to_fields(self) -> dict[str, object]:
        fields = super().to_fields()
        fields[_GROUPS] = list(self.consumer_groups)
        return fields

    @staticmethod
    def from_fields(fields: dict[str, object]) -> EventHubDescription:
        """Return the description of these plain values. ArgumentError names the field that is wrong."""
        settings = dict(fields)
        (name,) = take_names(HUB, settings)
        return EventHubDescription(name, take_rules(name, settings), **settings)
