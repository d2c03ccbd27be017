"""Faults over the JSON API: off unless the broker was started for it, and always possible to clear."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tandem.engine.description import QueueDescription
from tandem.management.api import add_routes
from tandem.server.broker import Broker, BrokerSettings
from tests.management.json_api.api_client import Api
from tests.markers import mission
from tests.patience import PATIENCE_S, until

FAULTS = "/$api/v1/faults"


async def met(api: Api) -> None:
    """Until a request has met the only fault there is."""
    async with asyncio.timeout(PATIENCE_S):
        while not (await api.ask("GET", FAULTS)).value["faults"][0]["hit_count"]:
            pass


async def open_api(data_dir: Path, *, allows_faults: bool) -> tuple[Broker, Api, aiohttp.ClientSession]:
    settings = BrokerSettings(data_dir, port=0, http_port=0, is_dev=True, tls="off", allows_faults=allows_faults)
    broker = Broker(settings)
    gate = add_routes(broker)
    await broker.start()
    await broker.perform(lambda namespace: namespace.create_queue(QueueDescription.from_fields({"name": "orders"})))
    session = aiohttp.ClientSession()
    return broker, Api(broker, gate, session), session


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    broker, api, session = await open_api(tmp_path, allows_faults=True)
    yield api
    await session.close()
    await broker.stop()


async def test_a_broker_that_was_not_started_for_it_refuses_and_says_how(tmp_path: Path) -> None:
    broker, api, session = await open_api(tmp_path, allows_faults=False)
    refused = await api.ask("POST", FAULTS, {"kind": "refuse-sends"})
    assert refused.status == 403
    assert "--allow-faults" in refused.error["message"]
    assert (await api.ask("GET", FAULTS)).value == {"faults": []}
    await session.close()
    await broker.stop()


@mission("M12")
async def test_a_fault_is_set_shown_met_counted_and_cleared(api: Api) -> None:
    order = {"kind": "refuse-management", "entity": "orders", "error": "quota-exceeded", "duration_ms": 60_000}
    made = await api.ask("POST", FAULTS, order)
    assert made.status == 201
    shown = made.value
    assert (shown["kind"], shown["entity"], shown["error"]) == ("refuse-management", "orders", "quota-exceeded")
    assert shown["ends_at_ms"] - shown["started_at_ms"] == 60_000
    assert (await api.ask("GET", "/$api/v1/queues/orders")).error["condition"] == "amqp:resource-limit-exceeded"
    assert (await api.ask("GET", f"{FAULTS}/{shown['id']}")).value["hit_count"] == 1
    assert (await api.ask("DELETE", f"{FAULTS}/{shown['id']}")).value["id"] == shown["id"]
    assert (await api.ask("GET", "/$api/v1/queues/orders")).status == 200
    assert (await api.ask("DELETE", f"{FAULTS}/{shown['id']}")).status == 404


@pytest.mark.parametrize("kind", ["refuse-everything", "drop-connections", "refuse-connections", "refuse-management"])
async def test_whatever_fails_a_fault_can_be_cleared(api: Api, kind: str) -> None:
    assert (await api.ask("POST", FAULTS, {"kind": kind})).status == 201
    assert [one["kind"] for one in (await api.ask("GET", FAULTS)).value["faults"]] == [kind]
    assert len((await api.ask("DELETE", FAULTS)).value["faults"]) == 1
    assert (await api.ask("GET", "/$api/v1/queues")).status == 200


async def test_a_request_that_times_out_ends_with_the_fault(api: Api) -> None:
    fault = (await api.ask("POST", FAULTS, {"kind": "timeout", "operations": ["management"]})).value
    # What can be asked twice, such as GET, this client asks again by itself.
    asking = asyncio.ensure_future(api.ask("PATCH", "/$api/v1/queues/orders", {"max_delivery_count": 3}))
    await met(api)
    assert not asking.done()
    await api.ask("DELETE", f"{FAULTS}/{fault['id']}")
    with pytest.raises(aiohttp.ClientError):
        await asyncio.wait_for(asking, PATIENCE_S)
    assert (await api.ask("GET", "/$api/v1/queues/orders")).value["max_delivery_count"] == 10


async def test_a_request_may_be_done_although_its_answer_is_lost(api: Api) -> None:
    await api.ask("POST", FAULTS, {"kind": "timeout", "operations": ["management"], "perform": True})
    asking = asyncio.ensure_future(api.ask("PATCH", "/$api/v1/queues/orders", {"max_delivery_count": 3}))
    await met(api)
    assert not asking.done()
    await api.ask("DELETE", FAULTS)
    with pytest.raises(aiohttp.ClientError):
        await asyncio.wait_for(asking, PATIENCE_S)
    assert (await api.ask("GET", "/$api/v1/queues/orders")).value["max_delivery_count"] == 3


async def test_a_stalled_request_is_answered_late(api: Api) -> None:
    await api.ask("POST", FAULTS, {"kind": "stall", "delay_ms": 200})
    started_at = asyncio.get_running_loop().time()
    assert (await api.ask("GET", "/$api/v1/queues/orders")).status == 200
    assert asyncio.get_running_loop().time() - started_at >= 0.2


async def test_an_error_is_an_answer_and_is_lost_as_well(api: Api) -> None:
    await api.ask("POST", FAULTS, {"kind": "timeout", "operations": ["management"], "perform": True})
    asking = asyncio.ensure_future(api.ask("PATCH", "/$api/v1/queues/missing", {"max_delivery_count": 3}))
    await met(api)
    assert not asking.done()
    await api.ask("DELETE", FAULTS)
    with pytest.raises(aiohttp.ClientError):
        await asyncio.wait_for(asking, PATIENCE_S)


async def test_a_stalled_request_is_counted_once_with_the_time_that_it_took(api: Api) -> None:
    api.broker.directory.default.operations.stop()
    await api.ask("POST", FAULTS, {"kind": "stall", "delay_ms": 200})
    assert (await api.ask("GET", "/$api/v1/queues/orders")).status == 200
    records = [one for one in api.broker.namespace.meter.take_all() if one.entity == "orders"]
    assert [(one.operation, one.outcome, one.count) for one in records] == [("manage", "ok", 1)]


@pytest.mark.parametrize("kind", ["refuse-everything", "refuse-management"])
async def test_a_request_meets_a_fault_of_some_probability_once(api: Api, kind: str) -> None:
    """Both would refuse another share of the requests if one of them were asked twice."""
    await api.ask("POST", FAULTS, {"kind": kind, "probability": 0.5, "seed": 7})
    dice = random.Random(7)
    for _ in range(20):
        expected = 500 if dice.random() < 0.5 else 200
        assert (await api.ask("GET", "/$api/v1/queues/orders")).status == expected


async def test_a_refusal_of_everything_speaks_the_language_of_the_surface(api: Api) -> None:
    await api.ask("POST", FAULTS, {"kind": "refuse-everything"})
    headers = {"Authorization": api.token()}
    async with api.session.get(f"{api.base}/orders", headers=headers) as answer:
        assert answer.status == 500
        assert "<Detail>'orders' is broken on purpose" in await answer.text()
    async with api.session.get(f"{api.base}/health") as answer:
        assert (answer.status, (await answer.json())["error"]["condition"]) == (500, "amqp:internal-error")


async def test_a_receive_in_progress_ends_when_connections_drop_and_gets_no_message(api: Api) -> None:
    headers = {"Authorization": api.token()}
    receiving = asyncio.ensure_future(api.session.post(f"{api.base}/orders/messages/head", headers=headers))
    main = api.broker.namespace.get("orders").main
    await until(lambda: main.consumers, "the receive waits")
    await api.ask("POST", FAULTS, {"kind": "drop-connections", "duration_ms": 0})
    with pytest.raises(aiohttp.ClientError):
        await asyncio.wait_for(receiving, PATIENCE_S)
    await until(lambda: not main.consumers, "the receive is over")


@mission("M12", "M15")
@pytest.mark.parametrize(
    "kind, error",
    [
        ("refuse-sends", "internal-error"),
        ("refuse-receives", "internal-error"),
        ("refuse-management", "internal-error"),
        ("refuse-everything", "internal-error"),
        ("restart-entity", "timeout"),
        ("timeout", None),
        ("drop-connections", None),
    ],
)
async def test_the_kind_decides_the_error_that_nobody_chose(api: Api, kind: str, error: str | None) -> None:
    order = {"kind": kind, **({"entity": "orders"} if kind == "restart-entity" else {})}
    assert (await api.ask("POST", FAULTS, order)).value["error"] == error


@mission("M15")
async def test_a_restart_of_an_entity_is_over_when_it_is_answered_unless_it_has_a_duration(api: Api) -> None:
    shown = (await api.ask("POST", FAULTS, {"kind": "restart-entity", "entity": "orders"})).value
    assert shown["ends_at_ms"] == shown["started_at_ms"]
    assert (await api.ask("GET", FAULTS)).value == {"faults": []}
    await api.ask("POST", FAULTS, {"kind": "restart-entity", "entity": "orders", "duration_ms": 60_000})
    headers = {"Authorization": api.token()}
    async with api.session.post(f"{api.base}/orders/messages", headers=headers) as answer:
        assert answer.status == 408


async def test_a_stop_does_not_wait_for_those_who_get_no_answer(tmp_path: Path) -> None:
    broker, api, session = await open_api(tmp_path, allows_faults=True)
    await api.ask("POST", FAULTS, {"kind": "timeout"})
    asking = asyncio.ensure_future(api.ask("GET", "/$api/v1/queues"))
    await met(api)
    await asyncio.wait_for(broker.stop(), PATIENCE_S)
    with pytest.raises(aiohttp.ClientError):
        await asking
    await session.close()


@pytest.mark.parametrize(
    "order, text",
    [
        ({"kind": "explode"}, "kind is 'explode'; it must be one of refuse-sends"),
        ({"kind": "refuse-sends", "error": "oops"}, "error is 'oops'; it must be one of server-busy"),
        ({"kind": "refuse-sends", "entity": "missing"}, "'missing' could not be found"),
        ({"kind": "stall"}, "delay_ms is missing"),
        ({"kind": "refuse-sends", "colour": "red"}, "colour"),
    ],
)
async def test_what_cannot_be_is_refused_with_what_could(api: Api, order: dict[str, object], text: str) -> None:
    refused = await api.ask("POST", FAULTS, order)
    assert refused.status in {400, 404}
    assert text in refused.error["message"]
    assert (await api.ask("GET", FAULTS)).value == {"faults": []}
