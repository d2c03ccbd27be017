"""The official emulator's form, `Config.json`. Durations are ISO 8601."""

from __future__ import annotations

from typing import Any, Final

from tandem.config.configuration import Configuration, SubscriptionSettings, TopicSettings
from tandem.config.values import (
    as_list,
    as_object,
    as_text,
    check_names,
    named,
    require_known,
    require_namespace_name,
)
from tandem.engine.description import QueueDescription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ConfigurationError
from tandem.management.durations import parse_duration_ms
from tandem.management.rule_lists import read_rules

__all__ = ["from_emulator"]

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


def from_emulator(value: object) -> Configuration:
    user_config = as_object(as_object(value, "the file").get("UserConfig"), "UserConfig")
    namespaces = as_list(user_config, "Namespaces", "UserConfig.")
    if len(namespaces) != 1:
        raise ConfigurationError(f"UserConfig.Namespaces has {len(namespaces)} entries; a broker serves exactly one")
    where, only = namespaces[0]
    namespace = as_object(only, where)
    name = namespace.get("Name")
    if name is not None:
        require_namespace_name(as_text(name, f"{where}.Name"), f"{where}.Name")
    queues = [_queue(one, place) for place, one in as_list(namespace, "Queues", f"{where}.")]
    topics = [_topic(one, place) for place, one in as_list(namespace, "Topics", f"{where}.")]
    check_names(queues, topics)
    return Configuration(namespace=name, queues=queues, topics=topics)


def _queue(value: object, where: str) -> QueueDescription:
    fields = _entity_fields(as_object(value, where), where, "queue", QueueDescription("defaults"))
    with named(where):
        return QueueDescription.from_fields(fields)


def _topic(value: object, where: str) -> TopicSettings:
    topic = as_object(value, where)
    fields = _entity_fields(topic, where, "topic", TopicDescription("defaults"))
    with named(where):
        description = TopicDescription.from_fields(fields)
    subscriptions = as_list(topic, "Subscriptions", f"{where}.")
    return TopicSettings(description, [_subscription(description.name, one, place) for place, one in subscriptions])


def _subscription(topic: str, value: object, where: str) -> SubscriptionSettings:
    subscription = as_object(value, where)
    defaults = SubscriptionDescription("topic", "defaults")
    fields = _entity_fields(subscription, where, "subscription", defaults)
    with named(where):
        description = SubscriptionDescription.from_fields({"topic_name": topic, **fields})
    rules = [_rule(one, place) for place, one in as_list(subscription, "Rules", f"{where}.")]
    with named(where):
        # Without rules it gets everything, as in the emulator.
        return SubscriptionSettings(description, read_rules("Rules", rules, 0) if rules else None)


def _entity_fields(entity: dict[str, Any], where: str, noun: str, defaults: QueueDescription) -> dict[str, object]:
    fields: dict[str, object] = {"name": as_text(entity.get("Name"), f"{where}.Name")}
    known = defaults.to_fields()
    for key, given in as_object(entity.get("Properties") or {}, f"{where}.Properties").items():
        target = _FIELDS.get(key)
        place = f"{where}.Properties.{key}"
        if target is None or target not in known:
            raise ConfigurationError(f"{place} is not a property of a {noun}")
        fields[target] = parse_duration_ms(as_text(given, place), place) if target.endswith("_ms") else given
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
        raise ConfigurationError(f"{where}.FilterType is {kind!r:.80}; it must be one of {', '.join(_FILTER_TYPES)}")
    where = f"{where}.CorrelationFilter"
    wanted = as_object(properties.get("CorrelationFilter"), where)
    require_known(wanted, tuple(_CORRELATION_FIELDS), f"{where}.")
    return {"kind": "correlation", **{_CORRELATION_FIELDS[key]: one for key, one in wanted.items()}}


def _sql_expression(value: object, where: str) -> str:
    given = as_object(value, where)
    require_known(given, ("SqlExpression",), f"{where}.")
    return as_text(given.get("SqlExpression"), f"{where}.SqlExpression")
