"""`$management` of the namespace on the wire: requests that carry their own token, as those of Java and .NET do.

Both SDKs attach their two links to `$management` on a connection that has put no token to `$cbs`. What authorises a
request is its application property `security_token`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Self

import pytest

from tandem.amqp import ACCEPTED, Message
from tandem.amqp.message import Properties, encode_message
from tandem.auth import AuthorizationRule, Right, make_token
from tandem.driver import Client, Receiver, Sender
from tandem.errors import RemoteError
from tandem.limits import MAX_LINKS_BEFORE_AUTHENTICATION
from tandem.server.broker import Broker
from tests.compat.test_event_hubs_wire import fill, make_hub
from tests.markers import mission
from tests.server.test_broker import KEY, RULE, condition, connect, running

HUB = "com.microsoft:eventhub"
PARTITION = "com.microsoft:partition"


def token(broker: Broker, resource: str = "amqps://localhost/hub", key: str = KEY, *, rule: str = RULE) -> str:
    return make_token(resource, rule, key, broker.settings.clock.now_ms() // 1_000 + 600)


class Asking:
    """The pair of links that an SDK keeps to `$management`, and its requests."""

    def __init__(self, sender: Sender, receiver: Receiver) -> None:
        self.sender = sender
        self._receiver = receiver
        self._numbers: Iterator[int] = count()

    @classmethod
    async def attach(cls, client: Client) -> Self:
        receiver = await client.receiver("$management")
        return cls(await client.sender("$management"), receiver)

    async def read(self, security_token: object = None, kind: str = HUB, name: str = "hub", **more: Any) -> Message:
        asked: dict[str, object] = {"operation": "READ", "type": kind, "name": name, **more}
        if security_token is not None:
            asked["security_token"] = security_token
        properties = Properties(message_id=f"request-{next(self._numbers)}")
        assert await self.sender.send(encode_message(properties=properties, application_properties=asked)) is ACCEPTED
        return Message((await self._receiver.receive()).payload)

    async def status(self, security_token: object = None, **more: Any) -> tuple[object, object]:
        """The status code of the answer, and the condition of an error."""
        answer = (await self.read(security_token, **more)).application_properties or {}
        return answer["status-code"], answer.get("error-condition")


def has_stranger(broker: Broker) -> bool:
    """Whether the one connection of a broker would be closed when the time of a stranger is over."""
    (peer,) = broker.directory.default.services.peers
    return not peer.is_authenticated


def body_of(answer: Message) -> dict[str, Any]:
    assert isinstance(answer.value, dict)
    return {str(name): value for name, value in answer.value.items()}


@mission("M10")
async def test_a_token_in_the_request_is_enough_to_read_a_hub_and_its_partitions(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker, is_stranger=True) as client:
            asking = await Asking.attach(client)
            hub = body_of(await asking.read(token(broker)))
            assert (hub["name"], hub["partition_count"], list(hub["partition_ids"])) == ("hub", 2, ["0", "1"])
            partition = body_of(await asking.read(token(broker), PARTITION, partition="1"))
            assert (partition["partition"], partition["is_partition_empty"]) == ("1", True)


@pytest.mark.parametrize(
    "resource", ["sb://localhost/hub", "amqps://localhost/hub/$management", "sb://localhost/", "http://localhost/HUB"]
)
async def test_the_token_of_a_request_may_name_the_namespace_the_hub_or_its_management(
    tmp_path: Path, resource: str
) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker, is_stranger=True) as client:
            asking = await Asking.attach(client)
            assert await asking.status(token(broker, resource)) == (200, None)
            # One SDK writes it as bytes.
            assert await asking.status(token(broker, resource).encode()) == (200, None)


@mission("M17")
async def test_each_request_of_a_stranger_is_judged_by_the_token_that_it_carries(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        await make_hub(broker, "other")
        async with await connect(broker, is_stranger=True) as client:
            asking = await Asking.attach(client)
            assert await asking.status() == (401, "amqp:unauthorized-access")
            assert await asking.status(token(broker, key="guess")) == (401, "com.microsoft:auth-failed")
            assert await asking.status(token(broker), name="other") == (401, "com.microsoft:auth-failed")
            expired = make_token("sb://localhost/hub", RULE, KEY, broker.settings.clock.now_ms() // 1_000 - 1)
            answer = await asking.read(expired)
            assert "ExpiredToken" in str((answer.application_properties or {})["status-description"])
            assert await asking.status("a JSON web token") == (401, "com.microsoft:auth-failed")
            assert await asking.status(7) == (400, "com.microsoft:argument-error")
            # A token that authorised one request authorises no other.
            assert await asking.status(token(broker)) == (200, None)
            assert await asking.status() == (401, "amqp:unauthorized-access")


async def test_a_stranger_does_not_learn_which_hubs_exist(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker, is_stranger=True) as client:
            asking = await Asking.attach(client)
            for wrong in (None, token(broker, "sb://localhost/", "guess")):
                assert await asking.status(wrong) == await asking.status(wrong, name="nothing")
            assert await asking.status(token(broker, "sb://localhost/"), name="nothing") == (404, "amqp:not-found")


@mission("M17")
async def test_a_key_that_was_rotated_fails_the_next_request_on_an_open_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            asking = await Asking.attach(client)
            old = token(broker, key="old", rule="reader")
            broker.key_ring.put(AuthorizationRule("reader", Right.LISTEN, "old"))
            assert await asking.status(old) == (200, None)
            broker.key_ring.put(AuthorizationRule("reader", Right.LISTEN, "new"))
            # The connection has rights of its own; the token of the request is judged all the same.
            assert await asking.status(old) == (401, "com.microsoft:auth-failed")
            assert await asking.status(token(broker, key="new", rule="reader")) == (200, None)
            assert await asking.status() == (200, None)


@mission("M10")
async def test_a_connection_whose_request_carried_a_valid_token_is_no_stranger(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker, is_stranger=True) as client:
            asking = await Asking.attach(client)
            assert await asking.status() == (401, "amqp:unauthorized-access")
            assert await asking.status(token(broker, key="guess")) == (401, "com.microsoft:auth-failed")
            assert has_stranger(broker)
            assert await asking.status(token(broker)) == (200, None)
            assert not has_stranger(broker)
            # Nor has it only the few links of a stranger.
            for _ in range(MAX_LINKS_BEFORE_AUTHENTICATION):
                await client.sender("$cbs")


async def test_a_token_in_a_request_opens_no_link(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker, is_stranger=True) as client:
            asking = await Asking.attach(client)
            assert await asking.status(token(broker)) == (200, None)
            for attach in (client.sender("hub"), client.receiver("hub/ConsumerGroups/$Default/Partitions/0")):
                with pytest.raises(RemoteError, match="amqp:unauthorized-access"):
                    await attach


async def test_requests_to_management_are_no_larger_than_a_token_needs(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, await connect(broker, is_stranger=True) as client:
        asking = await Asking.attach(client)
        request = encode_message(application_properties={"operation": "READ", "name": "x" * 32_768})
        assert condition(await asking.sender.send(request)) == "amqp:link:message-size-exceeded"


@mission("M10")
async def test_an_empty_partition_does_not_claim_to_begin_with_event_0(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_hub(broker)
        async with await connect(broker) as client:
            asking = await Asking.attach(client)

            async def begin(partition: str) -> tuple[object, object]:
                body = body_of(await asking.read(kind=PARTITION, partition=partition))
                return body["begin_sequence_number"], body["is_partition_empty"]

            await fill(client, "a", partition=1)
            assert await begin("0") == (-1, True)
            assert await begin("1") == (0, False)
            # Retention has taken everything: the number of the next event is not that of an event either.
            await broker.perform(lambda namespace: namespace.hubs.get("hub").partitions[1].trimmed(1, 0))
            assert await begin("1") == (1, True)
