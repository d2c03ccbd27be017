"""The load of `tandem bench hub`: events sent and read over AMQP on Tandem's own driver, and read in bulk over HTTP.

`python -m tandem.bench.hub.traffic JOB` runs one job, given as JSON, in a process of its own, and prints one JSON
object:

    ingest   one connection and one link to the hub, singly or in batches, as far ahead as credit allows
    read     one connection, a receiver for each partition, from the start
    bulk     columns over HTTP, one partition after the other, their rows counted
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Final

import msgspec

from tandem.amqp import Event, IncomingDelivery, LinkAttached, ReceiverLink, SenderLink, SessionBegun, Source
from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import encode_message
from tandem.bench.load.flood import Budget, Progress, Sending, Side, connected, disconnected
from tandem.bench.load.job import LoadFailed, Peer
from tandem.connection_string import ConnectionString
from tandem.driver import run
from tandem.errors import TandemError
from tandem.management.http_client import HttpClient, api_path

__all__ = ["HubJob", "hub_traffic"]

# Events. What a reader lets come ahead: more than the broker reads from disk at once, so that it need not wait.
READ_CREDIT: Final = 4_000


class HubJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job. What a kind of job has no use for, it ignores."""

    kind: str
    peer: Peer
    hub: str
    # Events of each partition that are to be read, from the first on; all together are sent.
    events: list[int]
    body_bytes: int = 1_024
    # Events in one transfer.
    batch_events: int = 1

    @property
    def count(self) -> int:
        return sum(self.events)


class _EventSending(Sending):
    """Transfers to the hub, which chooses partitions in turn. Progress counts transfers."""

    def __init__(self, progress: Progress, hub: str, payload: bytes, message_format: int) -> None:
        super().__init__(progress, {hub: progress.count}, payload)
        self.message_format = message_format

    def _send(self, link: SenderLink) -> None:
        left = link.context
        assert isinstance(left, int)
        ahead = min(link.credit, left)
        link.context = left - ahead
        for _ in range(ahead):
            link.send(self.payload, message_format=self.message_format)


class _EventReading(Side):
    """Every partition from its start. Events come settled: nothing is taken from a hub."""

    def __init__(self, progress: Progress, budgets: list[Budget]) -> None:
        super().__init__(progress)
        self.budgets = budgets

    def attach(self, event: SessionBegun) -> None:
        self.progress.start_clock()
        for budget in self.budgets:
            event.session.attach_receiver(budget.address, Source(budget.address)).context = budget

    def on_event(self, event: Event) -> bool:
        if isinstance(event, IncomingDelivery):
            self.progress.add(1)
            if event.link.credit * 2 <= READ_CREDIT:
                self._top_up(event.link)
        elif isinstance(event, LinkAttached):
            assert isinstance(event.link, ReceiverLink)
            self._top_up(event.link)
        else:
            return False
        return True

    def _top_up(self, link: ReceiverLink) -> None:
        budget = link.context
        assert isinstance(budget, Budget)
        extra = budget.take(READ_CREDIT - link.credit)
        if extra:
            link.grant(link.credit + extra)


async def _ingest(job: HubJob) -> dict[str, float]:
    event = encode_message(data=b"x" * job.body_bytes)
    is_batch = job.batch_events > 1
    payload = make_batch([event] * job.batch_events) if is_batch else event
    progress = Progress(job.count // job.batch_events)
    return await _finished(job, _EventSending(progress, job.hub, payload, BATCH_FORMAT if is_batch else 0))


async def _read(job: HubJob) -> dict[str, float]:
    budgets = [
        Budget(f"{job.hub}/ConsumerGroups/$Default/Partitions/{partition}", count)
        for partition, count in enumerate(job.events)
        if count
    ]
    return await _finished(job, _EventReading(Progress(job.count), budgets))


async def _finished(job: HubJob, side: Side) -> dict[str, float]:
    endpoints = await connected(job.peer, [side])
    await side.progress.finished
    await disconnected(endpoints)
    return {"seconds": side.progress.ended_at - side.progress.started_at}


async def _bulk(job: HubJob) -> dict[str, float]:
    # Loaded before the clock starts.
    import pyarrow as pa

    assert job.peer.user is not None
    assert job.peer.password is not None
    client = HttpClient(ConnectionString(job.peer.host, job.peer.port, job.peer.user, job.peer.password))
    started_at = time.perf_counter()
    for partition, count in enumerate(job.events):
        path = f"{api_path('hubs', job.hub, 'partitions', str(partition), 'events')}?to={count}"
        with client.open("GET", path) as answer:
            rows = sum(batch.num_rows for batch in pa.ipc.open_stream(answer))
        if rows != count:
            raise LoadFailed(f"GET {path}: {rows:,} events came, {count:,} were expected")
    return {"seconds": time.perf_counter() - started_at}


async def hub_traffic(job: HubJob) -> dict[str, float]:
    """Seconds that the events of a job took, and events per second."""
    kinds = {"ingest": partial(_ingest, job), "read": partial(_read, job), "bulk": partial(_bulk, job)}
    figures = await kinds[job.kind]()
    return {**figures, "events_per_second": job.count / figures["seconds"]}


def main(arguments: list[str]) -> None:
    job = msgspec.json.decode(arguments[0], type=HubJob)
    try:
        figures = run(hub_traffic(job))
    except (TandemError, OSError) as error:
        sys.exit(f"{job.kind}: {error}")
    print(msgspec.json.encode(figures).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
