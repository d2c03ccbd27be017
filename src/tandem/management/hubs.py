"""Event hubs as users create, change and delete them, whatever API they use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.engine.hubs.description import DEFAULT_CONSUMER_GROUP, OPERATIONS_HUB, EventHubDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.errors import ArgumentError, EntityAlreadyExists, NotAllowed

__all__ = [
    "add_consumer_group",
    "delete_hub",
    "incarnation_of",
    "new_hub",
    "own_hubs",
    "remove_consumer_group",
    "update_hub",
]

# What users may choose about the hub that the broker itself fills.
_CHOSEN_OF_OPERATIONS: Final = ("retention_ms", "retention_bytes", "consumer_groups")


def new_hub(fields: Mapping[str, object]) -> EventHubDescription:
    """Return the description of a hub that a user wants to have."""
    name = fields.get("name")
    if isinstance(name, str) and name.lower() == OPERATIONS_HUB:
        raise ArgumentError.of(
            "{field} {value} is that of a hub which only the broker makes: choose another one", "name", value=name
        )
    return EventHubDescription.from_fields(dict(fields))


def own_hubs(namespace: Namespace) -> list[EventHub]:
    """Those that users made, in the order of their names."""
    return [hub for hub in namespace.hubs.all if hub.name != OPERATIONS_HUB]


def incarnation_of(hub: EventHub) -> str:
    """What tells a hub from one that had its name before: positions are good for one incarnation only."""
    return str(hub.number)


def update_hub(namespace: Namespace, hub: EventHub, fields: Mapping[str, object]) -> None:
    """Change these properties; the others stay."""
    if hub.name == OPERATIONS_HUB:
        for field in fields:
            if field not in _CHOSEN_OF_OPERATIONS:
                raise NotAllowed(
                    f"{field} of '{hub.name}' cannot be changed; what can be is {', '.join(_CHOSEN_OF_OPERATIONS)}"
                )
    namespace.hubs.update(hub, EventHubDescription.from_fields({**hub.description.to_fields(), **fields}))


def delete_hub(namespace: Namespace, hub: EventHub) -> None:
    """Delete a hub with its events."""
    if hub.name == OPERATIONS_HUB:
        raise NotAllowed(f"'{hub.name}' cannot be deleted: the broker writes down in it what it does.")
    namespace.hubs.delete(hub)


def add_consumer_group(namespace: Namespace, hub: EventHub, name: str) -> None:
    """Add a consumer group to a hub; EntityAlreadyExists if the hub has it."""
    if hub.description.find_group(name) is not None:
        raise EntityAlreadyExists(f"The consumer group '{name}' of '{hub.name}' exists already.")
    update_hub(namespace, hub, {"consumer_groups": [*hub.description.consumer_groups, name]})


def remove_consumer_group(namespace: Namespace, hub: EventHub, name: str) -> str:
    """Delete a consumer group and disconnect its readers. Return its name as the hub spells it."""
    group = hub.consumer_group(name)
    if group == DEFAULT_CONSUMER_GROUP:
        raise NotAllowed(f"The consumer group '{group}' of '{hub.name}' cannot be deleted: every hub has it.")
    others = [one for one in hub.description.consumer_groups if one != group]
    update_hub(namespace, hub, {"consumer_groups": others})
    return group
