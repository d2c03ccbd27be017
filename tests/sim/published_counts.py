"""What a read of counts must find, at every step: the messages of the last commit, each in one place.

The ledger knows where every message is by what is decided. These books know where it was by what is on disk, and that
is what a read must report, of all entities at once: a message that is on its way from one to another is counted where
it was until the commit, and where it comes to from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.ledger import Entry
    from tests.sim.world import World

__all__ = ["PublishedCounts", "judge_counts"]

# The stream and the state of a message. A stream below zero: there is no such message.
Place = tuple[int, int]


Counts = tuple[int, int, int]

_NONE: Final[Counts] = (0, 0, 0)


class PublishedCounts:
    """Messages on disk, by stream: how many are active, deferred and scheduled."""

    def __init__(self) -> None:
        self._places: dict[Entry, Place] = {}
        self.by_stream: dict[int, Counts] = {}

    def commit(self, entry: Entry, place: Place) -> None:
        """Note where a message is after a commit that changed it."""
        before = self._places.pop(entry, None)
        if before is not None:
            self._add(before, -1)
        if place[0] >= 0:
            self._places[entry] = place
            self._add(place, 1)

    def _add(self, place: Place, by: int) -> None:
        stream, state = place
        counts = list(self.by_stream.get(stream, _NONE))
        counts[state] += by
        self.by_stream[stream] = (counts[0], counts[1], counts[2])


def judge_counts(world: World) -> None:
    """Read the counts of all entities, as a manager could at this moment, and compare them with what is on disk."""
    expected = world.ledger.published.by_stream
    for number, queue in world.namespace._by_number.items():
        if number not in world.ledger.books:
            continue
        for subqueue in queue.subqueues():
            counts = subqueue.counts
            actual = (counts.active, counts.deferred, counts.scheduled)
            if actual != expected.get(subqueue.stream, _NONE):
                raise Violation(
                    "a read sees the counts of the last commit",
                    f"{subqueue.path} says {actual} instead of {expected.get(subqueue.stream, _NONE)}",
                )
