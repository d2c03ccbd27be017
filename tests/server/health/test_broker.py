"""The self-monitoring of a broker inside the test's process: reloading entities, refusing the heaviest, and the API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tandem.amqp import ACCEPTED, Message, Rejected, Settings
from tandem.amqp.message import encode_message
from tandem.auth import make_token
from tandem.driver import Client
from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import RemoteError
from tandem.management.api import add_routes
from tandem.server.broker import Broker, BrokerSettings
from tandem.server.health import HealthSettings
from tandem.server.health.facet import Facet
from tandem.store.check import check
from tests.markers import mission
from tests.patience import until

RULE, KEY = "RootManageSharedAccessKey", "SAS_KEY_VALUE"
# Restarts, and no limit that a busy machine could pass.
SUPERVISED = HealthSettings(max_event_loop_lag_ms=None, max_commit_time_ms=3_600_000, stall_ms=3_600_000)


@asynccontextmanager
async def running(directory: Path, health: HealthSettings = SUPERVISED) -> AsyncIterator[Broker]:
    broker = Broker(BrokerSettings(directory, port=0, http_port=0, is_dev=True, tls="off", health=health))
    add_routes(broker)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def connect(broker: Broker) -> Any:
    return Client.connect("127.0.0.1", broker.port, Settings("client", user=RULE, password=KEY))


async def reload(broker: Broker, name: str) -> None:
    is_reloaded = asyncio.Event()
    broker.runner.reload(broker.namespace.get(name), is_reloaded.set)
    await is_reloaded.wait()


def known(queue: Queue) -> dict[str, object]:
    """What the memory of an entity says about it."""
    lines = [
        (one.path, one.active_count, one.deferred_count, one.scheduled_count, one.counts.size_bytes)
        for one in queue.subqueues()
    ]
    return {
        "description": queue.description.to_fields(),
        "lines": lines,
        "next": queue.next_sequence_number,
        "created": queue.created_at_ms,
        "size": queue.size_bytes,
    }


def _furnish(namespace: Namespace) -> None:
    namespace.create_queue(QueueDescription("orders", max_delivery_count=3))
    namespace.create_queue(QueueDescription("forwarding", forward_to="orders"))
    namespace.create_topic(TopicDescription("news"))
    for name in ("all", "none"):
        namespace.create_subscription(SubscriptionDescription("news", name))
    namespace.subscription("news", "none").remove_rule("$Default")


@mission("M15")
@pytest.mark.parametrize("name", ["orders", "news", "news/Subscriptions/all", "forwarding"])
async def test_an_entity_read_again_from_the_store_is_what_it_was(tmp_path: Path, name: str) -> None:
    async with running(tmp_path) as broker:
        await broker.perform(_furnish)
        async with await connect(broker) as client:
            for path in ("orders", "forwarding", "news"):
                sender = await client.sender(path)
                for _ in range(5):
                    assert await sender.send(encode_message(data=b"x" * 100)) == ACCEPTED
        old = broker.namespace.get(name)
        before = {one: known(broker.namespace.get(one)) for one in ("orders", "news", "news/Subscriptions/all")}
        await reload(broker, name)
        new = broker.namespace.get(name)
        assert new is not old
        assert {one: known(broker.namespace.get(one)) for one in before} == before
        async with await connect(broker) as client:
            for path in ("orders", "forwarding", "news"):
                sender = await client.sender(path)
                assert await sender.send(encode_message(data=b"y")) == ACCEPTED
        assert broker.namespace.get("orders").main.active_count == 12
        assert broker.namespace.subscription("news", "all").main.active_count == 6
        assert broker.namespace.subscription("news", "none").main.active_count == 0
        topic = broker.namespace.topic("news")
        assert all(one.parent is topic for one in topic.subscriptions.values())
    assert check(tmp_path).is_sound


@mission("M15")
async def test_messages_of_a_reloaded_entity_are_delivered_in_their_order_and_once(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.perform(_furnish)
        async with await connect(broker) as client:
            sender = await client.sender("orders")
            for number in range(50):
                await sender.send(encode_message(data=str(number).encode()))
            await reload(broker, "orders")
            receiver = await client.receiver("orders", credit=100)
            seen = []
            for _ in range(50):
                delivery = await receiver.receive()
                seen.append(Message(delivery.payload).data)
                receiver.settle(delivery)
            assert seen == [str(number).encode() for number in range(50)]
            await until(lambda: broker.namespace.get("orders").main.active_count == 0, "for settlements")


@mission("M15")
async def test_an_internal_error_of_one_entity_leaves_the_others_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.perform(_furnish)
        async with await connect(broker) as client:
            receiver = await client.receiver("orders", credit=10)
            queue = broker.namespace.get("orders")
            await until(lambda: [one for one in queue.main.consumers if one.credit], "for the credit")
            queue.main.outlet.head._ready.appendleft("rubbish")  # type: ignore[arg-type] # the point of it
            sender = await client.sender("news")
            assert await sender.send(encode_message(data=b"a")) == ACCEPTED
            assert await (await client.sender("orders")).send(encode_message(data=b"b")) == ACCEPTED
            with pytest.raises(RemoteError, match="was restarted after an internal error"):
                await receiver.receive()
            assert await sender.send(encode_message(data=b"c")) == ACCEPTED
            assert broker.namespace.get("orders") is not queue
            delivery = await (await client.receiver("orders", credit=10)).receive()
            assert Message(delivery.payload).data == b"b"


# --- overload -------------------------------------------------------------------------------------------------------


def overload(broker: Broker) -> None:
    """Let the monitor believe that commits take ten seconds, and have taken that for long."""
    gauge = broker.monitor.vital_signs.gauges[Facet.COMMIT_TIME]
    now_s = time.monotonic()
    assert not gauge.measure(1e9, now_s)
    assert gauge.measure(1e9, now_s + 3_600)
    broker.monitor.shed(now_s + 3_600)


@mission("M13")
async def test_the_heaviest_queue_is_refused_and_receives_from_it_go_on(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await broker.perform(_furnish)
        await broker.perform(lambda namespace: namespace.create_queue(QueueDescription("light")))
        async with await connect(broker) as client:
            heavy, light = await client.sender("orders"), await client.sender("light")
            for _ in range(20):
                await heavy.send(encode_message(data=b"x"))
            await light.send(encode_message(data=b"x"))
            await until(lambda: "light" in broker.directory.default.services.loads.rates, "for a measurement")
            overload(broker)
            state = await heavy.send(encode_message(data=b"refused"))
            assert isinstance(state, Rejected)
            assert state.error is not None
            assert state.error.condition == "com.microsoft:server-busy"
            assert "overloaded: commit time is" in (state.error.description or "")
            assert await light.send(encode_message(data=b"taken")) == ACCEPTED
            receiver = await client.receiver("orders", credit=100)
            for _ in range(20):
                receiver.settle(await receiver.receive())
            await until(lambda: broker.namespace.get("orders").main.active_count == 0, "for settlements")


async def ask(broker: Broker, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
    base = f"http://127.0.0.1:{broker.http_port}"
    token = make_token(f"{base}/", RULE, KEY, int(time.time()) + 60)
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{base}{path}", json=body, headers={"Authorization": token}) as response,
    ):
        return response.status, await response.json(content_type=None)


@mission("M13")
async def test_management_of_a_refused_entity_is_refused_while_deleting_purging_and_diagnosing_go_on(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as broker:
        await broker.perform(_furnish)
        broker.directory.default.services.loads.add("orders", 100, 0)
        await until(lambda: broker.directory.default.services.loads.rates, "for a measurement")
        overload(broker)
        for method, path, body in (
            ("GET", "/$api/v1/queues/orders", None),
            ("PATCH", "/$api/v1/queues/orders", {"max_delivery_count": 4}),
            ("POST", "/$api/v1/entities/orders/undefer", {}),
        ):
            status, answer = await ask(broker, method, path, body)
            assert (status, answer["error"]["condition"]) == (503, "com.microsoft:server-busy")
        assert (await ask(broker, "GET", "/$api/v1/topics/news"))[0] == 200
        assert (await ask(broker, "POST", "/$api/v1/entities/orders/purge", {"state": "active"}))[0] == 202
        status, found = await ask(broker, "GET", "/$api/v1/diagnosis")
        assert status == 200
        assert found["status"] == "overloaded"
        assert found["refused"] == ["orders"]
        assert found["refused_count"] == 3
        assert found["troubles"][0].startswith("overloaded: commit time is")
        assert (await ask(broker, "DELETE", "/$api/v1/queues/orders"))[0] == 200


@mission("M38")
async def test_a_broker_that_is_well_says_so_with_all_its_facets(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        status, found = await ask(broker, "GET", "/$api/v1/diagnosis")
        assert status == 200
        assert (found["status"], found["troubles"], found["refused"]) == ("well", [], [])
        assert [one["name"] for one in found["facets"]] == [facet.value for facet in Facet]
        assert found["restart_counts"] == {"entity": 0, "host": 0}
        assert found["last_diagnosis"] is None
