"""Event hubs and consumer groups as XML, as the service writes and reads them.

Atom cannot express everything that Tandem keeps about a hub: retention is in whole days, and a retention in bytes, a
limit for the size of an event and the consumer groups are missing. An update over Atom leaves all of that unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.durations import date_text
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.entity_settings import HUB, EntityStatus
from tandem.errors import ArgumentOutOfRange
from tandem.limits import MAX_RETENTION_MS
from tandem.management.atom.descriptions import (
    INSTANCE,
    SERVICE_BUS,
    Fields,
    authorization_rules_xml,
    elements_xml,
    read_settings,
)
from tandem.management.atom.values import read_number
from tandem.management.atom.xml import Element, element
from tandem.management.hubs import new_hub, update_hub

__all__ = ["ConsumerGroupOf", "consumer_group_xml", "hub_xml", "put_hub", "read_hub"]

_DAY_MS: Final = 86_400_000
_MAX_DAYS: Final = MAX_RETENTION_MS // _DAY_MS

_RETENTION: Final = "MessageRetentionInDays"
_STRINGS: Final = "http://schemas.microsoft.com/2003/10/Serialization/Arrays"


class ConsumerGroupOf:
    """A consumer group and its hub."""

    def __init__(self, hub: EventHub, name: str) -> None:
        self.hub = hub
        self.name = name


def _read_days(text: str, field: str) -> object:
    days = read_number(text, field)
    if not 1 <= days <= _MAX_DAYS:
        template = "{field} is {value}; it must be between {least} and {most}"
        raise ArgumentOutOfRange.of(template, field, value=days, least=1, most=_MAX_DAYS)
    return days * _DAY_MS


def read_hub(description: Element) -> Fields:
    """Return the settings that a document has."""
    return read_settings(HUB, description, {_RETENTION: _read_days})


def put_hub(namespace: Namespace, name: str, fields: Mapping[str, object], is_update: bool) -> EventHub:
    """Create a hub, or change the properties of one that exists."""
    if not is_update:
        return namespace.hubs.create(new_hub({**fields, "name": name}))
    hub = namespace.hubs.get(name)
    # Status and metadata are replaced as those of a queue are: a document without them resets them.
    changes = {"status": EntityStatus.ACTIVE.value, "user_metadata": None, **fields}
    # A document shows the retention in days, rounded up: sent back unchanged, it must not lengthen the retention.
    if changes.get("retention_ms") == (_days(hub) or 0) * _DAY_MS:
        del changes["retention_ms"]
    update_hub(namespace, hub, changes)
    return hub


def hub_xml(hub: EventHub) -> str:
    """Return the description of a hub, in the order in which the service writes it."""
    days = _days(hub)
    ids = "".join(element("d2p1:string", str(number)) for number in range(hub.description.partition_count))
    rules = hub.description.authorization_rules or []
    reported = {
        "SizeInBytes": element("SizeInBytes", str(hub.size_bytes)),
        _RETENTION: "" if days is None else element(_RETENTION, str(days)),
        "AuthorizationRules": authorization_rules_xml(rules, hub.created_at_ms, hub.updated_at_ms),
        **_times(hub),
        "EntityAvailabilityStatus": element("EntityAvailabilityStatus", "Available"),
        "PartitionIds": element("PartitionIds", ids, {"xmlns:d2p1": _STRINGS}),
    }
    return elements_xml(hub.description, reported, "", "")


def consumer_group_xml(group: ConsumerGroupOf) -> str:
    """Return the description of a consumer group. It is as old as its hub: its own age is not kept."""
    times = "".join(_times(group.hub).values())
    return element("ConsumerGroupDescription", times, {"xmlns": SERVICE_BUS, "xmlns:i": INSTANCE})


def _times(hub: EventHub) -> dict[str, str]:
    return {
        "CreatedAt": element("CreatedAt", date_text(hub.created_at_ms)),
        "UpdatedAt": element("UpdatedAt", date_text(hub.updated_at_ms)),
    }


def _days(hub: EventHub) -> int | None:
    """Return the retention in days, rounded up; None if there is no bound in time."""
    retention_ms = hub.description.retention_ms
    return None if retention_ms is None else -(-retention_ms // _DAY_MS)
