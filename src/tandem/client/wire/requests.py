"""Requests and their answers over a pair of links: how `$cbs` and the `$management` of an entity are spoken to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Final

from tandem.amqp import (
    ACCEPTED,
    IncomingDelivery,
    Message,
    ReceiverLink,
    Rejected,
    Target,
    TransactionalState,
)
from tandem.amqp.message import Properties, encode_message
from tandem.client.errors import MessagingError, error_of_condition, error_of_http_status
from tandem.driver import Client, Endpoint, Receiver, Sender
from tandem.errors import TandemError

__all__ = ["Answer", "RequestLink"]

# Answers that may be under way at once; topped up at half.
_CREDIT: Final = 1_000

# `$cbs` and event hubs write names with a dash, entities do not.
_STATUS: Final = ("statusCode", "status-code")
_DESCRIPTION: Final = ("statusDescription", "status-description")
_CONDITION: Final = ("errorCondition", "error-condition")


class Answer:
    """What was answered: a status, and a body."""

    __slots__ = ("body", "status")

    def __init__(self, status: int, body: object) -> None:
        self.status = status
        self.body: dict[str, object] = body if isinstance(body, dict) else {}


class _Answers(Receiver):
    """The link on which the answers come."""

    def __init__(self, endpoint: Endpoint, link: ReceiverLink, credit: int) -> None:
        super().__init__(endpoint, link, credit)
        self.waiting: dict[object, asyncio.Future[Message]] = {}

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        if not delivery.is_settled:
            self.settle(delivery, ACCEPTED)
        if self.link.credit * 2 < _CREDIT:
            self.grant(_CREDIT)
        message = Message(delivery.payload)
        properties = message.properties
        future = self.waiting.pop(properties.correlation_id, None) if properties is not None else None
        # Nobody waits any more for the answer to a request that took too long.
        if future is not None and not future.done():
            future.set_result(message)

    def fail(self, error: TandemError) -> None:
        super().fail(error)
        waiting, self.waiting = self.waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
                future.exception()


class RequestLink:
    """One node that answers requests, on one connection."""

    def __init__(self, sender: Sender, answers: _Answers, reply_to: str) -> None:
        self._sender = sender
        self._answers = answers
        self._reply_to = reply_to
        self._numbers = itertools.count(1)

    @staticmethod
    async def open(client: Client, node: str, reply_to: str) -> RequestLink:
        answers = await client.receiver_of(_Answers, node, target=Target(reply_to))
        answers.grant(_CREDIT)
        return RequestLink(await client.sender(node), answers, reply_to)

    @property
    def is_alive(self) -> bool:
        return self._sender.error is None and self._answers.error is None

    async def request(
        self, properties: Mapping[str, object], body: object, state: TransactionalState | None = None
    ) -> Answer:
        """Ask, and wait for the answer. What is refused is raised."""
        answers = self._answers
        if answers.error is not None:
            raise answers.error
        identifier = f"{self._reply_to}-{next(self._numbers)}"
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        answers.waiting[identifier] = future
        payload = encode_message(
            properties=Properties(message_id=identifier, reply_to=self._reply_to),
            application_properties=properties,
            value=body,
        )
        try:
            outcome = await self._sender.send(payload, state=state)
            if isinstance(outcome, Rejected) and outcome.error is not None:
                raise error_of_condition(outcome.error.condition, outcome.error.description or "it was rejected")
            return _read(await future)
        finally:
            answers.waiting.pop(identifier, None)


def _read(message: Message) -> Answer:
    properties = message.application_properties or {}
    status = _first(properties, _STATUS)
    if not isinstance(status, int):
        raise MessagingError(f"the answer has no status: {properties!r:.200}")
    if 200 <= status < 300:
        return Answer(int(status), message.value)
    description = str(_first(properties, _DESCRIPTION) or f"status {status}")
    condition = _first(properties, _CONDITION)
    if isinstance(condition, str):
        raise error_of_condition(str(condition), description)
    raise error_of_http_status(int(status), description)


def _first(properties: dict[str, object], names: tuple[str, ...]) -> object:
    for name in names:
        if name in properties:
            return properties[name]
    return None
