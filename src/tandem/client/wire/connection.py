"""The connection of a factory: made when it is needed, made again when it is lost, its tokens renewed in time."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import uuid
from collections.abc import Callable
from typing import Final, Protocol

from tandem.amqp import Coordinator, Settings
from tandem.amqp.types import Symbol, Timestamp
from tandem.client.errors import MessagingCommunicationError, MessagingError, messaging_error, reaching_error
from tandem.client.messaging.interception import SendInterceptor
from tandem.client.settings import MessagingFactorySettings
from tandem.client.wire.lazy import Lazy
from tandem.client.wire.requests import RequestLink
from tandem.client.wire.retry import Retrier, RetryPolicy
from tandem.client.wire.token_provider import Token, TokenProvider
from tandem.client.wire.waiting import Waiting
from tandem.connection_string import ServiceAddress
from tandem.driver import Client, Sender
from tandem.driver.endpoint import CLOSE_GRACE_S
from tandem.errors import StateError, TandemError
from tandem.hosts import dialled_host
from tandem.namespace_identity import NamespaceIdentity
from tandem.wire_names import CBS_NODE, MANAGEMENT_NODE

__all__ = ["ServiceConnection", "Wire", "close_link"]

# The part of a token's life after which it is renewed, and the least time before it is tried again.
_RENEW_AFTER: Final = 0.75
_MIN_RENEWAL_INTERVAL_S: Final = 1.0
_RENEWAL_RETRY_S: Final = 10.0

# Deliveries and bytes. Receivers bound what comes by their credit; how long a message is held is the program's affair.
_UNBOUNDED: Final = 2**31 - 1

_PRODUCT: Final = "tandem-client"


class Closable(Protocol):
    """A sender or a receiver, or the link of one."""

    async def close(self) -> None: ...


async def close_link(link: Closable) -> None:
    """Detach. A service that does not answer, or is gone, keeps nobody from closing."""
    with contextlib.suppress(TandemError, TimeoutError):
        async with asyncio.timeout(CLOSE_GRACE_S):
            await link.close()


class Wire:
    """One connection, for as long as it lives."""

    def __init__(
        self, client: Client, address: ServiceAddress, token_provider: TokenProvider, waiting: Waiting
    ) -> None:
        self.client = client
        self._address = address
        self._token_provider = token_provider
        self._waiting = waiting
        self._reply_to = uuid.uuid4().hex
        self._cbs = Lazy(self._open_cbs, lambda link: link.is_alive)
        self._proofs: dict[str, Lazy[Token]] = {}
        self._nodes: dict[str, Lazy[RequestLink]] = {}
        self._renewals: set[asyncio.Task[None]] = set()
        self.coordinator = Lazy(self._open_coordinator, lambda sender: sender.error is None)

    @property
    def is_alive(self) -> bool:
        return self.client.endpoint.connection.is_open and not self.client.endpoint.lost.done()

    async def authorize(self, path: str) -> None:
        """Prove the rights on an entity, once for this connection; the proof is renewed by itself."""
        proof = self._proofs.get(path)
        if proof is None:
            proof = self._proofs[path] = Lazy(lambda: self._prove(path), lambda _: True)
        await proof.get()

    async def management(self, path: str) -> RequestLink:
        """The links to the `$management` node of an entity."""
        node = self._nodes.get(path)
        if node is None:
            node = self._nodes[path] = Lazy(lambda: self._open_management(path), lambda link: link.is_alive)
        return await node.get()

    async def hub_management(self, hub: str) -> RequestLink:
        """The links to the node that answers for all event hubs, with the rights on this one proven."""
        await self.authorize(hub)
        node = self._nodes.get("")
        if node is None:
            node = self._nodes[""] = Lazy(self._open_hub_management, lambda link: link.is_alive)
        return await node.get()

    async def token(self, path: str) -> Token:
        """A token for an entity, as it may be asked for besides the proof."""
        return await self._token_provider.get_token(self._address.audience(path), self._waiting.utc_now_s())

    async def _open_cbs(self) -> RequestLink:
        return await RequestLink.open(self.client, CBS_NODE, f"cbs-{self._reply_to}")

    async def _open_management(self, path: str) -> RequestLink:
        await self.authorize(path)
        return await RequestLink.open(self.client, f"{path}/$management", f"{path}-{self._reply_to}")

    async def _open_hub_management(self) -> RequestLink:
        return await RequestLink.open(self.client, MANAGEMENT_NODE, f"hubs-{self._reply_to}")

    async def _open_coordinator(self) -> Sender:
        # On the session of the other links, the service would take it for the announcement that transactions span
        # entities, and refuse to receive from a second one.
        return await self.client.sender(Coordinator([Symbol("amqp:local-transactions")]), has_own_session=True)

    async def _prove(self, path: str) -> Token:
        token = await self._put_token(path)
        renewal = asyncio.create_task(self._keep_proven(path, token))
        self._renewals.add(renewal)
        renewal.add_done_callback(self._renewals.discard)
        return token

    async def _put_token(self, path: str) -> Token:
        audience = self._address.audience(path)
        token = await self.token(path)
        cbs = await self._cbs.get()
        properties: dict[str, object] = {
            "operation": "put-token",
            "type": token.type,
            "name": audience,
            "expiration": Timestamp(token.expires_at_s * 1000),
        }
        await cbs.request(properties, token.text)
        return token

    async def _keep_proven(self, path: str, token: Token) -> None:
        """Put a new token before the old one ends, for as long as the connection lives."""
        waiting = self._waiting
        delay_s = self._renewal_delay_s(token)
        while self.is_alive:
            await waiting.sleep(delay_s)
            try:
                renewed = await self._put_token(path)
            except (TandemError, OSError):
                # Whoever uses the entity learns of it when the token has ended; until then it is tried again.
                delay_s = _RENEWAL_RETRY_S
                continue
            if renewed.expires_at_s <= token.expires_at_s:
                # A provider that has only this one: there is nothing to renew it with.
                return
            token = renewed
            delay_s = self._renewal_delay_s(token)

    def _renewal_delay_s(self, token: Token) -> float:
        return max(_MIN_RENEWAL_INTERVAL_S, (token.expires_at_s - self._waiting.utc_now_s()) * _RENEW_AFTER)

    async def close(self) -> None:
        """Say goodbye, and leave nothing behind: no task, no socket."""
        lazies: list[Lazy[RequestLink] | Lazy[Token] | Lazy[Sender]] = [self._cbs, self.coordinator]
        lazies += [*self._proofs.values(), *self._nodes.values()]
        for lazy in lazies:
            await lazy.close()
        renewals = list(self._renewals)
        for renewal in renewals:
            renewal.cancel()
        if renewals:
            await asyncio.wait(renewals)
        await self.client.close()


class ServiceConnection:
    """What a factory and all that it made share."""

    def __init__(
        self,
        address: ServiceAddress,
        token_provider: TokenProvider,
        settings: MessagingFactorySettings,
        noun: str = "factory",
    ) -> None:
        self.address = address
        self.settings = settings
        self._token_provider = token_provider
        self._wire = Lazy(self._connect, lambda wire: wire.is_alive)
        self._last_wire: Wire | None = None
        self._is_closed = False
        self._fault: MessagingError | None = None
        # As the namespace reported it last; None from a service that reports none, and before it was reached.
        self.identity: NamespaceIdentity | None = None
        # Called each time that the namespace was reached, with the identity that it reports.
        self.on_connected: Callable[[NamespaceIdentity | None], None] | None = None
        # Set when it is closed, or is of no more use.
        self.ended = asyncio.Event()
        # For errors: what has this connection, and which namespace of a pair it is for.
        self._noun = noun
        self.role: str | None = None
        # Whoever decides where messages go, if the namespace is one of a pair; and whether any were sent already.
        self.interceptor: SendInterceptor | None = None
        self.has_sent = False
        # Senders and receivers that have a link, to be closed with the connection.
        self.opened: set[Closable] = set()

    def make_retrier(self, policy: RetryPolicy | None = None, operation_timeout_s: float | None = None) -> Retrier:
        """By the settings of the factory, where nothing else is given."""
        settings = self.settings
        timeout_s = settings.operation_timeout.total_seconds() if operation_timeout_s is None else operation_timeout_s
        return Retrier(policy or settings.retry_policy, settings.waiting, timeout_s)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def token_provider(self) -> TokenProvider:
        return self._token_provider

    def fault(self, error: MessagingError) -> None:
        """From now on every call raises this error."""
        self._fault = error

    @property
    def is_faulted(self) -> bool:
        return self._fault is not None

    def require_open(self) -> None:
        """Raise why it is of no more use, if it is not."""
        if self._fault is not None:
            raise self._fault
        if self._is_closed:
            role = "" if self.role is None else f", the {self.role} of a pair,"
            raise StateError(f"the {self._noun} for {self.address}{role} is closed; make a new one")

    async def wire(self) -> Wire:
        """The connection as it is now, or a new one."""
        self.require_open()
        return await self._wire.get()

    async def _connect(self) -> Wire:
        if self._last_wire is not None:
            # It is lost; what it left behind goes with it.
            await self._last_wire.close()
        address = self.address
        tls = (self.settings.ssl_context or _default_tls()) if address.is_tls else None
        settings = Settings(
            f"tandem-{uuid.uuid4().hex}",
            hostname=address.host,
            max_unsettled=_UNBOUNDED,
            max_undecided_bytes=_UNBOUNDED,
            properties={Symbol("product"): _PRODUCT, Symbol("user-agent"): self.settings.user_agent},
        )
        try:
            client = await Client.connect(dialled_host(address.host), address.amqp_port, settings, tls)
        except OSError as error:
            raise reaching_error(str(address), error) from error
        except TandemError as error:
            raise _as_messaging(error) from error
        self._last_wire = Wire(client, address, self._token_provider, self.settings.waiting)
        self.identity = NamespaceIdentity.from_properties(client.peer_properties)
        if self.on_connected is not None:
            self.on_connected(self.identity)
        return self._last_wire

    async def close(self) -> None:
        """Close every sender and receiver, so that what they fetched ahead is given back, and then the connection."""
        self._is_closed = True
        self.ended.set()
        if self.interceptor is not None:
            await self.interceptor.close()
        if self.opened and self._wire.current is not None:
            await asyncio.gather(*(end.close() for end in self.opened))
        await self._wire.close()
        if self._last_wire is not None:
            await self._last_wire.close()


def _default_tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _as_messaging(error: TandemError) -> MessagingError:
    found = messaging_error(error)
    return found if isinstance(found, MessagingError) else MessagingCommunicationError(str(error))
