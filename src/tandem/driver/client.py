"""A small client: connect, send and wait for the outcome, receive and settle."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from tandem.amqp import (
    ACCEPTED,
    AmqpError,
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    Coordinator,
    CreditDrained,
    CreditReceived,
    DeliveryState,
    DispositionReceived,
    Event,
    IncomingDelivery,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    ReceiverLink,
    SenderLink,
    Session,
    SessionBegun,
    SessionEnded,
    SessionFailed,
    Settings,
    SettlementReceived,
    Source,
    Target,
)
from tandem.amqp.connection import Role
from tandem.amqp.types import Symbol
from tandem.driver.endpoint import CLOSE_GRACE_S, Endpoint
from tandem.errors import RemoteError, TandemError, UnauthorizedAccess

__all__ = ["Client", "Receiver", "Sender"]

# Deliveries. What a receiver lets come ahead of its reader.
DEFAULT_CREDIT = 100

ReceiverKind = TypeVar("ReceiverKind", bound="Receiver")

# snd-settle-mode and rcv-settle-mode (AMQP 1.0 part 2.8.2 and 2.8.3).
SETTLED = 1
SECOND = 1


def _remote(error: AmqpError | None, what: str) -> RemoteError:
    if error is None:
        return RemoteError("amqp:connection:forced", what)
    return RemoteError(error.condition, error.description or what)


def _resolve(future: asyncio.Future[Any], value: object) -> None:
    """A future whose waiter was cancelled is done already."""
    if not future.done():
        future.set_result(value)


def _reject(future: asyncio.Future[Any], error: TandemError) -> None:
    if not future.done():
        future.set_exception(error)
        # Nobody may be waiting any more; that is no reason for a warning at exit.
        future.exception()


class _End:
    """What senders and receivers have in common: being attached, being over."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self.attached: asyncio.Future[None] = self._loop.create_future()
        self.detached: asyncio.Future[None] = self._loop.create_future()
        self.error: TandemError | None = None

    def fail(self, error: TandemError) -> None:
        """The link is over: everybody who waits on it learns why."""
        self.error = error
        _reject(self.attached, error)
        _resolve(self.detached, None)

    async def _detach(self, link: SenderLink | ReceiverLink) -> None:
        if link.is_attached:
            link.detach()
            self._endpoint.flush_soon()
            await self.detached


