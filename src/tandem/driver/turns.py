"""Turns on the event loop: connections that send without pause are served in rotation, and behind everybody else.

A connection handles its input as it comes, for at most one turn. What is left waits here, and nothing more is read from
that connection until its input is used up. Each pass over the waiting connections is short, and between two passes the
event loop serves whatever else is ready. Some input cannot be divided and takes longer than a turn, as a batch of many
messages does: its connection then lets as many passes go by as it has taken turns too many. Where nobody else has
anything to do, these take no time.

Connections that have not proved anything wait in a rotation of their own, from their first byte on, with less time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from tandem.limits import MAX_STRANGER_TURNS_MS, MAX_TURN_MS, MAX_TURNS_MS

__all__ = ["Allowance", "TurnTaker", "Turns"]

_TURN_S: Final = MAX_TURN_MS / 1000
_PASS_S: Final = MAX_TURNS_MS / 1000
_STRANGER_PASS_S: Final = MAX_STRANGER_TURNS_MS / 1000

# Passes that a connection lets go by at most: after what takes 64 ms, or longer.
_MAX_SKIPPED_PASSES: Final = 32


class TurnTaker(Protocol):
    """A connection with input that is not handled yet."""

    def take_turn(self) -> None:
        """Handle some of it, and ask for another turn if there is more."""


class Turns:
    """The rotation of all connections of one broker."""

    __slots__ = ("_is_scheduled", "_loop", "_strangers", "_waiting", "clock")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.perf_counter) -> None:
        """`clock` measures how long a turn takes. The clock of uvloop stands still during one."""
        self._loop = loop
        self.clock = clock
        # Each with the passes that it lets go by.
        self._waiting: deque[tuple[TurnTaker, int]] = deque()
        self._strangers: deque[tuple[TurnTaker, int]] = deque()
        self._is_scheduled = False

    def end_of_turn(self) -> float:
        """Return when a turn that begins now is over."""
        return self.clock() + _TURN_S

    def passes_to_skip(self, ended_at: float) -> int:
        """Return how many passes a connection has to let go by whose turn should have ended at this time."""
        return min(_MAX_SKIPPED_PASSES, max(0, int((self.clock() - ended_at) / _TURN_S)))

    def add(self, taker: TurnTaker, *, is_stranger: bool, skipped_passes: int = 0) -> None:
        """Let a connection have a turn when it is its time. It must not wait already."""
        (self._strangers if is_stranger else self._waiting).append((taker, skipped_passes))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._pass)

    def _pass(self) -> None:
        # First, or an error would leave all of them waiting for good.
        self._is_scheduled = False
        try:
            self._run(self._waiting, _PASS_S)
            self._run(self._strangers, _STRANGER_PASS_S)
        finally:
            if (self._waiting or self._strangers) and not self._is_scheduled:
                self._is_scheduled = True
                self._loop.call_soon(self._pass)

    def _run(self, waiting: deque[tuple[TurnTaker, int]], longest_s: float) -> None:
        """Give each one turn, as far as the time allows."""
        ends_at = self.clock() + longest_s
        for _ in range(len(waiting)):
            taker, skipped_passes = waiting.popleft()
            if skipped_passes:
                waiting.append((taker, skipped_passes - 1))
                continue
            taker.take_turn()
            if self.clock() >= ends_at:
                return


class Allowance:
    """A rate of work: some at once, then so much a second. What is overdrawn has to be waited for."""

    __slots__ = ("_balance", "_burst", "_rate", "_told_at_s")

    def __init__(self, burst: float, per_second: float, now_s: float) -> None:
        self._burst = burst
        self._rate = per_second
        self._balance = burst
        self._told_at_s = now_s

    def spend(self, work: float, now_s: float) -> None:
        self._balance = min(self._burst, self._balance + (now_s - self._told_at_s) * self._rate) - work
        self._told_at_s = now_s

    def wait_s(self) -> float:
        """Return for how long nothing more may be done, counted from the last call of `spend`."""
        return max(0.0, -self._balance / self._rate)
