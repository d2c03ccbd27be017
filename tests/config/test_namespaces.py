"""Several namespaces in one configuration, and what a reload makes of a file that has changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tandem.auth import AuthorizationRule, KeyRing, Right
from tandem.config import (
    Configuration,
    KeySettings,
    NamespaceSettings,
    apply_entities,
    authorization_changes,
    plan_entities,
    read_configuration,
)
from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.errors import ConfigurationError
from tandem.ids import Nonces

TOML = """
port = 1

[[namespace]]
name = "sales"

[[namespace.queues]]
name = "orders"

[[namespace.topics]]
name = "prices"

[[namespace.authorization_rules]]
name = "readers"
rights = ["Listen"]
primary_key = "mine"

[[namespace]]
name = "support"

[[namespace.queues]]
name = "orders"
requires_session = true
"""


def read(tmp_path: Path, text: str, name: str = "tandem.toml") -> Configuration:
    (tmp_path / name).write_text(text)
    return read_configuration(tmp_path / name)


def empty_namespace() -> Namespace:
    return Namespace("test", Nonces(lambda: bytes(8)), 1_000)


def reload(namespace: Namespace, settings: NamespaceSettings) -> list[str]:
    return apply_entities(namespace, plan_entities(namespace, settings, updates=True))


# --- namespaces -----------------------------------------------------------------------------------------------------


def test_the_toml_has_a_table_for_each_namespace(tmp_path: Path) -> None:
    configuration = read(tmp_path, TOML)
    assert configuration.port == 1
    sales, support = configuration.namespaces
    assert (sales, [support]) == (configuration.default, configuration.further)
    assert (sales.name, support.name) == ("sales", "support")
    assert [queue.requires_session for queue in sales.queues + support.queues] == [False, True]
    assert [topic.description.name for topic in sales.topics] == ["prices"]
    assert sales.authorization_rules == [KeySettings("readers", Right.LISTEN, "mine")]
    assert support.authorization_rules == []
    assert "mine" not in repr(sales)


def test_a_single_namespace_has_its_rules_at_the_top(tmp_path: Path) -> None:
    text = "[[authorization_rules]]\nname = 'all'\nrights = ['Manage']\nsecondary_key = 'k'"
    (rule,) = read(tmp_path, text).default.authorization_rules
    assert (rule.name, rule.primary_key, rule.secondary_key) == ("all", None, "k")
    assert Right.SEND in rule.rights


def test_the_config_of_the_official_emulator_may_have_several_namespaces(tmp_path: Path) -> None:
    namespaces = [{"Name": "one", "Queues": [{"Name": "a"}]}, {"Name": "two", "Queues": [{"Name": "b"}]}]
    configuration = read(tmp_path, json.dumps({"UserConfig": {"Namespaces": namespaces}}), "Config.json")
    assert [(one.name, [queue.name for queue in one.queues]) for one in configuration.namespaces] == [
        ("one", ["a"]),
        ("two", ["b"]),
    ]


# --- what a file has changed ----------------------------------------------------------------------------------------


def test_settings_that_the_file_does_not_have_stay_as_they_are(tmp_path: Path) -> None:
    namespace = empty_namespace()
    assert reload(namespace, read(tmp_path, "[[queues]]\nname = 'A'\nmax_delivery_count = 3").default) == [
        "created the queue A"
    ]
    queue = namespace.get("a")
    namespace.update_queue(queue, QueueDescription("A", max_delivery_count=3, lock_duration_ms=7_000))
    settings = read(tmp_path, "[[queues]]\nname = 'a'\nmax_delivery_count = 5").default
    assert reload(namespace, settings) == ["updated the queue A: max_delivery_count"]
    assert (queue.description.max_delivery_count, queue.description.lock_duration_ms) == (5, 7_000)
    assert reload(namespace, settings) == []


def test_properties_of_the_emulators_file_are_compared_by_their_meaning(tmp_path: Path) -> None:
    def settings(duration: str) -> NamespaceSettings:
        queue = {"Name": "a", "Properties": {"LockDuration": duration}}
        topic = {"Name": "t", "Subscriptions": [{"Name": "s", "Properties": {"LockDuration": duration}}]}
        document = {"UserConfig": {"Namespaces": [{"Queues": [queue], "Topics": [topic]}]}}
        return read(tmp_path, json.dumps(document), "Config.json").default

    namespace = empty_namespace()
    reload(namespace, settings("PT1M"))
    assert reload(namespace, settings("PT60S")) == []
    assert reload(namespace, settings("PT30S")) == [
        "updated the queue a: lock_duration_ms",
        "updated the subscription t/Subscriptions/s: lock_duration_ms",
    ]


def test_rules_are_added_and_replaced_and_none_is_taken_away(tmp_path: Path) -> None:
    def settings(*rules: str) -> NamespaceSettings:
        written = ", ".join(
            f"{{ name = '{one}', filter = {{ kind = 'sql', expression = '{two}' }} }}"
            for one, two in (rule.split(":") for rule in rules)
        )
        text = f"[[topics]]\nname = 't'\n[[topics.subscriptions]]\nname = 's'\nrules = [{written}]"
        return read(tmp_path, text).default

    namespace = empty_namespace()
    reload(namespace, settings("a:x = 1", "b:x = 2"))
    assert reload(namespace, settings("a:x = 1", "b:x = 2")) == []
    assert reload(namespace, settings("B:x = 3", "c:x = 4")) == [
        "updated the rule b of the subscription t/Subscriptions/s",
        "created the rule c of the subscription t/Subscriptions/s",
    ]
    rules = namespace.subscription("t", "s").rules
    assert sorted(rules) == ["a", "b", "c"]


def test_keys_of_entities_are_settings_like_others(tmp_path: Path) -> None:
    def settings(rules: str) -> NamespaceSettings:
        return read(tmp_path, f"[[queues]]\nname = 'a'\nauthorization_rules = [{rules}]").default

    namespace = empty_namespace()
    rule = "{ name = 'shop', rights = ['Send'], primary_key = 'k' }"
    reload(namespace, settings(""))
    assert reload(namespace, settings(rule)) == ["updated the queue a: authorization_rules"]
    assert namespace.key_ring.get("shop", "a") is not None
    assert reload(namespace, settings(rule)) == []
    assert reload(namespace, settings("")) == ["updated the queue a: authorization_rules"]
    assert namespace.key_ring.get("shop", "a") is None


@pytest.mark.parametrize(
    "text, reason",
    [
        ("[[queues]]\nname = 'a'\nrequires_session = true", "the queue 'a': requires_session is false and cannot"),
        ("[[queues]]\nname = 'a'\nforward_to = 'x'", "the queue 'a': forward_to is 'x', which neither exists"),
        ("[[topics]]\nname = 'a'", "the topic 'a': a queue of this name exists already"),
    ],
)
def test_what_cannot_be_changed_is_refused_before_anything_is(tmp_path: Path, text: str, reason: str) -> None:
    namespace = empty_namespace()
    reload(namespace, read(tmp_path, "[[queues]]\nname = 'a'").default)
    before = namespace.get("a").description.to_fields()
    with pytest.raises(ConfigurationError, match=reason):
        reload(namespace, read(tmp_path, f"[[queues]]\nname = 'new'\n{text}").default)
    assert [queue.name for queue in namespace.queues] == ["a"]
    assert namespace.get("a").description.to_fields() == before


def test_an_entity_may_forward_to_one_that_the_same_file_brings(tmp_path: Path) -> None:
    namespace = empty_namespace()
    reload(namespace, read(tmp_path, "[[queues]]\nname = 'a'").default)
    settings = read(tmp_path, "[[queues]]\nname = 'a'\nforward_to = 'b'\n[[queues]]\nname = 'b'").default
    assert reload(namespace, settings) == ["created the queue b", "updated the queue a: forward_to"]


# --- rules of the namespace -----------------------------------------------------------------------------------------


def test_a_rule_without_keys_is_given_new_ones_and_keeps_them() -> None:
    settings = NamespaceSettings(authorization_rules=[KeySettings("readers", Right.LISTEN)])
    (made,), words = authorization_changes(KeyRing(), settings, updates=False)
    assert words == ["created the authorization rule readers"]
    assert len(set(made.keys)) == 2
    assert authorization_changes(KeyRing([made]), settings, updates=True) == ([], [])


def test_a_rule_that_exists_is_changed_by_a_reload_only() -> None:
    ring = KeyRing([AuthorizationRule("readers", Right.LISTEN, "one", "two")])
    settings = NamespaceSettings(authorization_rules=[KeySettings("readers", Right.SEND, None, "three")])
    assert authorization_changes(ring, settings, updates=False) == ([], [])
    (changed,), words = authorization_changes(ring, settings, updates=True)
    assert words == ["updated the authorization rule readers"]
    assert (changed.rights, changed.primary_key, changed.secondary_key) == (Right.SEND, "one", "three")
