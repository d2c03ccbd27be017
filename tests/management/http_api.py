"""A client of the REST data plane and of the Atom API, over a real socket, with a real broker behind it."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from yarl import URL

from tandem.amqp import Settings
from tandem.clock import Clock
from tandem.driver import Client
from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.engine.subqueue import SubQueue
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tests.management.json_api.api_client import ROOT_RULE, Api, running
from tests.patience import PATIENCE_S


class Reply(NamedTuple):
    """What came back: the headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def properties(self) -> dict[str, Any]:
        """The header BrokerProperties."""
        values: dict[str, Any] = json.loads(self.headers["brokerproperties"])
        return values

    @property
    def detail(self) -> str:
        """What an error says. Its code is the status."""
        assert self.headers["content-type"].startswith("application/xml"), self
        root = ET.fromstring(self.body)
        assert root.tag == "Error"
        assert root.findtext("Code") == str(self.status)
        return root.findtext("Detail") or ""


class Http:
    """A client of whatever lies below the names of entities."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.broker = api.broker
        self.base = api.base

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | io.BytesIO = b"",
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Reply:
        """With a token for everything, unless another one is given; an empty one is none."""
        given = self.api.token() if token is None else token
        all_headers = {**({"Authorization": given} if given else {}), **(headers or {})}
        url = URL(f"{self.base}{path}", encoded=True)
        # The client adds none of its own: they would become properties of the message.
        skip = ["Content-Type"] if "Content-Type" not in all_headers else []
        async with self.api.session.request(
            method, url, data=body, headers=all_headers, skip_auto_headers=skip, allow_redirects=False
        ) as response:
            lower = {name.lower(): value for name, value in response.headers.items()}
            assert len(lower) == len(response.headers), "a header is there twice"
            return Reply(response.status, lower, await response.read())

    async def send(self, queue: str, body: bytes | str = b"body", **headers: str) -> Reply:
        return await self.ask("POST", f"/{queue}/messages", body, headers)

    async def lock(self, queue: str, timeout_s: float = PATIENCE_S) -> Reply:
        return await self.ask("POST", f"/{queue}/messages/head?timeout={timeout_s:.0f}")

    async def take(self, queue: str, timeout_s: float = PATIENCE_S) -> Reply:
        """Receive and delete."""
        return await self.ask("DELETE", f"/{queue}/messages/head?timeout={timeout_s:.0f}")

    # --- behind the scenes ----------------------------------------------------------------------------------

    async def make_queue(self, name: str, **fields: Any) -> None:
        await self.broker.perform(lambda namespace: namespace.create_queue(QueueDescription(name, **fields)))

    async def make_topic(self, name: str, *subscriptions: str, **fields: Any) -> None:
        await self.broker.perform(lambda namespace: namespace.create_topic(TopicDescription(name, **fields)))
        for subscription in subscriptions:
            description = SubscriptionDescription(name, subscription)
            await self.broker.perform(partial(_add_subscription, description))

    def subqueue(self, name: str) -> SubQueue:
        return self.broker.namespace.get(name).main

    def connect(self) -> Any:
        """Over AMQP."""
        rule, key = ROOT_RULE
        return Client.connect("127.0.0.1", self.broker.port, Settings("client", user=rule, password=key))


def _add_subscription(description: SubscriptionDescription, namespace: Namespace) -> None:
    namespace.create_subscription(description)


@contextlib.asynccontextmanager
async def serving(data_dir: Path, clock: Clock | None = None) -> AsyncIterator[Http]:
    async with running(data_dir, clock) as api:
        yield Http(api)
