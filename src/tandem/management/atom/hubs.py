"""Event hubs and consumer groups as XML, as the service writes and reads them.

Atom cannot express everything that Tandem keeps about a hub: retention is in whole days, and a retention in bytes, a
limit for the size of an event and the consumer groups are missing. An update over Atom leaves all of that unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.durations import date_text
from tandem.engine.description import EntityStatus
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.errors import ArgumentOutOfRange
from tandem.limits import MAX_RETENTION_MS
from tandem.management.atom.descriptions import (
    INSTANCE,
    SERVICE_BUS,
    Read,
    authorization_rules_xml,
    optional_text,
    read_authorization,
    read_properties,
    read_text,
)
from tandem.management.atom.values import read_number
from tandem.management.atom.xml import Element, element
from tandem.management.hub_fields import new_hub
from tandem.management.hubs import update_hub

__all__ = ["ConsumerGroupOf", "consumer_group_xml", "hub_xml", "put_hub", "read_hub"]

Fields = dict[str, object]

_DAY_MS: Final = 86_400_000
_MAX_DAYS: Final = MAX_RETENTION_MS // _DAY_MS

_ATTRIBUTES: Final = {"xmlns": SERVICE_BUS, "xmlns:i": INSTANCE}
_STRINGS: Final = "http://schemas.microsoft.com/2003/10/Serialization/Arrays"


class ConsumerGroupOf:
    """A consumer group and its hub."""

    def __init__(self, hub: EventHub, name: str) -> None:
        self.hub = hub
        self.name = name


def _read_days(text: str, field: str) -> object:
    days = read_number(text, field)
    if not 1 <= days <= _MAX_DAYS:
        raise ArgumentOutOfRange(f"{field} is {days}; it must be from 1 to {_MAX_DAYS}")
    return days * _DAY_MS


_HUB: Final[Mapping[str, tuple[str, Read]]] = {
    "MessageRetentionInDays": ("retention_ms", _read_days),
    "Status": ("status", read_text),
    "UserMetadata": ("user_metadata", read_text),
    "PartitionCount": ("partition_count", read_number),
}


def read_hub(description: Element) -> Fields:
    """Return the properties that a document sets."""
    return {**read_properties(description, _HUB), **read_authorization(description)}


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
    one = hub.description
    days = _days(hub)
    ids = "".join(element("d2p1:string", str(number)) for number in range(one.partition_count))
    inner = "".join(
        (
            element("SizeInBytes", str(hub.size_bytes)),
            "" if days is None else element("MessageRetentionInDays", str(days)),
            authorization_rules_xml(one.authorization_rules or [], hub.created_at_ms, hub.updated_at_ms),
            element("Status", one.status.value),
            optional_text("UserMetadata", one.user_metadata),
            element("CreatedAt", date_text(hub.created_at_ms)),
            element("UpdatedAt", date_text(hub.updated_at_ms)),
            element("PartitionCount", str(one.partition_count)),
            element("EntityAvailabilityStatus", "Available"),
            element("PartitionIds", ids, {"xmlns:d2p1": _STRINGS}),
        )
    )
    return element("EventHubDescription", inner, _ATTRIBUTES)


def consumer_group_xml(group: ConsumerGroupOf) -> str:
    """Return the description of a consumer group. It is as old as its hub: its own age is not kept."""
    times = element("CreatedAt", date_text(group.hub.created_at_ms))
    return element(
        "ConsumerGroupDescription", times + element("UpdatedAt", date_text(group.hub.updated_at_ms)), _ATTRIBUTES
    )


def _days(hub: EventHub) -> int | None:
    """Return the retention in days, rounded up; None if there is no bound in time."""
    retention_ms = hub.description.retention_ms
    return None if retention_ms is None else -(-retention_ms // _DAY_MS)
