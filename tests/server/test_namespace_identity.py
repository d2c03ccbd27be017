"""A broker reports name and id of the namespace that a client asks for, before the client proves anything."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.amqp import Settings
from tandem.driver import Client
from tandem.namespace_identity import NamespaceIdentity
from tandem.testing import Broker
from tests.markers import mission

TOML = '[[namespace]]\nname = "front"\n\n[[namespace]]\nname = "back"\n'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    (tmp_path / "two.toml").write_text(TOML)
    with Broker(tmp_path / "data", arguments=("--dev", "--config", str(tmp_path / "two.toml"))) as broker:
        yield broker


async def identity(broker: Broker, hostname: str | None = None) -> NamespaceIdentity:
    """What a stranger is told, who has no key at all."""
    async with await Client.connect("127.0.0.1", broker.port, Settings("stranger", hostname=hostname)) as client:
        reported = NamespaceIdentity.from_properties(client.peer_properties)
    assert reported is not None
    return reported


async def test_each_namespace_of_a_broker_has_a_name_and_an_id_of_its_own(broker: Broker) -> None:
    front, back = await identity(broker), await identity(broker, "back.localhost")
    assert (front.name, back.name) == ("front", "back")
    assert front.id != back.id
    for spelling in ("front.localhost", f"127.0.0.1:{broker.port}", "front.servicebus.windows.net", "whatever"):
        assert await identity(broker, spelling) == front


@mission("M21")
async def test_the_id_survives_restarts_renaming_and_a_copy_of_the_data(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", arguments=("--dev", "--namespace", "sales")) as broker:
        before = await identity(broker)
        broker.kill()
        broker.start()
        assert await identity(broker) == before
        broker.stop()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with Broker(tmp_path / "copy", arguments=("--dev", "--namespace", "renamed")) as copied:
        assert await identity(copied) == NamespaceIdentity("renamed", before.id)


async def test_two_brokers_of_the_default_name_differ_in_their_ids(tmp_path: Path) -> None:
    with Broker(tmp_path / "one") as one, Broker(tmp_path / "two") as two:
        first, second = await identity(one), await identity(two)
    assert first.name == second.name == "sbemulatorns"
    assert first.id != second.id
    assert first.unique_name != second.unique_name


def test_what_is_not_an_identity_is_not_taken_for_one() -> None:
    for properties in (None, {}, {"tandem:namespace": "sales"}, {"tandem:namespace": 5, "tandem:namespace-id": "1"}):
        assert NamespaceIdentity.from_properties(properties) is None  # type: ignore[arg-type] # as a peer may send
