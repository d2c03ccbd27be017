"""Messages that go round between the entities of a broker, in every way there is, and never become more or fewer.

    home ──abandon──▶ home                         home ──schedule──▶ home, scheduled ──due──▶ home
    home ──defer──▶ home, deferred ──undefer──▶ home       home ──▶ relay ──forwards──▶ station ──forwards──▶ home
    home ──dead-letter, expiry, too many deliveries──▶ home, dead ──resubmit──▶ home
    home ──▶ mortal ──expires, its dead letters are forwarded──▶ home
    home ──by way of home to a closed entity──▶ home, transfer dead letter ──move──▶ home
    home ──▶ news, a topic ──▶ its subscription ──forwards or move──▶ home

What goes from one entity to another by a client does so in a transaction: a message is completed and sent in one step.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import aiohttp

from tandem.client import BrokeredMessage, MessageNotFoundError, MessageReceiver, MessageSender, MessagingFactory
from tandem.testing import Broker

__all__ = ["Circulation", "ask"]

# Seconds. How long a worker waits for a message before it looks again whether it is to stop.
_WAIT_S: Final = 0.5

# Milliseconds. Short, so that messages become due and expire all the time.
_MAX_DELAY_MS: Final = 400
_LIFETIME_MS: Final = 150


class _RollBackOnPurposeError(Exception):
    """Ends a transaction whose operations are not to happen."""


class Circulation:
    """One closed set of entities, and the messages in it."""

    def __init__(self, broker: Broker, name: str, *, has_topic: bool, seed: int = 1) -> None:
        self.name = name
        self._broker = broker
        self._has_topic = has_topic
        self._random = random.Random(seed)
        self.is_over = False
        self._senders: dict[str, MessageSender] = {}
        # How often each kind of move was made by a client or a manager.
        self.moves: dict[str, int] = {}

    def path(self, part: str) -> str:
        return f"{self.name}-{part}"

    # --- entities -------------------------------------------------------------------------------------------

    def create(self) -> None:
        broker = self._broker
        home = self.path("home")
        broker.create_queue(home, max_delivery_count=4, dead_lettering_on_message_expiration=True)
        broker.create_queue(self.path("station"), forward_to=home, dead_lettering_on_message_expiration=True)
        broker.create_queue(self.path("relay"), forward_to=self.path("station"))
        broker.create_queue(self.path("closed"))
        broker.create_queue(
            self.path("mortal"), dead_lettering_on_message_expiration=True, forward_dead_lettered_messages_to=home
        )
        if self._has_topic:
            broker.create_topic(self.path("news"))
            broker.create_subscription(self.path("news"), "forwarded", forward_to=home)
            broker.create_topic(self.path("shelf"))
            broker.create_subscription(self.path("shelf"), "kept", dead_lettering_on_message_expiration=True)

    async def fill(self, factory: MessagingFactory, count: int) -> None:
        """Send the messages, and open the links on which they go round."""
        home = self.path("home")
        self._senders = {part: factory.create_message_sender(self.path(part), via=home) for part in self._targets()}
        self._at_home = factory.create_message_sender(home)
        await self._at_home.send_batch([BrokeredMessage(f"{number}") for number in range(count)])
        # Its link is open: what is sent by way of home cannot arrive any more, and is not refused either.
        await self._senders["closed"].open()
        await asyncio.to_thread(self._broker.update_queue, self.path("closed"), status="SendDisabled")

    # --- clients --------------------------------------------------------------------------------------------

    async def work(self, factory: MessagingFactory) -> None:
        """Take messages from home and send each on in some way, until it is over."""
        ways = self._ways(factory, self._at_home, self._senders)
        async with factory.create_message_receiver(self.path("home")) as receiver:
            while not self.is_over:
                message = await receiver.receive(_WAIT_S)
                if message is None:
                    continue
                way = self._random.choice(list(ways))
                await ways[way](message)
                self.moves[way] = self.moves.get(way, 0) + 1
                if way == "defer" and self._random.random() < 0.5:
                    await self._lock_deferred(receiver, message)

    def _targets(self) -> list[str]:
        targets = ["relay", "closed", "mortal"]
        return [*targets, "news", "shelf"] if self._has_topic else targets

    def _ways(
        self, factory: MessagingFactory, at_home: MessageSender, senders: dict[str, MessageSender]
    ) -> dict[str, Callable[[BrokeredMessage], Awaitable[None]]]:
        async def schedule(message: BrokeredMessage) -> None:
            due = datetime.now(UTC) + timedelta(milliseconds=self._random.randrange(_MAX_DELAY_MS))
            async with factory.transaction() as transaction:
                await at_home.schedule(_again(message), due, transaction=transaction)
                await message.complete(transaction=transaction)

        async def expire(message: BrokeredMessage) -> None:
            async with factory.transaction() as transaction:
                await at_home.send(_mortal(message), transaction=transaction)
                await message.complete(transaction=transaction)

        async def roll_back(message: BrokeredMessage) -> None:
            try:
                async with factory.transaction() as transaction:
                    await at_home.send(_again(message), transaction=transaction)
                    await message.complete(transaction=transaction)
                    raise _RollBackOnPurposeError
            except _RollBackOnPurposeError:
                await message.abandon()

        def to(part: str) -> Callable[[BrokeredMessage], Awaitable[None]]:
            async def send(message: BrokeredMessage) -> None:
                copy = _mortal(message) if part == "mortal" else _again(message)
                async with factory.transaction() as transaction:
                    await senders[part].send(copy, transaction=transaction)
                    await message.complete(transaction=transaction)

            return send

        return {
            "abandon": lambda message: message.abandon(),
            "defer": lambda message: message.defer(),
            "dead-letter": lambda message: message.dead_letter("on purpose"),
            "schedule": schedule,
            "expire": expire,
            "roll back": roll_back,
            **{f"send to {part}": to(part) for part in senders},
        }

    async def _lock_deferred(self, receiver: MessageReceiver, message: BrokeredMessage) -> None:
        """Receive a deferred message by its number, and put it aside again, or make it a dead letter."""
        number = message.sequence_number
        assert number is not None
        try:
            (deferred,) = await receiver.receive_deferred(number)
        except MessageNotFoundError:
            # A manager was faster, and made it active.
            return
        if self._random.random() < 0.5:
            await deferred.abandon()
        else:
            await deferred.dead_letter("deferred before")

    # --- management -----------------------------------------------------------------------------------------

    async def manage(self, http: aiohttp.ClientSession) -> None:
        """Bring messages home that no client would receive, until it is over."""
        home = self.path("home")
        orders: list[tuple[str, str, dict[str, object]]] = [
            (home, "resubmit", {}),
            (home, "undefer", {}),
            (home, "move", {"state": "transfer-dead-lettered", "target": home}),
            (self.path("station"), "resubmit", {"target": home}),
            (self.path("mortal"), "resubmit", {"target": home}),
        ]
        if self._has_topic:
            kept = f"{self.path('shelf')}/Subscriptions/kept"
            orders += [(kept, "move", {"state": "active", "target": home}), (kept, "resubmit", {"target": home})]
        while not self.is_over:
            for path, task, body in orders:
                await self._run_job(http, path, task, body)

    async def _run_job(self, http: aiohttp.ClientSession, path: str, task: str, body: dict[str, object]) -> None:
        job = await ask(http, "POST", f"/$api/v1/entities/{path}/{task}", body)
        while job["state"] == "running" and not self.is_over:
            await asyncio.sleep(0)
            job = await ask(http, "GET", f"/$api/v1/jobs/{job['id']}")
        self.moves[task] = self.moves.get(task, 0) + job["progress"]["done"]


async def ask(http: aiohttp.ClientSession, method: str, path: str, body: dict[str, object] | None = None) -> Any:
    """Any: what a JSON answer holds depends on the request."""
    data = None if body is None else json.dumps(body).encode()
    async with http.request(method, path, data=data) as answer:
        text = await answer.text()
        assert answer.status < 300, f"{method} {path}: {answer.status} {text}"
        return json.loads(text)


def _again(message: BrokeredMessage) -> BrokeredMessage:
    return BrokeredMessage(message.body)


def _mortal(message: BrokeredMessage) -> BrokeredMessage:
    return BrokeredMessage(message.body, time_to_live=timedelta(milliseconds=_LIFETIME_MS))
