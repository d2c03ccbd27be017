"""One facet over time: well, strained, overloaded, easing. The transitions are a table.

WELL ── passed ──▶ STRAINED ── passed for long ──▶ OVERLOADED ── kept ──▶ EASING ── kept for long ──▶ WELL
  ▲                   │ kept                            ▲                    │ not kept
  └───────────────────┘                                 └────────────────────┘
"""

from __future__ import annotations

import enum
from itertools import product
from typing import Final

from tandem.server.health.facet import Facet, Limit

__all__ = ["TRANSITIONS", "Condition", "Gauge", "Reading"]


class Condition(enum.Enum):
    """How a facet is."""

    WELL = "well"
    # The limit is passed, not for long yet.
    STRAINED = "strained"
    OVERLOADED = "overloaded"
    # Back within the limit, not for long yet: requests are still refused.
    EASING = "easing"


class Reading(enum.Enum):
    """What a measured value says."""

    KEPT = "kept"
    # Neither past the limit nor clearly within it.
    BETWEEN = "between"
    PASSED = "passed"


# By condition, reading, and whether the condition has lasted for the sustained time.
TRANSITIONS: Final[dict[tuple[Condition, Reading, bool], Condition]] = {
    # Where nothing else is said, it stays as it is.
    **{
        (condition, reading, is_long): condition
        for condition, reading, is_long in product(Condition, Reading, (False, True))
    },
    (Condition.WELL, Reading.PASSED, False): Condition.STRAINED,
    (Condition.WELL, Reading.PASSED, True): Condition.STRAINED,
    (Condition.STRAINED, Reading.KEPT, False): Condition.WELL,
    (Condition.STRAINED, Reading.KEPT, True): Condition.WELL,
    (Condition.STRAINED, Reading.PASSED, True): Condition.OVERLOADED,
    (Condition.OVERLOADED, Reading.KEPT, False): Condition.EASING,
    (Condition.OVERLOADED, Reading.KEPT, True): Condition.EASING,
    (Condition.EASING, Reading.BETWEEN, False): Condition.OVERLOADED,
    (Condition.EASING, Reading.BETWEEN, True): Condition.OVERLOADED,
    (Condition.EASING, Reading.PASSED, False): Condition.OVERLOADED,
    (Condition.EASING, Reading.PASSED, True): Condition.OVERLOADED,
    (Condition.EASING, Reading.KEPT, True): Condition.WELL,
}


class Gauge:
    """The present value of a facet, and its condition. Without a limit it is always well."""

    def __init__(self, facet: Facet, limit: Limit | None, sustained_s: float, now_s: float) -> None:
        self.facet = facet
        self.limit = limit
        self.value = 0.0
        self.condition = Condition.WELL
        # When the condition began.
        self.since_s = now_s
        self._sustained_s = sustained_s

    @property
    def is_overloaded(self) -> bool:
        """Whether requests are refused because of it."""
        return self.condition in {Condition.OVERLOADED, Condition.EASING}

    def measure(self, value: float, now_s: float) -> bool:
        """Take a new value. Returns whether requests begin or cease to be refused by it."""
        self.value = value
        if self.limit is None:
            return False
        was_overloaded = self.is_overloaded
        is_long = now_s - self.since_s >= self._sustained_s
        condition = TRANSITIONS[self.condition, self._read(self.limit, value), is_long]
        if condition is not self.condition:
            self.condition = condition
            self.since_s = now_s
        return self.is_overloaded is not was_overloaded

    def _read(self, limit: Limit, value: float) -> Reading:
        if limit.is_passed_by(value):
            return Reading.PASSED
        return Reading.KEPT if limit.is_kept_by(value) else Reading.BETWEEN

    def sentence(self, now_s: float) -> str:
        """Say how it is, for people."""
        name = self.facet.value.replace("-", " ")
        unit = self.facet.unit
        if self.limit is None:
            return f"{name} is {self.value:,.0f} {unit}, without a limit"
        side = "below" if self.facet.is_a_minimum else "above"
        text = f"{name} is {self.value:,.0f} {unit}, and the limit is {self.limit.bound:,.0f} {unit}"
        if self.is_overloaded:
            text += f"; it has been {side} that, or not clear of it, for {now_s - self.since_s:,.0f} s"
        return text
