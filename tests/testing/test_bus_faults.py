"""Failing on purpose: what a client meets while something is broken, and that it is whole again afterwards."""

from __future__ import annotations

import asyncio
import http.client

import pytest

from tandem.amqp import ACCEPTED, DeliveryState, Message, Rejected
from tandem.amqp.message import Properties, encode_message
from tandem.auth import make_token
from tandem.connection_string import ConnectionString
from tandem.driver import Client
from tandem.errors import ProtocolError, QuotaExceeded, RemoteError
from tandem.testing import Bus
from tests.markers import mission
from tests.patience import PATIENCE_S
from tests.testing.conftest import connect

MESSAGE = encode_message(data=b"x")


def condition(state: DeliveryState | None) -> str:
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error.condition


async def answer(client: Client, node: str, operation: str, body: object) -> dict[str, object]:
    """What a request to an entity's management node is answered with: its status and so on."""
    receiver = await client.receiver(node)
    sender = await client.sender(node)
    properties = {"operation": f"com.microsoft:{operation}"}
    await sender.send(
        encode_message(properties=Properties(message_id="1"), application_properties=properties, value=body)
    )
    return Message((await receiver.receive()).payload).application_properties or {}


@mission("M12")
async def test_sends_to_one_entity_fail_and_nothing_else_does(bus: Bus, client: Client) -> None:
    bus.create_queue("broken")
    bus.create_queue("whole")
    sender = await client.sender("broken")
    other = await client.sender("whole")
    with bus.break_sends("Broken"):
        assert condition(await sender.send(MESSAGE)) == "amqp:internal-error"
        with pytest.raises(RemoteError, match="internal-error"):
            await client.sender("broken")
        assert await other.send(MESSAGE) is ACCEPTED
        bus.send("broken", "from inside")
        receiver = await client.receiver("broken")
        assert Message((await receiver.receive()).payload).data == b"from inside"
        peeked = await answer(client, "broken/$management", "peek-message", {"from-sequence-number": 1})
        assert peeked["statusCode"] == 200
    assert await sender.send(MESSAGE) is ACCEPTED
    assert await (await client.sender("broken")).send(MESSAGE) is ACCEPTED


@mission("M12")
async def test_what_is_scheduled_is_sent_and_fails_as_well(bus: Bus, client: Client) -> None:
    bus.create_queue("q")
    bus.break_sends()
    body = {"messages": [{"message": MESSAGE, "message-id": "1"}]}
    assert (await answer(client, "q/$management", "schedule-message", body))["statusCode"] == 500


@mission("M12")
async def test_receivers_are_sent_away_and_come_back_when_it_is_over(bus: Bus, client: Client) -> None:
    bus.create_queue("q")
    receiver = await client.receiver("q")
    with bus.break_receives("q", error=ProtocolError):
        with pytest.raises(RemoteError, match="detach-forced"):
            await receiver.receive()
        for address in ("q", "q/$DeadLetterQueue"):
            with pytest.raises(RemoteError, match="internal-error"):
                await client.receiver(address)
        peeked = await answer(client, "q/$management", "peek-message", {"from-sequence-number": 1})
        assert peeked["statusCode"] == 500
        assert await (await client.sender("q")).send(MESSAGE) is ACCEPTED
    again = await client.receiver("q")
    assert Message((await again.receive()).payload).data == b"x"


@mission("M12")
async def test_what_is_wrong_with_a_topic_is_wrong_with_its_subscriptions(bus: Bus, client: Client) -> None:
    bus.create_topic("t")
    bus.create_subscription("t", "a")
    bus.create_subscription("t", "b")
    with bus.break_receives("t"), pytest.raises(RemoteError, match="internal-error"):
        await client.receiver("t/Subscriptions/a")
    with bus.break_receives("t/Subscriptions/a"):
        with pytest.raises(RemoteError, match="internal-error"):
            await client.receiver("t/Subscriptions/a")
        await client.receiver("t/Subscriptions/b")


