"""Memory, receive rate and restart of Tandem against the number of messages that wait in a queue."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Final

from tandem.bench.load.job import Job
from tandem.bench.measuring import machine
from tandem.bench.measuring.contender import TandemBroker, run_job, tandem_broker

__all__ = ["BACKLOGS", "FULL_BACKLOGS", "measure_backlog"]

# Messages. The full ones take minutes and some gigabytes of disk.
BACKLOGS: Final = (1_000, 20_000, 50_000)
FULL_BACKLOGS: Final = (1_000, 100_000, 1_000_000)

# Messages that are received to know the rate: a short queue holds so many, and is emptied. Of a long one a tenth is
# received, if that is more, so that what is kept in memory at its head is passed.
SLICE: Final = 10_000

# Short and long take turns, so that a busy moment of the machine hits both alike; the medians count.
TURNS: Final = 3

QUEUE: Final = "backlog"
SHORT_QUEUE: Final = "short"
MEGABYTE: Final = 1_048_576


def measure_backlog(sizes: tuple[int, ...], body_bytes: int, advance: Callable[[str], None]) -> list[dict[str, float]]:
    """One broker per size, over a fresh folder: what an earlier backlog left in memory must not count."""
    return [_measure(size, body_bytes, advance) for size in sizes]


def _measure(size: int, body_bytes: int, advance: Callable[[str], None]) -> dict[str, float]:
    with tandem_broker((QUEUE, SHORT_QUEUE)) as tandem:
        figures: dict[str, float] = {"messages": size}
        advance(f"backlog of {size:,}: filling")
        figures["send_per_second"] = _run(tandem, "send", QUEUE, size, body_bytes)
        figures["resident_mb"] = machine.resident_bytes(tandem.broker.pid) / MEGABYTE
        peak_bytes = machine.peak_resident_bytes(tandem.broker.pid)

        advance(f"backlog of {size:,}: restart")
        tandem.broker.stop()
        figures["restart_s"] = _start(tandem)
        figures["resident_mb_after_restart"] = machine.resident_bytes(tandem.broker.pid) / MEGABYTE
        tandem.broker.kill()
        figures["restart_s_after_kill"] = _start(tandem)

        advance(f"backlog of {size:,}: receiving")
        figures |= _receive(tandem, size, body_bytes)
        figures["resident_mb_after_receiving"] = machine.resident_bytes(tandem.broker.pid) / MEGABYTE
        figures["peak_mb"] = max(peak_bytes, machine.peak_resident_bytes(tandem.broker.pid)) / MEGABYTE
        return figures


def _receive(tandem: TandemBroker, size: int, body_bytes: int) -> dict[str, float]:
    """Rates of receiving with completion: at the head of the backlog, and from a queue that holds little."""
    count = min(max(SLICE, size // (10 * TURNS)), size // TURNS)
    long: list[float] = []
    short: list[float] = []
    for _ in range(TURNS):
        _run(tandem, "send", SHORT_QUEUE, SLICE, body_bytes)
        short.append(_run(tandem, "recv", SHORT_QUEUE, SLICE, body_bytes))
        tandem.require_empty(SHORT_QUEUE)
        long.append(_run(tandem, "recv", QUEUE, count, body_bytes))
    return {"receive_per_second": median(long), "short_receive_per_second": median(short)}


def _start(tandem: TandemBroker) -> float:
    """Seconds from the start of the process until a client has the first message of the backlog, and gives it back."""
    started_at = time.monotonic()
    tandem.broker.start()
    ready_s = time.monotonic() - started_at
    # The first message, by a client whose own start is not the broker's.
    figures = run_job(Job(kind="first", peer=tandem.peer, addresses=[QUEUE]))
    return ready_s + figures["seconds"]


def _run(tandem: TandemBroker, mode: str, queue: str, count: int, body_bytes: int) -> float:
    job = Job(kind="rate", peer=tandem.peer, addresses=[queue], mode=mode, count=count, body_bytes=body_bytes)
    return run_job(job)["messages_per_second"]
