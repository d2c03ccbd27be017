"""Maintain the events of hubs: seal what is old enough, and delete what retention does not keep."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tandem.store.base import Events

if TYPE_CHECKING:
    from tandem.server.runner import Runner

__all__ = ["Maintenance"]

# Seconds between two pieces of work. While events are being sealed the next piece follows as soon as one is done, or
# ingest would outrun it.
_INTERVAL_S: Final = 1.0
_SEALING_INTERVAL_S: Final = 0.02


class Maintenance:
    """The timer of the next piece of work. The store is left alone while it commits: then the piece is overdue."""

    def __init__(self, runner: Runner, events: Events) -> None:
        self._runner = runner
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.is_overdue = False

    def schedule(self) -> None:
        if self._timer is None and len(self._runner.namespace.hubs):
            interval_s = _SEALING_INTERVAL_S if self._events.has_more_to_seal else _INTERVAL_S
            self._timer = self._loop.call_later(interval_s, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        runner = self._runner
        self.is_overdue = runner.is_committing
        if not runner.is_committing and not runner.is_failed:
            runner.begin()
            self.perform()
            # Now: what follows may be a long commit, after which it would be due at once.
            self.schedule()
            runner.finish()

    def perform(self) -> None:
        """Do one piece of work."""
        self.is_overdue = False
        namespace = self._runner.namespace
        try:
            trimmed = self._events.maintain(namespace.now_ms, namespace.hubs.retention())
        except Exception as error:
            self._runner.fail(error)
            return
        for one in trimmed:
            namespace.hubs.trimmed(one.hub_number, one.partition_id, one.begin_sequence_number, one.size_bytes)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
