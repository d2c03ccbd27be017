"""`tandem bench queue`: durable queues of Tandem beside those of RabbitMQ, with the same load, in one run.

All brokers are up the whole time and never loaded at the same time. They take turns within a round, so that a busy
moment of the machine hits all of them alike.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from tandem.bench.load.job import Job
from tandem.bench.measuring import machine
from tandem.bench.measuring.contender import TANDEM, Contender, run_job, run_load_generator, tandem_broker
from tandem.bench.measuring.peers import BenchmarkFailed

__all__ = [
    "ENTITY_QUEUES",
    "MODES",
    "Advance",
    "QueueBenchmark",
    "ratios",
]

# Called before each step, with what it is about to measure.
Advance = Callable[[str], None]

# Rates of every contender, by mode, a figure per round.
Rates = dict[str, dict[str, list[float]]]

MODES: Final = ("send", "recv", "both")
# Receive and complete, with each completion confirmed after its fsync, as the official SDKs ask for. RabbitMQ's plugin
# does not know this settle mode, so it has no ratio.
CONFIRMED: Final = "recv-confirmed"

CONNECTION_COUNTS: Final = (1, 4, 16, 64)
ENTITY_COUNTS: Final = (1, 10, 100)
ENTITY_QUEUES: Final = tuple(f"entity-{number}" for number in range(max(ENTITY_COUNTS)))

# Messages per second of the fixed load: well below what any of the contenders can do, so that nothing piles up.
FIXED_LOAD_PER_SECOND: Final = 1_000
FIXED_LOAD_S: Final = 3
ROUND_TRIPS: Final = 500

RATES_QUEUE: Final = "rates"
LATENCY_QUEUE: Final = "latency"
LOAD_QUEUE: Final = "fixed-load"
IDLE_QUEUE: Final = "idle"


class QueueBenchmark:
    """The measurements over contenders that are up. Each returns figures that can be written as JSON."""

    #: What every contender must have.
    queues: Final = (RATES_QUEUE, LATENCY_QUEUE, LOAD_QUEUE, *ENTITY_QUEUES)

    def __init__(self, contenders: Sequence[Contender], count: int, body_bytes: int, advance: Advance) -> None:
        self.contenders = contenders
        self.count = count
        self.body_bytes = body_bytes
        self.advance = advance

    def _job(self, contender: Contender, kind: str, *queues: str, **fields: Any) -> Job:
        addresses = [contender.address(queue) for queue in queues]
        return Job(kind=kind, peer=contender.peer, addresses=addresses, body_bytes=self.body_bytes, **fields)

    def step_count(self, parts: Sequence[str], rounds: int, load_generator: str | None) -> int:
        """How often `advance` will be called, for a progress bar."""
        contenders = len(self.contenders)
        steps = {
            "rates": rounds * (len(MODES) * contenders + (load_generator is None)),
            "latency": rounds * contenders,
            "connections": len(CONNECTION_COUNTS) * contenders + 2,
            "entities": len(ENTITY_COUNTS) * contenders,
        }
        return sum(steps.get(part, 0) for part in parts)

    # --- rates ------------------------------------------------------------------------------------------------------

    def rates(self, rounds: int, load_generator: str | None) -> Rates:
        """Sends, receives with completion, both at once. What is sent in a round is received in it."""
        rates: Rates = {contender.name: {} for contender in self.contenders}
        for round_number in range(rounds):
            for mode in MODES:
                for contender in self.contenders:
                    self.advance(f"round {round_number + 1}: {contender.name}, {mode}")
                    rate = self._rate(contender, mode, load_generator)
                    rates[contender.name].setdefault(mode, []).append(rate)
            if load_generator is None:
                self.advance(f"round {round_number + 1}: {TANDEM}, {CONFIRMED}")
                rates[TANDEM].setdefault(CONFIRMED, []).append(self._confirmed_rate(self.contenders[0]))
        return rates

    def _rate(self, contender: Contender, mode: str, load_generator: str | None) -> float:
        job = self._job(contender, "rate", RATES_QUEUE, mode=mode, count=self.count)
        rate = (
            run_job(job)["messages_per_second"] if load_generator is None else run_load_generator(load_generator, job)
        )
        if mode != "send":
            contender.require_empty(RATES_QUEUE)
        return rate

    def _confirmed_rate(self, contender: Contender) -> float:
        self._rate(contender, "send", None)
        job = self._job(contender, "rate", RATES_QUEUE, mode="recv", count=self.count, is_confirmed=True)
        return run_job(job)["messages_per_second"]

    # --- latency ----------------------------------------------------------------------------------------------------

    def latency(self, rounds: int) -> dict[str, dict[str, float]]:
        """One message at a time, and at a fixed load, beside what the machine itself needs. Medians over rounds."""
        seen: dict[str, list[dict[str, float]]] = {"machine": []}
        for round_number in range(rounds):
            for contender in self.contenders:
                self.advance(f"latency, round {round_number + 1}: {contender.name}")
                # Right before each, since a disk is now faster and now slower.
                own = self._machine_latency()
                figures = self._contender_latency(contender)
                figures["times_the_machine"] = figures["send_p50_ms"] / own["send_p50_ms"]
                seen["machine"].append(own)
                seen.setdefault(contender.name, []).append(figures)
        return {
            name: {figure: median(one[figure] for one in figures) for figure in figures[0]}
            for name, figures in seen.items()
        }

    def _machine_latency(self) -> dict[str, float]:
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
            figures = machine.fdatasync_latency(Path(folder), ROUND_TRIPS, self.body_bytes)
        figures |= machine.loopback_latency(ROUND_TRIPS, self.body_bytes)
        for percent in ("p50", "p99"):
            figures[f"send_{percent}_ms"] = figures[f"fdatasync_{percent}_ms"] + figures[f"loopback_{percent}_ms"]
        return figures

    def _contender_latency(self, contender: Contender) -> dict[str, float]:
        alone = run_job(self._job(contender, "round-trips", LATENCY_QUEUE, count=ROUND_TRIPS))
        loaded = run_job(
            self._job(
                contender,
                "fixed-load",
                LOAD_QUEUE,
                count=FIXED_LOAD_PER_SECOND * FIXED_LOAD_S,
                rate_per_second=FIXED_LOAD_PER_SECOND,
            )
        )
        return {**alone, **{f"loaded_{name}": value for name, value in loaded.items()}}

    # --- rate against connections and entities ----------------------------------------------------------------------

    def connections(self) -> dict[str, dict[int, float]]:
        """Both at once over so many senders and as many receivers, on one queue."""
        rates: dict[str, dict[int, float]] = {contender.name: {} for contender in self.contenders}
        for connections in CONNECTION_COUNTS:
            for contender in self.contenders:
                self.advance(f"{connections} connections: {contender.name}")
                job = self._job(contender, "rate", RATES_QUEUE, mode="both", count=self.count, connections=connections)
                rates[contender.name][connections] = run_job(job)["messages_per_second"]
                contender.require_empty(RATES_QUEUE)
        return rates

    def entities(self) -> dict[str, dict[int, float]]:
        """Both at once over so many queues, with all senders on one connection and all receivers on another."""
        rates: dict[str, dict[int, float]] = {contender.name: {} for contender in self.contenders}
        for entities in ENTITY_COUNTS:
            for contender in self.contenders:
                self.advance(f"{entities} queues: {contender.name}")
                job = self._job(contender, "rate", *ENTITY_QUEUES[:entities], mode="both", count=self.count)
                rates[contender.name][entities] = run_job(job)["messages_per_second"]
        return rates

    # --- idle connections -------------------------------------------------------------------------------------------

    def idle_connections(self, count: int) -> dict[str, float]:
        """Memory of a connection that does nothing, and what another client notices of all of them.

        On a broker of its own: one that has been busy has memory to spare, and idle connections would seem to need
        none.
        """
        with tandem_broker((RATES_QUEUE, LATENCY_QUEUE, IDLE_QUEUE)) as tandem:
            trips = self._job(tandem, "round-trips", LATENCY_QUEUE, count=ROUND_TRIPS)
            self.advance("one client alone")
            alone = run_job(trips)
            before_bytes = machine.resident_bytes(tandem.broker.pid)
            self.advance(f"one client beside {count} idle connections")
            with _held(self._job(tandem, "hold", IDLE_QUEUE, connections=count)) as held:
                held_bytes = machine.resident_bytes(tandem.broker.pid)
                beside = run_job(trips)
                both = run_job(self._job(tandem, "rate", RATES_QUEUE, mode="both", count=self.count))
        return {
            "connections": count,
            "alive": held["alive"],
            "bytes_each": (held_bytes - before_bytes) / count,
            "send_p50_ms_alone": alone["send_p50_ms"],
            "send_p50_ms_beside": beside["send_p50_ms"],
            "both_per_second_beside": both["messages_per_second"],
        }


@contextlib.contextmanager
def _held(job: Job) -> Iterator[dict[str, float]]:
    """Idle connections as long as the context lasts. What is handed out is filled at its end."""
    command = [sys.executable, "-m", "tandem.bench.load.traffic", msgspec.json.encode(job).decode()]
    figures: dict[str, float] = {}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "held\n":
            raise BenchmarkFailed(f"{job.connections} idle connections could not be made: {process.communicate()[1]}")
        try:
            yield figures
        finally:
            output, errors = process.communicate("")
        if process.returncode:
            raise BenchmarkFailed(f"the idle connections did not end well: {errors}")
        figures |= msgspec.json.decode(output, type=dict[str, float])


def ratios(rates: Rates) -> dict[str, dict[str, float]]:
    """How many times as fast as each peer Tandem is, by mode: the ratio of the medians."""
    ours = rates[TANDEM]
    return {
        name: {mode: median(ours[mode]) / median(figures) for mode, figures in modes.items()}
        for name, modes in rates.items()
        if name != TANDEM
    }