@mission("M12")
async def test_when_everything_is_broken_connections_drop_and_nothing_is_answered_but_the_error(bus: Bus) -> None:
    bus.create_topic("t")
    bus.create_subscription("t", "s")
    client = await connect(bus)
    with bus.break_everything():
        await asyncio.wait_for(client.endpoint.lost, PATIENCE_S)
        async with await connect(bus) as again:
            with pytest.raises(RemoteError, match="internal-error"):
                await again.sender("t")
            rules = await answer(again, "t/Subscriptions/s/$management", "enumerate-rules", {"skip": 0, "top": 1})
            assert rules["statusCode"] == 500
        assert await asyncio.to_thread(health, bus) == 500
        bus.send("t", "from inside")
    assert await asyncio.to_thread(health, bus) == 200
    async with await connect(bus) as at_last:
        assert await (await at_last.sender("t")).send(MESSAGE) is ACCEPTED


def health(bus: Bus) -> int:
    address = ConnectionString.parse(bus.connection_string)
    connection = http.client.HTTPConnection(address.host, address.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    finally:
        connection.close()


async def test_dropped_connections_can_be_made_again_at_once(bus: Bus) -> None:
    bus.create_queue("q")
    client = await connect(bus)
    bus.drop_connections()
    await asyncio.wait_for(client.endpoint.lost, PATIENCE_S)
    async with await connect(bus) as again:
        assert await (await again.sender("q")).send(MESSAGE) is ACCEPTED


async def test_outages_end_one_by_one_or_all_together(bus: Bus, client: Client) -> None:
    bus.create_queue("q")
    sender = await client.sender("q")
    first = bus.break_sends("q", error=QuotaExceeded)
    bus.break_sends()
    assert condition(await sender.send(MESSAGE)) == "amqp:resource-limit-exceeded"
    first.restore()
    first.restore()
    assert condition(await sender.send(MESSAGE)) == "amqp:internal-error"
    bus.restore()
    assert await sender.send(MESSAGE) is ACCEPTED


async def test_the_next_test_finds_everything_whole(bus: Bus, client: Client) -> None:
    bus.create_queue("q")
    kept = bus.take_stock()
    bus.break_everything()
    bus.clean(kept)
    async with await connect(bus) as again:
        assert await (await again.sender("q")).send(MESSAGE) is ACCEPTED


@mission("M12")
async def test_management_fails_and_messages_flow(bus: Bus, client: Client) -> None:
    bus.create_queue("q")
    bus.create_queue("whole")
    sender = await client.sender("q")
    with bus.break_management("q"):
        assert ask(bus, "GET", "/q") == 500
        assert ask(bus, "GET", "/$api/v1/queues/q") == 500
        assert ask(bus, "GET", "/$api/v1/queues/whole") == 200
        assert await sender.send(MESSAGE) is ACCEPTED
    assert ask(bus, "GET", "/q") == 200
    with bus.break_management():
        assert ask(bus, "PUT", "/$api/v1/queues/new") == 500
    assert ask(bus, "PUT", "/$api/v1/queues/new") == 201


@mission("M12")
async def test_the_rest_data_plane_meets_what_is_broken_too(bus: Bus) -> None:
    bus.create_queue("q")
    with bus.break_sends("q"):
        assert ask(bus, "POST", "/q/messages") == 500
    assert ask(bus, "POST", "/q/messages") == 201
    with bus.break_receives("q"):
        assert ask(bus, "DELETE", "/q/messages/head?timeout=0") == 500
    assert ask(bus, "DELETE", "/q/messages/head?timeout=0") == 200


def ask(bus: Bus, method: str, path: str) -> int:
    """The status of one request, with a token for everything."""
    given = ConnectionString.parse(bus.connection_string)
    connection = http.client.HTTPConnection(given.host, given.port, timeout=PATIENCE_S)
    token = make_token(f"http://{given.host}:{given.port}/", given.rule_name, given.key, 4_000_000_000)
    connection.request(method, path, headers={"Authorization": token})
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status
