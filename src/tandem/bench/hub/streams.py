"""`tandem bench hub`: event hubs of Tandem beside the disk that they lie on, and beside other logs that are given.

    ingest   events sent singly and in batches, and the same bytes written to disk with the same syncs, in turn
    read     the same events read again over AMQP, from disk
    bulk     sealed events read as columns over HTTP, from disk
    memory   what the broker holds, and how long it takes to start, against what is stored

Each figure of ingest and read is from a broker of its own, over an empty folder: what an earlier one has left to seal
must not count.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec

from tandem.bench.hub.folder import HubFolder, sequential_write_s
from tandem.bench.hub.traffic import HubJob
from tandem.bench.load.job import Peer
from tandem.bench.measuring import machine
from tandem.bench.measuring.contender import TandemBroker, run_program, tandem_broker

__all__ = [
    "CASES",
    "MEGABYTE",
    "PARTITIONS",
    "Bulk",
    "Case",
    "HubBroker",
    "HubPeer",
    "Ingest",
    "Read",
    "hub_broker",
    "measure_bulk",
    "measure_streams",
    "stream_steps",
]

HUB: Final = "events"
PARTITIONS: Final = 4

# Bytes, as disks are measured.
MEGABYTE: Final = 1_000_000

# Events sent singly for each megabyte that is sent in batches: each of them costs a hundred times as much.
SINGLE_EVENTS_PER_MEGABYTE: Final = 1_000

Advance = Callable[[str], None]


class Case(NamedTuple):
    """Events of a size, singly or so many in a batch."""

    body_bytes: int
    batch_events: int

    @property
    def name(self) -> str:
        size = f"{self.body_bytes // 1024} KB" if self.body_bytes >= 1024 else f"{self.body_bytes} B"
        return size if self.batch_events == 1 else f"{size} × {self.batch_events}"

    def events(self, megabytes: int) -> int:
        """For so many megabytes: the same number for each partition, in whole batches."""
        per_megabyte = SINGLE_EVENTS_PER_MEGABYTE if self.batch_events == 1 else MEGABYTE // self.body_bytes
        whole = self.batch_events * PARTITIONS
        return max(1, megabytes * per_megabyte // whole) * whole

    def megabytes(self, events: float) -> float:
        return events * self.body_bytes / MEGABYTE


CASES: Final = (Case(100, 1), Case(100, 100), Case(1024, 1), Case(1024, 100))
BULK_CASE: Final = Case(100, 100)


class Ingest(msgspec.Struct, kw_only=True):
    """Events of one case that were sent: medians over the rounds."""

    events: int
    events_per_second: float
    megabytes_per_second: float
    # The same bytes written to disk by nobody but us, with as many bytes to a sync; and how many times that ours is,
    # round by round.
    disk_megabytes_per_second: float
    disk_ratio: float
    commit_kilobytes: float
    # Events per second of other logs, by name, and how many times theirs ours are.
    peers: dict[str, float] = {}
    peer_ratios: dict[str, float] = {}


class Read(msgspec.Struct, kw_only=True):
    """Events of one case that were read again over AMQP: medians over the rounds."""

    events_per_second: float
    megabytes_per_second: float


class Bulk(msgspec.Struct, kw_only=True):
    """Events that were read as columns: medians over the rounds."""

    events: int
    # Too few for a segment are read from the journal, which costs a multiple for each.
    is_sealed: bool
    events_per_second: float
    megabytes_per_second: float
    # Of one that the broker would have for itself, by the CPU time that it took.
    events_per_second_per_core: float


class HubPeer(contextlib.AbstractContextManager["HubPeer"]):
    """Another log that takes events. It is up while it is entered, and never loaded at the same time as another."""

    name: str

    def events_per_second(self, case: Case, events: int) -> float:
        """How fast it takes so many events, or as many of them as it takes in some seconds."""
        raise NotImplementedError


class HubBroker:
    """A Tandem with one hub."""

    def __init__(self, tandem: TandemBroker) -> None:
        self.broker = tandem.broker
        self.broker.create_hub(HUB, partition_count=PARTITIONS)
        self.folder = HubFolder(self.broker, HUB)
        self._peer = tandem.peer

    def ingest(self, case: Case, events: int) -> dict[str, float]:
        return self._run("ingest", self._peer, [events // PARTITIONS] * PARTITIONS, case)

    def stored_events(self) -> list[int]:
        """Of each partition."""
        return [partition["next_sequence_number"] for partition in self.broker.partitions(HUB)]

    def read(self, case: Case) -> dict[str, float]:
        """All events, from disk."""
        self.folder.evict()
        return self._run("read", self._peer, self.stored_events(), case)

    def read_bulk(self, events: Sequence[int]) -> dict[str, float]:
        """So many of each partition, from disk."""
        self.folder.evict()
        return self._run("bulk", self._peer, events, BULK_CASE)

    def _run(self, kind: str, peer: Peer, events: Sequence[int], case: Case) -> dict[str, float]:
        job = HubJob(
            kind=kind,
            peer=peer,
            hub=HUB,
            events=list(events),
            body_bytes=case.body_bytes,
            batch_events=case.batch_events,
        )
        return run_program("tandem.bench.hub.traffic", job)


@contextlib.contextmanager
def hub_broker() -> Iterator[HubBroker]:
    with tandem_broker(()) as tandem:
        yield HubBroker(tandem)


# --- ingest and read ------------------------------------------------------------------------------------------------


class _Round(NamedTuple):
    """Seconds of one case in one round, and events per second of others."""

    ingest_s: float
    disk_s: float
    commit_bytes: float
    read_s: float | None
    peers: dict[str, float]


def measure_streams(
    megabytes: int, rounds: int, peers: Sequence[HubPeer], *, reads: bool, advance: Advance
) -> tuple[dict[str, Ingest], dict[str, Read]]:
    """By case. Cases take turns within a round, and so do brokers and the disk within a case."""
    seen: dict[Case, list[_Round]] = {case: [] for case in CASES}
    with contextlib.ExitStack() as stack:
        for peer in peers:
            stack.enter_context(peer)
        for round_number in range(rounds):
            for case in CASES:
                name = f"round {round_number + 1}: {case.name}"
                seen[case].append(_measure(case, case.events(megabytes), peers, reads, name, advance))
    ingest = {case.name: _ingest_figures(case, case.events(megabytes), of_case) for case, of_case in seen.items()}
    read = {case.name: _read_figures(case, case.events(megabytes), of_case) for case, of_case in seen.items() if reads}
    return ingest, read


def stream_steps(rounds: int, peers: Sequence[HubPeer], *, reads: bool) -> int:
    """How often `measure_streams` will call `advance`."""
    return rounds * len(CASES) * (2 + reads + len(peers))


def _measure(case: Case, events: int, peers: Sequence[HubPeer], reads: bool, name: str, advance: Advance) -> _Round:
    with hub_broker() as hub:
        advance(f"{name}, sending")
        ingest_s = hub.ingest(case, events)["seconds"]
        pattern = hub.folder.write_pattern()
        read_s = None
        if reads:
            advance(f"{name}, reading")
            hub.folder.wait_until_sealed()
            read_s = hub.read(case)["seconds"]
    advance(f"{name}, the disk")
    size_bytes = int(pattern.record_bytes * (events // case.batch_events))
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        disk_s = sequential_write_s(Path(folder), size_bytes, int(pattern.commit_bytes))
    peer_rates: dict[str, float] = {}
    for peer in peers:
        advance(f"{name}, {peer.name}")
        peer_rates[peer.name] = peer.events_per_second(case, events)
    return _Round(ingest_s, disk_s, pattern.commit_bytes, read_s, peer_rates)


def _ingest_figures(case: Case, events: int, rounds: Sequence[_Round]) -> Ingest:
    ingest_s = median(one.ingest_s for one in rounds)
    peers = {name: median(one.peers[name] for one in rounds) for name in rounds[0].peers}
    return Ingest(
        events=events,
        events_per_second=events / ingest_s,
        megabytes_per_second=case.megabytes(events / ingest_s),
        disk_megabytes_per_second=case.megabytes(events / median(one.disk_s for one in rounds)),
        disk_ratio=median(one.disk_s / one.ingest_s for one in rounds),
        commit_kilobytes=median(one.commit_bytes for one in rounds) / 1000,
        peers=peers,
        peer_ratios={name: events / ingest_s / rate for name, rate in peers.items()},
    )


def _read_figures(case: Case, events: int, rounds: Sequence[_Round]) -> Read:
    rate = events / median(one.read_s for one in rounds if one.read_s is not None)
    return Read(events_per_second=rate, megabytes_per_second=case.megabytes(rate))


# --- bulk -----------------------------------------------------------------------------------------------------------


def measure_bulk(megabytes: int, rounds: int, advance: Advance) -> Bulk:
    """One broker, whose sealed events are read once in each round."""
    with hub_broker() as hub:
        advance("bulk: filling")
        hub.ingest(BULK_CASE, BULK_CASE.events(megabytes))
        hub.folder.wait_until_sealed()
        sealed = hub.folder.sealed_events()
        wanted = sealed if any(sealed) else hub.stored_events()
        events = sum(wanted)
        wall_s: list[float] = []
        cpu_s: list[float] = []
        for round_number in range(rounds):
            advance(f"bulk: reading, round {round_number + 1}")
            before_s = machine.cpu_seconds(hub.broker.pid)
            wall_s.append(hub.read_bulk(wanted)["seconds"])
            cpu_s.append(machine.cpu_seconds(hub.broker.pid) - before_s)
    rate = events / median(wall_s)
    return Bulk(
        events=events,
        is_sealed=any(sealed),
        events_per_second=rate,
        megabytes_per_second=BULK_CASE.megabytes(rate),
        events_per_second_per_core=events / median(cpu_s),
    )
