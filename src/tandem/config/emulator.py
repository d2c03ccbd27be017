"""The form of the official emulators, `Config.json`: that of Service Bus, that of Event Hubs, or both in one file.

Durations are ISO 8601. Namespaces of the same name are one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final

from tandem.config.configuration import Configuration, Given, NamespaceSettings, SubscriptionSettings, TopicSettings
from tandem.config.emulator_hubs import read_hub_namespaces
from tandem.config.values import (
    Misplaced,
    as_list,
    as_object,
    as_text,
    check_names,
    check_namespaces,
    named,
    noted,
    require_known,
    require_namespace_name,
)
from tandem.durations import parse_duration_ms
from tandem.engine.description import QueueDescription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.entity_settings import QUEUE, SERVICE_WORDS, SUBSCRIPTION, TOPIC, Form, setting_of, settings_of
from tandem.errors import ArgumentError
from tandem.management.rule_lists import read_rules

__all__ = ["from_emulator"]

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


def _spelling(field: str) -> str:
    setting = setting_of(field)
    return "Name" if setting is None else f"Properties.{setting.element}"


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
    fields = _entity_fields(as_object(value, where), where, QUEUE)
    with _named(where):
        return noted(QueueDescription.from_fields(fields), fields, given)


def _topic(value: object, where: str, given: Given) -> TopicSettings:
    topic = as_object(value, where)
    fields = _entity_fields(topic, where, TOPIC)
    with _named(where):
        description = noted(TopicDescription.from_fields(fields), fields, given)
    subscriptions = as_list(topic, "Subscriptions", f"{where}.")
    settings = [_subscription(description.name, one, place, given) for place, one in subscriptions]
    return TopicSettings(description, settings)


def _subscription(topic: str, value: object, where: str, given: Given) -> SubscriptionSettings:
    subscription = as_object(value, where)
    fields = _entity_fields(subscription, where, SUBSCRIPTION)
    with _named(where):
        description = noted(SubscriptionDescription.from_fields({"topic_name": topic, **fields}), fields, given)
    rules = [_rule(one, place) for place, one in as_list(subscription, "Rules", f"{where}.")]
    with named(where):
        # Without rules it gets everything, as in the emulator.
        return SubscriptionSettings(description, read_rules("Rules", rules, 0) if rules else None)


def _named(where: str) -> AbstractContextManager[None]:
    return named(where, words=SERVICE_WORDS, spelling=_spelling)


def _entity_fields(entity: dict[str, Any], where: str, kind: str) -> dict[str, object]:
    fields: dict[str, object] = {"name": as_text(entity.get("Name"), f"{where}.Name")}
    known = {one.element: one for one in settings_of(kind) if one.element}
    for key, value in as_object(entity.get("Properties") or {}, f"{where}.Properties").items():
        setting = known.get(key)
        place = f"{where}.Properties.{key}"
        if setting is None:
            raise Misplaced(place, f"{place} is not a property of a {kind}; those are {', '.join(known)}")
        if setting.form is Form.DURATION:
            text = as_text(value, place)
            try:
                fields[setting.name] = parse_duration_ms(text, place)
            except ArgumentError as error:
                raise Misplaced(place, str(error)) from error
        else:
            fields[setting.name] = value
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
