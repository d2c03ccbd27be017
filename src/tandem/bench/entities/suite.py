"""All of `tandem bench queue`: which parts to measure, beside what, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.progress import Progress

import tandem
from tandem.bench.entities.backlog import BACKLOGS, FULL_BACKLOGS, measure_backlog
from tandem.bench.entities.operations import measure_operations, operation_steps
from tandem.bench.entities.queue import QueueBenchmark, ratios
from tandem.bench.entities.report import Figures
from tandem.bench.measuring import machine
from tandem.bench.measuring.contender import PEER_TYPES, started_contenders
from tandem.errors import ConfigurationError
from tandem.pages.origin import machine_text

__all__ = ["Choice", "measure_queues", "words"]

PARTS: Final = ("rates", "latency", "backlog", "connections", "entities", "operations")
# Those that have brokers of their own.
APART: Final = {"backlog", "operations"}

# Connections. What the service allows a client on one namespace, and a sample of it that takes a second.
IDLE_CONNECTIONS: Final = 500
FULL_IDLE_CONNECTIONS: Final = 5_000

# How often a backlog of one size reports where it is.
STEPS_PER_BACKLOG: Final = 3


@dataclass(frozen=True)
class Choice:
    """What the user asked for."""

    messages: int
    body_bytes: int
    rounds: int
    load_generator: str | None
    parts: tuple[str, ...]
    peer_types: tuple[str, ...]
    is_full: bool

    @staticmethod
    def of(
        *,
        messages: int,
        body_bytes: int,
        rounds: int,
        load_generator: str | None,
        only: str,
        against: str,
        is_full: bool,
    ) -> Choice:
        """`only` and `against` are words with commas between; a word that means nothing is a `ConfigurationError`."""
        parts = words("--only", only, PARTS)
        peer_types = () if against == "none" else words("--against", against, PEER_TYPES)
        return Choice(messages, body_bytes, rounds, load_generator, parts, peer_types, is_full)


def words(option: str, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Words with commas between; one that is not allowed is a `ConfigurationError`."""
    given = tuple(word.strip() for word in text.split(","))
    for word in given:
        if word not in allowed:
            raise ConfigurationError(f"{option} {word!r} is not one of {', '.join(allowed)}")
    return given


def measure_queues(choice: Choice, progress: Progress) -> Figures:
    figures = Figures(
        machine=machine_text(),
        form=tandem.form(),
        load_generator="tandem.bench.load.traffic"
        if choice.load_generator is None
        else Path(choice.load_generator).name,
        messages=choice.messages,
        body_bytes=choice.body_bytes,
        rounds=choice.rounds,
    )
    # Before the children start: they inherit it.
    machine.allow_open_files(2 * FULL_IDLE_CONNECTIONS)
    task = progress.add_task("starting the brokers", total=None)

    def advance(what: str) -> None:
        progress.update(task, advance=1, description=what)

    backlogs = FULL_BACKLOGS if choice.is_full else BACKLOGS
    apart = STEPS_PER_BACKLOG * len(backlogs) * ("backlog" in choice.parts)
    apart += operation_steps(choice.rounds) * ("operations" in choice.parts)
    progress.update(task, total=apart)
    if set(choice.parts) - APART:
        with started_contenders(choice.peer_types, QueueBenchmark.queues, progress.console.print) as contenders:
            benchmark = QueueBenchmark(contenders, choice.messages, choice.body_bytes, advance)
            steps = benchmark.step_count(choice.parts, choice.rounds, choice.load_generator)
            progress.update(task, total=steps + apart)
            _measure_side_by_side(benchmark, choice, figures)
    if "backlog" in choice.parts:
        figures.backlog = measure_backlog(backlogs, choice.body_bytes, advance)
    if "operations" in choice.parts:
        figures.operations, figures.operations_ratio = measure_operations(
            choice.messages, choice.body_bytes, choice.rounds, advance
        )
    return figures


def _measure_side_by_side(benchmark: QueueBenchmark, choice: Choice, figures: Figures) -> None:
    if "rates" in choice.parts:
        figures.rates = benchmark.rates(choice.rounds, choice.load_generator)
        figures.ratios = ratios(figures.rates)
    if "latency" in choice.parts:
        figures.latency = benchmark.latency(choice.rounds)
    if "connections" in choice.parts:
        figures.connections = benchmark.connections()
        idle = FULL_IDLE_CONNECTIONS if choice.is_full else IDLE_CONNECTIONS
        figures.idle_connections = benchmark.idle_connections(idle)
    if "entities" in choice.parts:
        figures.entities = benchmark.entities()
