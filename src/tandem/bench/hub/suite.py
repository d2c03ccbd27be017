"""All of `tandem bench hub`: which parts to measure, beside what, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.progress import Progress

import tandem
from tandem.bench.entities.suite import words
from tandem.bench.hub.memory import FULL_STORED_MEGABYTES, STEPS_PER_SIZE, STORED_MEGABYTES, measure_memory
from tandem.bench.hub.report import HubFigures
from tandem.bench.hub.streams import HubPeer, measure_bulk, measure_streams, stream_steps
from tandem.pages.origin import machine_text

__all__ = ["HubChoice", "measure_hubs"]

PARTS: Final = ("ingest", "read", "bulk", "memory")


@dataclass(frozen=True)
class HubChoice:
    """What the user asked for."""

    megabytes: int
    rounds: int
    parts: tuple[str, ...]
    peers: tuple[HubPeer, ...] = ()
    stored_megabytes: tuple[int, ...] = STORED_MEGABYTES

    @staticmethod
    def of(*, megabytes: int, rounds: int, only: str, peers: tuple[HubPeer, ...], is_full: bool) -> HubChoice:
        """`only` is words with commas between; a word that means nothing is a `ConfigurationError`."""
        sizes = FULL_STORED_MEGABYTES if is_full else STORED_MEGABYTES
        return HubChoice(megabytes, rounds, words("--only", only, PARTS), peers, sizes)

    @property
    def has_streams(self) -> bool:
        return "ingest" in self.parts or "read" in self.parts

    @property
    def step_count(self) -> int:
        steps = stream_steps(self.rounds, self.peers, reads="read" in self.parts) if self.has_streams else 0
        steps += (1 + self.rounds) * ("bulk" in self.parts)
        return steps + STEPS_PER_SIZE * len(self.stored_megabytes) * ("memory" in self.parts)


def measure_hubs(choice: HubChoice, progress: Progress) -> HubFigures:
    figures = HubFigures(machine=machine_text(), form=tandem.form(), megabytes=choice.megabytes, rounds=choice.rounds)
    task = progress.add_task("starting", total=choice.step_count)

    def advance(what: str) -> None:
        progress.update(task, advance=1, description=what)

    if choice.has_streams:
        ingest, figures.read = measure_streams(
            choice.megabytes, choice.rounds, choice.peers, reads="read" in choice.parts, advance=advance
        )
        figures.ingest = ingest if "ingest" in choice.parts else {}
    if "bulk" in choice.parts:
        figures.bulk = measure_bulk(choice.megabytes, choice.rounds, advance)
    if "memory" in choice.parts:
        figures.memory = measure_memory(choice.stored_megabytes, advance)
    return figures
