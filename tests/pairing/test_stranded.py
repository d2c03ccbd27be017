"""A backlog that no syphon attends to is noticed: by the health of the secondary, and by `tandem pair status`."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tandem.client import MessagingFactory, sync
from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tandem.pairing import Syphon
from tandem.pairing.backlog import backlog_queue_path
from tandem.testing import Bus
from tests.cli.program import tandem_here
from tests.markers import mission
from tests.patience import PATIENCE_S, until

PATH = backlog_queue_path("contoso", 0)

# A namespace that nobody serves: port 9 is reserved, and refuses.
NOWHERE = "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=k;SharedAccessKey=eA==;UseDevelopmentEmulator=true"


@pytest.fixture
def secondary() -> Iterator[Bus]:
    with Bus() as bus:
        bus.create_queue(PATH)
        bus.create_queue(backlog_queue_path("contoso", 1))
        bus.create_queue("orders")
        yield bus


def warnings(bus: Bus) -> list[dict[str, Any]]:
    """Of its health, as somebody with a key sees it."""
    health = ManagementClient(ConnectionString.parse(bus.connection_string)).request("GET", "/health")
    assert health["status"] == "healthy"
    found: list[dict[str, Any]] = health.get("warnings", [])
    return found


def anonymous_health(bus: Bus) -> Any:
    address = ConnectionString.parse(bus.connection_string)
    with contextlib.closing(http.client.HTTPConnection(address.host, address.port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", "/health")
        return json.loads(connection.getresponse().read())


@mission("M26")
def test_a_backlog_without_a_syphon_for_twenty_minutes_is_a_warning(secondary: Bus) -> None:
    for _ in range(3):
        secondary.send(PATH, "diverted")
    secondary.send("orders", "of no concern")
    secondary.clock.advance(minutes=19)
    assert warnings(secondary) == []
    secondary.clock.advance(minutes=1)
    (warning,) = warnings(secondary)
    assert warning["code"] == "stranded-backlog"
    assert (warning["primary_namespace"], warning["queue_count"], warning["message_count"]) == ("contoso", 1, 3)
    assert "3 messages wait in 1 backlog queue, and no syphon has polled there since" in warning["message"]
    # Those who have no key learn that something is wrong, and no names.
    health = anonymous_health(secondary)
    assert health["status"] == "healthy"
    assert health["warnings"] == [{"code": "stranded-backlog", "message": warning["message"]}]
    secondary.receive_all(PATH)
    assert "warnings" not in anonymous_health(secondary), "an empty backlog is not stranded"


@mission("M26")
def test_a_backlog_with_a_receiver_is_attended_to_and_for_twenty_minutes_after_it(secondary: Bus) -> None:
    secondary.send(PATH, "diverted")
    with sync.MessagingFactory.from_connection_string(secondary.connection_string) as factory:
        receiver = factory.create_message_receiver(PATH)
        message = receiver.receive(PATIENCE_S)
        assert message is not None
        message.abandon()
        secondary.clock.advance(hours=3)
        assert warnings(secondary) == []
        receiver.close()
    secondary.clock.advance(minutes=19)
    assert warnings(secondary) == []
    secondary.clock.advance(minutes=1)
    assert len(warnings(secondary)) == 1


@mission("M26")
async def test_a_syphon_that_waits_for_the_primary_attends_to_the_backlog(secondary: Bus) -> None:
    secondary.send(PATH, "diverted")
    secondary.clock.advance(minutes=30)
    assert len(warnings(secondary)) == 1
    async with (
        MessagingFactory.from_connection_string(NOWHERE) as primary,
        MessagingFactory.from_connection_string(secondary.connection_string) as factory,
    ):
        syphon = Syphon(primary, factory, [PATH], lambda told: None)
        syphon.start()
        await until(lambda: not warnings(secondary), "the syphon has a link to the backlog queue")
        await asyncio.to_thread(secondary.clock.advance, hours=3)
        assert await asyncio.to_thread(warnings, secondary) == []
        assert [message.delivery_count for message in await asyncio.to_thread(secondary.messages, PATH)] == [0]
        await syphon.close()
    await asyncio.to_thread(secondary.clock.advance, minutes=20)
    assert len(await asyncio.to_thread(warnings, secondary)) == 1


@mission("M26")
def test_pair_status_warns_of_a_stranded_backlog(secondary: Bus) -> None:
    arguments = ("pair", "status", "--primary-namespace", "contoso", "--secondary", secondary.connection_string)
    secondary.send(PATH, "diverted")
    secondary.send(PATH, "diverted")
    before = tandem_here(*arguments, connection_string=NOWHERE)
    assert before.returncode == 0, before.stderr
    assert "WARNING" not in before.stdout
    assert json.loads(tandem_here(*arguments, "--json", connection_string=NOWHERE).stdout)["stranded"] is None
    secondary.clock.advance(minutes=21)
    done = tandem_here(*arguments, connection_string=NOWHERE)
    assert done.returncode == 0, done.stderr
    assert "WARNING: no syphon has polled the backlog since" in done.stdout
    assert "2 messages wait in it. Run `tandem syphon run`." in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    stranded = json.loads(tandem_here(*arguments, "--json", connection_string=NOWHERE).stdout)["stranded"]
    assert (stranded["message_count"], stranded["queue_count"]) == (2, 1)
    others = tandem_here(*arguments[:2], *arguments[4:], "--primary-namespace", "other", connection_string=NOWHERE)
    assert "WARNING" not in others.stdout, "the backlog of another primary"
