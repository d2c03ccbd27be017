"""One message, waited for: what stands behind a consumer while an HTTP request is open."""

from __future__ import annotations

import asyncio

from tandem.engine.consumer import Consumer
from tandem.engine.effects import HandedOut, Notice
from tandem.engine.lock_table import Lock
from tandem.engine.namespace import Namespace
from tandem.engine.subqueue import SubQueue
from tandem.management.gate import Gate

__all__ = ["Received", "receive_one"]


class Received:
    """A message: its bytes, and the lock, unless it was deleted as it was received."""

    def __init__(self, payload: bytes, lock: Lock | None) -> None:
        self.payload = payload
        self.lock = lock


class _Receiver:
    """Takes one message."""

    def __init__(self, subqueue: SubQueue) -> None:
        self._subqueue = subqueue
        self.received: asyncio.Future[Received] = asyncio.get_running_loop().create_future()

    def deliver(self, locks: list[Lock]) -> None:
        for lock in locks:
            prefix, bare = lock.take_parts()
            if self.received.done():
                self._subqueue.release(lock)
            else:
                self.received.set_result(Received(prefix + bare, lock))

    def hand_out(self, message: HandedOut) -> None:
        message.consumer.unsent_count -= 1
        if not self.received.done():
            self.received.set_result(Received(message.payload, None))

    def notify(self, notice: Notice) -> None:
        if notice.error is not None and not self.received.done():
            self.received.set_exception(notice.error)


async def receive_one(gate: Gate, subqueue: SubQueue, deletes: bool, timeout_s: float) -> Received | None:
    """The next message, or None if none came in time. A client that goes away meanwhile locks nothing."""
    receiver = _Receiver(subqueue)

    def start(_: Namespace) -> Consumer:
        consumer = subqueue.open_consumer(receiver, deletes)
        subqueue.outlet.grant(consumer, 1, False)
        return consumer

    consumer = await gate.perform(start)
    is_taken = False
    try:
        await asyncio.wait([receiver.received], timeout=timeout_s)
        is_taken = True
    finally:
        await asyncio.shield(gate.perform(lambda _: _stop(subqueue, consumer, receiver, is_taken)))
    return await receiver.received if receiver.received.done() else None


def _stop(subqueue: SubQueue, consumer: Consumer, receiver: _Receiver, is_taken: bool) -> None:
    subqueue.close_consumer(consumer)
    received = receiver.received
    if not is_taken and received.done() and received.exception() is None:
        lock = received.result().lock
        if lock is not None:
            subqueue.release(lock)
