"""Tandem's own form. Names and values are those of the JSON API.

namespace = "sbemulatorns"
port = 5672
http_port = 5300

[[queues]]
name = "orders"
lock_duration_ms = 30_000

[[topics]]
name = "prices"

[[topics.subscriptions]]
name = "europe"
rules = [{ name = "eu", filter = { kind = "sql", expression = "region = 'eu'" } }]
"""

from __future__ import annotations

import datetime
from typing import Any, Final

from tandem.config.configuration import Configuration, SubscriptionSettings, TopicSettings
from tandem.config.values import (
    MAX_PORT,
    as_list,
    as_object,
    as_whole_number,
    check_names,
    named,
    require_known,
    require_namespace_name,
)
from tandem.engine.description import QueueDescription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ConfigurationError
from tandem.management.rule_lists import read_rules
from tandem.rules.values import DateTime, rule_value

__all__ = ["MAX_CREDITS_PER_SECOND", "from_toml"]

# Credits. Beyond what any machine can do, a limit limits nothing. Service: 1,000 for each namespace (Standard).
MAX_CREDITS_PER_SECOND: Final = 1_000_000_000

_SETTINGS: Final = ("namespace", "host", "port", "http_port", "tls", "credits_per_second", "queues", "topics")


def from_toml(value: dict[str, Any]) -> Configuration:
    require_known(value, _SETTINGS, "")
    for key in ("namespace", "host", "tls"):
        if key in value and not isinstance(value[key], str):
            raise ConfigurationError(f"{key} must be a text, got {value[key]!r:.80}")
    if "namespace" in value:
        require_namespace_name(value["namespace"], "namespace")
    queues = [_queue(one, where) for where, one in as_list(value, "queues", "")]
    topics = [_topic(one, where) for where, one in as_list(value, "topics", "")]
    check_names(queues, topics)
    return Configuration(
        namespace=value.get("namespace"),
        host=value.get("host"),
        port=as_whole_number(value, "port", 0, MAX_PORT),
        http_port=as_whole_number(value, "http_port", 0, MAX_PORT),
        tls=value.get("tls"),
        credits_per_second=as_whole_number(value, "credits_per_second", 1, MAX_CREDITS_PER_SECOND),
        queues=queues,
        topics=topics,
    )


def _queue(value: object, where: str) -> QueueDescription:
    with named(where):
        return QueueDescription.from_fields(as_object(value, where))


def _topic(value: object, where: str) -> TopicSettings:
    fields = dict(as_object(value, where))
    subscriptions = as_list(fields, "subscriptions", f"{where}.")
    fields.pop("subscriptions", None)
    with named(where):
        description = TopicDescription.from_fields(fields)
    return TopicSettings(description, [_subscription(description.name, one, place) for place, one in subscriptions])


def _subscription(topic: str, value: object, where: str) -> SubscriptionSettings:
    fields = dict(as_object(value, where))
    rules = fields.pop("rules", None)
    with named(where):
        description = SubscriptionDescription.from_fields({"topic_name": topic, **fields})
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
