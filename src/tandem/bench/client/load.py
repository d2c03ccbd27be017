"""One client library under load, in a process of its own: `python -m tandem.bench.client.load JOB`.

Both libraries are told to do the same: messages sent one by one with many of them in flight, one after the other, or in
batches; messages received in peek-lock mode and completed one by one, with the completions in flight together.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import msgspec

from tandem.client import BrokeredMessage, MessageReceiver, MessageSender, MessagingFactory
from tandem.driver import run

__all__ = ["AZURE", "BATCHES", "MODES", "ONE_BY_ONE", "RECEIVES", "SENDS", "TANDEM_CLIENT", "ClientJob"]

TANDEM_CLIENT: Final = "tandem.client"
AZURE: Final = "azure-servicebus"

SENDS: Final = "sends"
ONE_BY_ONE: Final = "one after the other"
BATCHES: Final = "batches"
RECEIVES: Final = "receives"
MODES: Final = (SENDS, ONE_BY_ONE, BATCHES, RECEIVES)

# Messages that come ahead of being asked for, and the most that one call returns.
PREFETCH: Final = 500

# Seconds. The messages are there; who waits longer waits in vain.
RECEIVE_TIMEOUT_S: Final = 10.0


class ClientJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a library is to do."""

    library: str
    mode: str
    connection_string: str
    queue: str
    count: int
    body_bytes: int
    # Sends that wait for their acknowledgement at the same time; also the messages of a batch.
    in_flight: int
    receive_timeout_s: float = RECEIVE_TIMEOUT_S


class Subject(Protocol):
    """A library with one sender and one receiver."""

    async def send(self, body: bytes) -> None: ...

    async def send_batch(self, bodies: Sequence[bytes]) -> None: ...

    async def receive(self, at_most: int) -> int:
        """Receive some, complete them all, and say how many they were."""


class TandemSubject:
    """`tandem.client`."""

    def __init__(self, sender: MessageSender, receiver: MessageReceiver, timeout_s: float) -> None:
        self._sender = sender
        self._receiver = receiver
        self._timeout_s = timeout_s

    async def send(self, body: bytes) -> None:
        await self._sender.send(BrokeredMessage(body))

    async def send_batch(self, bodies: Sequence[bytes]) -> None:
        await self._sender.send_batch([BrokeredMessage(body) for body in bodies])

    async def receive(self, at_most: int) -> int:
        messages = await self._receiver.receive_batch(at_most, self._timeout_s)
        await asyncio.gather(*(message.complete() for message in messages))
        return len(messages)


@asynccontextmanager
async def _opened(job: ClientJob) -> AsyncIterator[Subject]:
    if job.library == AZURE:
        # Not a dependency of Tandem: only who measures it needs it.
        from tandem.bench.measuring.peers import peer_module

        opened_azure = peer_module("azure_servicebus").opened_azure
        async with opened_azure(job.connection_string, job.queue, PREFETCH, job.receive_timeout_s) as azure:
            yield azure
        return
    async with MessagingFactory.from_connection_string(job.connection_string) as factory:
        prefetch = PREFETCH if job.mode == RECEIVES else 0
        sender = factory.create_message_sender(job.queue)
        receiver = factory.create_message_receiver(job.queue, prefetch_count=prefetch)
        yield TandemSubject(sender, receiver, job.receive_timeout_s)


async def _work(job: ClientJob, subject: Subject) -> None:
    body = bytes(job.body_bytes)
    left = job.count
    while left > 0:
        size = min(job.in_flight, left)
        if job.mode == SENDS:
            await asyncio.gather(*(subject.send(body) for _ in range(size)))
        elif job.mode == BATCHES:
            await subject.send_batch([body] * size)
        elif job.mode == ONE_BY_ONE:
            size = 1
            await subject.send(body)
        else:
            size = await subject.receive(min(PREFETCH, left))
            if size == 0:
                sys.exit(f"{job.library}: {left} of {job.count} messages did not come")
        left -= size


async def _measure(job: ClientJob) -> dict[str, float]:
    async with _opened(job) as subject:
        # The links are opened by what uses them first.
        if job.mode == RECEIVES:
            await subject.receive(1)
        else:
            await subject.send(b"first")
        started_s, cpu_started_s = time.perf_counter(), time.process_time()
        await _work(job, subject)
        spent_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_started_s
    return {"messages_per_second": job.count / spent_s, "client_cpu_us": cpu_s / job.count * 1e6}


def main(arguments: list[str]) -> None:
    job = msgspec.json.decode(arguments[0], type=ClientJob)
    print(msgspec.json.encode(run(_measure(job))).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
