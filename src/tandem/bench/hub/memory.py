"""What a broker holds in memory, and how long it takes to start, against the bytes that its hubs store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from tandem.bench.hub.streams import MEGABYTE, Case, HubBroker, hub_broker
from tandem.bench.measuring import machine

__all__ = ["FULL_STORED_MEGABYTES", "STEPS_PER_SIZE", "STORED_MEGABYTES", "Memory", "measure_memory"]

# Megabytes. The full ones take some minutes, and twice as much of the disk while they are sealed.
STORED_MEGABYTES: Final = (100, 300, 1_000)
FULL_STORED_MEGABYTES: Final = (100, 1_000, 10_000)

# How often each size reports where it is.
STEPS_PER_SIZE: Final = 4

MEMORY_CASE: Final = Case(1024, 100)


class Memory(msgspec.Struct, kw_only=True):
    """A broker with so much in its hub."""

    stored_megabytes: float
    # Of the broker: when all is stored and sealed, at most until then, and when all of it has been read in bulk.
    resident_megabytes: float
    peak_megabytes: float
    # Without what is mapped of files, which the system takes back when it has use for it.
    read_megabytes: float
    # Of the process that seals, at most.
    sealer_peak_megabytes: float
    # What of the journal is left when all is sealed: a start reads it.
    journal_megabytes: float
    restart_s: float
    restart_s_after_kill: float


def measure_memory(sizes: tuple[int, ...], advance: Callable[[str], None]) -> list[Memory]:
    """One hub that grows. The broker starts anew after each size, so that a peak is that of the growth to it."""
    with hub_broker() as hub:
        return [_measure(hub, size, advance) for size in sizes]


def _measure(hub: HubBroker, size: int, advance: Callable[[str], None]) -> Memory:
    name = f"{size:,} MB stored"
    advance(f"{name}: sending")
    missing = MEMORY_CASE.events(size) - sum(hub.stored_events())
    hub.ingest(MEMORY_CASE, missing)
    advance(f"{name}: sealing")
    hub.folder.wait_until_sealed()
    broker = hub.broker
    resident_bytes = machine.resident_bytes(broker.pid)
    peak_bytes = machine.peak_resident_bytes(broker.pid)
    sealers_bytes = [machine.peak_resident_bytes(pid) for pid in machine.child_pids(broker.pid)]
    advance(f"{name}: reading")
    hub.read_bulk(hub.stored_events())
    read_bytes = machine.anonymous_bytes(broker.pid)
    advance(f"{name}: restarting")
    broker.stop()
    restart_s = _start_s(hub)
    broker.kill()
    restart_s_after_kill = _start_s(hub)
    return Memory(
        stored_megabytes=MEMORY_CASE.megabytes(sum(hub.stored_events())),
        resident_megabytes=resident_bytes / MEGABYTE,
        peak_megabytes=peak_bytes / MEGABYTE,
        read_megabytes=read_bytes / MEGABYTE,
        sealer_peak_megabytes=max(sealers_bytes, default=0) / MEGABYTE,
        journal_megabytes=hub.folder.journal_bytes / MEGABYTE,
        restart_s=restart_s,
        restart_s_after_kill=restart_s_after_kill,
    )


def _start_s(hub: HubBroker) -> float:
    """Seconds from the start of the process until it says where the partitions stand."""
    started_at = time.monotonic()
    hub.broker.start()
    hub.stored_events()
    return time.monotonic() - started_at
