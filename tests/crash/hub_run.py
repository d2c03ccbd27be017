"""The crash test of event hubs: `python -m tests.crash.run --only hubs --cycles 100`.

Producers fill a hub while the broker is killed. After each start everything is read from the first event on: without
gaps, the same as any reader has ever seen, each producer's events in its order, no batch in part, and nothing missing
that was acknowledged. At the end the bulk read has to say the same.
"""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tandem.amqp import Settings
from tandem.driver import Client, run
from tandem.testing import Broker
from tests.crash.driver_workers import HOST, KEY, RULE
from tests.crash.hub_ledger import HubEvent, HubLedger
from tests.crash.hub_workers import Flood, Follower, KeyedProducer, SdkProducer, read_partition
from tests.crash.mortal import MortalBroker, Worker
from tests.patience import wait_until

__all__ = ["HubCrashTest"]

PARTITIONS: Final = 2

# Batches by the SDK that a life goes on for, with what comes on top by chance.
BATCHES_PER_LIFE: Final = 6
# Seconds. A life takes a few; the rest is for a machine that is busy.
LIFE_LIMIT_S: Final = 60.0
EARLY_DEATH: Final = 0.15
DEATH_WHILE_STARTING: Final = 0.15

# After each crash what came last before it is read again, with all that is behind it; after some of them everything is:
# to read all of it each time would take as long as all lives together.
READ_AGAIN: Final = 5_000
FULL_READ_EVERY: Final = 10

READ_LIMIT_S: Final = 300.0
JOIN_LIMIT_S: Final = 120.0


class SmallSegmentBroker(Broker):
    """`tandem serve` as it is, except that segments are small."""

    program = "from tests.crash.small_segments import main; main()"


