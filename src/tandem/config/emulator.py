"""The form of the official emulators, `Config.json`: that of Service Bus, that of Event Hubs, or both in one file.

Durations are ISO 8601. Namespaces of the same name are one.
"""

from __future__ import annotations

from typing import Any, Final

from tandem.config.configuration import Configuration, NamespaceSettings, SubscriptionSettings, TopicSettings
from tandem.config.emulator_hubs import read_hub_namespaces
from tandem.config.values import (
    Misplaced,
    as_list,
    as_object,
    as_text,
    check_names,
    check_namespaces,
    named,
    require_known,
    require_namespace_name,
)
from tandem.durations import parse_duration_ms
from tandem.engine.description import QueueDescription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ArgumentError
from tandem.management.rule_lists import read_rules

__all__ = ["from_emulator"]

# Which settings are written down, by the path of the entity in lower case.
Given = dict[str, frozenset[str]]

# The properties of entities, with the field that each becomes. Those that end in _ms are durations.
_FIELDS: Final = {
    "AutoDeleteOnIdle": "auto_delete_on_idle_ms",
    "DeadLetteringOnFilterEvaluationExceptions": "dead_lettering_on_filter_evaluation_exceptions",
    "DeadLetteringOnMessageExpiration": "dead_lettering_on_message_expiration",
    "DefaultMessageTimeToLive": "default_message_time_to_live_ms",
    "DuplicateDetectionHistoryTimeWindow": "duplicate_detection_history_time_window_ms",
    "EnableBatchedOperations": "enable_batched_operations",
    "EnablePartitioning": "enable_partitioning",
    "ForwardDeadLetteredMessagesTo": "forward_dead_lettered_messages_to",
    "ForwardTo": "forward_to",
    "LockDuration": "lock_duration_ms",
    "MaxDeliveryCount": "max_delivery_count",
    "MaxMessageSizeInKilobytes": "max_message_size_in_kilobytes",
    "MaxSizeInMegabytes": "max_size_in_megabytes",
    "RequiresDuplicateDetection": "requires_duplicate_detection",
    "RequiresSession": "requires_session",
    "Status": "status",
    "SupportOrdering": "support_ordering",
    "UserMetadata": "user_metadata",
}

_RULE_PROPERTIES: Final = ("FilterType", "SqlFilter", "CorrelationFilter", "Action")
_FILTER_TYPES: Final = ("Sql", "Correlation")
# What a correlation filter compares, with the field that each becomes.
_CORRELATION_FIELDS: Final = {
    "ContentType": "content_type",
    "CorrelationId": "correlation_id",
    "Label": "label",
    "MessageId": "message_id",
    "Properties": "properties",
    "ReplyTo": "reply_to",
    "ReplyToSessionId": "reply_to_session_id",
    "SessionId": "session_id",
    "To": "to",
}


# How the file spells what an error calls by its name in Tandem.
_SPELLINGS: Final = {field: f"Properties.{name}" for name, field in _FIELDS.items()} | {"name": "Name"}


def _spelling(field: str) -> str:
    return _SPELLINGS.get(field, field)


def from_emulator(value: object) -> Configuration:
    user_config = as_object(as_object(value, "the file").get("UserConfig"), "UserConfig")
    listed = as_list(user_config, "Namespaces", "UserConfig.")
    namespaces = [_namespace(one, where) for where, one in listed]
    of_hubs = read_hub_namespaces(user_config)
    if namespaces or not of_hubs:
        check_namespaces(namespaces, "UserConfig.Namespaces", str.capitalize)
    if of_hubs:
        check_namespaces(of_hubs, "UserConfig.NamespaceConfig", str.capitalize)
    for number, namespace in enumerate(namespaces[1:], start=1):
        if namespace.name is None:
            where = f"UserConfig.Namespaces[{number}]"
            raise Misplaced(where, f"{where}.Name is missing: it is how clients find it")
    default, *further = _merged(namespaces, of_hubs)
    return Configuration(default=default, further=further)


def _merged(namespaces: list[NamespaceSettings], of_hubs: list[NamespaceSettings]) -> list[NamespaceSettings]:
    """Hubs become part of the namespace of the same name, if there is one."""
    merged = list(namespaces)
    for one in of_hubs:
        same = [other for other in namespaces if (other.name or "").lower() == (one.name or "").lower()]
        if not same:
            merged.append(one)
            continue
        same[0].hubs.extend(one.hubs)
        same[0].given.update(one.given)
        check_names(same[0], "UserConfig.", str.capitalize)
    return merged


