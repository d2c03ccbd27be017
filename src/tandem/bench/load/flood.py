"""Messages as fast as credit allows: sent, received or both at once, over any number of connections and entities."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from tandem.amqp import (
    ACCEPTED,
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    CreditReceived,
    DispositionReceived,
    Event,
    IncomingDelivery,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    ReceiverLink,
    Role,
    SenderLink,
    SessionBegun,
    SessionEnded,
    SessionFailed,
    SettlementReceived,
    Source,
    Target,
)
from tandem.bench.load.job import Job, LoadFailed, Peer, durable, settings
from tandem.driver import Endpoint

__all__ = ["Budget", "Progress", "Receiving", "Side", "connected", "disconnected", "flood"]

# rcv-settle-mode second (AMQP 1.0 part 2.8.3): the broker settles last, so that a completion is confirmed.
SECOND: Final = 1

# Whatever ends a link ends the measurement, whoever began it.
_ENDS: Final = (LinkDetached, LinkFailed, SessionEnded, SessionFailed, ConnectionClosed, ConnectionFailed)

# Seconds. How long brokers may take to answer our close.
CLOSE_LIMIT_S: Final = 5.0


class Budget:
    """Messages of one address that receivers may still ask for. More credit would lock what nobody is going to take."""

    def __init__(self, address: str, count: int) -> None:
        self.address = address
        self.left = count

    def take(self, wanted: int) -> int:
        taken = min(wanted, self.left)
        self.left -= taken
        return taken


class Progress:
    """What all connections of one side share: the clock and the count."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = 0
        self.started_at = 0.0
        self.ended_at = 0.0
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start_clock(self) -> None:
        if not self.started_at:
            self.started_at = time.perf_counter()

    def add(self, count: int) -> None:
        self.done += count
        if self.done >= self.count and not self.finished.done():
            self.ended_at = time.perf_counter()
            self.finished.set_result(None)

    def fail(self, why: str) -> None:
        if not self.finished.done():
            self.finished.set_exception(LoadFailed(f"{why}, after {self.done} of {self.count} messages"))