class HubCrashTest:
    """A hub, its account, and the clients that work with it."""

    def __init__(self, data_dir: Path, cycles: int, seed: int) -> None:
        self.data_dir = data_dir
        self.cycles = cycles
        self.seed = seed
        self.random = random.Random(seed)
        self.mortal = MortalBroker(SmallSegmentBroker(data_dir))
        self.ledger = ledger = HubLedger("ingest", PARTITIONS)
        mortal = self.mortal
        mortal.on_death = ledger.record_death
        self.by_sdk = [SdkProducer(mortal, ledger, partition, seed + partition) for partition in range(PARTITIONS)]
        self.workers: list[Worker] = [
            *self.by_sdk,
            *[Flood(mortal, ledger, partition, seed + 10 + partition) for partition in range(PARTITIONS)],
            KeyedProducer(mortal, ledger, seed + 20),
            *[Follower(mortal, ledger, partition, seed + 30 + partition) for partition in range(PARTITIONS)],
        ]
        self.reads = 0
        self.full_reads = 0
        self.events_read = 0
        self.most_segments = 0

    @property
    def sdk_batches(self) -> int:
        return sum([one.sent_count for one in self.by_sdk])

    def said(self) -> str:
        return (
            f"{self.ledger.acknowledged_count:,} events acknowledged, {self.events_read:,} read, "
            f"{self.ledger.broken_count} broken promises"
        )

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        """All cycles, and the report."""
        started_at = time.monotonic()
        bulk: dict[str, Any] = {}
        with self.mortal.broker as broker:
            broker.create_hub(self.ledger.hub, partition_count=PARTITIONS, consumer_groups=["followers"])
            self.mortal.life = 1
            self.mortal.is_up.set()
            for worker in self.workers:
                worker.start()
            for cycle in range(self.cycles):
                self._live()
                with self.ledger.lock:
                    acknowledged = {producer: set(numbers) for producer, numbers in self.ledger.acknowledged.items()}
                self.mortal.die()
                self.mortal.rise(self._death_while_starting())
                self._read(is_full=cycle % FULL_READ_EVERY == 0)
                self.ledger.check_acknowledged(acknowledged)
                advance()
            self._finish()
            self._wait_for_a_sealed_segment()
            self._read(is_full=True)
            bulk = {str(partition): self._compare_bulk_read(broker, partition) for partition in range(PARTITIONS)}
        return self._report(time.monotonic() - started_at, bulk)

    def _live(self) -> None:
        # Not the first one: whatever becomes of the others, something was sent.
        if self.random.random() < EARLY_DEATH and self.mortal.life > 1:
            time.sleep(self.random.uniform(0.0, 0.3))
            return
        enough = self.sdk_batches + BATCHES_PER_LIFE
        deadline = time.monotonic() + LIFE_LIMIT_S
        while self.sdk_batches < enough and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(self.random.uniform(0.0, 0.3))

    def _death_while_starting(self) -> float | None:
        is_wanted = self.random.random() < DEATH_WHILE_STARTING
        return self.random.uniform(0.05, 1.0) if is_wanted else None

    def _finish(self) -> None:
        self.mortal.is_closing.set()
        for worker in self.workers:
            if worker.is_producer:
                worker.join(JOIN_LIMIT_S)
        self.mortal.is_over.set()
        for worker in self.workers:
            worker.join(JOIN_LIMIT_S)

    def _wait_for_a_sealed_segment(self) -> None:
        """The last read finds one, however soon each life ended."""
        wait_until(lambda: self._segment_count() > 0, "for the first sealed segment")

    def _segment_count(self) -> int:
        return len(list((self.data_dir / "hubs").glob("*/*/*.arrow")))

    def _read(self, *, is_full: bool) -> None:
        seen = [len(events) for events in self.ledger.seen]
        lengths = {
            int(place["partition"]): place["next_sequence_number"]
            for place in self.mortal.broker.partitions(self.ledger.hub)
        }
        for partition, count in enumerate(seen):
            if lengths[partition] < count:
                self.ledger.break_promise("seen_and_gone", f"{partition}: {count} seen, {lengths[partition]} there")
        firsts = [0 if is_full else max(0, self.ledger.accounted_count(one) - READ_AGAIN) for one in range(PARTITIONS)]
        self.reads += 1
        self.full_reads += int(is_full)
        self.events_read += sum(lengths[one] - first for one, first in enumerate(firsts))
        self.most_segments = max(self.most_segments, self._segment_count())

        async def read() -> None:
            settings = Settings("crash-account", user=RULE, password=KEY)
            async with await Client.connect(HOST, self.mortal.broker.port, settings) as client:
                for partition, length in lengths.items():
                    await read_partition(client, self.ledger, partition, firsts[partition], length)

        run(read())

    def _compare_bulk_read(self, broker: Broker, partition: int) -> dict[str, Any]:
        """The same events by another way: in columns, over HTTP."""
        import pyarrow

        path = f"/$api/v1/hubs/{self.ledger.hub}/partitions/{partition}/events?from=0"
        with broker.management.open("GET", path) as answer:
            table = pyarrow.ipc.open_stream(io.BytesIO(answer.read())).read_all()
        seen = self.ledger.seen[partition]
        found = [HubEvent.decode(body) for body in table.column("body").to_pylist()]
        numbers = table.column("sequenceNumber").to_pylist()
        if found != seen or numbers != list(range(len(seen))):
            self.ledger.break_promise("bulk_read", f"{partition}: {len(found)} events, {len(seen)} over AMQP")
        return {"events": len(found), "status": answer.status}

    def _report(self, seconds: float, bulk: dict[str, Any]) -> dict[str, Any]:
        figures = self.ledger.close()
        stuck = [worker.name for worker in self.workers if worker.is_alive()]
        broken = dict(self.ledger.broken)
        acknowledged = figures["acknowledged"]
        return {
            "seed": self.seed,
            "cycles": self.cycles,
            "deaths_while_starting": self.mortal.deaths_while_starting,
            "seconds": round(seconds, 1),
            "longest_start_s": round(self.mortal.longest_start_s, 2),
            "acknowledged_events": acknowledged,
            "stored_events": figures["stored"],
            "stored_again_by_the_sdk": figures["stored_again"],
            "batches_by_the_sdk": self.sdk_batches,
            "followed_events": sum([one.following for one in self.workers if isinstance(one, Follower)]),
            "reads": self.reads,
            "reads_from_the_start": self.full_reads,
            "events_read": self.events_read,
            "sealed_segments": self.most_segments,
            "bulk_read": bulk,
            "lost": len(self.ledger.broken.get("lost", [])),
            # The rule of three: with none of n, the chance of one is below 3/n, at 95 % confidence.
            "bound_on_loss": 3 / acknowledged if acknowledged and not broken else None,
            "stuck_clients": stuck,
            "broken_promises": broken,
            "is_kept": not (broken or stuck),
            "interruptions": dict(self.mortal.interruptions.most_common()),
        }
