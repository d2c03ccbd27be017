"""What `tandem serve --config FILE` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.config import (
    Configuration,
    NamespaceSettings,
    SubscriptionSettings,
    TopicSettings,
    apply_entities,
    plan_entities,
    read_configuration,
)
from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ConfigurationError
from tandem.ids import Nonces
from tandem.server.health import HealthSettings
from tests.markers import mission

TOML = """
namespace = "orders-eu"
host = "0.0.0.0"
port = 0
http_port = 8_080
tls = "off"
credits_per_second = 1_000

[[queues]]
name = "orders"
lock_duration_ms = 30_000
requires_session = true

[[queues]]
name = "orders/late"

[[topics]]
name = "prices"
requires_duplicate_detection = true

[[topics.subscriptions]]
name = "all"
max_delivery_count = 3

[[topics.subscriptions]]
name = "some"

[[topics.subscriptions.rules]]
name = "large"
filter = { kind = "sql", expression = "amount > 1000" }
action = { expression = "SET is_large = TRUE" }

[[topics.subscriptions.rules]]
name = "new-year"
filter = { kind = "correlation", label = "vip", properties = { since = 2026-01-01T00:00:00Z } }

[[topics.subscriptions]]
name = "none"
rules = []
"""

# The shape of the official emulator's own example.
EMULATOR: dict[str, Any] = {
    "UserConfig": {
        "Namespaces": [
            {
                "Name": "sbemulatorns",
                "Queues": [
                    {
                        "Name": "queue.1",
                        "Properties": {
                            "DeadLetteringOnMessageExpiration": True,
                            "DefaultMessageTimeToLive": "PT1H",
                            "DuplicateDetectionHistoryTimeWindow": "PT20S",
                            "ForwardDeadLetteredMessagesTo": "",
                            "ForwardTo": "",
                            "LockDuration": "PT1M",
                            "MaxDeliveryCount": 3,
                            "RequiresDuplicateDetection": False,
                            "RequiresSession": False,
                        },
                    },
                    {"Name": "queue.2"},
                ],
                "Topics": [
                    {
                        "Name": "topic.1",
                        "Properties": {
                            "DefaultMessageTimeToLive": "PT1H",
                            "DuplicateDetectionHistoryTimeWindow": "PT20S",
                            "RequiresDuplicateDetection": False,
                        },
                        "Subscriptions": [
                            {
                                "Name": "subscription.1",
                                "Properties": {
                                    "DeadLetteringOnMessageExpiration": False,
                                    "DefaultMessageTimeToLive": "PT1H",
                                    "ForwardDeadLetteredMessagesTo": "",
                                    "ForwardTo": "",
                                    "LockDuration": "PT1M",
                                    "MaxDeliveryCount": 3,
                                    "RequiresSession": False,
                                },
                                "Rules": [
                                    {
                                        "Name": "app-prop-filter-1",
                                        "Properties": {
                                            "FilterType": "Correlation",
                                            "CorrelationFilter": {
                                                "ContentType": "application/text",
                                                "CorrelationId": "id1",
                                                "Label": "subject1",
                                                "MessageId": "msgid1",
                                                "ReplyTo": "someQueue",
                                                "ReplyToSessionId": "sessionId",
                                                "SessionId": "session1",
                                                "To": "xyz",
                                            },
                                        },
                                    }
                                ],
                            },
                            {
                                "Name": "subscription.2",
                                "Rules": [
                                    {
                                        "Name": "user-prop-filter-1",
                                        "Properties": {
                                            "FilterType": "Correlation",
                                            "CorrelationFilter": {"Properties": {"prop3": "value3"}},
                                        },
                                    }
                                ],
                            },
                            {"Name": "subscription.3"},
                            {
                                "Name": "subscription.4",
                                "Rules": [
                                    {
                                        "Name": "sql-filter-1",
                                        "Properties": {
                                            "FilterType": "Sql",
                                            "SqlFilter": {"SqlExpression": "sys.MessageId = '123456' AND p = 'v'"},
                                            "Action": {"SqlExpression": "SET sys.To = 'Entity'"},
                                        },
                                    }
                                ],
                            },
                        ],
                    }
                ],
            }
        ],
        "Logging": {"Type": "File"},
    }
}


def create_missing(namespace: Namespace, settings: NamespaceSettings) -> list[str]:
    return apply_entities(namespace, plan_entities(namespace, settings, updates=False))


def read(tmp_path: Path, text: str, name: str = "tandem.toml") -> Configuration:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_configuration(path)


def read_emulator(tmp_path: Path, **namespace: Any) -> Configuration:
    document = {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", **namespace}]}}
    return read(tmp_path, json.dumps(document), "Config.json")


def one_rule(properties: dict[str, Any]) -> dict[str, Any]:
    """A namespace of the emulator with one rule."""
    return {
        "Topics": [{"Name": "t", "Subscriptions": [{"Name": "s", "Rules": [{"Name": "r", "Properties": properties}]}]}]
    }


def empty_namespace() -> Namespace:
    return Namespace("test", Nonces(lambda: bytes(8)), 1_000)


@mission("M13")
def test_the_toml_sets_the_limits_of_health_and_zero_switches_one_off(tmp_path: Path) -> None:
    configuration = read(tmp_path, "[health]\nmax_commit_time_ms = 0\nmin_disk_megabytes = 500\nstall_ms = 5_000")
    settings = HealthSettings.of(configuration.health)
    assert (settings.max_commit_time_ms, settings.min_disk_megabytes, settings.stall_ms) == (None, 500, 5_000)
    assert settings.max_event_loop_lag_ms == HealthSettings().max_event_loop_lag_ms
    assert HealthSettings.of(read(tmp_path, TOML).health) == HealthSettings.of({})


def test_the_toml_says_where_to_listen_and_which_queues_there_are(tmp_path: Path) -> None:
    configuration = read(tmp_path, TOML)
    assert (configuration.default.name, configuration.host, configuration.tls) == ("orders-eu", "0.0.0.0", "off")
    assert (configuration.port, configuration.http_port, configuration.credits_per_second) == (0, 8_080, 1_000)
    orders, late = configuration.default.queues
    assert (orders.name, orders.lock_duration_ms, orders.requires_session) == ("orders", 30_000, True)
    assert late.to_fields() == QueueDescription("orders/late").to_fields()


def test_an_empty_toml_leaves_everything_open(tmp_path: Path) -> None:
    assert read(tmp_path, "") == Configuration()


def test_the_config_of_the_official_emulator_is_read_with_its_durations(tmp_path: Path) -> None:
    # Editors on Windows put a byte order mark in front.
    configuration = read(tmp_path, "\ufeff" + json.dumps(EMULATOR), "Config.json")
    assert configuration.default.name == "sbemulatorns"
    first, second = configuration.default.queues
    expected = QueueDescription(
        "queue.1",
        dead_lettering_on_message_expiration=True,
        default_message_time_to_live_ms=3_600_000,
        duplicate_detection_history_time_window_ms=20_000,
        lock_duration_ms=60_000,
        max_delivery_count=3,
    )
    assert first.to_fields() == expected.to_fields()
    assert second.to_fields() == QueueDescription("queue.2").to_fields()


def rules_of(subscription: SubscriptionSettings) -> dict[str, dict[str, object]] | None:
    """By their names, without what is not set."""
    if subscription.rules is None:
        return None
    return {rule.name: _without_nothing(rule.to_fields()) for rule in subscription.rules}


def _without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    cleaned = {key: _without_nothing(one) if isinstance(one, dict) else one for key, one in fields.items()}
    return {key: one for key, one in cleaned.items() if one is not None and one != {}}


def test_the_toml_has_topics_with_subscriptions_and_rules(tmp_path: Path) -> None:
    (topic,) = read(tmp_path, TOML).default.topics
    assert topic.description.to_fields() == TopicDescription("prices", requires_duplicate_detection=True).to_fields()
    everything, some, none = topic.subscriptions
    expected = SubscriptionDescription("prices", "all", max_delivery_count=3)
    assert everything.description.to_fields() == expected.to_fields()
    assert everything.rules is None
    assert none.rules == []
    assert rules_of(some) == {
        "large": {
            "filter": {"kind": "sql", "expression": "amount > 1000"},
            "action": {"expression": "SET is_large = TRUE"},
        },
        "new-year": {
            "filter": {
                "kind": "correlation",
                "label": "vip",
                "properties": {"since": {"datetime": 639_028_224_000_000_000}},
            }
        },
    }


def test_the_config_of_the_official_emulator_has_topics_with_subscriptions_and_rules(tmp_path: Path) -> None:
    (topic,) = read(tmp_path, json.dumps(EMULATOR), "Config.json").default.topics
    expected_topic = TopicDescription(
        "topic.1", default_message_time_to_live_ms=3_600_000, duplicate_detection_history_time_window_ms=20_000
    )
    assert topic.description.to_fields() == expected_topic.to_fields()
    first, second, third, fourth = topic.subscriptions
    expected = SubscriptionDescription(
        "topic.1", "subscription.1", default_message_time_to_live_ms=3_600_000, max_delivery_count=3
    )
    assert first.description.to_fields() == expected.to_fields()
    assert rules_of(first) == {
        "app-prop-filter-1": {
            "filter": {
                "kind": "correlation",
                "content_type": "application/text",
                "correlation_id": "id1",
                "label": "subject1",
                "message_id": "msgid1",
                "reply_to": "someQueue",
                "reply_to_session_id": "sessionId",
                "session_id": "session1",
                "to": "xyz",
            }
        }
    }
    assert rules_of(second) == {
        "user-prop-filter-1": {"filter": {"kind": "correlation", "properties": {"prop3": "value3"}}}
    }
    assert third.rules is None
    assert rules_of(fourth) == {
        "sql-filter-1": {
            "filter": {"kind": "sql", "expression": "sys.MessageId = '123456' AND p = 'v'"},
            "action": {"expression": "SET sys.To = 'Entity'"},
        }
    }


@pytest.mark.parametrize("rules", [None, []])
def test_a_subscription_of_the_emulator_without_rules_gets_everything(tmp_path: Path, rules: object) -> None:
    topics = [{"Name": "t", "Subscriptions": [{"Name": "s", "Rules": rules}]}, {"Name": "u", "Subscriptions": None}]
    with_one, without = read_emulator(tmp_path, Topics=topics).default.topics
    assert [one.rules for one in with_one.subscriptions] == [None]
    assert without.subscriptions == []


def test_the_largest_time_of_the_service_means_never(tmp_path: Path) -> None:
    properties = {"DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S"}
    (queue,) = read_emulator(tmp_path, Queues=[{"Name": "a", "Properties": properties}]).default.queues
    assert queue.default_message_time_to_live_ms is None


@pytest.mark.parametrize(
    "text, reason",
    [
        ("port = ", "Invalid value"),
        ("colour = 1", "colour is not a setting"),
        ("port = 65_536", "port is 65536"),
        ("port = true", "port is True"),
        ("http_port = 'high'", "http_port is 'high'"),
        ("credits_per_second = 0", "credits_per_second is 0"),
        ("health = 1", "health must be an object"),
        ("[health]\nmax_cpu = 1", "health.max_cpu is not a setting; those are max_event_loop_lag_ms"),
        ("[health]\nsustained_ms = 0", "health.sustained_ms is 0"),
        ("[health]\nstall_ms = '5s'", "health.stall_ms is '5s'"),
        ("host = 1", "host must be a text"),
        ("namespace = '-'", "namespace is '-'"),
        ("queues = 1", "queues must be a list"),
        ("queues = [1]", "queues[0] must be an object"),
        ("[[queues]]", "queues[0]: name is missing"),
        ("[[queues]]\nname = 'a'\nlock_duration = 5", "queues[0]: lock_duration must be a text such as 30s"),
        ("[[queues]]\nname = 'a'\nlock = 5", "queues[0]: lock is not a property"),
        (
            "[[queues]]\nname = 'a'\n[[queues]]\nname = 'b'\nmax_delivery_count = 0",
            "queues[1]: max_delivery_count is 0",
        ),
        ("[[queues]]\nname = 'a'\n[[queues]]\nname = 'A'", "'A' is there twice"),
        ("[[queues]]\nname = 'a'\n[[topics]]\nname = 'A'", "the queue, topic or hub 'A' is there twice"),
        ("topics = 1", "topics must be a list"),
        ("[[topics]]\nname = 'a'\nlock_duration_ms = 5", "topics[0]: lock_duration_ms is not a property of a topic"),
        ("[[topics]]\nname = 'a'\nsubscriptions = 1", "topics[0].subscriptions must be a list"),
        ("[[topics]]\nname = 'a'\nsubscriptions = [1]", "topics[0].subscriptions[0] must be an object"),
        ("[[topics]]\nname = 'a'\nsubscriptions = [{}]", "topics[0].subscriptions[0]: name is missing"),
        (
            "[[topics]]\nname = 'a'\nsubscriptions = [{ name = 's' }, { name = 'S' }]",
            "the subscription of 'a' 'S' is there twice",
        ),
        (
            "[[topics]]\nname = 'a'\nsubscriptions = [{ name = 's', max_delivery_count = 0 }]",
            "topics[0].subscriptions[0]: max_delivery_count is 0",
        ),
        (
            "[[topics]]\nname = 'a'\nsubscriptions = [{ name = 's', rules = 1 }]",
            "topics[0].subscriptions[0]: rules must be a list",
        ),
        (
            "[[topics]]\nname = 'a'\nsubscriptions = [{ name = 's', rules = [{ name = 'r', filter = {} }] }]",
            "topics[0].subscriptions[0]: rules[0]: filter.kind is None",
        ),
    ],
)
def test_a_mistake_in_the_toml_is_named_with_its_file_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read(tmp_path, text)
    assert reason in str(refusal.value)
    assert str(tmp_path / "tandem.toml") in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "namespace, reason",
    [
        ({"Name": 7}, "Namespaces[0].Name must be a text"),
        ({"Queues": {}}, "Namespaces[0].Queues must be a list"),
        ({"Queues": [{}]}, "Queues[0].Name must be a text"),
        ({"Queues": [{"Name": "a", "Properties": {"Colour": 1}}]}, "Queues[0].Properties.Colour is not a property"),
        (
            {"Queues": [{"Name": "a", "Properties": {"LockDuration": "1 minute"}}]},
            "Properties.LockDuration is '1 minute'",
        ),
        ({"Queues": [{"Name": "a", "Properties": {"LockDuration": 60}}]}, "Properties.LockDuration must be a text"),
        ({"Queues": [{"Name": "a", "Properties": {"LockDuration": "PT1H"}}]}, "LockDuration is PT1H"),
        ({"Queues": [{"Name": "$a"}]}, "Queues[0]: Name '$a'"),
        ({"Topics": {}}, "Namespaces[0].Topics must be a list"),
        (
            {"Topics": [{"Name": "t", "Properties": {"LockDuration": "PT1M"}}]},
            "Topics[0].Properties.LockDuration is not a property of a topic",
        ),
        ({"Topics": [{"Name": "t", "Subscriptions": [{}]}]}, "Topics[0].Subscriptions[0].Name must be a text"),
        (one_rule({"FilterType": "Regex"}), "Rules[0].Properties.FilterType is 'Regex'; it must be one of Sql"),
        (one_rule({"FilterType": "Sql"}), "Rules[0].Properties.SqlFilter must be an object"),
        (
            one_rule({"FilterType": "Sql", "SqlFilter": {"Expression": "a = 1"}}),
            "Properties.SqlFilter.Expression is not a setting; those are SqlExpression",
        ),
        (
            one_rule({"FilterType": "Sql", "SqlFilter": {"SqlExpression": "a =="}}),
            "Subscriptions[0]: Rules[0]: = stands where a value is expected",
        ),
        (
            one_rule({"FilterType": "Correlation", "CorrelationFilter": {"Colour": "red"}}),
            "Properties.CorrelationFilter.Colour is not a setting; those are ContentType",
        ),
        (one_rule({"FilterType": "Correlation", "CorrelationFilter": {}}), "Rules[0]: a correlation filter must name"),
    ],
)
def test_a_mistake_in_the_config_of_the_emulator_is_named_by_its_place(
    tmp_path: Path, namespace: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        read_emulator(tmp_path, **namespace)
    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("{", "line 1 column 2"),
        ("[]", "the file must be an object"),
        ("{}", "UserConfig must be an object"),
        ('{"UserConfig": {"Namespaces": []}}', "Namespaces has 0 entries"),
        ('{"UserConfig": {"Namespaces": [{}, {}]}}', "Namespaces[1].Name is missing"),
    ],
)
def test_a_json_of_another_shape_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="--config") as refusal:
        read(tmp_path, text, "Config.json")
    assert reason in str(refusal.value)


def test_a_file_that_is_missing_of_another_kind_or_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_configuration(tmp_path / "missing.toml")
    with pytest.raises(ConfigurationError, match=r"must end in \.toml"):
        read(tmp_path, "", "tandem.yaml")
    (tmp_path / "latin.toml").write_bytes(b"host = '\xff'")
    with pytest.raises(ConfigurationError, match="utf-8"):
        read_configuration(tmp_path / "latin.toml")


# --- creating -------------------------------------------------------------------------------------------------------


def test_missing_queues_are_created_and_existing_ones_left_alone() -> None:
    namespace = empty_namespace()
    namespace.create_queue(QueueDescription("Orders", max_delivery_count=3))
    queues = [QueueDescription("orders", max_delivery_count=7), QueueDescription("late")]
    create_missing(namespace, NamespaceSettings(queues=queues))
    assert [(queue.name, queue.description.max_delivery_count) for queue in namespace.queues] == [
        ("late", 10),
        ("Orders", 3),
    ]


def test_missing_topics_subscriptions_and_rules_are_created_and_existing_ones_left_alone(tmp_path: Path) -> None:
    namespace = empty_namespace()
    namespace.create_topic(TopicDescription("Prices", user_metadata="older"))
    namespace.create_subscription(SubscriptionDescription("Prices", "SOME"))
    for _ in range(2):
        create_missing(namespace, read(tmp_path, TOML).default)
        (topic,) = namespace.topics
        assert (topic.name, topic.description.values["user_metadata"]) == ("Prices", "older")
        found = {subscription.name: sorted(subscription.rules) for subscription in topic.subscriptions.values()}
        assert found == {
            "Prices/Subscriptions/SOME": ["$default"],
            "Prices/Subscriptions/all": ["$default"],
            "Prices/Subscriptions/none": [],
        }
    fresh = empty_namespace()
    create_missing(fresh, read(tmp_path, TOML).default)
    rules = fresh.subscription("prices", "some").rules
    assert [(rule.name, rule.created_at_ms) for rule in rules.values()] == [("large", 1_000), ("new-year", 1_000)]


def test_queues_may_forward_to_each_other_in_any_order_and_in_a_ring() -> None:
    namespace = empty_namespace()
    ring = [
        QueueDescription("a", forward_to="b"),
        QueueDescription("b", forward_to="a", forward_dead_lettered_messages_to="dead"),
        QueueDescription("dead"),
    ]
    create_missing(namespace, NamespaceSettings(queues=ring))
    assert [queue.description.to_fields() for queue in namespace.queues] == [one.to_fields() for one in ring]


def test_entities_are_created_with_their_keys(tmp_path: Path) -> None:
    keys = "authorization_rules = [{ name = 'sender', rights = ['Send'], primary_key = 'key' }]"
    namespace = empty_namespace()
    queues = f"[[queues]]\nname = 'q'\nforward_to = 'r'\n{keys}\n[[queues]]\nname = 'r'\n{keys}\n"
    create_missing(namespace, read(tmp_path, f"{queues}[[topics]]\nname = 't'\n{keys}").default)
    for name in ("q", "r", "t"):
        rules = namespace.get(name).description.authorization_rules or []
        assert [(rule.name, rule.scope) for rule in rules] == [("sender", name)]


def test_queues_and_subscriptions_may_forward_to_topics_and_queues_in_any_order() -> None:
    namespace = empty_namespace()
    # The topic exists, in another spelling.
    namespace.create_topic(TopicDescription("First"))
    subscription = SubscriptionDescription("first", "s", forward_to="second", forward_dead_lettered_messages_to="q")
    configuration = NamespaceSettings(
        queues=[QueueDescription("q", forward_to="second")],
        topics=[
            TopicSettings(TopicDescription("first"), [SubscriptionSettings(subscription)]),
            TopicSettings(TopicDescription("second")),
        ],
    )
    create_missing(namespace, configuration)
    made = namespace.subscription("first", "s").description
    assert (made.forward_to, made.forward_dead_lettered_messages_to) == ("second", "q")
    assert namespace.get("q").description.forward_to == "second"


@pytest.mark.parametrize(
    "configuration, reason",
    [
        (
            NamespaceSettings(queues=[QueueDescription("a"), QueueDescription("b", forward_to="nowhere")]),
            "the queue 'b': forward_to is 'nowhere', which neither exists",
        ),
        (
            NamespaceSettings(
                queues=[QueueDescription("a")],
                topics=[
                    TopicSettings(
                        TopicDescription("t"),
                        [SubscriptionSettings(SubscriptionDescription("t", "s", forward_to="nowhere"))],
                    )
                ],
            ),
            "the subscription 't/Subscriptions/s': forward_to is 'nowhere'",
        ),
        (
            NamespaceSettings(queues=[QueueDescription("a")], topics=[TopicSettings(TopicDescription("there"))]),
            "the topic 'there': a queue of this name exists already",
        ),
    ],
    ids=["queue", "subscription", "kind"],
)
def test_what_cannot_be_is_refused_before_anything_is_created(configuration: NamespaceSettings, reason: str) -> None:
    namespace = empty_namespace()
    namespace.create_queue(QueueDescription("there"))
    with pytest.raises(ConfigurationError, match=reason):
        create_missing(namespace, configuration)
    assert [queue.name for queue in namespace.queues] == ["there"]
    assert namespace.topics == []