def _namespace(value: object, where: str) -> NamespaceSettings:
    namespace = as_object(value, where)
    name = namespace.get("Name")
    if name is not None:
        require_namespace_name(as_text(name, f"{where}.Name"), f"{where}.Name")
    settings = NamespaceSettings(name)
    for place, one in as_list(namespace, "Queues", f"{where}."):
        settings.queues.append(_queue(one, place, settings.given))
    for place, one in as_list(namespace, "Topics", f"{where}."):
        settings.topics.append(_topic(one, place, settings.given))
    check_names(settings, f"{where}.", str.capitalize)
    return settings


def _queue(value: object, where: str, given: Given) -> QueueDescription:
    fields = _entity_fields(as_object(value, where), where, "queue", QueueDescription("defaults"))
    with named(where, _spelling):
        description = QueueDescription.from_fields(fields)
    given[description.name.lower()] = frozenset(fields)
    return description


def _topic(value: object, where: str, given: Given) -> TopicSettings:
    topic = as_object(value, where)
    fields = _entity_fields(topic, where, "topic", TopicDescription("defaults"))
    with named(where, _spelling):
        description = TopicDescription.from_fields(fields)
    given[description.name.lower()] = frozenset(fields)
    subscriptions = as_list(topic, "Subscriptions", f"{where}.")
    settings = [_subscription(description.name, one, place, given) for place, one in subscriptions]
    return TopicSettings(description, settings)


def _subscription(topic: str, value: object, where: str, given: Given) -> SubscriptionSettings:
    subscription = as_object(value, where)
    defaults = SubscriptionDescription("topic", "defaults")
    fields = _entity_fields(subscription, where, "subscription", defaults)
    with named(where, _spelling):
        description = SubscriptionDescription.from_fields({"topic_name": topic, **fields})
    given[description.name.lower()] = frozenset(fields)
    rules = [_rule(one, place) for place, one in as_list(subscription, "Rules", f"{where}.")]
    with named(where):
        # Without rules it gets everything, as in the emulator.
        return SubscriptionSettings(description, read_rules("Rules", rules, 0) if rules else None)


def _entity_fields(entity: dict[str, Any], where: str, noun: str, defaults: QueueDescription) -> dict[str, object]:
    fields: dict[str, object] = {"name": as_text(entity.get("Name"), f"{where}.Name")}
    known = defaults.to_fields()
    for key, value in as_object(entity.get("Properties") or {}, f"{where}.Properties").items():
        target = _FIELDS.get(key)
        place = f"{where}.Properties.{key}"
        if target is None or target not in known:
            allowed = ", ".join(name for name, field in _FIELDS.items() if field in known)
            raise Misplaced(place, f"{place} is not a property of a {noun}; those are {allowed}")
        if target.endswith("_ms"):
            text = as_text(value, place)
            try:
                fields[target] = parse_duration_ms(text, place)
            except ArgumentError as error:
                raise Misplaced(place, str(error)) from error
        else:
            fields[target] = value
    return fields


# --- rules ----------------------------------------------------------------------------------------------------------


def _rule(value: object, where: str) -> dict[str, object]:
    """A rule as the JSON API has it."""
    rule = as_object(value, where)
    name = as_text(rule.get("Name"), f"{where}.Name")
    where = f"{where}.Properties"
    properties = as_object(rule.get("Properties") or {}, where)
    require_known(properties, _RULE_PROPERTIES, f"{where}.")
    fields: dict[str, object] = {"name": name, "filter": _filter(properties, where)}
    action = properties.get("Action")
    if action is not None:
        expression = _sql_expression(action, f"{where}.Action")
        # The emulator's own examples have an empty one where there is none.
        fields["action"] = {"expression": expression} if expression else None
    return fields


def _filter(properties: dict[str, Any], where: str) -> dict[str, object]:
    kind = properties.get("FilterType")
    if kind == "Sql":
        return {"kind": "sql", "expression": _sql_expression(properties.get("SqlFilter"), f"{where}.SqlFilter")}
    if kind != "Correlation":
        place = f"{where}.FilterType"
        raise Misplaced(place, f"{place} is {kind!r:.80}; it must be one of {', '.join(_FILTER_TYPES)}")
    where = f"{where}.CorrelationFilter"
    wanted = as_object(properties.get("CorrelationFilter"), where)
    require_known(wanted, tuple(_CORRELATION_FIELDS), f"{where}.")
    return {"kind": "correlation", **{_CORRELATION_FIELDS[key]: one for key, one in wanted.items()}}


def _sql_expression(value: object, where: str) -> str:
    given = as_object(value, where)
    require_known(given, ("SqlExpression",), f"{where}.")
    return as_text(given.get("SqlExpression"), f"{where}.SqlExpression")
