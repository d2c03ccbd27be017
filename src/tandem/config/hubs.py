"""Event hubs of a configuration: which are missing, and which the file has changed."""

from __future__ import annotations

from typing import Final

from tandem.arrow import require_arrow
from tandem.config.configuration import NamespaceSettings
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.errors import ArrowUnavailable, ConfigurationError

__all__ = ["HubChange", "find_hub_changes", "missing_hubs", "name_taken", "require_no_hub"]

# What a hub has for life.
_FIXED: Final = "partition_count"


class HubChange:
    """A hub that is to become what the file says."""

    def __init__(self, hub: EventHub, description: EventHubDescription, names: list[str]) -> None:
        self.hub = hub
        self.description = description
        self.names = names

    def make(self, namespace: Namespace) -> str:
        namespace.hubs.update(self.hub, self.description)
        return f"updated the hub {self.hub.name}: {', '.join(self.names)}"


def missing_hubs(namespace: Namespace, settings: NamespaceSettings) -> list[EventHubDescription]:
    """Those to create. Refused where pyarrow is missing, before anything is created."""
    missing = [one for one in settings.hubs if _find(namespace, one) is None]
    if missing:
        try:
            require_arrow()
        except ArrowUnavailable as error:
            raise ConfigurationError(f"the hub {missing[0].name!r} cannot be created: {error}") from error
    return missing


def find_hub_changes(namespace: Namespace, settings: NamespaceSettings) -> list[HubChange]:
    """Settings that the file does not have stay as they are."""
    changes: list[HubChange] = []
    for wanted in settings.hubs:
        hub = _find(namespace, wanted)
        if hub is not None:
            change = _change(hub, wanted, settings.given.get(wanted.name.lower(), frozenset()) - {"name"})
            if change.names:
                changes.append(change)
    return changes


def _change(hub: EventHub, wanted: EventHubDescription, given: frozenset[str]) -> HubChange:
    existing = hub.description
    # An empty list takes the rules back; without one they would stay.
    before = {"authorization_rules": [], **existing.stored_fields()}
    after = {"authorization_rules": [], **wanted.stored_fields()}
    # Nothing is ever deleted: a group that the file does not have is somebody else's.
    new_groups = [group for group in wanted.consumer_groups if existing.find_group(group) is None]
    after["consumer_groups"] = [*existing.consumer_groups, *new_groups]
    names = sorted(name for name in given if before[name] != after[name])
    if _FIXED in names:
        raise ConfigurationError(
            f"{_FIXED} of the hub {hub.name!r} is {before[_FIXED]!r} and cannot be changed to {after[_FIXED]!r}: "
            "delete the hub first, or take the setting back"
        )
    return HubChange(hub, EventHubDescription.from_fields({**before, **{name: after[name] for name in names}}), names)


def _find(namespace: Namespace, wanted: EventHubDescription) -> EventHub | None:
    other = namespace.find(wanted.name)
    if other is not None:
        raise name_taken(wanted.name, "hub", other.description.kind)
    return namespace.hubs.find(wanted.name)


def require_no_hub(namespace: Namespace, description: QueueDescription) -> None:
    if namespace.hubs.find(description.name) is not None:
        raise name_taken(description.name, description.kind, "hub")


def name_taken(name: str, wanted: str, existing: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name!r} is a {wanted} in the configuration, and a {existing} exists by that name: delete it, or choose "
        "another name"
    )
