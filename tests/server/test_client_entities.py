"""Entities that a client of JMS makes by attaching: temporary queues and topics, and subscriptions of topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tandem.amqp import ACCEPTED, Settings
from tandem.amqp.message import encode_message
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Described, Symbol, ULong
from tandem.auth import AuthorizationRule, Right
from tandem.driver import Client, Receiver, Sender
from tandem.engine.topic_description import TopicDescription
from tandem.errors import RemoteError
from tandem.limits import MAX_TEMPORARY_ENTITIES_PER_CONNECTION, TEMPORARY_ENTITY_IDLE_MS
from tandem.server.broker import Broker
from tests.markers import spec
from tests.patience import until
from tests.server.test_broker import KEY, RULE, connect, data_of, make_queue, running

TEMPORARY_QUEUE: Final = Symbol("temporary-queue")
TEMPORARY_TOPIC: Final = Symbol("temporary-topic")
TOPIC: Final = Symbol("topic")
SHARED: Final = Symbol("shared")
GLOBAL: Final = Symbol("global")
SHARED_SUBS: Final = Symbol("SHARED-SUBS")
DELETE_ON_CLOSE: Final = Described(ULong(0x2B), [])
DELETE_ON_NO_LINKS: Final = Described(ULong(0x2C), [])


@asynccontextmanager
async def one_topic(directory: Path) -> AsyncIterator[tuple[Broker, Client]]:
    async with running(directory) as broker:
        await broker.perform(lambda namespace: namespace.create_topic(TopicDescription("topic")))
        async with await connect(broker) as client:
            yield broker, client


def dynamic(capability: Symbol = TEMPORARY_QUEUE, policy: Described = DELETE_ON_CLOSE) -> Target:
    return Target(dynamic=True, dynamic_node_properties={Symbol("lifetime-policy"): policy}, capabilities=[capability])


def name_given(sender: Sender) -> str:
    attach = sender.link.attach
    assert attach is not None
    assert isinstance(attach.target, Target)
    return str(attach.target.address)


def names(broker: Broker) -> list[str]:
    namespace = broker.namespace
    return [entity.name for entity in [*namespace.queues, *namespace.topics]]


def subscriptions(broker: Broker) -> list[str]:
    found = broker.namespace.topic("topic").subscriptions.values()
    return sorted(one.subscription_description.subscription_name for one in found)


def subscribing(*capabilities: Symbol, is_durable: bool = False, selector: str | None = None) -> Source:
    filters: dict[object, object] | None = None
    if selector is not None:
        filters = {Symbol("jms-selector"): Described(ULong(0x0000468C00000004), selector)}
    return Source(
        "topic",
        durable=2 if is_durable else 0,
        expiry_policy="never" if is_durable else "link-detach",
        distribution_mode="copy" if is_durable else None,
        filter=filters,
        capabilities=[TOPIC, *capabilities],
    )


async def named_receiver(client: Client, name: str, source: Source | None, **fields: Any) -> Receiver:
    """Attach a receiver whose link has a name of its own, by which clients of JMS say which subscription they mean."""
    session = await client._session
    link = session.attach_receiver(name, source, None, **fields)
    receiver = Receiver(client.endpoint, link, 0)
    await client._attach(link, receiver)
    return receiver


async def publish(client: Client, *colours: str) -> None:
    sender = await client.sender("topic")
    for colour in colours:
        await sender.send(encode_message(application_properties={"colour": colour}, data=colour.encode()))
    await sender.close()


# --- temporary queues and topics ------------------------------------------------------------------------------------


@spec("amqp:3.5.10")
async def test_a_dynamic_target_is_a_queue_that_is_gone_with_its_link(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, await connect(broker) as client:
        creator = await client.sender(dynamic())
        name = name_given(creator)
        assert names(broker) == [name]
        sender = await client.sender(name)
        assert await sender.send(encode_message(data=b"answer")) == ACCEPTED
        receiver = await client.receiver(name, credit=1)
        assert data_of(await receiver.receive()) == b"answer"
        await creator.close()
        await until(lambda: names(broker) == [])


@pytest.mark.parametrize("is_lost", [False, True])
async def test_temporary_queues_are_gone_with_their_connection(tmp_path: Path, is_lost: bool) -> None:
    async with running(tmp_path) as broker:
        client = await connect(broker)
        await client.sender(dynamic())
        await client.sender(dynamic(TEMPORARY_TOPIC))
        assert len(names(broker)) == 2
        if is_lost:
            client.endpoint.abort()
        await client.close()
        await until(lambda: names(broker) == [])


async def test_a_dynamic_source_is_a_queue_to_receive_from(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, await connect(broker) as client:
        receiver = await client.receiver(Source(dynamic=True), credit=1)
        attach = receiver.link.attach
        assert attach is not None
        assert attach.source is not None
        sender = await client.sender(str(attach.source.address))
        await sender.send(encode_message(data=b"x"))
        assert data_of(await receiver.receive()) == b"x"


async def test_a_temporary_queue_of_a_broker_that_died_goes_when_it_is_idle(tmp_path: Path) -> None:
    """As long as its connection is there it stays, however idle it is."""
    async with running(tmp_path) as broker, await connect(broker) as client:
        name = name_given(await client.sender(dynamic()))
        queue = broker.namespace.get(name)
        assert queue.description.auto_delete_on_idle_ms == TEMPORARY_ENTITY_IDLE_MS
        namespace = broker.namespace
        namespace.begin(namespace.now_ms + 2 * TEMPORARY_ENTITY_IDLE_MS)
        assert queue.on_time(namespace.now_ms)
        queue.has_owner = False
        namespace.begin(namespace.now_ms + 2 * TEMPORARY_ENTITY_IDLE_MS)
        assert not queue.on_time(namespace.now_ms)


async def test_a_connection_has_a_bounded_number_of_temporary_queues(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, await connect(broker) as client:
        creators = [await client.sender(dynamic()) for _ in range(MAX_TEMPORARY_ENTITIES_PER_CONNECTION)]
        with pytest.raises(RemoteError, match="temporary"):
            await client.sender(dynamic())
        await creators[0].close()
        await client.sender(dynamic())


async def test_another_lifetime_than_that_of_the_link_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, await connect(broker) as client:
        with pytest.raises(RemoteError) as raised:
            await client.sender(dynamic(policy=DELETE_ON_NO_LINKS))
        assert raised.value.condition == "amqp:not-implemented"
        assert names(broker) == []


async def test_making_entities_needs_the_right_to_manage(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (broker, owner):
        rule = AuthorizationRule("worker", Right.SEND | Right.LISTEN, "secret")
        broker.directory.default.services.key_ring.put(rule)
        async with await Client.connect(
            "127.0.0.1", broker.port, Settings("w", user="worker", password="secret")
        ) as client:
            for attach in (client.sender(dynamic()), client.receiver(subscribing())):
                with pytest.raises(RemoteError) as raised:
                    await attach
                assert raised.value.condition == "amqp:unauthorized-access"
            assert names(broker) == ["topic"]
            assert subscriptions(broker) == []
            # What exists can be received from.
            consumer = await named_receiver(owner, "audit|global", subscribing(SHARED, GLOBAL, is_durable=True))
            await consumer.close()
            await named_receiver(client, "audit|global", subscribing(SHARED, GLOBAL, is_durable=True))


# --- subscriptions of topics ----------------------------------------------------------------------------------------


async def test_each_consumer_of_a_topic_has_a_subscription_that_is_gone_with_it(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (broker, client):
        consumers = [await client.receiver(subscribing(), credit=5) for _ in range(2)]
        assert len(subscriptions(broker)) == 2
        await publish(client, "red")
        assert [data_of(await consumer.receive()) for consumer in consumers] == [b"red", b"red"]
        for consumer in consumers:
            await consumer.close()
        await until(lambda: subscriptions(broker) == [])


async def test_the_selector_of_a_consumer_is_the_rule_of_its_subscription(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (broker, client):
        consumer = await client.receiver(subscribing(selector="colour = 'red'"), credit=5)
        await publish(client, "blue", "red")
        assert data_of(await consumer.receive()) == b"red"
        (subscription,) = broker.namespace.topic("topic").subscriptions.values()
        # The others are not kept for nobody.
        assert subscription.main.active_count == 1


async def test_a_durable_subscription_keeps_messages_and_survives_the_broker(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (broker, client):
        consumer = await named_receiver(client, "audit", subscribing(is_durable=True))
        await consumer.close()
        await publish(client, "red")
        assert subscriptions(broker) == ["audit$client$D"]
    async with running(tmp_path) as broker, await connect(broker) as client:
        consumer = await named_receiver(client, "audit", subscribing(is_durable=True))
        consumer.grant(1)
        assert data_of(await consumer.receive()) == b"red"


async def test_a_durable_subscription_is_on_disk_when_its_attach_is_answered(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (broker, client):
        release = asyncio.Event()
        commit = broker.runner._store.commit

        def held_up() -> None:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
            commit()

        loop = asyncio.get_running_loop()
        broker.runner._store.commit = held_up  # type: ignore[method-assign]  # a disk that takes its time
        attaching = asyncio.create_task(named_receiver(client, "audit", subscribing(is_durable=True)))
        await until(lambda: subscriptions(broker) == ["audit$client$D"])
        await until(lambda: broker.runner.is_committing)
        assert not attaching.done()
        release.set()
        await attaching


async def test_consumers_share_a_subscription_and_the_last_one_ends_it(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (broker, client):
        first = await named_receiver(
            client, "all|global-volatile1", subscribing(SHARED, GLOBAL), desired_capabilities=[SHARED_SUBS]
        )
        attach = first.link.attach
        assert attach is not None
        assert attach.offered_capabilities == [SHARED_SUBS]
        second = await named_receiver(client, "all|global-volatile2", subscribing(SHARED, GLOBAL))
        assert subscriptions(broker) == ["all$$ND"]
        await first.close()
        await publish(client, "red")
        second.grant(1)
        assert data_of(await second.receive()) == b"red"
        await second.close()
        await until(lambda: subscriptions(broker) == [])


async def test_a_durable_subscription_that_is_not_shared_has_one_consumer(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (broker, client):
        await named_receiver(client, "audit", subscribing(is_durable=True))
        async with await connect(broker) as other:
            with pytest.raises(RemoteError, match="in use"):
                await named_receiver(other, "audit", subscribing(is_durable=True))


async def test_a_durable_subscription_keeps_its_selector(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (_, client):
        consumer = await named_receiver(client, "audit", subscribing(is_durable=True, selector="colour = 'red'"))
        await consumer.close()
        with pytest.raises(RemoteError, match="another selector"):
            await named_receiver(client, "audit", subscribing(is_durable=True, selector="colour = 'blue'"))
        await named_receiver(client, "audit", subscribing(is_durable=True, selector="colour='red'"))


async def test_a_client_takes_its_durable_subscription_back(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (broker, client):
        consumer = await named_receiver(client, "audit", subscribing(is_durable=True))
        await consumer.close()
        async with await Client.connect("127.0.0.1", broker.port, Settings("other", user=RULE, password=KEY)) as other:
            with pytest.raises(RemoteError) as raised:
                await named_receiver(other, "audit", None)
            assert raised.value.condition == "amqp:not-found"
        unsubscribing = await named_receiver(client, "audit", None)
        assert subscriptions(broker) == ["audit$client$D"]
        await unsubscribing.close()
        await until(lambda: subscriptions(broker) == [])


async def test_a_connection_that_breaks_while_it_unsubscribes_leaves_the_subscription(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (broker, client):
        consumer = await named_receiver(client, "audit", subscribing(is_durable=True))
        await consumer.close()
        await named_receiver(client, "audit", None)
        client.endpoint.abort()
        await until(lambda: not broker.directory.default.services.peers)
        assert subscriptions(broker) == ["audit$client$D"]


async def test_a_name_that_no_subscription_can_have_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (_, client):
        with pytest.raises(RemoteError, match="Choose another name"):
            await named_receiver(client, "a name with blanks", subscribing(is_durable=True))


async def test_a_topic_that_is_not_asked_for_as_one_is_not_received_from(tmp_path: Path) -> None:
    async with one_topic(tmp_path) as (_, client):
        with pytest.raises(RemoteError, match="subscriptions"):
            await client.receiver("topic")


# --- delivery times -------------------------------------------------------------------------------------------------


async def test_a_message_with_a_delivery_time_is_scheduled(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "queue")
        async with await connect(broker) as client:
            sender = await client.sender("queue", desired_capabilities=[Symbol("DELAYED_DELIVERY")])
            attach = sender.link.attach
            assert attach is not None
            assert attach.offered_capabilities == [Symbol("DELAYED_DELIVERY")]
            later = broker.settings.clock.now_ms() + 3_600_000
            await sender.send(encode_message(message_annotations={Symbol("x-opt-delivery-time"): later}, data=b"x"))
            await sender.send(encode_message(message_annotations={Symbol("x-opt-delivery-time"): 1}, data=b"y"))
            main = broker.namespace.get("queue").main
            assert (main.scheduled_count, main.active_count) == (1, 1)
