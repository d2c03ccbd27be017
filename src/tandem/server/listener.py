"""One port that speaks everything: AMQP, HTTP and WebSocket, each of them in the clear or inside TLS."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tandem.driver.endpoint import Endpoint, close_endpoints
from tandem.errors import ConfigurationError, ConnectionForced
from tandem.hosts import bracketed
from tandem.limits import AUTHENTICATION_TIMEOUT_S, FIRST_BYTES_TIMEOUT_MS, MAX_ARRIVALS, MIN_ARRIVAL_PATIENCE_MS
from tandem.server.door import Door
from tandem.server.http_connection import HttpConnection
from tandem.server.sniffer import Arrival, Handshakes, Speech
from tandem.store.descriptors import is_out_of_descriptors

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["Listener", "ListenerLimits"]

logger = logging.getLogger(__name__)

# Connections. How many are accepted before others have their turn on the loop.
ACCEPT_BURST: Final = 16

# Connections. How many the kernel may hold ready for us; it cuts this to its own limit.
LISTEN_BACKLOG: Final = 4_096

# Seconds. How long to leave accepting alone when it fails, as it does when the process has no file descriptor left.
ACCEPT_PAUSE_S: Final = 0.1

# Attempts to find a port that is free on every address of the host, where any port will do.
FREE_PORT_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """What strangers may take from one port."""

    first_bytes_timeout_ms: int = FIRST_BYTES_TIMEOUT_MS
    # Without a number it follows from the file descriptors of the process.
    max_connections: int | None = None
    max_arrivals: int = MAX_ARRIVALS
    min_arrival_patience_ms: int = MIN_ARRIVAL_PATIENCE_MS
    # Of HTTP connections, as of AMQP's: until a request has a valid token.
    authentication_timeout_s: float = AUTHENTICATION_TIMEOUT_S


class HttpServer(Protocol):
    """Serves the connections that speak HTTP: the runner of an application, or what loads one when it is needed."""

    @property
    def app(self) -> web.Application | None: ...

    @property
    def server(self) -> Callable[[], asyncio.Protocol] | None: ...


class Listener:
    """Accepts connections, finds out what each speaks, and hands it to an endpoint or to the HTTP application."""

    def __init__(
        self,
        make_endpoint: Callable[[], Endpoint],
        http: HttpServer | None = None,
        tls: ssl.SSLContext | None = None,
        limits: ListenerLimits | None = None,
        *,
        is_tls_only: bool = False,
        door: Door | None = None,
    ) -> None:
        """The runner has to be set up already, and stays its owner's to clean up, after this is closed.

        With `is_tls_only` a client that does not begin with TLS is disconnected. Listeners that share a door share its
        limit of connections.
        """
        self._make_endpoint = make_endpoint
        self._http = http
        self._tls = tls
        self._is_tls_only = is_tls_only
        self._limits = limits or ListenerLimits()
        self._door = door or Door(self._limits.max_connections)
        self._max_arrivals = min(self._limits.max_arrivals, max(1, self._door.max_connections // 2))
        self._handshakes = Handshakes()
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._arrivals: dict[Arrival, None] = {}
        self._endpoints: set[Endpoint] = set()
        self._http_connections: set[HttpConnection] = set()
        self._resumption: asyncio.TimerHandle | None = None
        self._last_accept_error: int | None = None
        self._is_quiet = asyncio.Event()
        self._is_quiet.set()
        self.port = 0
        self.refused_count = 0

    async def start(self, host: str = "127.0.0.1", port: int = 0, option: str | None = None) -> None:
        """Listen on every address of the host. Port 0 takes a free one, and `port` is its number then.

        An error names the option that chose the address.
        """
        try:
            found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self._sockets = _bind([(family, address) for family, _, _, _, address in found], port)
        except OSError as error:
            raise _unavailable(error, host, port, option) from error
        self.port = self._sockets[0].getsockname()[1]
        self._accept_again()

    @property
    def endpoints(self) -> frozenset[Endpoint]:
        """The AMQP connections alive now, those inside WebSockets excepted."""
        return frozenset(self._endpoints)

    @property
    def arrival_count(self) -> int:
        """Connections that have not said yet what they speak."""
        return len(self._arrivals)

    @property
    def connection_count(self) -> int:
        return len(self._arrivals) + len(self._endpoints) + len(self._http_connections)

    def stop_accepting(self) -> None:
        """Take no more connections; those that are there stay."""
        if self._resumption is not None:
            self._resumption.cancel()
            self._resumption = None
        for listening in self._sockets:
            self._loop.remove_reader(listening)
            listening.close()
        self._sockets = []

    async def close(self) -> None:
        """Stop accepting, tell every AMQP peer, and wait a moment for their answers. HTTP is left to its runner, all
        but the AMQP inside WebSockets, which is closed here whichever port it came by."""
        self.stop_accepting()
        for arrival in list(self._arrivals):
            arrival.abort()
        app = None if self._http is None else self._http.app
        inside_websockets: frozenset[Endpoint] = frozenset()
        if app is not None:
            from tandem.server.websocket import websocket_endpoints

            inside_websockets = websocket_endpoints(app)
        await close_endpoints(self._endpoints | inside_websockets, ConnectionForced("the server is shutting down"))
        await self._is_quiet.wait()

    # --- accepting ------------------------------------------------------------------------------------------

    def _accept_again(self) -> None:
        self._resumption = None
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _pause_accepting(self) -> None:
        """Leave new connections in the kernel's queue for a moment."""
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        if self._resumption is None:
            self._resumption = self._loop.call_later(ACCEPT_PAUSE_S, self._accept_again)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPT_BURST):
            if not self._has_room():
                self._pause_accepting()
                return
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._on_accept_error(error)
                return
            self._last_accept_error = None
            self._admit(connection)

    def _on_accept_error(self, error: OSError) -> None:
        """Whatever it is, those who are connected are served on, and it may pass. It is told once, not ten times a
        second."""
        if error.errno != self._last_accept_error:
            self._last_accept_error = error.errno
            logger.warning("new connections cannot be accepted, trying again: %s", error)
        if is_out_of_descriptors(error):
            self._door.make_room()
        self._pause_accepting()

    @property
    def _is_full(self) -> bool:
        return len(self._arrivals) >= self._max_arrivals

    def _has_room(self) -> bool:
        """Whether one more stranger can be listened to, if need be in place of the one that was silent longest."""
        if not self._is_full:
            return True
        oldest = next(iter(self._arrivals))
        return (self._loop.time() - oldest.arrived_at) * 1000 >= self._limits.min_arrival_patience_ms

    def _admit(self, connection: socket.socket) -> None:
        if self._door.is_full and not self._door.evict(self._limits.min_arrival_patience_ms / 1000):
            self.refused_count += 1
            connection.close()
            return
        if self._is_full:
            oldest = next(iter(self._arrivals))
            # At once, since what it ends with may take another turn of the loop, and more are accepted in this one.
            del self._arrivals[oldest]
            self._door.leave(oldest)
            oldest.abort()
        connection.setblocking(False)
        timeout_s = self._limits.first_bytes_timeout_ms / 1000
        arrival = Arrival(
            connection,
            self._tls,
            self._choose,
            self._on_arrival_ended,
            timeout_s,
            self._handshakes,
            is_tls_only=self._is_tls_only,
        )
        self._arrivals[arrival] = None
        self._door.enter(arrival)
        self._is_quiet.clear()
        arrival.look()

    # --- handing over ---------------------------------------------------------------------------------------

    def _on_arrival_ended(self, arrival: Arrival) -> None:
        self._arrivals.pop(arrival, None)
        self._door.leave(arrival)
        if not self._arrivals:
            self._is_quiet.set()

    def _choose(self, speech: Speech) -> asyncio.Protocol | None:
        if speech is Speech.AMQP:
            endpoint = self._make_endpoint()
            self._endpoints.add(endpoint)
            self._door.enter(endpoint)
            endpoint.lost.add_done_callback(lambda _: self._on_endpoint_lost(endpoint))
            return endpoint
        server = self._http.server if self._http is not None else None
        if server is None:
            return None
        http_connection = HttpConnection(server(), self._on_http_lost, self._limits.authentication_timeout_s)
        self._http_connections.add(http_connection)
        self._door.enter(http_connection)
        return http_connection

    def _on_endpoint_lost(self, endpoint: Endpoint) -> None:
        self._endpoints.discard(endpoint)
        self._door.leave(endpoint)

    def _on_http_lost(self, connection: HttpConnection) -> None:
        self._http_connections.discard(connection)
        self._door.leave(connection)


