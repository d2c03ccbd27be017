"""The load of `tandem bench queue`, on Tandem's own driver: the same for every broker that is measured.

`python -m tandem.bench.load.traffic JOB` runs one job, given as JSON, in a process of its own, and prints one JSON
object:

    rate         send, receive or both at once, as fast as credit allows, over any number of connections and entities
    round-trips  one sender, one message at a time, each waiting for the outcome of the one before
    fixed-load   so many messages a second, whatever the broker does: time to the outcome, and to the receiver
    first        one receiver, until it has the first message of a queue, which it gives back
    hold         idle connections: prints `held` when they stand, and keeps them until standard input ends
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from tandem.bench.load.flood import flood
from tandem.bench.load.job import Job, settings
from tandem.bench.load.paced import first_message, fixed_load, round_trips
from tandem.driver import Client, run
from tandem.errors import TandemError

__all__: list[str] = []

# Connections that are being opened at the same time while idle ones are made.
OPENING_AT_ONCE: Final = 50


async def _hold(job: Job) -> dict[str, float]:
    """Connections with a session, a sender and a receiver with credit each, and nothing to do."""
    gate = asyncio.Semaphore(OPENING_AT_ONCE)

    async def connect(number: int) -> Client:
        async with gate:
            client = await Client.connect(job.peer.host, job.peer.port, settings(job.peer, f"idle-{number}"))
            await client.sender(job.addresses[0])
            await client.receiver(job.addresses[0], credit=1)
            return client

    clients = await asyncio.gather(*(connect(number) for number in range(job.connections)))
    print("held", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    alive = sum(not client.endpoint.lost.done() for client in clients)
    for client in clients:
        client.endpoint.abort()
    await asyncio.wait([client.endpoint.lost for client in clients])
    return {"alive": alive}


_KINDS: Final[dict[str, Callable[[Job], Coroutine[Any, Any, dict[str, float]]]]] = {
    "rate": flood,
    "round-trips": round_trips,
    "fixed-load": fixed_load,
    "first": first_message,
    "hold": _hold,
}


def main(arguments: list[str]) -> None:
    job = msgspec.json.decode(arguments[0], type=Job)
    try:
        figures = run(_KINDS[job.kind](job))
    except (TandemError, OSError) as error:
        sys.exit(f"{job.kind}: {error}")
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
