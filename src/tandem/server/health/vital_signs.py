"""The facets of a broker over the last minutes, measured at each beat of the event loop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tandem.server.health import memory
from tandem.server.health.facet import Facet, limits_of
from tandem.server.health.gauge import Gauge
from tandem.server.health.settings import HealthSettings

if TYPE_CHECKING:
    from tandem.server.hosted_namespace import HostedNamespace

__all__ = ["BEAT_S", "VitalSigns", "now_text"]

# Seconds between two beats.
BEAT_S: Final = 0.5

# Beats. The worst of so many is the value of a facet: between two long steps of the loop a beat may come in time.
_WINDOW_BEATS: Final = 4

# Values that are kept for a diagnosis: five minutes, one for each second.
_HISTORY: Final = 300
_BEATS_PER_ENTRY: Final = 2

_MEGABYTE: Final = 1_048_576


class VitalSigns:
    """The gauges of one broker. Any thread may read them."""

    def __init__(self, settings: HealthSettings, hosts: Callable[[], Iterable[HostedNamespace]]) -> None:
        self._hosts = hosts
        now_s = time.monotonic()
        self.started_at_s: Final = now_s
        self.beat_at_s = now_s
        self.beat_count = 0
        sustained_s = settings.sustained_ms / 1_000
        limits = limits_of(settings)
        self.gauges: Final = {facet: Gauge(facet, limits[facet], sustained_s, now_s) for facet in Facet}
        self._recent: dict[Facet, deque[float]] = {facet: deque(maxlen=_WINDOW_BEATS) for facet in Facet}
        self.history: deque[dict[str, Any]] = deque(maxlen=_HISTORY)

    @property
    def overloaded(self) -> list[Gauge]:
        return [gauge for gauge in self.gauges.values() if gauge.is_overloaded]

    @property
    def beat_age_ms(self) -> int:
        """How long ago the event loop ran last."""
        return round((time.monotonic() - self.beat_at_s) * 1_000)

    def begin(self) -> None:
        """The first beat is due in the time of one."""
        self.beat_at_s = time.monotonic()

    def beat(self) -> tuple[float, list[Gauge]]:
        """Measure everything. Returns the seconds since the last beat, and the gauges that begin or cease to refuse."""
        now_s = time.monotonic()
        elapsed_s = now_s - self.beat_at_s
        self.beat_at_s = now_s
        self.beat_count += 1
        values = self._values(elapsed_s)
        changed = [gauge for gauge in self.gauges.values() if self._measure(gauge, values[gauge.facet], now_s)]
        if self.beat_count % _BEATS_PER_ENTRY == 0:
            self.history.append({"time": now_text(), **{facet.value: round(one, 1) for facet, one in values.items()}})
        return elapsed_s, changed

    def _values(self, elapsed_s: float) -> dict[Facet, float]:
        hosts = list(self._hosts())
        return {
            Facet.EVENT_LOOP_LAG: max(0.0, elapsed_s - BEAT_S) * 1_000,
            Facet.COMMIT_TIME: max(host.runner.commit_watch.take_longest_s() for host in hosts) * 1_000,
            Facet.MEMORY: memory.used_bytes() / _MEGABYTE,
            Facet.DISK_HEADROOM: min(host.store.free_bytes() for host in hosts) / _MEGABYTE,
        }

    def _measure(self, gauge: Gauge, value: float, now_s: float) -> bool:
        recent = self._recent[gauge.facet]
        recent.append(value)
        return gauge.measure(min(recent) if gauge.facet.is_a_minimum else max(recent), now_s)


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
