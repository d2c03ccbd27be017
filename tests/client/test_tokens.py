"""Tokens are renewed before they end, and told when they cannot be."""

from __future__ import annotations

import asyncio
import time

import pytest

from tandem.auth.sas import make_token
from tandem.client import BrokeredMessage, MessagingFactory, Token, TokenProvider, UnauthorizedAccessError
from tandem.testing import Broker
from tests.client.network import HOST, KEY, RULE_NAME


class CountingProvider(TokenProvider):
    """Makes tokens that live for two seconds, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    async def get_token(self, audience: str, now_s: float) -> Token:
        self.count += 1
        expires_at_s = int(now_s) + 2
        return Token(make_token(audience, RULE_NAME, KEY, expires_at_s), expires_at_s)


async def test_a_token_is_renewed_before_it_ends(broker: Broker, queue: str) -> None:
    provider = CountingProvider()
    async with MessagingFactory.create(f"amqp://{HOST}:{broker.port}", provider) as factory:
        client = factory.create_queue_client(queue)
        receiving = asyncio.create_task(client.receive(timeout=20))
        await asyncio.sleep(3.2)
        # The link of a token that ended would be gone, and the message would be received on another one.
        assert provider.count >= 3
        await client.send(BrokeredMessage("still here"))
        message = await receiving
        assert message is not None
        await message.complete()


async def test_a_token_that_has_ended_is_unauthorized(broker: Broker, queue: str) -> None:
    token = make_token(f"sb://{HOST}/{queue}", RULE_NAME, KEY, int(time.time()) - 10)
    async with MessagingFactory.create(
        f"amqp://{HOST}:{broker.port}", TokenProvider.create_from_token(token)
    ) as factory:
        with pytest.raises(UnauthorizedAccessError, match="ExpiredToken"):
            await factory.create_queue_client(queue).send(BrokeredMessage())


async def test_a_token_for_one_queue_is_none_for_another(broker: Broker, queue: str) -> None:
    broker.create_queue(f"{queue}-other")
    token = make_token(f"sb://{HOST}/{queue}", RULE_NAME, KEY, int(time.time()) + 60)
    async with MessagingFactory.create(
        f"amqp://{HOST}:{broker.port}", TokenProvider.create_from_token(token)
    ) as factory:
        await factory.create_queue_client(queue).send(BrokeredMessage())
        with pytest.raises(UnauthorizedAccessError):
            await factory.create_queue_client(f"{queue}-other").send(BrokeredMessage())


class Failing(TokenProvider):
    """Has one token that lives for two seconds, and then none."""

    def __init__(self) -> None:
        self.asked = 0

    async def get_token(self, audience: str, now_s: float) -> Token:
        self.asked += 1
        if self.asked > 1:
            raise ConnectionRefusedError("the identity provider is away")
        return Token(make_token(audience, RULE_NAME, KEY, int(now_s) + 2), int(now_s) + 2)


async def test_a_renewal_that_fails_ends_nothing_before_the_token_does(broker: Broker, queue: str) -> None:
    provider = Failing()
    async with MessagingFactory.create(f"amqp://{HOST}:{broker.port}", provider) as factory:
        client = factory.create_queue_client(queue)
        await client.send(BrokeredMessage())
        while provider.asked < 2:
            await client.send(BrokeredMessage())
            await asyncio.sleep(0.05)
        await client.send(BrokeredMessage("still good"))


async def test_a_token_that_cannot_be_renewed_is_asked_for_once_more_and_then_left_alone(
    broker: Broker, queue: str
) -> None:
    token = make_token(f"sb://{HOST}/{queue}", RULE_NAME, KEY, int(time.time()) + 2)
    async with MessagingFactory.create(
        f"amqp://{HOST}:{broker.port}", TokenProvider.create_from_token(token)
    ) as factory:
        client = factory.create_queue_client(queue)
        await client.send(BrokeredMessage())
        await asyncio.sleep(1.7)
        assert len(asyncio.all_tasks()) == 1
