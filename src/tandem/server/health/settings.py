"""The limits by which a broker judges itself, and their defaults.

The defaults are far above what a busy development machine reaches: seconds that last for ten seconds, not moments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem.server.health.memory import default_max_memory_megabytes

__all__ = ["OFF", "HealthSettings"]


@dataclass(frozen=True)
class HealthSettings:
    """None switches a limit off."""

    # Milliseconds. How late the event loop runs what is due.
    max_event_loop_lag_ms: int | None = 2_000
    # Milliseconds. How long a commit takes, the one in progress included.
    max_commit_time_ms: int | None = 5_000
    # Megabytes that the process has in memory. `of` sets three quarters of what the machine or the container has.
    max_memory_megabytes: int | None = None
    # Megabytes that are free on the disk of the data directory.
    min_disk_megabytes: int | None = 128
    # Milliseconds. How long a limit has to be passed until requests are refused, and kept until they are taken again.
    sustained_ms: int = 10_000
    # Milliseconds. An event loop that runs nothing, or a commit that does not end, for this long is a stall.
    stall_ms: int | None = 60_000
    # Milliseconds. How long a restart may take; after that the next larger part is restarted.
    restart_ms: int = 30_000

    @classmethod
    def of(cls, given: Mapping[str, int]) -> HealthSettings:
        """The defaults, apart from what is given: 0 switches a limit off."""
        limits: dict[str, Any] = {"max_memory_megabytes": default_max_memory_megabytes()}
        limits |= {name: limit or None for name, limit in given.items()}
        return cls(**limits)

    @property
    def is_supervising(self) -> bool:
        """Whether failed and stalled parts are restarted."""
        return self.stall_ms is not None


# For test doubles: everything is measured, nothing is refused and nothing restarted.
OFF: Final = HealthSettings(max_event_loop_lag_ms=None, max_commit_time_ms=None, min_disk_megabytes=None, stall_ms=None)
