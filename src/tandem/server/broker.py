"""A broker: its namespaces and its listeners, put together, started and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tandem.amqp import Settings
from tandem.amqp.connection import Role
from tandem.auth import AcceptAnyJwt, JwtValidator, KeyRing, RejectJwt
from tandem.clock import Clock, SystemClock
from tandem.driver.endpoint import Endpoint
from tandem.driver.turns import Turns
from tandem.engine.namespace import Namespace
from tandem.engine.tiers import Tier
from tandem.engine.transaction_memory import BrokerTransactionMemory
from tandem.errors import BrokerStalled, ConfigurationError, ConnectionForced, StoreFailed
from tandem.hosts import DEFAULT_NAMESPACE, LOCAL_DOMAIN
from tandem.limits import AUTHENTICATION_TIMEOUT_S, MAX_UNDECIDED_BYTES_PER_CLIENT
from tandem.server.directory import Directory
from tandem.server.door import Door
from tandem.server.health.monitor import Monitor
from tandem.server.health.settings import OFF, HealthSettings
from tandem.server.hosted_namespace import HostedNamespace, mend_store
from tandem.server.lazy_http import LazyHttp
from tandem.server.listen_address import ListenAddress, placed
from tandem.server.listener import Listener, ListenerLimits
from tandem.server.peer import Peer
from tandem.server.runner import Asker, Runner
from tandem.server.throttle import Throttle
from tandem.server.tls import server_context

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["Broker", "BrokerSettings"]

# Below the data directory: a folder for each namespace beside the default one.
NAMESPACES_NAME = "namespaces"

# Bytes. The largest body of an HTTP request.
MAX_HTTP_BODY_BYTES = 1_048_576

# Seconds. How long an idle HTTP connection is kept for its client's next request.
HTTP_KEEP_ALIVE_S = 75.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class BrokerSettings:
    """What can be chosen about a broker."""

    data_dir: Path
    namespace: str = DEFAULT_NAMESPACE
    # Hosted beside it, each in a folder of its own below the data directory, and found by its host name.
    further_namespaces: tuple[str, ...] = ()
    # By the names of namespaces; one that is not named has the tier that it had before, and at first `tandem`.
    tiers: Mapping[str, Tier] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 5672
    http_port: int = 5300
    # Served beside these two.
    listen: tuple[ListenAddress, ...] = ()
    is_dev: bool = False
    tls: str = "auto"
    # None switches throttling off.
    credits_per_second: int | None = None
    # None is the choice of the mode: any well-formed token with `is_dev`, no token without.
    jwt: JwtValidator | None = None
    authentication_timeout_s: float = AUTHENTICATION_TIMEOUT_S
    # Whether somebody may let it fail on purpose.
    allows_faults: bool = False
    # Whether it writes what it does to the event hub $operations.
    records_operations: bool = True
    # What it measures itself by. Off for doubles in tests, which are slowed down, stopped and broken on purpose.
    health: HealthSettings = OFF
    clock: Clock = field(default_factory=SystemClock)

    def addresses(self) -> list[ListenAddress]:
        """Return all addresses to listen on, the two that every broker has first. Raises what contradicts itself."""
        first = [
            ListenAddress(self.host, self.port, option="--port"),
            ListenAddress(self.host, self.http_port, option="--http-port"),
        ]
        addresses = placed(first, self.listen)
        for address in addresses:
            if address.is_tls_only and self.tls == "off":
                raise ConfigurationError(
                    f"{address.option} wants TLS, and --tls is off: leave out tls://, or choose --tls auto or --tls "
                    "CERT,KEY"
                )
        return addresses


class Broker:
    """One namespace, or several, on two ports or more."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self._addresses = settings.addresses()
        self._loop = asyncio.get_running_loop()
        # Why the process has to end.
        self.failed: asyncio.Future[StoreFailed | BrokerStalled] = self._loop.create_future()
        # Called when the event loop may be blocked, from any thread, with the reason why the process has to end.
        self.on_stalled: Callable[[BrokerStalled], None] = self._fail_soon
        default_jwt: JwtValidator = AcceptAnyJwt() if settings.is_dev else RejectJwt()
        self._jwt = settings.jwt or default_jwt
        # What the open transactions of all namespaces hold.
        self._transaction_memory = BrokerTransactionMemory()
        with contextlib.ExitStack() as opened:
            folder = settings.data_dir / NAMESPACES_NAME
            hosted = [
                self._host(
                    settings.namespace,
                    settings.data_dir,
                    opened,
                    is_default=True,
                    tier=settings.tiers.get(settings.namespace),
                ),
                *[
                    self._host(name, folder / name.lower(), opened, tier=settings.tiers.get(name))
                    for name in settings.further_namespaces
                ],
            ]
            opened.pop_all()
        self.directory = Directory(hosted)
        self.monitor = Monitor(
            settings.health,
            settings.data_dir,
            lambda: self.directory,
            self._reopen,
            self._on_lost,
        )
        for one in hosted:
            self._supervise(one)
        self._amqp_settings = Settings(
            f"{uuid.uuid4().hex}_G0",
            max_undecided_bytes=MAX_UNDECIDED_BYTES_PER_CLIENT,
            properties_for_host=self._open_properties,
        )
        self._turns = Turns(self._loop)
        self._door = Door()
        self._listeners: list[Listener] = []
        self._http = LazyHttp(self._load_http)
        self._import_routes: Callable[[], Callable[[], object]] | None = None

    def _host(
        self,
        name: str,
        data_dir: Path,
        opened: contextlib.ExitStack,
        *,
        is_default: bool = False,
        tier: Tier | None = None,
    ) -> HostedNamespace:
        settings = self.settings
        hosted = HostedNamespace(
            name,
            data_dir,
            is_default=is_default,
            is_dev=settings.is_dev,
            jwt=self._jwt,
            clock=settings.clock,
            tier=tier,
            credits_per_second=settings.credits_per_second,
            authentication_timeout_s=settings.authentication_timeout_s,
            on_failure=self._on_failure,
        )
        hosted.namespace.transactions.memory.broker = self._transaction_memory
        hosted.namespace.meter.is_on = settings.records_operations
        # If another one cannot be opened, this one is not left locked.
        opened.callback(hosted.store.close)
        return hosted

    def _supervise(self, hosted: HostedNamespace) -> None:
        if self.settings.health.is_supervising:
            supervisor = self.monitor.supervisor(hosted)
            hosted.runner.supervise(supervisor)
            hosted.services.supervisor = supervisor

    async def _reopen(self, hosted: HostedNamespace) -> None:
        """Open a namespace again from what is on disk. Its clients are disconnected; other namespaces are served on."""
        self._disconnect(hosted)
        await hosted.give_up()
        hosted.namespace.transactions.memory.give_up()
        # In a thread: salvaging a damaged store takes a while, and other namespaces are served meanwhile.
        await asyncio.to_thread(mend_store, hosted.data_dir)
        with contextlib.ExitStack() as opened:
            fresh = self._host(hosted.name, hosted.data_dir, opened)
            opened.pop_all()
        fresh.keep_rules_of(hosted)
        self._supervise(fresh)
        fresh.start()
        self.directory.replace(hosted, fresh)
        # Connections that came meanwhile and have not said yet which namespace they are for.
        self._disconnect(hosted)

    def _disconnect(self, hosted: HostedNamespace) -> None:
        error = ConnectionForced(f"The namespace '{hosted.name}' is being restarted. Connect again.")
        for peer in list(hosted.services.peers):
            peer.leave_namespace(error)

    # --- the default namespace ------------------------------------------------------------------------------

    @property
    def namespace(self) -> Namespace:
        return self.directory.default.namespace

    @property
    def runner(self) -> Runner:
        return self.directory.default.runner

    @property
    def key_ring(self) -> KeyRing:
        return self.directory.default.key_ring

    @property
    def throttle(self) -> Throttle:
        return self.directory.default.throttle

    async def perform(self, function: Callable[[Namespace], Result]) -> Result:
        """Run a function as one step of the engine; its result comes when what it did is on disk."""
        return await self.directory.default.perform(function)

    async def ask(self, function: Callable[[Namespace, Asker], None]) -> object:
        """Run a command that is answered later, and wait for its answer."""
        return await self.directory.default.ask(function)

    # --- HTTP -----------------------------------------------------------------------------------------------

    @cached_property
    def http(self) -> web.Application:
        """The application of every port. Routes that are added before the start are served from the start on."""
        from aiohttp import web

        return web.Application(client_max_size=MAX_HTTP_BODY_BYTES)

    def load_http_with(self, import_routes: Callable[[], Callable[[], object]]) -> None:
        """Load HTTP with the first connection that speaks it.

        `import_routes` runs in a thread then, and returns what adds the routes.
        """
        self._import_routes = import_routes

    async def _load_http(self) -> web.AppRunner:
        with ThreadPoolExecutor(1, "http-loader") as loader:
            add_routes = await asyncio.get_running_loop().run_in_executor(loader, self._import_http)
        from aiohttp import web

        from tandem.server.http_log import HttpLog
        from tandem.server.websocket import add_websocket_route

        add_routes()
        add_websocket_route(self.http, self._make_endpoint)
        runner = web.AppRunner(
            self.http,
            access_log=None,
            logger=HttpLog(logging.getLogger("tandem.server.http")),
            keepalive_timeout=HTTP_KEEP_ALIVE_S,
            # A receiver that goes away while it waits must not be given a message.
            handler_cancellation=True,
        )
        await runner.setup()
        return runner

    def _import_http(self) -> Callable[[], object]:
        import_module("tandem.server.websocket")
        return (lambda: None) if self._import_routes is None else self._import_routes()

    # --- life -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen. Whoever connects finds everything that was there before."""
        settings = self.settings
        names = tuple(f"{hosted.name}{LOCAL_DOMAIN}" for hosted in self.directory)
        context = server_context(settings.tls, settings.data_dir, names)
        if self._import_routes is None:
            await self._http.load()
        for hosted in self.directory:
            hosted.start()
            if settings.allows_faults:
                hosted.services.fault_desk.open()
        self._door.open()
        for address in self._addresses:
            listener = Listener(
                self._make_endpoint,
                self._http,
                context,
                ListenerLimits(authentication_timeout_s=settings.authentication_timeout_s),
                is_tls_only=address.is_tls_only,
                door=self._door,
            )
            await listener.start(address.host, address.port, address.option)
            self._listeners.append(listener)
        self.monitor.start()

    @property
    def port(self) -> int:
        return self._listeners[0].port

    @property
    def http_port(self) -> int:
        return self._listeners[1].port

    @property
    def addresses(self) -> list[str]:
        """Every address that it listens on, with the port that each got: two URLs, then the rest as --listen has it."""
        texts = [
            address.text(listener.port) for address, listener in zip(self._addresses, self._listeners, strict=False)
        ]
        for place, scheme in enumerate(("amqp", "http")):
            secure = texts[place].removeprefix("tls://")
            texts[place] = f"{scheme}://{secure}" if secure == texts[place] else f"{scheme}s://{secure}"
        return texts

    @property
    def endpoints(self) -> frozenset[Endpoint]:
        """The AMQP connections alive now, those inside WebSockets among them."""
        inside: frozenset[Endpoint] = frozenset()
        if self._http.app is not None:
            from tandem.server.websocket import websocket_endpoints

            inside = websocket_endpoints(self._http.app)
        return inside.union(*[listener.endpoints for listener in self._listeners])

    def _open_properties(self, host: str | None) -> dict[object, object]:
        return self.directory.find(host).identity.to_properties()

    def _make_endpoint(self) -> Endpoint:
        peer = Peer(self.directory)
        endpoint = Endpoint(Role.SERVER, self._amqp_settings, peer, self._turns)
        peer.start(endpoint)
        return endpoint

    def _on_failure(self, error: StoreFailed) -> None:
        if self.settings.health.is_supervising:
            self.monitor.reporter.write_before_the_end(
                "store-failed", f"The process ends, to be started again: {error}."
            )
        self._fail(error)

    def _fail(self, error: StoreFailed | BrokerStalled) -> None:
        if not self.failed.done():
            self.failed.set_result(error)

    def _on_lost(self, error: BrokerStalled) -> None:
        self.on_stalled(error)

    def _fail_soon(self, error: BrokerStalled) -> None:
        self._loop.call_soon_threadsafe(self._fail, error)

    async def stop(self) -> None:
        """Finish what was accepted, tell everybody, and leave the store in order."""
        await self.monitor.stop()
        for listener in self._listeners:
            listener.stop_accepting()
        for hosted in self.directory:
            # Whoever was left without an answer is not waited for.
            hosted.services.fault_desk.clear_all()
        if not self.failed.done():
            for hosted in self.directory:
                await hosted.runner.quiet()
        for listener in self._listeners:
            await listener.close()
        await self._http.cleanup()
        if self._listeners:
            self._door.close()
        for hosted in self.directory:
            await hosted.close()
