"""The syphon: what it moves, what it holds, what it gives up, and that it loses nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tandem.client import (
    BrokeredMessage,
    EventHubClient,
    MessagingFactory,
    MessagingFactorySettings,
    QueueClient,
    QuotaExceededError,
)
from tandem.client.messaging.receiver import MessageReceiver
from tandem.pairing import Syphon
from tandem.pairing.backlog import backlog_queue_path
from tandem.pairing.closing import PARTNER_GRACE_S
from tandem.pairing.rewriting import rewrite
from tandem.pairing.syphon import BATCH, LONG_POLL
from tandem.testing import Broker
from tests.markers import mission
from tests.pairing.hurry import PairUnderTest, SetTime, heal, inject
from tests.patience import PATIENCE_S, until

# The longest there is, and far more than PATIENCE_S: what is left under its lock and comes again was given back.
LOCK_DURATION_MS = 300_000


@dataclasses.dataclass
class Backlog:
    """One backlog queue, with a client to fill it and the syphon that empties it."""

    pair: PairUnderTest
    client: QueueClient
    path: str
    syphon: Syphon

    async def put(self, message: BrokeredMessage, path: str) -> None:
        await self.client.send(rewrite(message, path))

    @property
    def active_count(self) -> int:
        return int(self.pair.secondary_broker.queue(self.path)["active_message_count"])

    @property
    def dead_letter_count(self) -> int:
        return int(self.pair.secondary_broker.queue(self.path)["dead_letter_message_count"])

    async def dead_letter(self) -> BrokeredMessage:
        async with self.pair.secondary.create_message_receiver(f"{self.path}/$DeadLetterQueue") as receiver:
            message = await receiver.receive(PATIENCE_S)
        assert message is not None
        return message


def make_backlog(pair: PairUnderTest, **fields: Any) -> Backlog:
    path = backlog_queue_path(pair.namespace, 0)
    pair.secondary_broker.create_queue(
        path, **{"lock_duration_ms": LOCK_DURATION_MS, "max_delivery_count": 2**31 - 1, **fields}
    )
    syphon = Syphon(pair.primary, pair.secondary, [path], lambda told: pair.events.append(dataclasses.asdict(told)))
    return Backlog(pair, pair.secondary.create_queue_client(path), path, syphon)


@pytest.fixture
async def backlog(pair: PairUnderTest) -> Any:
    backlog = make_backlog(pair)
    yield backlog
    await backlog.syphon.close()


@mission("M26")
async def test_messages_for_many_entities_share_a_backlog_queue(backlog: Backlog, name: str, primary: Broker) -> None:
    primary.create_queue(f"{name}-queue")
    primary.create_topic(f"{name}-topic")
    primary.create_subscription(f"{name}-topic", "all")
    for number in range(50):
        await backlog.put(BrokeredMessage(str(number)), f"{name}-queue")
        await backlog.put(BrokeredMessage(str(number)), f"{name}-topic")
    backlog.syphon.start()
    await until(lambda: backlog.active_count == 0, "the backlog is empty")
    assert primary.queue(f"{name}-queue")["active_message_count"] == 50
    assert primary.subscription(f"{name}-topic", "all")["active_message_count"] == 50
    messages = await backlog.pair.primary.create_queue_client(f"{name}-queue").receive_batch(50, PATIENCE_S)
    assert [message.body for message in messages] == [str(number).encode() for number in range(len(messages))]


@mission("M26")
async def test_what_other_senders_wrote_is_restored(backlog: Backlog, queue: str) -> None:
    properties = {
        "x-ms-path": f"sb://contoso.servicebus.windows.net/{queue}",
        "x-ms-timetolive": "PT1H",
        "x-ms-SessionId": "s",
    }
    await backlog.client.send(BrokeredMessage("theirs", properties=properties))
    backlog.syphon.start()
    message = await backlog.pair.primary.create_queue_client(queue).receive(PATIENCE_S)
    assert message is not None
    assert (message.body, message.session_id, message.time_to_live) == (b"theirs", "s", timedelta(hours=1))
    assert message.properties == {}
    await message.complete()


@mission("M26")
async def test_a_message_without_a_destination_is_dead_lettered_with_the_reason(backlog: Backlog) -> None:
    await backlog.client.send(BrokeredMessage("lost?", properties={"n": 1}))
    backlog.syphon.start()
    message = await backlog.dead_letter()
    assert message.body == b"lost?"
    assert message.dead_letter_reason == "SyphonCannotRestore"
    assert "x-ms-path" in (message.dead_letter_error_description or "")


@mission("M26")
async def test_a_message_whose_entity_is_gone_is_dead_lettered_and_never_dropped(backlog: Backlog, queue: str) -> None:
    await backlog.put(BrokeredMessage("homeless"), f"{queue}-that-was-deleted")
    await backlog.put(BrokeredMessage("welcome"), queue)
    backlog.syphon.start()
    message = await backlog.dead_letter()
    assert message.body == b"homeless"
    assert message.dead_letter_reason == "SyphonRefusedByPrimary"
    assert f"{queue}-that-was-deleted" in (message.dead_letter_error_description or "")
    arrived = await backlog.pair.primary.create_queue_client(queue).receive(PATIENCE_S)
    assert arrived is not None
    assert arrived.body == b"welcome"
    # Each is counted when the answer to it has come back, and both could be received before.
    await until(lambda: backlog.syphon.moved_count + backlog.syphon.dead_lettered_count == 2, "both are counted")
    assert (backlog.syphon.moved_count, backlog.syphon.dead_lettered_count) == (1, 1)


@mission("M26")
async def test_an_entity_that_is_full_does_not_hold_up_the_others(
    backlog: Backlog, name: str, queue: str, primary: Broker
) -> None:
    primary.create_queue(f"{name}-full")
    inject(primary, "refuse-sends", f"{name}-full", error="quota-exceeded")
    for number in range(120):
        await backlog.put(BrokeredMessage(str(number)), f"{name}-full")
    await backlog.put(BrokeredMessage("behind them"), queue)
    backlog.syphon.start()
    message = await backlog.pair.primary.create_queue_client(queue).receive(PATIENCE_S)
    assert message is not None
    assert message.body == b"behind them"
    assert backlog.dead_letter_count == 0


@mission("M26")
@pytest.mark.parametrize("is_told", [True, False], ids=["told", "by-its-own-ping"])
async def test_messages_held_for_an_entity_are_sent_when_it_is_back(
    backlog: Backlog, queue: str, primary: Broker, is_told: bool
) -> None:
    inject(primary, "refuse-sends", queue, error="quota-exceeded")
    for number in range(5):
        await backlog.put(BrokeredMessage(str(number)), queue)
    backlog.syphon.start()
    await until(lambda: bool(backlog.pair.told("ping", queue)), "the entity is known to be away")
    heal(primary)
    if is_told:
        backlog.syphon.wake(queue)
    await until(lambda: backlog.active_count == 0, "they arrive before their locks end")
    assert primary.queue(queue)["active_message_count"] == 5


@mission("M26")
async def test_a_message_that_was_refused_for_now_comes_again_when_its_lock_ends(
    pair: PairUnderTest, queue: str, primary: Broker
) -> None:
    backlog = make_backlog(pair, lock_duration_ms=1_000)
    await backlog.put(BrokeredMessage("later"), queue)
    inject(primary, "refuse-sends", queue, error="quota-exceeded")
    backlog.syphon.start()
    await until(lambda: primary.request("GET", "/$api/v1/faults")["faults"][0]["hit_count"] >= 1, "it is tried")
    heal(primary)
    # More than once, if the completion comes too late for such a lock.
    await until(lambda: primary.queue(queue)["active_message_count"] > 0, "it arrives")
    await backlog.syphon.close()


@mission("M26", "M29")
async def test_the_brokers_know_what_the_syphon_does(backlog: Backlog, queue: str, primary: Broker) -> None:
    await backlog.put(BrokeredMessage("counted"), queue)
    backlog.syphon.start()
    await until(lambda: backlog.syphon.moved_count == 1, "it arrives")
    hub = EventHubClient.from_connection_string(primary.connection_string, "$operations")
    consumer = hub.create_consumer("$Default", "0")
    stages: set[str] = set()
    while not stages:
        records = [json.loads(one.body) for one in await consumer.receive_batch(100, PATIENCE_S)]
        assert records
        stages = {one["stage"] for one in records if one["entity"] == queue and one["operation"] == "send"}
    await hub.close()
    assert stages == {"syphon"}


@mission("M26", "M29")
def test_ten_backlog_queues_take_forty_receives_an_hour() -> None:
    receives_per_hour = 10 * timedelta(hours=1) / LONG_POLL
    assert (receives_per_hour, receives_per_hour * 24, receives_per_hour * 24 * 30) == (40, 960, 28_800)


@mission("M26")
async def test_an_idle_syphon_waits_in_one_long_receive(backlog: Backlog, monkeypatch: pytest.MonkeyPatch) -> None:
    polls: list[object] = []
    receive_batch = MessageReceiver.receive_batch

    async def note_poll(self: MessageReceiver, *arguments: Any) -> list[BrokeredMessage]:
        polls.append(arguments)
        return await receive_batch(self, *arguments)

    monkeypatch.setattr(MessageReceiver, "receive_batch", note_poll)
    backlog.syphon.start()
    await until(lambda: bool(polls), "it asks")
    await asyncio.sleep(0.5)
    assert polls == [(BATCH, LONG_POLL)], "in twenty-five seconds it has asked once"


@pytest.fixture
def clock() -> SetTime:
    return SetTime()


@pytest.fixture
async def timed(primary: Broker, secondary: Broker, clock: SetTime) -> AsyncIterator[PairUnderTest]:
    """A pair whose time the test advances."""
    pair = PairUnderTest(primary, secondary, MessagingFactorySettings(waiting=clock))
    yield pair
    await pair.close()


@mission("M28")
@pytest.mark.parametrize("ends_first", ["primary", "secondary"])
@pytest.mark.parametrize("how", ["closed", "faulted"])
async def test_a_factory_whose_partner_ended_is_faulted_after_five_seconds(
    timed: PairUnderTest, clock: SetTime, queue: str, ends_first: str, how: str
) -> None:
    await timed.pair(enable_syphon=True)
    factories = {"primary": timed.primary, "secondary": timed.secondary}
    ended = factories.pop(ends_first)
    (other,) = factories.values()
    if how == "closed":
        await ended.close()
    else:
        await ended.fault(QuotaExceededError("some trouble"))
    await until(lambda: clock.is_awaited(PARTNER_GRACE_S), "the partner has its time to be closed")
    assert not other.is_closed
    clock.advance(PARTNER_GRACE_S)
    await until(lambda: other.is_faulted, "the partner is faulted")
    with pytest.raises(Exception, match=f"its partner .* was {how}"):
        await other.create_message_sender(queue).send(BrokeredMessage("x"))


@mission("M28")
async def test_factories_that_are_closed_together_are_not_faulted(timed: PairUnderTest, clock: SetTime) -> None:
    await timed.pair(enable_syphon=True)
    await timed.primary.close()
    await until(lambda: clock.is_awaited(PARTNER_GRACE_S), "the partner has its time to be closed")
    clock.advance(3)
    await timed.secondary.close()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "nobody watches over them any more")
    assert not timed.secondary.is_faulted


@mission("M28")
async def test_without_a_syphon_the_factories_do_not_depend_on_each_other(
    timed: PairUnderTest, clock: SetTime, queue: str
) -> None:
    await timed.pair(enable_syphon=False)
    await timed.secondary.close()
    assert not clock.is_awaited(PARTNER_GRACE_S)
    clock.advance(2 * PARTNER_GRACE_S)
    await timed.primary.create_queue_client(queue).send(BrokeredMessage("still here"))
    assert not timed.primary.is_closed


async def test_a_faulted_factory_says_why_and_stays_so(primary: Broker, queue: str) -> None:
    factory = MessagingFactory.from_connection_string(primary.connection_string)
    client = factory.create_queue_client(queue)
    await client.send(BrokeredMessage("x"))
    await factory.fault(QuotaExceededError("some trouble"))
    for _ in range(2):
        with pytest.raises(QuotaExceededError, match="some trouble"):
            await client.send(BrokeredMessage("y"))
    assert factory.is_closed
    assert factory.is_faulted
