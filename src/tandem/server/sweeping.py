"""Sweep the rows of deleted queues, a batch at a time, while the runner has nothing better to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tandem.store.base import Store

if TYPE_CHECKING:
    from tandem.server.runner import Runner

__all__ = ["Sweeping"]

# Seconds between two batches.
_INTERVAL_S: Final = 0.05


class Sweeping:
    """The timer of the next batch, if there is one."""

    def __init__(self, runner: Runner, store: Store) -> None:
        self._runner = runner
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def schedule(self) -> None:
        """Look for rows to sweep soon."""
        if self._timer is None and not self._runner.is_failed:
            self._timer = self._loop.call_later(_INTERVAL_S, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        runner = self._runner
        if runner.is_busy or runner.is_failed:
            return
        try:
            swept = self._store.sweep()
        except Exception as error:
            runner.fail(error)
            return
        if swept is not None:
            runner.namespace.shared(swept.shared_bytes)
            self.schedule()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