class Sender(_End):
    """A link on which we send."""

    def __init__(self, endpoint: Endpoint, link: SenderLink) -> None:
        super().__init__(endpoint)
        self.link = link
        # Sends that wait for credit, first come first served.
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Credit that sends were called for that have not come to use it yet.
        self._promised = 0
        self._outcomes: set[asyncio.Future[DeliveryState | None]] = set()

    async def send(
        self,
        payload: bytes,
        *,
        delivery_tag: bytes | None = None,
        message_format: int = 0,
        state: DeliveryState | None = None,
    ) -> DeliveryState | None:
        """Send one message, when there is credit, and wait for the receiver's outcome."""
        if self.link.credit <= self._promised or self._waiting:
            await self._wait_for_credit()
        if self.error is not None:
            raise self.error
        outcome: asyncio.Future[DeliveryState | None] = self._loop.create_future()
        self._outcomes.add(outcome)
        outcome.add_done_callback(self._outcomes.discard)
        self.link.send(payload, delivery_tag, message_format=message_format, state=state, context=outcome)
        self._endpoint.flush_soon()
        return await outcome

    async def _wait_for_credit(self) -> None:
        """Until there is credit for this send and all that wait before it, or the link is over."""
        put_in_line = self._waiting.append
        while self.error is None:
            turn: asyncio.Future[None] = self._loop.create_future()
            put_in_line(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.cancelled():
                    with contextlib.suppress(ValueError):
                        self._waiting.remove(turn)
                else:
                    # Its turn had come already: the credit is the next one's.
                    self._promised -= 1
                    self.on_credit()
                raise
            self._promised -= 1
            if self.link.credit > 0:
                return
            # The receiver took the credit back in the meantime. Its place is still the first.
            put_in_line = self._waiting.appendleft

    def on_credit(self) -> None:
        """As many may go as there is credit for."""
        while self._waiting and self.link.credit > self._promised:
            self._call_next()

    def _call_next(self) -> None:
        turn = self._waiting.popleft()
        # Done already is one whose caller was cancelled in this very turn of the loop.
        if not turn.done():
            self._promised += 1
            turn.set_result(None)

    def fail(self, error: TandemError) -> None:
        super().fail(error)
        while self._waiting:
            self._call_next()
        for outcome in list(self._outcomes):
            _reject(outcome, error)

    async def close(self) -> None:
        await self._detach(self.link)


class Receiver(_End):
    """A link on which we receive."""

    def __init__(self, endpoint: Endpoint, link: ReceiverLink, credit: int) -> None:
        super().__init__(endpoint)
        self.link = link
        self._window = credit
        self._drained: asyncio.Future[None] | None = None
        self._arrived: asyncio.Queue[IncomingDelivery | TandemError] = asyncio.Queue()
        self._settlements: set[asyncio.Future[DeliveryState | None]] = set()

    async def receive(self) -> IncomingDelivery:
        """The next message, as long as it takes. Settle it afterwards."""
        item = await self._arrived.get()
        if isinstance(item, TandemError):
            # Left for whoever asks next: the link does not come back.
            self._arrived.put_nowait(item)
            raise item
        if self._window and self.link.is_attached and self.link.credit * 2 <= self._window:
            self.grant(self._window)
        return item

    def grant(self, credit: int) -> None:
        """Let the sender have `credit` messages under way, in place of what it had."""
        self.link.grant(credit)
        self._endpoint.flush_soon()

    async def drain(self, credit: int) -> None:
        """Take up to `credit` messages that are there now: returns once the sender has no more, or used it up."""
        self._drained = self._loop.create_future()
        self.link.grant(credit, drain=True)
        self._endpoint.flush_soon()
        await self._drained

    def settle(self, delivery: IncomingDelivery, state: DeliveryState = ACCEPTED, *, is_settled: bool = True) -> None:
        """Tell the outcome. With `is_settled` false the sender settles last."""
        self.link.settle(delivery, state, is_settled=is_settled)
        self._endpoint.flush_soon()

    async def confirm(self, delivery: IncomingDelivery, state: DeliveryState = ACCEPTED) -> DeliveryState | None:
        """Tell the outcome, and wait until the sender has settled: with this state, or another one."""
        if self.error is not None:
            raise self.error
        settlement: asyncio.Future[DeliveryState | None] = self._loop.create_future()
        self._settlements.add(settlement)
        settlement.add_done_callback(self._settlements.discard)
        delivery.context = settlement
        self.settle(delivery, state, is_settled=False)
        return await settlement

    @property
    def waiting_count(self) -> int:
        """Messages that arrived and were not taken yet."""
        return self._arrived.qsize()

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        self._arrived.put_nowait(delivery)

    def on_drained(self) -> None:
        if self._drained is not None:
            _resolve(self._drained, None)

    def fail(self, error: TandemError) -> None:
        super().fail(error)
        self._arrived.put_nowait(error)
        for settlement in list(self._settlements):
            _reject(settlement, error)
        if self._drained is not None:
            _reject(self._drained, error)

    async def close(self) -> None:
        await self._detach(self.link)


class Client:
    """One connection. Use it as an async context manager."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        # Sessions that were asked for by themselves, until the peer has begun them too.
        self._beginning: dict[Session, asyncio.Future[Session]] = {}
        self._ends: set[Sender | Receiver] = set()
        self._links_made = 0
        self.endpoint = Endpoint(Role.CLIENT, settings, self)

    @classmethod
    async def connect(cls, host: str, port: int, settings: Settings, tls: ssl.SSLContext | None = None) -> Client:
        """Connect, authenticate and begin a session. The certificate must be that of the host name in the settings."""
        client = cls(settings)
        loop = asyncio.get_running_loop()
        name = (settings.hostname or host) if tls is not None else None
        await loop.create_connection(lambda: client.endpoint, host, port, ssl=tls, server_hostname=name)
        try:
            await client._session
        except BaseException:
            client.endpoint.abort()
            await client.endpoint.lost
            raise
        return client

    @property
    def peer_properties(self) -> dict[object, object] | None:
        """The properties of the peer's open."""
        received = self.endpoint.connection.open_received
        return None if received is None else received.properties

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def sender(
        self,
        target: str | Target | Coordinator,
        *,
        source: Source | None = None,
        is_settled: bool = False,
        properties: dict[object, object] | None = None,
        desired_capabilities: list[Symbol] | None = None,
        has_own_session: bool = False,
    ) -> Sender:
        """Attach a link to send on. With `is_settled` messages are sent settled: no outcome comes back. With
        `has_own_session` the link shares its session with no other."""
        session = await (self._begin_session() if has_own_session else self._session_with_room())
        target = Target(target) if isinstance(target, str) else target
        mode = SETTLED if is_settled else None
        link = session.attach_sender(
            self._link_name(),
            target,
            source,
            snd_settle_mode=mode,
            properties=properties,
            desired_capabilities=desired_capabilities,
        )
        sender = Sender(self.endpoint, link)
        await self._attach(link, sender)
        return sender

    async def receiver(
        self,
        source: str | Source,
        *,
        credit: int = DEFAULT_CREDIT,
        is_second: bool = False,
        is_settled: bool = False,
        properties: dict[object, object] | None = None,
        desired_capabilities: list[Symbol] | None = None,
    ) -> Receiver:
        """Attach a link to receive on. With `is_second` the sender settles last (rcv-settle-mode second); with
        `is_settled` it sends messages settled, and has forgotten them when they arrive."""
        receiver = await self.receiver_of(
            Receiver,
            source,
            credit=credit,
            is_second=is_second,
            is_settled=is_settled,
            properties=properties,
            desired_capabilities=desired_capabilities,
        )
        if credit:
            receiver.grant(credit)
        return receiver

    async def receiver_of(
        self,
        make: Callable[[Endpoint, ReceiverLink, int], ReceiverKind],
        source: str | Source,
        *,
        credit: int = 0,
        is_second: bool = False,
        is_settled: bool = False,
        properties: dict[object, object] | None = None,
        target: Target | None = None,
        desired_capabilities: list[Symbol] | None = None,
    ) -> ReceiverKind:
        """As `receiver`, with an object of the caller's own kind behind the link, which grants credit itself."""
        session = await self._session_with_room()
        source = Source(source) if isinstance(source, str) else source
        link = session.attach_receiver(
            self._link_name(),
            source,
            target,
            snd_settle_mode=SETTLED if is_settled else None,
            rcv_settle_mode=SECOND if is_second else None,
            properties=properties,
            desired_capabilities=desired_capabilities,
        )
        receiver = make(self.endpoint, link, credit)
        await self._attach(link, receiver)
        return receiver

    async def _session_with_room(self) -> Session:
        """Links go on one session, until it has as many as both sides allow; then on another one."""
        session = await self._session
        begin = session.begin
        if begin is not None and len(session.links) > min(begin.handle_max, self._settings.handle_max):
            self._session = asyncio.get_running_loop().create_future()
            self.endpoint.connection.begin()
            self.endpoint.flush_soon()
            session = await self._session
        return session

    async def _begin_session(self) -> Session:
        begun: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self._beginning[self.endpoint.connection.begin()] = begun
        self.endpoint.flush_soon()
        return await begun

    def _link_name(self) -> str:
        self._links_made += 1
        return f"{self._settings.container_id}-{self._links_made}"

    async def _attach(self, link: SenderLink | ReceiverLink, end: Sender | Receiver) -> None:
        link.context = end
        self._ends.add(end)
        self.endpoint.flush_soon()
        try:
            await end.attached
        except asyncio.CancelledError:
            # Nobody would ever detach a link that is attached after its caller has gone.
            link.detach()
            self.endpoint.flush_soon()
            raise

    async def close(self) -> None:
        """Close in order. A connection that is gone is closed enough, and one that does not answer is dropped."""
        endpoint = self.endpoint
        if endpoint.connection.is_open:
            endpoint.connection.close()
            endpoint.flush()
        # By asyncio.wait, which leaves the future alone when its caller is cancelled: others wait for it too.
        _, silent = await asyncio.wait([endpoint.lost], timeout=CLOSE_GRACE_S)
        if silent:
            endpoint.abort()
            await asyncio.wait(silent)

    # --- Application ----------------------------------------------------------------------------------------

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, IncomingDelivery):
                assert isinstance(event.link.context, Receiver)
                event.link.context.on_delivery(event)
            elif isinstance(event, DispositionReceived):
                self._on_disposition(event)
            elif isinstance(event, CreditReceived):
                assert isinstance(event.link.context, Sender)
                event.link.context.on_credit()
            else:
                self._on_rare_event(event)

    def on_writable(self, endpoint: Endpoint) -> None:
        """Nothing to do: every send waits for its outcome or for credit, which bounds what can pile up."""

    def on_lost(self, endpoint: Endpoint) -> None:
        self._fail(RemoteError("amqp:connection:forced", "the connection was lost"))

    def _on_disposition(self, event: DispositionReceived) -> None:
        for delivery in event.deliveries:
            if not event.is_settled:
                event.link.settle(delivery, event.state)
            if isinstance(delivery.context, asyncio.Future):
                _resolve(delivery.context, event.state)

    def _on_rare_event(self, event: Event) -> None:
        if isinstance(event, LinkAttached):
            self._on_attached(event)
        elif isinstance(event, LinkDetached):
            self._end(event.link.context, _remote(event.error, "the link was detached"))
        elif isinstance(event, LinkFailed):
            self._end(event.link.context, event.error)
        elif isinstance(event, SettlementReceived):
            for delivery in event.deliveries:
                if isinstance(delivery.context, asyncio.Future):
                    _resolve(delivery.context, event.state)
        elif isinstance(event, CreditDrained):
            assert isinstance(event.link.context, Receiver)
            event.link.context.on_drained()
        elif isinstance(event, ConnectionOpened):
            self.endpoint.connection.begin()
        elif isinstance(event, SessionBegun):
            _resolve(self._beginning.pop(event.session, self._session), event.session)
        else:
            self._on_failure(event)

    def _on_failure(self, event: Event) -> None:
        if isinstance(event, SessionEnded):
            self._fail(_remote(event.error, "the session was ended"))
        elif isinstance(event, ConnectionClosed):
            self._fail(_remote(event.error, "the connection was closed"))
        elif isinstance(event, ConnectionFailed | SessionFailed):
            self._fail(event.error)
        elif isinstance(event, AuthenticationFailed):
            self._fail(UnauthorizedAccess(f"the server refused our credentials: {event!r}"))

    def _on_attached(self, event: LinkAttached) -> None:
        """An attach without the terminus we asked for announces the detach that says why (part 2.6.3)."""
        end = event.link.context
        assert isinstance(end, Sender | Receiver)
        terminus = event.attach.target if isinstance(end, Sender) else event.attach.source
        if terminus is not None:
            _resolve(end.attached, None)

    def _end(self, end: object, error: TandemError) -> None:
        assert isinstance(end, Sender | Receiver)
        self._ends.discard(end)
        end.fail(error)

    def _fail(self, error: TandemError) -> None:
        for session in [self._session, *self._beginning.values()]:
            _reject(session, error)
        self._beginning.clear()
        for end in list(self._ends):
            self._end(end, error)
