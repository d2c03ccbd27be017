"""Tandem's own form. Names and values are those of the JSON API, and a time may be written for people.

namespace = "sbemulatorns"
tier = "standard"
port = 5672
http_port = 5300
listen = ["5671", "tls://0.0.0.0:443"]

[[queues]]
name = "orders"
lock_duration = "30s"

[[topics]]
name = "prices"

[[topics.subscriptions]]
name = "europe"
rules = [{ name = "eu", filter = { kind = "sql", expression = "region = 'eu'" } }]

[[hubs]]
name = "telemetry"
partition_count = 4
consumer_groups = ["dashboards"]

[[authorization_rules]]
name = "readers"
rights = ["Listen"]

[health]
max_commit_time_ms = 5_000

A broker with several namespaces has a table for each; the first is the default one:

[[namespace]]
name = "sales"

[[namespace.queues]]
name = "orders"

[[namespace]]
name = "support"
tier = "premium"
"""

from __future__ import annotations

import datetime
from typing import Any, Final

from tandem.config.configuration import Configuration, Given, NamespaceSettings, SubscriptionSettings, TopicSettings
from tandem.config.values import (
    Misplaced,
    as_list,
    as_object,
    as_text,
    as_whole_number,
    check_names,
    check_namespaces,
    key_settings,
    named,
    noted,
    require_known,
    require_namespace_name,
)
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.tiers import Tier, tier_of
from tandem.engine.topic_description import TopicDescription
from tandem.entity_settings import HUB, QUEUE, SUBSCRIPTION, TOPIC, durations_as_ms
from tandem.errors import ArgumentError, ConfigurationError
from tandem.hosts import MAX_PORT
from tandem.limits import MAX_CREDITS_PER_SECOND, MAX_HEALTH_MEGABYTES, MAX_HEALTH_TIME_MS
from tandem.management.hubs import new_hub
from tandem.management.rule_lists import read_rules
from tandem.rules.values import DateTime, rule_value
from tandem.server.listen_address import parse_listen_address

__all__ = ["from_toml"]

_ENTITIES: Final = ("queues", "topics", "hubs", "authorization_rules")
# What one of several namespaces has in its own table.
_OF_NAMESPACE: Final = ("tier", *_ENTITIES)
_SETTINGS: Final = (
    "namespace",
    "host",
    "port",
    "http_port",
    "listen",
    "tls",
    "credits_per_second",
    "health",
    *_OF_NAMESPACE,
)

# The limits by which a broker judges itself, each with the least and the most that it may be. 0 is off where it can be.
_HEALTH: Final = {
    "max_event_loop_lag_ms": (0, MAX_HEALTH_TIME_MS),
    "max_commit_time_ms": (0, MAX_HEALTH_TIME_MS),
    "max_memory_megabytes": (0, MAX_HEALTH_MEGABYTES),
    "min_disk_megabytes": (0, MAX_HEALTH_MEGABYTES),
    "sustained_ms": (1, MAX_HEALTH_TIME_MS),
    "stall_ms": (0, MAX_HEALTH_TIME_MS),
    "restart_ms": (1, MAX_HEALTH_TIME_MS),
}


def from_toml(value: dict[str, Any]) -> Configuration:
    require_known(value, _SETTINGS, "")
    for key in ("host", "tls"):
        if key in value and not isinstance(value[key], str):
            raise Misplaced(key, f"{key} must be a text, got {value[key]!r:.80}")
    default, *further = _namespaces(value)
    return Configuration(
        default=default,
        further=further,
        host=value.get("host"),
        port=as_whole_number(value, "port", 0, MAX_PORT),
        http_port=as_whole_number(value, "http_port", 0, MAX_PORT),
        listen=_listen(value),
        tls=value.get("tls"),
        credits_per_second=as_whole_number(value, "credits_per_second", 1, MAX_CREDITS_PER_SECOND),
        health=_health(as_object(value.get("health", {}), "health")),
    )


def _listen(value: dict[str, Any]) -> list[str] | None:
    if "listen" not in value:
        return None
    addresses = [(where, as_text(one, where)) for where, one in as_list(value, "listen", "")]
    for where, address in addresses:
        try:
            parse_listen_address(address, "", where)
        except ConfigurationError as error:
            raise Misplaced(where, str(error)) from error
    return [address for _, address in addresses]


