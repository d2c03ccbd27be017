"""Measures commits: how long they take, which one is in progress, and what went wrong with the store."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

__all__ = ["CommitWatch"]

# Errors of the store that are remembered for a diagnosis.
_MAX_ERRORS: Final = 20


class CommitWatch:
    """The commits of one namespace. Two readings of the clock for each commit, however many messages it holds."""

    def __init__(self) -> None:
        self.count = 0
        self.errors: deque[str] = deque(maxlen=_MAX_ERRORS)
        self._began_at_s: float | None = None
        self._longest_s = 0.0

    def begin(self) -> None:
        self._began_at_s = time.monotonic()

    def end(self) -> None:
        if self._began_at_s is not None:
            self._longest_s = max(self._longest_s, time.monotonic() - self._began_at_s)
            self._began_at_s = None
            self.count += 1

    @property
    def in_progress_s(self) -> float | None:
        """For how long the present commit has been running; None if there is none."""
        began_at_s = self._began_at_s
        return None if began_at_s is None else time.monotonic() - began_at_s

    def take_longest_s(self) -> float:
        """Return the longest time of a commit since the last call, the one in progress included."""
        longest_s, self._longest_s = self._longest_s, 0.0
        return max(longest_s, self.in_progress_s or 0.0)