# --- errors -----------------------------------------------------------------------------------------------------

_ADVICE: Final = {
    errno.EADDRINUSE: "stop the process that listens there, or choose another port",
    errno.EACCES: "ports below 1,024 need root or the capability CAP_NET_BIND_SERVICE (docs/howto/serve.md)",
    errno.EADDRNOTAVAIL: "this machine does not have that address; name one that it has, or 0.0.0.0 for all",
}


def _unavailable(error: OSError, host: str, port: int, option: str | None) -> ConfigurationError:
    advice = _ADVICE.get(error.errno or 0, "choose another address")
    where = f"cannot listen on {bracketed(host)}:{port}: {error.strerror or error}; {advice}"
    return ConfigurationError(where if option is None else f"{option}: {where}")


# --- binding ----------------------------------------------------------------------------------------------------

# A family, and an address as getaddrinfo gives it: the shape of that tuple depends on the family.
_Address = tuple[socket.AddressFamily, tuple[object, ...]]


def _bind(addresses: list[_Address], port: int) -> list[socket.socket]:
    """Listening sockets on all addresses, with one port in common."""
    for _ in range(FREE_PORT_ATTEMPTS):
        try:
            return _bind_once(addresses, port)
        except OSError as error:
            if port != 0 or error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, "no port is free on all of its addresses")


def _bind_once(addresses: list[_Address], port: int) -> list[socket.socket]:
    bound: list[socket.socket] = []
    unavailable: OSError | None = None
    try:
        for family, address in addresses:
            try:
                listening = _listen(family, (address[0], port, *address[2:]))
            except OSError as error:
                # `localhost` has an address of IPv6 even where the machine has no IPv6.
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise
                unavailable = error
                continue
            bound.append(listening)
            port = port or listening.getsockname()[1]
    except OSError:
        for listening in bound:
            listening.close()
        raise
    if not bound:
        raise unavailable or OSError(errno.EADDRNOTAVAIL, "the host has no address")
    return bound


def _listen(family: socket.AddressFamily, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit this one.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(LISTEN_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
