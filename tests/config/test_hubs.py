"""Event hubs in a configuration: Tandem's TOML, and the file of the official emulator as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.config import Configuration, NamespaceSettings, apply_entities, plan_entities, read_configuration
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.namespace import Namespace
from tandem.errors import ConfigurationError
from tandem.ids import Nonces
from tests.markers import mission

# The shape of the official emulator's own example.
EMULATOR: dict[str, Any] = {
    "UserConfig": {
        "NamespaceConfig": [
            {
                "Type": "EventHub",
                "Name": "emulatorNs1",
                "Entities": [{"Name": "eh1", "PartitionCount": "2", "ConsumerGroups": [{"Name": "cg1"}]}],
            }
        ],
        "LoggingConfig": {"Type": "File"},
    }
}


@pytest.fixture
def namespace() -> Namespace:
    return Namespace("n", Nonces(lambda: bytes(4_096)), 1_000_000)


def create_missing(namespace: Namespace, settings: NamespaceSettings) -> list[str]:
    return apply_entities(namespace, plan_entities(namespace, settings, updates=False))


def read(tmp_path: Path, content: str | object) -> Configuration:
    is_toml = isinstance(content, str)
    path = tmp_path / ("a.toml" if is_toml else "Config.json")
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return read_configuration(path)


def reload(namespace: Namespace, configuration: Configuration) -> list[str]:
    return apply_entities(namespace, plan_entities(namespace, configuration.default, updates=True))


def fields(hubs: list[EventHubDescription]) -> list[dict[str, object]]:
    return [hub.to_fields() for hub in hubs]


@mission("M10")
def test_hubs_are_read_from_toml_and_made(tmp_path: Path, namespace: Namespace) -> None:
    text = "[[hubs]]\nname = 'logs'\npartition_count = 4\nretention_ms = 60_000\nconsumer_groups = ['mine']\n"
    configuration = read(tmp_path, text)
    expected = EventHubDescription("logs", partition_count=4, retention_ms=60_000, consumer_groups=["mine"])
    assert fields(configuration.default.hubs) == [expected.to_fields()]
    assert create_missing(namespace, configuration.default) == ["created the hub logs"]
    assert namespace.hubs.get("logs").description.to_fields() == expected.to_fields()
    assert create_missing(namespace, configuration.default) == []


def test_each_namespace_of_a_file_has_hubs_of_its_own(tmp_path: Path) -> None:
    text = "[[namespace]]\nname = 'a'\n[[namespace.hubs]]\nname = 'x'\n[[namespace]]\nname = 'b'\n"
    first, second = read(tmp_path, text).namespaces
    assert ([hub.name for hub in first.hubs], second.hubs) == (["x"], [])


@mission("M10")
def test_the_file_of_the_emulator_is_read_as_it_is(tmp_path: Path) -> None:
    configuration = read(tmp_path, EMULATOR)
    assert configuration.default.name == "emulatorNs1"
    expected = EventHubDescription("eh1", partition_count=2, consumer_groups=["cg1"])
    assert fields(configuration.default.hubs) == [expected.to_fields()]


def test_hubs_stand_beside_queues_of_the_namespace_of_the_same_name(tmp_path: Path) -> None:
    queues = [{"Name": "EmulatorNS1", "Queues": [{"Name": "q"}]}]
    both = {"UserConfig": {**EMULATOR["UserConfig"], "Namespaces": queues}}
    (one,) = read(tmp_path, both).namespaces
    assert ([queue.name for queue in one.queues], [hub.name for hub in one.hubs]) == (["q"], ["eh1"])
    queues[0]["Name"] = "sbemulatorns"
    first, second = read(tmp_path, both).namespaces
    assert (first.name, first.hubs, second.name) == ("sbemulatorns", [], "emulatorNs1")
    queues[0] = {"Name": "emulatorNs1", "Queues": [{"Name": "EH1"}]}
    with pytest.raises(ConfigurationError, match="the queue, topic or hub 'eh1' is there twice"):
        read(tmp_path, both)


def entity(**values: object) -> dict[str, Any]:
    return {"UserConfig": {"NamespaceConfig": [{"Name": "n", "Entities": [{"Name": "eh", **values}]}]}}


def test_a_count_may_be_a_number_or_a_text_and_groups_may_be_missing(tmp_path: Path) -> None:
    for count in (3, "3"):
        (hub,) = read(tmp_path, entity(PartitionCount=count, ConsumerGroups=None)).default.hubs
        assert (hub.partition_count, hub.consumer_groups) == (3, ["$Default"])
    (hub,) = read(tmp_path, entity(ConsumerGroups=[{"Name": "$Default"}])).default.hubs
    assert hub.consumer_groups == ["$Default"]


@pytest.mark.parametrize(
    "content, reason",
    [
        ("[[hubs]]\nname = 'a'\npartition_count = 0", "line 3: hubs[0]: partition_count is 0"),
        ("[[hubs]]\nname = 'a'\ncolour = 1", "colour"),
        ("[[hubs]]\nname = '$operations'", "only the broker makes"),
        ("[[hubs]]\nname = 'a/partitions/0'", "reads as a part of the hub 'a'"),
        ("[[hubs]]\nname = 'a'\n[[queues]]\nname = 'A'", "the queue, topic or hub"),
        (entity(PartitionCount="two"), "line 9: UserConfig.NamespaceConfig[0].Entities[0].PartitionCount is 'two'"),
        (entity(PartitionCount=True), "PartitionCount is True"),
        (entity(PartitionCount=2_000), "PartitionCount is 2000"),
        (entity(Colour=1), "Entities[0].Colour is not a setting"),
        (entity(ConsumerGroups=[{}]), "ConsumerGroups[0].Name must be a text"),
        ({"UserConfig": {"NamespaceConfig": [{"Type": "ServiceBus", "Name": "n"}]}}, "Type is 'ServiceBus'"),
        ({"UserConfig": {"NamespaceConfig": [{"Type": "EventHub"}]}}, "NamespaceConfig[0].Name must be a text"),
        ({"UserConfig": {"NamespaceConfig": 1}}, "UserConfig.NamespaceConfig must be a list"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, content: object, reason: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, content)
    assert reason in str(refused.value)


def test_a_reload_changes_what_the_file_says_and_deletes_no_group(tmp_path: Path, namespace: Namespace) -> None:
    namespace.hubs.create(EventHubDescription("Logs", partition_count=2, consumer_groups=["theirs"]))
    text = "[[hubs]]\nname = 'logs'\nretention_ms = 60_000\nconsumer_groups = ['mine']"
    assert reload(namespace, read(tmp_path, text)) == ["updated the hub Logs: consumer_groups, retention_ms"]
    description = namespace.hubs.get("logs").description
    assert description.consumer_groups == ["$Default", "theirs", "mine"]
    assert (description.retention_ms, description.partition_count) == (60_000, 2)
    assert reload(namespace, read(tmp_path, text)) == []


def test_what_a_hub_cannot_become_is_said_before_anything_is_done(tmp_path: Path, namespace: Namespace) -> None:
    namespace.hubs.create(EventHubDescription("logs", partition_count=2))
    namespace.create_queue(QueueDescription("orders"))
    with pytest.raises(ConfigurationError, match="the hub 'logs': partition_count is 2 and cannot be changed to 3"):
        reload(namespace, read(tmp_path, "[[queues]]\nname = 'new'\n[[hubs]]\nname = 'logs'\npartition_count = 3"))
    with pytest.raises(ConfigurationError, match="the hub 'orders': a queue of this name exists already"):
        reload(namespace, read(tmp_path, "[[queues]]\nname = 'new'\n[[hubs]]\nname = 'orders'"))
    with pytest.raises(ConfigurationError, match="the topic 'logs': an event hub of this name exists already"):
        reload(namespace, read(tmp_path, "[[queues]]\nname = 'new'\n[[topics]]\nname = 'logs'"))
    assert namespace.find("new") is None


def test_a_reload_takes_the_keys_of_a_hub_back(tmp_path: Path, namespace: Namespace) -> None:
    rule = "{ name = 'r', rights = ['Listen'], primary_key = 'p', secondary_key = 's' }"
    reload(namespace, read(tmp_path, f"[[hubs]]\nname = 'logs'\nauthorization_rules = [{rule}]"))
    assert [one.name for one in namespace.key_ring] == ["r"]
    done = reload(namespace, read(tmp_path, "[[hubs]]\nname = 'logs'\nauthorization_rules = []"))
    assert done == ["updated the hub logs: authorization_rules"]
    assert list(namespace.key_ring) == []
