"""A setting is defined in one place: a throw-away one, registered there, is found on every surface."""

from __future__ import annotations

import json
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from tandem.client.entities.atom import description_element, read_description
from tandem.config import apply_entities, plan_entities, read_configuration
from tandem.connection_string import ConnectionString
from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.entity_settings import QUEUE, SETTINGS, TOPIC, Form, Setting, registered
from tandem.errors import ArgumentError, RemoteError
from tandem.ids import Nonces
from tandem.management.client import ManagementClient
from tandem.testing import Broker, Bus
from tests.cli.program import TIME_LIMIT_S, environment
from tools.generate_descriptions import source
from tools.generate_docs import settings_table

NAME: Final = "keeps_receipts"
ELEMENT: Final = "KeepsReceipts"
HELP: Final = "Keep a receipt of every message."
SETTING: Final = Setting(NAME, Form.FLAG, (QUEUE,), HELP, default=False, element=ELEMENT)

# What a developer would write into the table.
REGISTER: Final = (
    "from tandem.entity_settings import SETTINGS, Form, Setting\n"
    f"SETTINGS.append(Setting({NAME!r}, Form.FLAG, ({QUEUE!r},), {HELP!r}, default=False, element={ELEMENT!r}))\n"
)
MAIN: Final = f"{REGISTER}import sys; sys.argv[0] = 'tandem'\nfrom tandem.cli import main; main()"

ATOM: Final = "http://www.w3.org/2005/Atom"
CONNECT: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"


class BrokerWithSetting(Broker):
    """A broker whose table has one more entry."""

    program: ClassVar[str] = f"{REGISTER}from tandem.cli import main; main()"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerWithSetting]:
    with BrokerWithSetting(tmp_path_factory.mktemp("one-table")) as running:
        yield running


@pytest.fixture
def in_table() -> Iterator[None]:
    with registered(SETTING):
        yield
    assert SETTING not in SETTINGS


def tandem(broker: Broker, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
        env=environment(TANDEM_CONNECTION_STRING=broker.connection_string),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_json_api_creates_shows_changes_and_keeps_it(broker: BrokerWithSetting) -> None:
    assert broker.create_queue("plain")[NAME] is False
    assert broker.create_queue("json", **{NAME: True})[NAME] is True
    broker.stop()
    broker.start()
    assert broker.queue("json")[NAME] is True
    assert broker.update_queue("json", **{NAME: False})[NAME] is False
    with pytest.raises(RemoteError, match=f"{NAME} must be true or false, got 1"):
        broker.update_queue("json", **{NAME: 1})
    with pytest.raises(RemoteError, match=f"{NAME} is not a property of a topic"):
        broker.create_topic("prices", **{NAME: True})


def test_the_openapi_document_describes_it(broker: BrokerWithSetting) -> None:
    schemas = broker.request("GET", "/$api/v1/openapi.json")["components"]["schemas"]
    for name in ("Queue", "QueueSettings", "QueueRequest"):
        described = schemas[name]["properties"][NAME]
        assert (described["type"], described["description"], described["default"]) == ("boolean", HELP, False)
    assert NAME not in schemas["TopicRequest"]["properties"]


def test_an_export_has_it_and_an_import_takes_it(broker: BrokerWithSetting) -> None:
    broker.create_queue("exported", **{NAME: True})
    document = broker.request("GET", "/$api/v1/export")
    exported = next(one for one in document["queues"] if one["name"] == "exported")
    assert exported[NAME] is True
    body = {"mode": "replace", "document": {"queues": [{**exported, NAME: False}]}}
    assert broker.request("POST", "/$api/v1/import", body)["updated"] == 1
    assert broker.queue("exported")[NAME] is False


@pytest.mark.usefixtures("in_table")
async def test_atom_reads_and_writes_it_and_so_does_the_client(broker: BrokerWithSetting) -> None:
    module = types.ModuleType("generated_descriptions")
    sys.modules[module.__name__] = module
    try:
        exec(source(), module.__dict__)  # what the tool would write
    finally:
        del sys.modules[module.__name__]
    # Any: a class that exists only here.
    description: Any = module.__dict__["QueueDescription"]("atom", **{NAME: True})
    element = description_element(description)
    assert element[-1].tag == f"{{{CONNECT}}}{ELEMENT}"
    assert element[-1].text == "true"
    manager = _manager(broker)
    _, answered = await manager._put("atom", element, is_update=False)
    assert getattr(read_description(module.__dict__["QueueDescription"]("atom"), answered), NAME) is True
    assert broker.queue("atom")[NAME] is True


def _manager(broker: Broker) -> Any:
    from tandem.client import NamespaceManager

    return NamespaceManager.from_connection_string(broker.connection_string)


def test_the_command_line_offers_it_and_shows_it(broker: BrokerWithSetting) -> None:
    for command in ("create", "update"):
        assert HELP in " ".join(tandem(broker, "queue", command, "--help").split())
        assert "--keeps-receipts / --no-keeps-receipts" in tandem(broker, "queue", command, "--help")
        assert HELP not in tandem(broker, "topic", command, "--help")
    assert json.loads(tandem(broker, "queue", "create", "cli", "--keeps-receipts", "--json"))[NAME] is True
    tandem(broker, "queue", "update", "cli", "--no-keeps-receipts")
    assert json.loads(tandem(broker, "queue", "show", "cli", "--json"))[NAME] is False


@pytest.mark.usefixtures("in_table")
@pytest.mark.parametrize(
    "name, text",
    [
        ("a.toml", f"[[queues]]\nname = 'a'\n{NAME} = true"),
        (
            "a.json",
            json.dumps({"UserConfig": {"Namespaces": [{"Queues": [{"Name": "a", "Properties": {ELEMENT: True}}]}]}}),
        ),
    ],
)
def test_configurations_may_have_it(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    namespace = Namespace("test", Nonces(lambda: bytes(8)), 1_000)
    apply_entities(namespace, plan_entities(namespace, read_configuration(path).default, updates=False))
    assert namespace.get("a").description.values[NAME] is True


@pytest.mark.usefixtures("in_table")
def test_a_bus_inside_a_test_takes_it_and_refuses_a_wrong_value() -> None:
    with Bus() as bus:
        bus.create_queue("bus", **{NAME: True})
        shown = ManagementClient(ConnectionString.parse(bus.admin_connection_string)).queues.show("bus")
        assert shown[NAME] is True
        with pytest.raises(ArgumentError, match=f"{NAME} must be true or false"):
            bus.create_queue("wrong", **{NAME: "yes"})


@pytest.mark.usefixtures("in_table")
def test_the_reference_and_descriptions_have_it() -> None:
    assert f"| `{NAME}` | false |  | {HELP} |\n" in settings_table(QUEUE)
    assert NAME not in settings_table(TOPIC)
    assert QueueDescription("q").to_fields()[NAME] is False
