"""The form of the official emulator of Event Hubs.

{"UserConfig": {"NamespaceConfig": [
    {"Type": "EventHub", "Name": "emulatorNs1", "Entities": [
        {"Name": "eh1", "PartitionCount": "2", "ConsumerGroups": [{"Name": "cg1"}]}]}]}}
"""

from __future__ import annotations

from typing import Any, Final

from tandem.config.configuration import Given, NamespaceSettings
from tandem.config.values import (
    Misplaced,
    as_list,
    as_object,
    as_text,
    check_names,
    named,
    noted,
    require_known,
    require_namespace_name,
)
from tandem.engine.hubs.description import EventHubDescription
from tandem.entity_settings import SERVICE_WORDS
from tandem.management.hubs import new_hub

__all__ = ["read_hub_namespaces"]

_TYPE: Final = "EventHub"
_SPELLINGS: Final = {"name": "Name", "partition_count": "PartitionCount", "consumer_groups": "ConsumerGroups"}


def read_hub_namespaces(user_config: dict[str, Any]) -> list[NamespaceSettings]:
    return [_namespace(one, where) for where, one in as_list(user_config, "NamespaceConfig", "UserConfig.")]


def _namespace(value: object, where: str) -> NamespaceSettings:
    namespace = as_object(value, where)
    require_known(namespace, ("Type", "Name", "Entities"), f"{where}.")
    kind = namespace.get("Type", _TYPE)
    if not isinstance(kind, str) or kind.lower() != _TYPE.lower():
        raise Misplaced(f"{where}.Type", f"{where}.Type is {kind!r:.80}; it must be {_TYPE}")
    name = as_text(namespace.get("Name"), f"{where}.Name")
    require_namespace_name(name, f"{where}.Name")
    settings = NamespaceSettings(name)
    for place, one in as_list(namespace, "Entities", f"{where}."):
        settings.hubs.append(_hub(one, place, settings.given))
    check_names(settings, f"{where}.", _list_spelling)
    return settings


def _hub(value: object, where: str, given: Given) -> EventHubDescription:
    entity = as_object(value, where)
    require_known(entity, tuple(_SPELLINGS.values()), f"{where}.")
    groups = [
        as_text(as_object(one, place).get("Name"), f"{place}.Name")
        for place, one in as_list(entity, "ConsumerGroups", f"{where}.")
    ]
    fields: dict[str, object] = {"name": as_text(entity.get("Name"), f"{where}.Name"), "consumer_groups": groups}
    if "PartitionCount" in entity:
        fields["partition_count"] = _whole_number(entity["PartitionCount"], f"{where}.PartitionCount")
    with named(where, words=SERVICE_WORDS, spelling=lambda field: _SPELLINGS.get(field, field)):
        return noted(new_hub(fields), fields, given)


def _whole_number(value: object, where: str) -> int:
    """The emulator's own examples have it as a text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 9:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Misplaced(where, f"{where} is {value!r:.80}; it must be a whole number")


def _list_spelling(name: str) -> str:
    return "Entities" if name == "hubs" else name.capitalize()
