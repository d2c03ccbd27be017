"""One namespace has one backlog, and no other namespace has it: with real brokers, and however they are addressed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.client import (
    BrokeredMessage,
    MessagingFactory,
    MessagingFactorySettings,
    NamespaceManager,
    Waiting,
    sync,
)
from tandem.errors import ConfigurationError
from tandem.pairing import PairingEvent, SendAvailabilityPairedNamespaceOptions
from tandem.pairing.azure import PairedServiceBusOptions, SyphonRunner
from tandem.pairing.discovery import NoBacklogQueuesError
from tandem.pairing.marks import BacklogMark
from tandem.pairing.ownership import ForeignBacklogError
from tandem.pairing.rewriting import rewrite
from tandem.testing import Broker
from tests.markers import mission
from tests.pairing.hurry import Hurry
from tests.patience import PATIENCE_S, until

DEVELOPMENT = ("--dev", "--allow-faults")


@pytest.fixture
def secondary(tmp_path: Path) -> Iterator[Broker]:
    """One of its own for each test: a syphon without a name given takes all that belongs to its primary."""
    with Broker(tmp_path / "secondary", arguments=(*DEVELOPMENT, "--namespace", "backup")) as broker:
        yield broker


@pytest.fixture
def sales(tmp_path: Path) -> Iterator[Broker]:
    """A primary that is not started yet."""
    with contextlib.closing(Broker(tmp_path / "sales", arguments=(*DEVELOPMENT, "--namespace", "sales"))) as broker:
        yield broker


def spelled(broker: Broker, host: str) -> str:
    """The connection string of a broker with another spelling of its host."""
    return broker.connection_string.replace("127.0.0.1", host)


class Program:
    """A program that sends, paired as users pair."""

    def __init__(self, primary: str, secondary: Broker, *, waiting: Waiting | None = None, **chosen: Any) -> None:
        settings = MessagingFactorySettings(
            operation_timeout=timedelta(seconds=PATIENCE_S), waiting=waiting or Waiting()
        )
        self.primary = MessagingFactory.from_connection_string(primary, settings)
        self.secondary = MessagingFactory.from_connection_string(secondary.connection_string)
        self.events: list[PairingEvent] = []
        given = {
            "backlog_queue_count": 2,
            "failover_interval": timedelta(0),
            "ping_primary_interval": timedelta(milliseconds=200),
            "listener": self.events.append,
            **chosen,
        }
        manager = NamespaceManager.from_connection_string(secondary.connection_string)
        self.options = SendAvailabilityPairedNamespaceOptions(manager, self.secondary, **given)

    async def __aenter__(self) -> Program:
        try:
            await self.primary.pair_namespace(self.options)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(self.primary.close(), self.secondary.close())

    async def send(self, count: int) -> None:
        client = self.primary.create_queue_client("orders")
        await client.send_batch([BrokeredMessage(str(number)) for number in range(count)])

    def told(self, event: str) -> list[PairingEvent]:
        return [one for one in self.events if one["event"] == event]


def backlog(secondary: Broker) -> dict[str, int]:
    """How many messages the backlog queues of each name have."""
    counts: dict[str, int] = {}
    for queue in secondary.queues():
        name, transfer, _ = queue["name"].partition("/x-servicebus-transfer/")
        if transfer:
            counts[name] = counts.get(name, 0) + queue["active_message_count"]
    return counts


@contextlib.asynccontextmanager
async def syphon(primary: str, secondary: Broker, **chosen: Any) -> AsyncIterator[SyphonRunner]:
    options = PairedServiceBusOptions(2, **chosen)
    async with SyphonRunner(primary, secondary.connection_string, options) as runner:
        yield runner


@mission("M21", "M26")
@pytest.mark.parametrize("other", ["localhost", "sales.localhost"])
async def test_a_backlog_is_found_by_another_spelling_of_the_address(
    sales: Broker, secondary: Broker, other: str
) -> None:
    sales.start()
    sales.create_queue("orders")
    async with Program(spelled(sales, "127.0.0.1"), secondary) as program:
        sales.kill()
        await program.send(5)
    assert backlog(secondary) == {"sales": 5}
    sales.start()
    async with syphon(spelled(sales, other), secondary) as runner:
        await until(lambda: runner.moved_count == 5, "the backlog arrives")
    assert sales.queue("orders")["active_message_count"] == 5


@pytest.mark.parametrize("arguments", [(), ("--namespace", "sbemulatorns")])
async def test_two_brokers_of_the_default_name_share_a_secondary_and_no_backlog(
    tmp_path: Path, secondary: Broker, arguments: tuple[str, ...]
) -> None:
    with (
        Broker(tmp_path / "one", arguments=(*DEVELOPMENT, *arguments)) as one,
        Broker(tmp_path / "two", arguments=(*DEVELOPMENT, *arguments)) as two,
    ):
        for broker in (one, two):
            broker.create_queue("orders")
        async with (
            Program(one.connection_string, secondary) as first,
            Program(two.connection_string, secondary) as second,
        ):
            for broker in (one, two):
                broker.kill()
            await first.send(1)
            await second.send(2)
        assert sorted(backlog(secondary).values()) == [1, 2]
        one.start()
        two.start()
        async with syphon(one.connection_string, secondary) as runner:
            await until(lambda: runner.moved_count == 1, "its own backlog arrives")
        assert one.queue("orders")["active_message_count"] == 1
        assert sorted(backlog(secondary).values()) == [0, 2], "the other one's is not touched"


async def test_two_namespaces_of_one_name_are_told_apart_and_the_second_learns_what_to_do(
    tmp_path: Path, sales: Broker, secondary: Broker
) -> None:
    sales.start()
    async with Program(sales.connection_string, secondary):
        pass
    with Broker(tmp_path / "other", arguments=(*DEVELOPMENT, "--namespace", "sales")) as other:
        with pytest.raises(ForeignBacklogError, match=r"belongs to another namespace.*primary_namespace"):
            async with Program(other.connection_string, secondary):
                pass
        with pytest.raises(ForeignBacklogError, match="--primary-namespace"):
            async with syphon(other.connection_string, secondary):
                pass
        async with Program(other.connection_string, secondary, primary_namespace="sales-2"):
            assert set(backlog(secondary)) == {"sales", "sales-2"}


@mission("M16")
async def test_a_program_that_starts_in_an_outage_pairs_sends_and_strands_nothing(
    sales: Broker, secondary: Broker
) -> None:
    async with Program(spelled(sales, "127.0.0.1"), secondary) as program:
        await program.send(3)
        (provisional,) = backlog(secondary)
        assert backlog(secondary) == {provisional: 3}
        assert provisional != "sales", "nobody could know"
        sales.start()
        sales.create_queue("orders")
        await until(lambda: bool(program.told("primary-identified")), "the program learns who its primary is")
        (event,) = program.told("primary-identified")
        assert (event["used"], event["namespace"]) == (provisional, "sales")
        assert "reason" not in event
    async with syphon(spelled(sales, "sales.localhost"), secondary) as runner:
        await until(lambda: runner.moved_count == 3, "the backlog arrives")
    assert backlog(secondary) == {provisional: 0}


@mission("M16", "M26")
async def test_the_syphon_of_a_program_that_starts_in_an_outage_brings_what_others_left(
    sales: Broker, secondary: Broker
) -> None:
    sales.start()
    sales.create_queue("orders")
    async with Program(spelled(sales, "sales.localhost"), secondary) as earlier:
        sales.kill()
        await earlier.send(2)
    async with Program(spelled(sales, "127.0.0.1"), secondary, enable_syphon=True) as program:
        await program.send(3)
        assert sorted(backlog(secondary).values()) == [2, 3]
        sales.start()
        await until(lambda: sales.queue("orders")["active_message_count"] == 5, "both backlogs arrive")


@mission("M26")
async def test_a_syphon_that_runs_finds_queues_that_are_marked_later(sales: Broker, secondary: Broker) -> None:
    sales.start()
    sales.create_queue("orders")
    async with Program(sales.connection_string, secondary, waiting=Hurry(), enable_syphon=True) as program:
        identity = await program.primary.identify()
        assert identity is not None
        path = "later/x-servicebus-transfer/0"
        secondary.create_queue(path, user_metadata=BacklogMark("later", identity.id).to_text())
        await program.secondary.create_queue_client(path).send(rewrite(BrokeredMessage("late"), "orders"))
        await until(lambda: sales.queue("orders")["active_message_count"] == 1, "the syphon has found it")


async def test_a_program_that_starts_again_in_an_outage_uses_the_backlog_that_it_had(
    sales: Broker, secondary: Broker
) -> None:
    sales.start()
    sales.create_queue("orders")
    address = spelled(sales, "127.0.0.1")
    async with Program(address, secondary):
        pass
    sales.kill()
    for _ in range(2):
        async with Program(spelled(sales, "localhost"), secondary) as program:
            await program.send(1)
    assert backlog(secondary) == {"sales": 2}


@pytest.mark.parametrize("host", ["localhost", "backup.localhost"])
async def test_a_namespace_is_not_paired_with_itself_by_another_spelling(secondary: Broker, host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"both namespaces of the pair are one.*backup"):
        async with Program(spelled(secondary, host), secondary):
            pass
    assert backlog(secondary) == {}


async def test_two_namespaces_of_one_broker_are_a_pair(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text('[[namespace]]\nname = "front"\n\n[[namespace]]\nname = "back"\n')
    with Broker(tmp_path / "data", arguments=(*DEVELOPMENT, "--config", str(tmp_path / "two.toml"))) as broker:
        front = MessagingFactory.from_connection_string(spelled(broker, "front.localhost"))
        back = MessagingFactory.from_connection_string(spelled(broker, "back.localhost"))
        async with front, back:
            manager = NamespaceManager.from_connection_string(spelled(broker, "back.localhost"))
            await front.pair_namespace(SendAvailabilityPairedNamespaceOptions(manager, back, 1))
            assert [queue.path for queue in await manager.get_queues()] == ["front/x-servicebus-transfer/0"]


async def test_a_syphon_without_a_backlog_says_so_and_names_what_there_is(sales: Broker, secondary: Broker) -> None:
    sales.start()
    with pytest.raises(NoBacklogQueuesError, match="no backlog queues of 'sales': nothing was paired yet"):
        async with syphon(sales.connection_string, secondary):
            pass
    secondary.create_queue("selas/x-servicebus-transfer/0")
    with sync.MessagingFactory.from_connection_string(secondary.connection_string) as factory:
        factory.create_queue_client("selas/x-servicebus-transfer/0").send(sync.BrokeredMessage("stranded"))
    with pytest.raises(NoBacklogQueuesError, match=r"'selas' \(1 messages\).*--primary-namespace"):
        async with syphon(sales.connection_string, secondary):
            pass


async def test_a_syphon_without_the_right_manage_goes_by_names(sales: Broker, secondary: Broker) -> None:
    sales.start()
    sales.create_queue("orders")
    rule = secondary.request("PUT", "/$api/v1/authorization-rules/mover", {"rights": ["Listen", "Send"]})
    limited = secondary.connection_string.replace("RootManageSharedAccessKey", "mover")
    limited = limited.replace("SAS_KEY_VALUE", rule["primary_key"])
    runner = SyphonRunner(sales.connection_string, limited, PairedServiceBusOptions(2))
    with pytest.raises(NoBacklogQueuesError, match="no right Manage"):
        await runner.__aenter__()
    async with Program(sales.connection_string, secondary) as program:
        sales.kill()
        await program.send(4)
    sales.start()
    async with SyphonRunner(sales.connection_string, limited, PairedServiceBusOptions(2)) as runner:
        await until(lambda: runner.moved_count == 4, "the backlog arrives")


async def test_an_address_leads_to_the_namespace_that_answered_last(
    tmp_path: Path, sales: Broker, secondary: Broker
) -> None:
    sales.start()
    async with Program(sales.connection_string, secondary):
        pass
    sales.kill()
    successor = Broker(tmp_path / "successor", arguments=(*DEVELOPMENT, "--namespace", "successor"))
    successor.port = sales.port
    with successor:
        successor.create_queue("orders")
        async with Program(sales.connection_string, secondary):
            pass
        successor.kill()
        async with Program(sales.connection_string, secondary) as program:
            await program.send(1)
    assert backlog(secondary) == {"sales": 0, "successor": 1}


async def test_a_primary_that_another_namespace_replaced_is_reported(
    tmp_path: Path, sales: Broker, secondary: Broker
) -> None:
    sales.start()
    sales.create_queue("orders")
    async with Program(sales.connection_string, secondary) as program:
        await program.send(1)
        sales.kill()
        successor = Broker(tmp_path / "successor", arguments=(*DEVELOPMENT, "--namespace", "sales"))
        successor.port = sales.port
        with successor:
            successor.create_queue("orders")
            await program.send(1)
            await until(lambda: bool(program.told("primary-changed")), "the program notices")
        (event,) = program.told("primary-changed")
        assert event["expected_id"] != event["id"]