def _health(fields: dict[str, Any]) -> dict[str, int]:
    require_known(fields, tuple(_HEALTH), "health.")
    try:
        limits = {key: as_whole_number(fields, key, least, most) for key, (least, most) in _HEALTH.items()}
    except Misplaced as error:
        raise Misplaced(f"health.{error.place}", f"health.{error}") from None
    return {key: limit for key, limit in limits.items() if limit is not None}


def _namespaces(value: dict[str, Any]) -> list[NamespaceSettings]:
    name = value.get("namespace")
    if not isinstance(name, list):
        if name is not None:
            require_namespace_name(as_text(name, "namespace"), "namespace")
        namespaces = [_namespace(name, value, "")]
    else:
        for key in _OF_NAMESPACE:
            if key in value:
                shape = f"[[namespace.{key}]]" if key in _ENTITIES else f"{key} = ... below [[namespace]]"
                raise Misplaced(key, f"{key} must be in one of the namespaces, as {shape}")
        namespaces = [_named_namespace(one, where) for where, one in as_list(value, "namespace", "")]
    check_namespaces(namespaces, "namespace")
    return namespaces


def _named_namespace(value: object, where: str) -> NamespaceSettings:
    fields = as_object(value, where)
    require_known(fields, ("name", *_OF_NAMESPACE), f"{where}.")
    name = as_text(fields.get("name"), f"{where}.name")
    require_namespace_name(name, f"{where}.name")
    return _namespace(name, fields, f"{where}.")


def _namespace(name: str | None, value: dict[str, Any], prefix: str) -> NamespaceSettings:
    settings = NamespaceSettings(
        name,
        tier=_tier(value, prefix),
        authorization_rules=[key_settings(one, where) for where, one in as_list(value, "authorization_rules", prefix)],
    )
    given = settings.given
    settings.queues.extend(_queue(one, where, given) for where, one in as_list(value, "queues", prefix))
    settings.topics.extend(_topic(one, where, given) for where, one in as_list(value, "topics", prefix))
    settings.hubs.extend(_hub(one, where, given) for where, one in as_list(value, "hubs", prefix))
    check_names(settings, prefix)
    return settings


def _tier(value: dict[str, Any], prefix: str) -> Tier | None:
    if "tier" not in value:
        return None
    place = f"{prefix}tier"
    try:
        return tier_of(as_text(value["tier"], place))
    except ArgumentError as error:
        raise Misplaced(place, f"{prefix}{error}") from error


def _queue(value: object, where: str, given: Given) -> QueueDescription:
    fields = as_object(value, where)
    with named(where, fields):
        read = durations_as_ms(QUEUE, fields)
        return noted(QueueDescription.from_fields(read), read, given)


def _hub(value: object, where: str, given: Given) -> EventHubDescription:
    fields = as_object(value, where)
    with named(where, fields):
        read = durations_as_ms(HUB, fields)
        return noted(new_hub(read), read, given)


def _topic(value: object, where: str, given: Given) -> TopicSettings:
    fields = dict(as_object(value, where))
    subscriptions = as_list(fields, "subscriptions", f"{where}.")
    fields.pop("subscriptions", None)
    with named(where, fields):
        read = durations_as_ms(TOPIC, fields)
        description = noted(TopicDescription.from_fields(read), read, given)
    return TopicSettings(
        description, [_subscription(description.name, one, place, given) for place, one in subscriptions]
    )


def _subscription(topic: str, value: object, where: str, given: Given) -> SubscriptionSettings:
    fields = dict(as_object(value, where))
    rules = fields.pop("rules", None)
    with named(where, fields):
        read = durations_as_ms(SUBSCRIPTION, fields)
        description = noted(SubscriptionDescription.from_fields({"topic_name": topic, **read}), read, given)
        return SubscriptionSettings(description, None if rules is None else read_rules("rules", _plain(rules), 0))


def _plain(value: object) -> object:
    """TOML has a type for moments, which JSON has not."""
    if isinstance(value, datetime.datetime):
        moment = rule_value(value)
        assert isinstance(moment, DateTime)
        return {"datetime": moment.ticks}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value
