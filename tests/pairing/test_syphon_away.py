"""The syphon while the primary is away: what it receives, what that costs as the secondary meters it, and that delivery
counts stay."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tandem.client import BrokeredMessage, MessagingFactory, MessagingFactorySettings, QueueClient, Waiting
from tandem.client.messaging.receiver import MessageReceiver
from tandem.drill.metered import Metered, read_metered
from tandem.pairing import Syphon
from tandem.pairing.backlog import backlog_queue_path
from tandem.pairing.rewriting import rewrite
from tandem.pairing.syphon import BATCH
from tandem.testing import Broker
from tests.markers import mission
from tests.pairing.hurry import SPEED, PairUnderTest, heal, inject
from tests.patience import until

# The least that a backlog queue of somebody else's making has.
MAX_DELIVERY_COUNT = 2
# Milliseconds. Short enough to see many of them end, and long enough for a send and its completion.
SHORT_LOCK_MS = 5_000
# Far longer than any test.
LONG_LOCK_MS = 300_000

ENTITIES = ("one", "two", "three")


@dataclasses.dataclass
class Stage:
    """A primary that can be killed, and the backlog queues of it."""

    pair: PairUnderTest
    paths: list[str]
    clients: list[QueueClient]
    syphon: Syphon
    # Connections that the syphon tried to make to the primary, and its receives, by address and path.
    probes: list[str]
    polls: list[str]

    @property
    def primary(self) -> Broker:
        return self.pair.primary_broker

    @property
    def secondary(self) -> Broker:
        return self.pair.secondary_broker

    async def put(self, count: int, entity: str, queue: int = 0) -> None:
        messages = [rewrite(BrokeredMessage(f"{entity} {number}"), entity) for number in range(count)]
        await self.clients[queue].send_batch(messages)

    def count(self, field: str) -> int:
        return sum(int(self.secondary.queue(path)[field]) for path in self.paths)

    def arrived(self, entity: str) -> int:
        return int(self.primary.queue(entity)["active_message_count"])

    def check_arrived(self, entity: str, count: int) -> None:
        """Each message once, but for sends and completions that a busy machine did not answer in time."""
        assert count <= self.arrived(entity) <= count + self.syphon.unanswered_count

    def check_charges(self, count: int) -> None:
        """One receive for each of so many messages, and one more, with a settlement, for each that was released."""
        metered, syphon = self.metered(), self.syphon
        least = count + syphon.released_count
        assert metered.count("send", "backlog") == count
        assert least <= metered.count("receive") <= least + syphon.unanswered_count
        assert metered.count("abandon") == syphon.released_count
        assert metered.count("peek") == syphon.peek_count
        assert metered.count("empty-receive") == syphon.empty_poll_count

    async def start_polling(self) -> None:
        """Start the syphon, and return when it has reached the primary and waits for messages."""
        self.syphon.start()
        await until(lambda: set(self.polls) == set(self.paths), "each backlog queue is polled")

    async def until_probed(self, count: int) -> None:
        """Until the syphon has asked so many times more whether the primary is back."""
        wanted = len(self.probes) + count
        await until(lambda: len(self.probes) >= wanted, "the syphon asks for the primary")

    async def until_pinged(self, count: int, entity: str) -> None:
        wanted = len(self.pair.told("ping", entity)) + count
        await until(lambda: len(self.pair.told("ping", entity)) >= wanted, f"the syphon asks for '{entity}'")

    async def until_drained(self) -> None:
        await until(lambda: self.count("message_count") == 0, "the backlog is empty")
        await self.syphon.close()

    def metered(self) -> Metered:
        """At the backlog queues of this test."""
        metered = read_metered(self.secondary)
        prefix = self.pair.namespace + "/"
        return Metered(Counter({key: count for key, count in metered.counts.items() if key[0].startswith(prefix)}))


class Restless(Waiting):
    """Pauses are a fiftieth as long. Operations have all their time: the machine may be busy."""

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s / SPEED)


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "mortal", arguments=("--dev", "--allow-faults")) as broker:
        for entity in ENTITIES:
            broker.create_queue(entity)
        yield broker


def make_stage(pair: PairUnderTest, monkeypatch: pytest.MonkeyPatch, queues: int, lock_ms: int) -> Stage:
    probes: list[str] = []
    polls: list[str] = []
    connect, receive_batch = MessagingFactory.connect, MessageReceiver.receive_batch

    async def note_probe(self: MessagingFactory) -> None:
        probes.append(self.address)
        await connect(self)

    async def note_poll(self: MessageReceiver, *arguments: Any) -> list[BrokeredMessage]:
        polls.append(self.path)
        return await receive_batch(self, *arguments)

    monkeypatch.setattr(MessagingFactory, "connect", note_probe)
    monkeypatch.setattr(MessageReceiver, "receive_batch", note_poll)
    paths = [backlog_queue_path(pair.namespace, index) for index in range(queues)]
    for path in paths:
        pair.secondary_broker.create_queue(path, lock_duration_ms=lock_ms, max_delivery_count=MAX_DELIVERY_COUNT)
    syphon = Syphon(pair.primary, pair.secondary, paths, lambda told: pair.events.append(dataclasses.asdict(told)))
    clients = [pair.secondary.create_queue_client(path) for path in paths]
    return Stage(pair, paths, clients, syphon, probes, polls)


@pytest_asyncio.fixture
async def stage(
    mortal: Broker, secondary: Broker, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    """By default with two backlog queues and short locks."""
    chosen: dict[str, Any] = {"queues": 2, "lock_ms": SHORT_LOCK_MS, **getattr(request, "param", {})}
    pair = PairUnderTest(mortal, secondary, MessagingFactorySettings(waiting=Restless()))
    stage = make_stage(pair, monkeypatch, **chosen)
    yield stage
    await stage.syphon.close()
    await pair.close()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "no task outlives the syphon")


with_long_locks = pytest.mark.parametrize("stage", [{"lock_ms": LONG_LOCK_MS}], indirect=True, ids=["long-locks"])


@mission("M26", "M29")
async def test_while_the_namespace_is_away_no_message_is_received_more_than_once_too_often(stage: Stage) -> None:
    await stage.start_polling()
    stage.primary.kill()
    # More than the syphon can have in hand when it notices.
    for queue in range(2):
        await stage.put(150, "one", queue)
    await until(lambda: stage.syphon.released_count > 0, "the locks of what it had in hand are about to end")
    await stage.until_probed(5)
    stage.primary.start()
    await stage.until_drained()
    stage.check_arrived("one", 300)
    stage.check_charges(300)
    assert stage.syphon.released_count <= 2 * BATCH
    assert stage.count("dead_letter_message_count") == 0


@mission("M26", "M29")
async def test_a_syphon_that_is_started_in_the_middle_of_an_outage_receives_nothing_until_its_end(stage: Stage) -> None:
    stage.primary.kill()
    await stage.put(120, "one")
    stage.syphon.start()
    await stage.until_probed(5)
    metered = stage.metered()
    assert (metered.count("receive"), metered.count("empty-receive"), metered.count("peek")) == (0, 0, 0)
    stage.primary.start()
    await stage.until_drained()
    stage.check_arrived("one", 120)
    stage.check_charges(120)


@mission("M26", "M29")
@with_long_locks
async def test_messages_in_hand_are_sent_when_the_primary_returns_and_not_received_again(stage: Stage) -> None:
    await stage.start_polling()
    stage.primary.kill()
    await stage.put(50, "one")
    await stage.until_probed(3)
    stage.primary.start()
    await stage.until_drained()
    stage.check_arrived("one", 50)
    stage.check_charges(50)
    assert stage.syphon.released_count == 0


@mission("M26", "M29")
@pytest.mark.parametrize("stage", [{"queues": 1}], indirect=True, ids=["one-queue"])
async def test_one_entity_that_is_away_burns_no_receives_and_holds_up_no_other(stage: Stage) -> None:
    inject(stage.primary, "refuse-sends", "one", error="internal-error")
    # More than one batch lies in front of the message for the other entity.
    await stage.put(150, "one")
    await stage.put(1, "two")
    stage.syphon.start()
    await until(lambda: stage.arrived("two") == 1, "the other entity gets its message")
    await until(lambda: stage.syphon.released_count == 150, "the locks have ended")
    # One that comes later is found without a receive for each of those before it and each lock that ends.
    await stage.until_pinged(3, "one")
    await stage.put(1, "three")
    await until(lambda: stage.arrived("three") == 1, "the third entity gets its message")
    heal(stage.primary)
    await stage.until_drained()
    stage.check_arrived("one", 150)
    stage.check_charges(152)
    # Each of the 150 once more for the message of the third entity, and once more when its own was back.
    assert stage.syphon.released_count <= 2 * 150
    assert stage.count("dead_letter_message_count") == 0


@mission("M26", "M29")
async def test_a_namespace_that_answers_every_send_with_an_error_is_received_for_no_more_than_a_batch_each(
    stage: Stage,
) -> None:
    inject(stage.primary, "refuse-sends", error="internal-error")
    for queue in range(2):
        await stage.put(250, "one", queue)
    stage.syphon.start()
    await until(lambda: stage.syphon.released_count == 2 * BATCH, "the locks of both batches have ended")
    await stage.until_pinged(3, "one")
    assert stage.metered().count("receive") == 2 * BATCH
    heal(stage.primary)
    await stage.until_drained()
    stage.check_arrived("one", 500)
    stage.check_charges(500)


@mission("M26")
async def test_delivery_counts_stay_however_long_the_outage_is(stage: Stage) -> None:
    """The backlog queues of these tests dead-letter what was delivered twice."""
    for entity in ENTITIES:
        inject(stage.primary, "refuse-sends", entity, error="internal-error")
        await stage.put(1, entity)
    stage.syphon.start()
    for entity in ENTITIES:
        # Each that is back has the syphon receive the messages of the others once more.
        await until(lambda: stage.syphon.released_count > 0, "the locks have ended")
        await stage.until_pinged(1, entity)
    async with stage.pair.secondary.create_message_receiver(stage.paths[0]) as receiver:
        assert {message.delivery_count for message in await receiver.peek(10)} == {0}
    heal(stage.primary)
    await stage.until_drained()
    for entity in ENTITIES:
        stage.check_arrived(entity, 1)
    assert stage.count("dead_letter_message_count") == 0


@mission("M26", "M29")
@with_long_locks
async def test_a_long_poll_ends_when_the_namespace_is_known_to_be_away(stage: Stage) -> None:
    await stage.start_polling()
    stage.primary.kill()
    await stage.put(1, "one", queue=0)
    # The other pump gets nothing, and stops asking.
    await until(lambda: stage.syphon.empty_poll_count == 1, "the poll of the other backlog queue is over")
    await stage.put(5, "one", queue=1)
    await stage.until_probed(3)
    assert stage.metered().count("receive") == 1
    stage.primary.start()
    await stage.until_drained()
    stage.check_arrived("one", 6)


@mission("M26")
@with_long_locks
async def test_a_syphon_that_is_closed_gives_back_at_once_what_it_holds(stage: Stage) -> None:
    inject(stage.primary, "refuse-sends", "one", error="internal-error")
    await stage.put(5, "one")
    stage.syphon.start()
    await stage.until_pinged(1, "one")
    await stage.syphon.close()
    heal(stage.primary)
    successor = Syphon(stage.pair.primary, stage.pair.secondary, stage.paths, lambda told: None)
    successor.start()
    await until(lambda: stage.arrived("one") == 5, "another syphon has them before the locks end")
    await successor.close()


@mission("M26")
async def test_two_syphons_on_one_backlog_move_each_message_once_after_an_outage(stage: Stage) -> None:
    other = Syphon(stage.pair.primary, stage.pair.secondary, stage.paths, lambda told: None)
    stage.primary.kill()
    stage.syphon.start()
    other.start()
    for queue in range(2):
        await stage.put(100, "one", queue)
    await stage.until_probed(6)
    stage.primary.start()
    await asyncio.gather(stage.until_drained(), until(lambda: stage.count("message_count") == 0, "all is moved"))
    await other.close()
    moved = stage.syphon.moved_count + other.moved_count
    unanswered = stage.syphon.unanswered_count + other.unanswered_count
    assert 200 <= moved <= stage.arrived("one") <= 200 + unanswered
