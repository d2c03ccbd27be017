"""Knowledge about something that can be away: the primary namespace, or one of its entities.

    reached    messages may be sent, and received for it
    away       a send failed; a probe asks for it, with pauses that double

The pauses start again from the shortest only when a message was accepted. A probe that succeeds where messages still
fail therefore asks less and less often.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from tandem.client.wire.waiting import Waiting

__all__ = ["Reachability"]

# Seconds.
_FIRST_PAUSE_S: Final = 0.5


class Reachability:
    """Reached until a send fails; away until a probe or somebody else reports the contrary."""

    def __init__(self, probe: Callable[[], Awaitable[bool]], waiting: Waiting, longest_pause_s: float) -> None:
        """`probe` returns whether it is back. It is called until it is, and never raises a TandemError."""
        self._probe = probe
        self._waiting = waiting
        self._longest_pause_s = longest_pause_s
        self._next_pause_s = _FIRST_PAUSE_S
        self._is_away = False
        self._changed = asyncio.Event()
        self._probing: asyncio.Task[None] | None = None
        self._is_closed = False
        # Counts the losses: a send that began before the last of them says nothing about the time since.
        self.epoch = 0

    @property
    def is_away(self) -> bool:
        return self._is_away

    def doubt(self) -> None:
        """Count it as away until a probe, made at once, has reached it."""
        self._lose(0.0)

    def lose(self, epoch: int, least_pause_s: float = 0.0) -> None:
        """Record that a send which began in this epoch failed. `least_pause_s` passes before the first probe."""
        if epoch == self.epoch and not self._is_away:
            self._lose(max(least_pause_s, self._take_pause()))

    def _lose(self, pause_s: float) -> None:
        if self._is_closed:
            return
        self.epoch += 1
        self._is_away = True
        self._notify()
        self._probing = asyncio.create_task(self._probe_until_reached(pause_s))

    def reach(self) -> None:
        """Record that it answers again."""
        if self._is_away:
            self._is_away = False
            self._notify()

    def confirm(self) -> None:
        """Record that it accepted a message."""
        self._next_pause_s = _FIRST_PAUSE_S
        self.reach()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, timeout_s: float | None = None) -> None:
        """Return at the next change, after the time, or when this is closed."""
        if self._is_closed:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()

    async def _probe_until_reached(self, pause_s: float) -> None:
        epoch = self.epoch
        while True:
            await self._sleep(pause_s)
            if self.epoch != epoch or not self._is_away:
                return
            if await self._probe():
                self.reach()
                return
            pause_s = self._take_pause()

    def _take_pause(self) -> float:
        pause_s = self._next_pause_s
        self._next_pause_s = min(self._longest_pause_s, pause_s * 2)
        return pause_s

    async def _sleep(self, delay_s: float) -> None:
        """Return after the delay, or at the next change."""
        if delay_s <= 0:
            return
        tasks = {asyncio.create_task(self._waiting.sleep(delay_s)), asyncio.create_task(self._changed.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def close(self) -> None:
        """Stop probing, and let everybody who waits go on."""
        self._is_closed = True
        self._notify()
        probing = self._probing
        if probing is not None and not probing.done():
            probing.cancel()
            await asyncio.wait([probing])
