"""Tokens are renewed before they end, and told when they cannot be."""

from __future__ import annotations

import asyncio
import time

import pytest

from tandem.auth.sas import make_token
from tandem.client import (
    BrokeredMessage,
    MessagingFactory,
    MessagingFactorySettings,
    Token,
    TokenProvider,
    UnauthorizedAccessError,
)
from tandem.testing import Broker
from tests.client.network import HOST, KEY, RULE_NAME, RenewalTime
from tests.patience import PATIENCE_S, until

LIFETIME_S = 3_600


class CountingProvider(TokenProvider):
    """Makes tokens, each of which lives longer than the one before, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    async def get_token(self, audience: str, now_s: float) -> Token:
        self.count += 1
        expires_at_s = int(now_s) + LIFETIME_S * self.count
        return Token(make_token(audience, RULE_NAME, KEY, expires_at_s), expires_at_s)


def connect(broker: Broker, provider: TokenProvider, waiting: RenewalTime) -> MessagingFactory:
    return MessagingFactory.create(f"amqp://{HOST}:{broker.port}", provider, MessagingFactorySettings(waiting=waiting))


async def test_a_token_is_renewed_before_it_ends(broker: Broker, queue: str) -> None:
    provider, waiting = CountingProvider(), RenewalTime()
    async with connect(broker, provider, waiting) as factory:
        client = factory.create_queue_client(queue)
        receiving = asyncio.create_task(client.receive(timeout=PATIENCE_S))
        for number in (1, 2):
            assert 0.5 * LIFETIME_S < await waiting.end_wait(number) / number < LIFETIME_S
        await until(lambda: len(waiting.delays_s) == 3)
        assert provider.count == 3
        # The receiver that has been waiting all the time is still there.
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
    token = make_token(f"sb://{HOST}/{queue}", RULE_NAME, KEY, int(time.time()) + LIFETIME_S)
    async with MessagingFactory.create(
        f"amqp://{HOST}:{broker.port}", TokenProvider.create_from_token(token)
    ) as factory:
        await factory.create_queue_client(queue).send(BrokeredMessage())
        with pytest.raises(UnauthorizedAccessError):
            await factory.create_queue_client(f"{queue}-other").send(BrokeredMessage())


class Failing(TokenProvider):
    """Has one token, and then none."""

    def __init__(self) -> None:
        self.asked = 0

    async def get_token(self, audience: str, now_s: float) -> Token:
        self.asked += 1
        if self.asked > 1:
            raise ConnectionRefusedError("the identity provider is away")
        expires_at_s = int(now_s) + LIFETIME_S
        return Token(make_token(audience, RULE_NAME, KEY, expires_at_s), expires_at_s)


async def test_a_renewal_that_fails_is_tried_again_and_ends_nothing_before_the_token_does(
    broker: Broker, queue: str
) -> None:
    provider, waiting = Failing(), RenewalTime()
    async with connect(broker, provider, waiting) as factory:
        client = factory.create_queue_client(queue)
        await client.send(BrokeredMessage())
        await waiting.end_wait(1)
        assert await waiting.end_wait(2) < 60
        await until(lambda: len(waiting.delays_s) == 3)
        assert provider.asked == 3
        await client.send(BrokeredMessage("still good"))


async def test_a_token_that_cannot_be_renewed_is_asked_for_once_more_and_then_left_alone(
    broker: Broker, queue: str
) -> None:
    waiting = RenewalTime()
    token = make_token(f"sb://{HOST}/{queue}", RULE_NAME, KEY, int(time.time()) + LIFETIME_S)
    async with connect(broker, TokenProvider.create_from_token(token), waiting) as factory:
        await factory.create_queue_client(queue).send(BrokeredMessage())
        await waiting.end_wait(1)
        await until(lambda: len(asyncio.all_tasks()) == 1)
        assert len(waiting.delays_s) == 1
