"""A client of the JSON API, over a real socket, with a real broker behind it, and how long a test waits."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from tandem.auth import make_token
from tandem.clock import Clock
from tandem.management.api import add_routes
from tandem.management.gate import Gate
from tandem.server.broker import Broker, BrokerSettings

ROOT_RULE = ("RootManageSharedAccessKey", "SAS_KEY_VALUE")


class Answer(NamedTuple):
    status: int
    value: Any

    @property
    def error(self) -> Any:
        assert self.value["error"]["status"] == self.status
        return self.value["error"]


class Api:
    """A client of the JSON API of a broker in this process."""

    def __init__(self, broker: Broker, gate: Gate, session: aiohttp.ClientSession) -> None:
        self.broker = broker
        self.gate = gate
        self.session = session
        self.base = f"http://127.0.0.1:{broker.http_port}"

    def token(self, resource: str = "/", rule: tuple[str, str] = ROOT_RULE, lifetime_s: int = 3_600) -> str:
        return make_token(f"{self.base}{resource}", *rule, int(time.time()) + lifetime_s)

    async def ask(
        self, method: str, path: str, body: Any = None, token: str | None = None, content: bytes | None = None
    ) -> Answer:
        url = URL(f"{self.base}{path}", encoded=True)
        headers = {"Authorization": self.token() if token is None else token}
        async with self.session.request(method, url, json=body, data=content, headers=headers) as response:
            assert response.content_type == "application/json"
            return Answer(response.status, await response.json())


@contextlib.asynccontextmanager
async def running(data_dir: Path, clock: Clock | None = None) -> AsyncIterator[Api]:
    settings = BrokerSettings(data_dir, port=0, http_port=0, is_dev=True, tls="off")
    broker = Broker(settings if clock is None else dataclasses.replace(settings, clock=clock))
    gate = add_routes(broker)
    await broker.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(broker, gate, session)
    finally:
        await broker.stop()
