"""A broker: store, engine, listeners and services, put together, started and stopped."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from aiohttp import web

from tandem.amqp import Settings
from tandem.amqp.connection import Role
from tandem.auth import AcceptAnyJwt, JwtValidator, RejectJwt
from tandem.clock import Clock, SystemClock
from tandem.driver.endpoint import Endpoint
from tandem.engine.namespace import Namespace
from tandem.errors import StoreFailed
from tandem.ids import Nonces
from tandem.server.keys import load_or_make_keys
from tandem.server.listener import Listener
from tandem.server.peer import AUTHENTICATION_TIMEOUT_S, Peer
from tandem.server.runner import Asker, Runner, restore
from tandem.server.services import Services
from tandem.server.throttle import Throttle
from tandem.server.tls import server_context
from tandem.server.websocket import add_websocket_route
from tandem.store.sqlite import SqliteStore

__all__ = ["Broker", "BrokerSettings"]

# Bytes. The largest body of an HTTP request.
MAX_HTTP_BODY_BYTES = 1_048_576

# Seconds. How long an idle HTTP connection is kept for its client's next request.
HTTP_KEEP_ALIVE_S = 75.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class BrokerSettings:
    """What can be chosen about a broker."""

    data_dir: Path
    namespace: str = "sbemulatorns"
    host: str = "127.0.0.1"
    port: int = 5672
    http_port: int = 5300
    is_dev: bool = False
    tls: str = "auto"
    # None switches throttling off.
    credits_per_second: int | None = None
    # None is the choice of the mode: any well-formed token with `is_dev`, no token without.
    jwt: JwtValidator | None = None
    authentication_timeout_s: float = AUTHENTICATION_TIMEOUT_S
    clock: Clock = field(default_factory=SystemClock)


class Broker:
    """One namespace on two ports."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.key_ring = load_or_make_keys(settings.data_dir, settings.is_dev)
        # Routes are added by whoever has some, before the start.
        self.http = web.Application(client_max_size=MAX_HTTP_BODY_BYTES)
        self.failed: asyncio.Future[StoreFailed] = asyncio.get_running_loop().create_future()
        self._store = SqliteStore(settings.data_dir)
        self.namespace = Namespace(settings.namespace, Nonces(lambda: os.urandom(4_096)), settings.clock.now_ms())
        restore(self.namespace, self._store)
        self.runner = Runner(self.namespace, self._store, settings.clock, self._on_failure)
        default_jwt: JwtValidator = AcceptAnyJwt() if settings.is_dev else RejectJwt()
        self.throttle = Throttle(settings.credits_per_second)
        self._services = Services(
            self.runner,
            self.key_ring,
            settings.jwt or default_jwt,
            settings.clock,
            self.throttle,
            f"{settings.namespace}.servicebus.windows.net",
            settings.authentication_timeout_s,
        )
        self._amqp_settings = Settings(f"{uuid.uuid4().hex}_G0")
        self._listeners: list[Listener] = []
        self._http_runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen. Whoever connects finds everything that was there before."""
        settings = self.settings
        context = server_context(settings.tls, settings.data_dir, (f"{settings.namespace}.localhost",))
        add_websocket_route(self.http, self._make_endpoint)
        self._http_runner = web.AppRunner(self.http, access_log=None, keepalive_timeout=HTTP_KEEP_ALIVE_S)
        await self._http_runner.setup()
        # Timers of what was on disk are set with the first turn.
        self.runner.begin()
        self.runner.finish()
        for port in (settings.port, settings.http_port):
            listener = Listener(self._make_endpoint, self._http_runner, context)
            await listener.start(settings.host, port)
            self._listeners.append(listener)

    @property
    def port(self) -> int:
        return self._listeners[0].port

    @property
    def http_port(self) -> int:
        return self._listeners[1].port

    def _make_endpoint(self) -> Endpoint:
        peer = Peer(self._services)
        endpoint = Endpoint(Role.SERVER, self._amqp_settings, peer)
        peer.start(endpoint)
        return endpoint

    def _on_failure(self, error: StoreFailed) -> None:
        if not self.failed.done():
            self.failed.set_result(error)

    async def perform(self, function: Callable[[Namespace], Result]) -> Result:
        """Run a function as one step of the engine; its result comes when what it did is on disk."""
        return await self.runner.perform(function)

    async def ask(self, function: Callable[[Namespace, Asker], None]) -> object:
        """Run a command that is answered later, and wait for its answer."""
        return await self.runner.ask(function)

    async def stop(self) -> None:
        """Finish what was accepted, tell everybody, and leave the store in order."""
        for listener in self._listeners:
            listener.stop_accepting()
        if not self.failed.done():
            await self.runner.quiet()
        for listener in self._listeners:
            await listener.close()
        if self._http_runner is not None:
            await self._http_runner.cleanup()
        await self.runner.close()
