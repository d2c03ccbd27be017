"""What happened in a drill, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem.pairing import FailoverState, PairingEvent

__all__ = ["Chronicle"]


@dataclass
class Chronicle:
    """Moments are seconds on a clock that is never set."""

    started_s: float = 0.0
    # The outage.
    began_s: float = 0.0
    returned_s: float = 0.0
    ended_s: float = 0.0
    events: list[tuple[float, PairingEvent]] = field(default_factory=list)
    # Each entity's states, as far as they changed.
    changes: list[tuple[float, str, FailoverState]] = field(default_factory=list)
    _states: dict[str, FailoverState] = field(default_factory=dict)

    def note_event(self, event: PairingEvent, at_s: float) -> None:
        self.events.append((at_s, event))

    def note_states(self, states: Mapping[str, FailoverState], at_s: float) -> None:
        """That an entity recovers before it fails over is not told as an event: it is looked for."""
        for entity, state in states.items():
            if self._states.get(entity) is not state:
                self._states[entity] = state
                self.changes.append((at_s, entity, state))

    @property
    def away(self) -> set[str]:
        """Entities that were not healthy when they were last looked at."""
        return {entity for entity, state in self._states.items() if state is not FailoverState.HEALTHY}

    def of(self, name: str) -> list[tuple[float, PairingEvent]]:
        return [one for one in self.events if one[1]["event"] == name]

    def counts(self, name: str) -> list[tuple[float, int]]:
        """How many messages an event was about, each time."""
        return [(at_s, count) for at_s, event in self.of(name) if isinstance(count := event["count"], int)]

    def total(self, name: str) -> int:
        return sum(count for _, count in self.counts(name))

    def first_s(self, name: str) -> float | None:
        return min((at_s for at_s, _ in self.of(name)), default=None)

    def last_s(self, name: str) -> float | None:
        return max((at_s for at_s, _ in self.of(name)), default=None)

    @property
    def failed_over(self) -> set[str]:
        """Entities whose messages took the detour."""
        return {str(event["entity"]) for _, event in self.of("failed-over")}