class Side:
    """One connection that sends or receives."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        for event in events:
            if not self.on_event(event):
                self._on_rare_event(endpoint, event)

    def on_event(self, event: Event) -> bool:
        """Handle what happens per message, and say whether it was that."""
        raise NotImplementedError

    def attach(self, event: SessionBegun) -> None:
        raise NotImplementedError

    def _on_rare_event(self, endpoint: Endpoint, event: Event) -> None:
        if isinstance(event, ConnectionOpened):
            endpoint.connection.begin()
        elif isinstance(event, SessionBegun):
            self.attach(event)
        elif isinstance(event, _ENDS):
            self.progress.fail(f"{type(event).__name__}: {event.error}")
        elif isinstance(event, AuthenticationFailed):
            self.progress.fail(f"the broker refused the credentials: {event!r}")

    def on_writable(self, endpoint: Endpoint) -> None:
        """Credit bounds what is under way; nothing waits for the transport."""

    def on_lost(self, endpoint: Endpoint) -> None:
        self.progress.fail("the connection was lost")


class Sending(Side):
    """Sends its share of messages on one link per address."""

    def __init__(self, progress: Progress, shares: dict[str, int], payload: bytes) -> None:
        super().__init__(progress)
        self.shares = shares
        self.payload = payload

    def attach(self, event: SessionBegun) -> None:
        for number, (address, share) in enumerate(self.shares.items()):
            event.session.attach_sender(f"send-{number}", Target(address)).context = share

    def on_event(self, event: Event) -> bool:
        if isinstance(event, DispositionReceived):
            if event.state is not ACCEPTED:
                self.progress.fail(f"a message was answered with {event.state!r}")
            self.progress.add(len(event.deliveries))
        elif isinstance(event, CreditReceived):
            self.progress.start_clock()
            self._send(event.link)
        else:
            return False
        return True

    def _send(self, link: SenderLink) -> None:
        left = link.context
        assert isinstance(left, int)
        batch = min(link.credit, left)
        link.context = left - batch
        for _ in range(batch):
            link.send(self.payload)


class Receiving(Side):
    """Receives and completes, on one link per address."""

    def __init__(self, progress: Progress, budgets: list[Budget], credit: int, *, is_confirmed: bool = False) -> None:
        super().__init__(progress)
        self.budgets = budgets
        self.credit = credit
        self.is_confirmed = is_confirmed

    def attach(self, event: SessionBegun) -> None:
        mode = SECOND if self.is_confirmed else None
        for number, budget in enumerate(self.budgets):
            link = event.session.attach_receiver(f"receive-{number}", Source(budget.address), rcv_settle_mode=mode)
            link.context = budget

    def on_event(self, event: Event) -> bool:
        if isinstance(event, IncomingDelivery):
            self.progress.start_clock()
            event.link.settle(event, is_settled=not self.is_confirmed)
            if not self.is_confirmed:
                self.progress.add(1)
            if event.link.credit * 2 <= self.credit:
                self._top_up(event.link)
        elif isinstance(event, SettlementReceived):
            if event.state is not ACCEPTED:
                self.progress.fail(f"a completion was answered with {event.state!r}")
            self.progress.add(len(event.deliveries))
        elif isinstance(event, LinkAttached):
            assert isinstance(event.link, ReceiverLink)
            self._top_up(event.link)
        else:
            return False
        return True

    def _top_up(self, link: ReceiverLink) -> None:
        budget = link.context
        assert isinstance(budget, Budget)
        extra = budget.take(self.credit - link.credit)
        if extra:
            link.grant(link.credit + extra)


def _split(count: int, parts: int) -> list[int]:
    return [count // parts + (1 if part < count % parts else 0) for part in range(parts)]


async def flood(job: Job) -> dict[str, float]:
    """Both sides start at once. The time runs from the first message under way to the last one done."""
    per_address = dict(zip(job.addresses, _split(job.count, len(job.addresses)), strict=True))
    sides: list[Side] = []
    # Windows of many receivers together must not exceed what there is to receive: the first would take it all.
    credit = max(1, min(job.credit, job.count // (2 * job.connections * len(job.addresses))))
    if job.mode in ("recv", "both"):
        received = Progress(job.count)
        budgets = [Budget(address, count) for address, count in per_address.items()]
        receiving = partial(Receiving, received, budgets, credit, is_confirmed=job.is_confirmed)
        sides += [receiving() for _ in range(job.connections)]
    if job.mode in ("send", "both"):
        sent = Progress(job.count)
        payload = durable(b"x" * job.body_bytes, job.properties)
        shares = {address: _split(count, job.connections) for address, count in per_address.items()}
        for number in range(job.connections):
            share = {address: parts[number] for address, parts in shares.items()}
            sides.append(Sending(sent, share, payload))
    endpoints = await connected(job.peer, sides)
    await asyncio.gather(*{side.progress.finished for side in sides})
    await disconnected(endpoints)
    started_at = min(side.progress.started_at for side in sides if side.progress.started_at)
    seconds = max(side.progress.ended_at for side in sides) - started_at
    return {"seconds": seconds, "messages_per_second": job.count / seconds}


async def connected(peer: Peer, sides: Sequence[Side]) -> list[Endpoint]:
    """A connection for each side. What they then do, their events decide."""
    loop = asyncio.get_running_loop()
    endpoints: list[Endpoint] = []
    for number, side in enumerate(sides):
        make = partial(Endpoint, Role.CLIENT, settings(peer, str(number)), side)
        endpoints.append((await loop.create_connection(make, peer.host, peer.port))[1])
    return endpoints


async def disconnected(endpoints: Sequence[Endpoint]) -> None:
    """Close in order, so that the broker has nothing to clean up while the next job runs."""
    for endpoint in endpoints:
        if endpoint.connection.is_open:
            endpoint.connection.close()
            endpoint.flush()
    await asyncio.wait([endpoint.lost for endpoint in endpoints], timeout=CLOSE_LIMIT_S)
