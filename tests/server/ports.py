"""A listening port with everything behind it: a relay, an HTTP application and a WebSocket route."""

from __future__ import annotations

import asyncio
import ssl
from types import TracebackType
from typing import cast

import aiohttp
from aiohttp import web

from tandem.amqp import ACCEPTED, Settings
from tandem.amqp.connection import Role
from tandem.amqp.message import encode_message
from tandem.driver import Client, Endpoint
from tandem.server.listener import Listener, ListenerLimits
from tandem.server.tls import TlsFiles
from tandem.server.websocket import PATH, SUBPROTOCOL, WebSocketTransport, add_websocket_route
from tandem.testing import Relay
from tests.sockets import hold_little

HOST = "127.0.0.1"


async def answer_health(_request: web.Request) -> web.Response:
    return web.json_response({"status": "healthy"})


async def answer_length(request: web.Request) -> web.Response:
    return web.json_response({"length": len(await request.read())})


class Port:
    """What a server is made of, around a relay that is not listening itself."""

    def __init__(
        self, tls_files: TlsFiles, limits: ListenerLimits | None = None, settings: Settings | None = None
    ) -> None:
        self._files = tls_files
        self._limits = limits
        self._settings = settings or Settings("port")
        self.relay = Relay()
        self.websocket_endpoints: list[Endpoint] = []

    async def __aenter__(self) -> Port:
        app = web.Application()
        app.router.add_get("/health", answer_health)
        app.router.add_post("/length", answer_length)
        add_websocket_route(app, self._make_websocket_endpoint)
        self.runner = web.AppRunner(app, access_log=None)
        await self.runner.setup()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._files.certificate_path, self._files.key_path)
        self.listener = Listener(self._make_endpoint, self.runner, tls, self._limits)
        await self.listener.start(HOST, 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.listener.close()
        await self.runner.cleanup()

    def _make_endpoint(self) -> Endpoint:
        return Endpoint(Role.SERVER, self._settings, self.relay)

    def _make_websocket_endpoint(self) -> Endpoint:
        endpoint = self._make_endpoint()
        self.websocket_endpoints.append(endpoint)
        return endpoint

    @property
    def number(self) -> int:
        return self.listener.port

    # --- clients --------------------------------------------------------------------------------------------

    def client_tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._files.ca_path))

    async def open(self, *, is_tls: bool = False) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A bare stream."""
        if is_tls:
            return await asyncio.open_connection(HOST, self.number, ssl=self.client_tls(), server_hostname="localhost")
        return await asyncio.open_connection(HOST, self.number)

    async def connect(self, *, is_tls: bool = False) -> Client:
        client = Client(Settings("client"))
        await asyncio.get_running_loop().create_connection(
            lambda: client.endpoint,
            HOST,
            self.number,
            ssl=self.client_tls() if is_tls else None,
            server_hostname="localhost" if is_tls else None,
        )
        await client._session
        return client

    def url(self, path: str, *, is_tls: bool = False) -> str:
        return f"{'https' if is_tls else 'http'}://{'localhost' if is_tls else HOST}:{self.number}{path}"

    async def get(self, path: str = "/health", *, is_tls: bool = False) -> object:
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.url(path, is_tls=is_tls), ssl=self.client_tls()) as response,
        ):
            return await response.json()


class WebSocketClient:
    """Our client inside aiohttp's WebSocket client."""

    def __init__(self, port: Port, *, is_tls: bool = False, path: str = PATH) -> None:
        self._port = port
        self._url = port.url(path, is_tls=is_tls)
        self._session = aiohttp.ClientSession()

    async def __aenter__(self) -> Client:
        self.socket = await self._session.ws_connect(
            self._url, protocols=[SUBPROTOCOL], ssl=self._port.client_tls(), max_msg_size=65_537
        )
        self._client = Client(Settings("websocket client"))
        hold_little(self.socket)
        # Both ends of a WebSocket look alike to those who only send and receive.
        response = cast("web.WebSocketResponse", self.socket)
        self._run = asyncio.create_task(WebSocketTransport(response, None, self._client.endpoint).run())
        await self._client._session
        return self._client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.socket.closed:
            await self._client.close()
        await self._run
        await self._session.close()


async def send_and_receive(client: Client, address: str = "queue", body: bytes = b"body") -> None:
    """The proof that a connection works in both directions."""
    sender = await client.sender(address)
    receiver = await client.receiver(address)
    payload = encode_message(data=body)
    assert await sender.send(payload) == ACCEPTED
    delivery = await receiver.receive()
    assert delivery.payload == payload
    receiver.settle(delivery)
    await sender.close()
    await receiver.close()
