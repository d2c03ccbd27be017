"""What `tandem serve --config FILE` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.config import Configuration, create_missing_queues, read_configuration
from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.errors import ConfigurationError
from tandem.ids import Nonces

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
                "Topics": [{"Name": "topic.1", "Properties": {}, "Subscriptions": []}],
            }
        ],
        "Logging": {"Type": "File"},
    }
}


def read(tmp_path: Path, text: str, name: str = "tandem.toml") -> Configuration:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_configuration(path)


def read_emulator(tmp_path: Path, **namespace: Any) -> Configuration:
    document = {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", **namespace}]}}
    return read(tmp_path, json.dumps(document), "Config.json")


def empty_namespace() -> Namespace:
    return Namespace("test", Nonces(lambda: bytes(8)), 1_000)


def test_the_toml_says_where_to_listen_and_which_queues_there_are(tmp_path: Path) -> None:
    configuration = read(tmp_path, TOML)
    assert (configuration.namespace, configuration.host, configuration.tls) == ("orders-eu", "0.0.0.0", "off")
    assert (configuration.port, configuration.http_port, configuration.credits_per_second) == (0, 8_080, 1_000)
    orders, late = configuration.queues
    assert (orders.name, orders.lock_duration_ms, orders.requires_session) == ("orders", 30_000, True)
    assert late.to_fields() == QueueDescription("orders/late").to_fields()


def test_an_empty_toml_leaves_everything_open(tmp_path: Path) -> None:
    assert read(tmp_path, "") == Configuration()


def test_the_config_of_the_official_emulator_is_read_with_its_durations(tmp_path: Path) -> None:
    # Editors on Windows put a byte order mark in front.
    configuration = read(tmp_path, "\ufeff" + json.dumps(EMULATOR), "Config.json")
    assert configuration.namespace == "sbemulatorns"
    first, second = configuration.queues
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


def test_topics_are_left_out_with_a_warning(tmp_path: Path) -> None:
    (warning,) = read(tmp_path, json.dumps(EMULATOR), "Config.json").warnings
    assert "1 topic is left out" in warning
    assert "not yet" in warning
    assert read_emulator(tmp_path, Topics=[]).warnings == []


def test_the_largest_time_of_the_service_means_never(tmp_path: Path) -> None:
    properties = {"DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S"}
    (queue,) = read_emulator(tmp_path, Queues=[{"Name": "a", "Properties": properties}]).queues
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
        ("host = 1", "host must be a text"),
        ("namespace = '-'", "namespace is '-'"),
        ("queues = 1", "queues must be a list"),
        ("queues = [1]", "queues[0] must be an object"),
        ("[[queues]]", "queues[0]: name is missing"),
        ("[[queues]]\nname = 'a'\nlock_duration = 5", "queues[0]: lock_duration is not a property"),
        (
            "[[queues]]\nname = 'a'\n[[queues]]\nname = 'b'\nmax_delivery_count = 0",
            "queues[1]: max_delivery_count is 0",
        ),
        ("[[queues]]\nname = 'a'\n[[queues]]\nname = 'A'", "'A' is there twice"),
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
        ({"Queues": [{"Name": "a", "Properties": {"LockDuration": "PT1H"}}]}, "lock_duration_ms is 3600000"),
        ({"Queues": [{"Name": "$a"}]}, "Queues[0]: name '$a'"),
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
        ("{", "truncated"),
        ("[]", "the file must be an object"),
        ("{}", "UserConfig must be an object"),
        ('{"UserConfig": {"Namespaces": []}}', "Namespaces has 0 entries"),
        ('{"UserConfig": {"Namespaces": [{}, {}]}}', "Namespaces has 2 entries"),
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
    create_missing_queues(namespace, [QueueDescription("orders", max_delivery_count=7), QueueDescription("late")])
    assert [(queue.name, queue.description.max_delivery_count) for queue in namespace.queues] == [
        ("late", 10),
        ("Orders", 3),
    ]


def test_queues_may_forward_to_each_other_in_any_order_and_in_a_ring() -> None:
    namespace = empty_namespace()
    ring = [
        QueueDescription("a", forward_to="b"),
        QueueDescription("b", forward_to="a", forward_dead_lettered_messages_to="dead"),
        QueueDescription("dead"),
    ]
    create_missing_queues(namespace, ring)
    assert [queue.description.to_fields() for queue in namespace.queues] == [one.to_fields() for one in ring]


def test_a_target_that_is_nowhere_is_refused_before_anything_is_created() -> None:
    namespace = empty_namespace()
    with pytest.raises(ConfigurationError, match="forward_to of the queue 'b' is 'nowhere'"):
        create_missing_queues(namespace, [QueueDescription("a"), QueueDescription("b", forward_to="nowhere")])
    assert namespace.queues == []
