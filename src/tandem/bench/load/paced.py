"""Messages at a pace: one at a time, each waiting for the outcome of the one before, or so many a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tandem.amqp import (
    ACCEPTED,
    RELEASED,
    CreditReceived,
    DispositionReceived,
    Event,
    IncomingDelivery,
    Message,
    SenderLink,
    SessionBegun,
    Target,
)
from tandem.bench.load.flood import Budget, Progress, Receiving, Side, connected, disconnected
from tandem.bench.load.job import Job, LoadFailed, durable, latencies, settings
from tandem.driver import Client, Endpoint

__all__ = ["first_message", "fixed_load", "round_trips"]

# Bytes. The number of a message stands at the start of its body.
NUMBER_BYTES: Final = 8


async def round_trips(job: Job) -> dict[str, float]:
    """From the send to its outcome. The first tenth warms both sides up and does not count."""
    payload = durable(b"x" * job.body_bytes)
    spent_s: list[float] = []
    async with await Client.connect(job.peer.host, job.peer.port, settings(job.peer, "round-trips")) as client:
        sender = await client.sender(job.addresses[0])
        for _ in range(job.count + job.count // 10):
            started_at = time.perf_counter()
            if await sender.send(payload) is not ACCEPTED:
                raise LoadFailed("a message of the round trips was not accepted")
            spent_s.append(time.perf_counter() - started_at)
    return latencies("send", spent_s[job.count // 10 :])


async def first_message(job: Job) -> dict[str, float]:
    """From the connect until the first message of a queue is here. It is given back."""
    started_at = time.perf_counter()
    async with await Client.connect(job.peer.host, job.peer.port, settings(job.peer, "first")) as client:
        receiver = await client.receiver(job.addresses[0], credit=0)
        receiver.grant(1)
        delivery = await receiver.receive()
        seconds = time.perf_counter() - started_at
        receiver.settle(delivery, RELEASED)
    return {"seconds": seconds}


class _TimedSending(Side):
    """Sends each message when it is due. A message that has to wait for credit is late, and counts so."""

    def __init__(self, address: str, count: int, rate_per_second: int, body_bytes: int) -> None:
        super().__init__(Progress(count))
        self.address = address
        self.interval_s = 1 / rate_per_second
        self.padding = b"x" * max(0, body_bytes - NUMBER_BYTES)
        self.sent = 0
        self.outcome_s: list[float] = []
        self.link: asyncio.Future[SenderLink] = asyncio.get_running_loop().create_future()

    def attach(self, event: SessionBegun) -> None:
        event.session.attach_sender("fixed-load", Target(self.address))

    def on_event(self, event: Event) -> bool:
        if isinstance(event, DispositionReceived):
            now = time.perf_counter()
            for delivery in event.deliveries:
                assert isinstance(delivery.context, int)
                self.outcome_s.append(now - self.due_at(delivery.context))
            self.progress.add(len(event.deliveries))
        elif isinstance(event, CreditReceived):
            if not self.link.done():
                self.link.set_result(event.link)
        else:
            return False
        return True

    def due_at(self, number: int) -> float:
        return self.progress.started_at + number * self.interval_s

    async def run(self, endpoint: Endpoint) -> None:
        link = await self.link
        self.progress.start_clock()
        while self.sent < self.progress.count and not self.progress.finished.done():
            due = int((time.perf_counter() - self.progress.started_at) / self.interval_s) + 1
            while self.sent < min(due, self.progress.count) and link.credit:
                body = self.sent.to_bytes(NUMBER_BYTES, "big") + self.padding
                link.send(durable(body), context=self.sent)
                self.sent += 1
            endpoint.flush()
            await asyncio.sleep(max(0.0, self.due_at(due) - time.perf_counter()))


class _TimedReceiving(Receiving):
    """Completes at once, and notes how long after it was due each message came."""

    def __init__(self, address: str, count: int, credit: int, due_at: Callable[[int], float]) -> None:
        super().__init__(Progress(count), [Budget(address, count)], credit)
        self.due_at = due_at
        self.delivery_s: list[float] = []

    def on_event(self, event: Event) -> bool:
        if isinstance(event, IncomingDelivery):
            number = int.from_bytes((Message(event.payload).data or b"")[:NUMBER_BYTES], "big")
            self.delivery_s.append(time.perf_counter() - self.due_at(number))
        return super().on_event(event)


async def fixed_load(job: Job) -> dict[str, float]:
    """Times are taken from the moment a message was due, so that a broker that stalls cannot hide it."""
    sending = _TimedSending(job.addresses[0], job.count, job.rate_per_second, job.body_bytes)
    receiving = _TimedReceiving(job.addresses[0], job.count, job.credit, sending.due_at)
    endpoints = await connected(job.peer, [receiving, sending])
    try:
        await asyncio.gather(receiving.progress.finished, sending.progress.finished, sending.run(endpoints[1]))
    finally:
        await disconnected(endpoints)
    # The first tenth warms both sides up and does not count.
    return {
        **latencies("send", sending.outcome_s[job.count // 10 :]),
        **latencies("delivery", receiving.delivery_s[job.count // 10 :]),
    }
