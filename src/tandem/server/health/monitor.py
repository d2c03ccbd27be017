"""Watches a broker: measures it twice a second, and acts on what it finds.

    beat         measure every facet; refuse the heaviest senders while one is overloaded; look for stalled commits
    watchdog     a thread: looks for beats that do not come
    repairs      is told of internal errors and stalls, and restarts the part that the ladder says

All but the watchdog runs on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tandem.errors import BrokerStalled
from tandem.server.health import memory
from tandem.server.health.facet import Facet
from tandem.server.health.gauge import Condition, Gauge
from tandem.server.health.ladder import Level, Trouble
from tandem.server.health.repairs import HostSupervisor, Repairs
from tandem.server.health.reporter import Reporter
from tandem.server.health.settings import HealthSettings
from tandem.server.health.shedding import EntityLoad, Shedding
from tandem.server.health.vital_signs import BEAT_S, VitalSigns
from tandem.server.health.watchdog import Watchdog

if TYPE_CHECKING:
    from tandem.server.hosted_namespace import HostedNamespace

__all__ = ["Monitor"]

logger = logging.getLogger(__name__)

# Beats between two requests to the allocator to return memory, while there is too little.
_TRIM_BEATS: Final = 20


class Monitor:
    """The self-monitoring of one broker."""

    def __init__(
        self,
        settings: HealthSettings,
        data_dir: Path,
        hosts: Callable[[], Iterable[HostedNamespace]],
        reopen: Callable[[HostedNamespace], Awaitable[None]],
        on_lost: Callable[[BrokerStalled], None],
    ) -> None:
        """`reopen` restarts the host of a namespace. `on_lost` ends the process; any thread may call it."""
        self.settings = settings
        self._hosts = hosts
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.vital_signs = VitalSigns(settings, hosts)
        self.reporter = Reporter(data_dir, hosts, self.vital_signs)
        self._repairs = Repairs(settings.restart_ms, self.reporter, reopen, on_lost)
        self._shedding = Shedding(settings.sustained_ms / 1_000)
        # For how long the same commit of a namespace has been in progress, while this process ran.
        self._stalls: dict[str, tuple[int, float]] = {}
        self._watchdog = self._make_watchdog()

    def _make_watchdog(self) -> Watchdog | None:
        settings = self.settings
        if settings.stall_ms is None:
            return None
        stall_s, lost_s = settings.stall_ms / 1_000, settings.restart_ms / 1_000
        return Watchdog(lambda: self.vital_signs.beat_count, stall_s, lost_s, self._on_loop_stalled, self._on_loop_lost)

    def supervisor(self, host: HostedNamespace) -> HostSupervisor:
        """What a namespace reports its internal errors to."""
        return HostSupervisor(self._repairs, host)

    # --- life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.vital_signs.begin()
        self._timer = self._loop.call_later(BEAT_S, self._on_beat)
        if self._watchdog is not None:
            self._watchdog.start()

    async def stop(self) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        if self._watchdog is not None:
            self._watchdog.stop()
        await self._repairs.finish()

    def _on_beat(self) -> None:
        elapsed_s, changed = self.vital_signs.beat()
        now_s = self.vital_signs.beat_at_s
        for host in self._hosts():
            host.services.loads.advance(elapsed_s)
        self.shed(now_s)
        self._relieve()
        for gauge in changed:
            self._report(gauge, now_s)
        # A process that was stopped has not waited for its commits.
        self._look_for_stalls(min(elapsed_s, 2 * BEAT_S))
        self._repairs.look_for_overdue()
        self._timer = self._loop.call_later(BEAT_S, self._on_beat)

    def _report(self, gauge: Gauge, now_s: float) -> None:
        sentence = gauge.sentence(now_s)
        if not gauge.is_overloaded:
            logger.warning("no longer overloaded: %s", sentence)
            return
        logger.warning("overloaded: %s; sends and management are refused, the heaviest entities first", sentence)
        summary = f"Overloaded: {sentence}. To do: {gauge.facet.advice}."
        self.reporter.write_soon("overload", summary, Level.NOTHING)

    # --- overload -------------------------------------------------------------------------------------------

    def shed(self, now_s: float) -> None:
        """Refuse what the present conditions ask for."""
        overloaded = self.vital_signs.overloaded
        shedding = self._shedding
        if not overloaded:
            if shedding.is_active:
                shedding.end()
                for host in self._hosts():
                    host.services.refusals.refuse_nothing()
                    host.services.choose_admission()
            return
        is_easing = all(gauge.condition is Condition.EASING for gauge in overloaded)
        shedding.step(self._loads(), now_s, is_easing=is_easing)
        reason = overloaded[0].sentence(now_s)
        for host in self._hosts():
            if shedding.is_everything_refused:
                host.services.refusals.refuse_everything(reason)
            else:
                host.services.refusals.refuse(shedding.refused_of(host.name), reason)
            host.services.choose_admission()

    def _loads(self) -> list[EntityLoad]:
        loads: list[EntityLoad] = []
        for host in self._hosts():
            for entity, rate in host.services.loads.rates.items():
                queue = host.namespace.find(entity)
                is_partitioned = queue is not None and queue.description.enable_partitioning
                loads.append(EntityLoad(host.name, entity, rate, is_partitioned))
        return loads

    def _relieve(self) -> None:
        """Do what the broker itself can do about memory and disk."""
        gauges = self.vital_signs.gauges
        is_disk_low = gauges[Facet.DISK_HEADROOM].condition is not Condition.WELL
        for host in self._hosts():
            host.store.gives_back_space = is_disk_low
            if is_disk_low:
                host.runner.sweeping.schedule()
        if gauges[Facet.MEMORY].condition is not Condition.WELL and self.vital_signs.beat_count % _TRIM_BEATS == 0:
            memory.give_back()

    # --- stalls ---------------------------------------------------------------------------------------------

    def _look_for_stalls(self, elapsed_s: float) -> None:
        if self.settings.stall_ms is None:
            return
        for host in list(self._hosts()):
            watch = host.runner.commit_watch
            count, stalled_s = self._stalls.get(host.name, (watch.count, 0.0))
            is_same = watch.in_progress_s is not None and count == watch.count
            stalled_s = stalled_s + elapsed_s if is_same else 0.0
            if stalled_s * 1_000 >= self.settings.stall_ms:
                self._repairs.commit_stalled(host, stalled_s)
                stalled_s = 0.0
            self._stalls[host.name] = (watch.count, stalled_s)

    def _on_loop_stalled(self) -> None:
        text = (
            f"The event loop has run nothing for {self.vital_signs.beat_age_ms:,} ms; the stack of the main thread "
            f"shows where. Unless it goes on within {self.settings.restart_ms:,} ms, the process ends, to be started "
            "again."
        )
        logger.error("%s", text)
        self.reporter.write(Trouble.LOOP_BLOCKED.value, text, Level.NOTHING)

    def _on_loop_lost(self) -> None:
        text = f"the event loop has run nothing for {self.vital_signs.beat_age_ms:,} ms"
        self._repairs.end_process(Trouble.LOOP_BLOCKED, text)
