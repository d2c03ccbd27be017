"""Throttling: an allowance of credits per second, beyond which requests are refused with ServerBusy.

A message costs one credit, a management operation ten, as in the cloud service. A partitioned queue spreads its load
over its partitions, and its messages cost a sixteenth. Who is refused has to wait; nothing is queued up.
"""

from __future__ import annotations

from typing import Final

from tandem.errors import ServerBusy
from tandem.limits import PARTITION_COUNT

__all__ = ["MANAGEMENT_CREDITS", "MESSAGE_CREDITS", "Throttle"]

MESSAGE_CREDITS: Final = 1.0
MANAGEMENT_CREDITS: Final = 10.0


class Throttle:
    """The allowance of one namespace. None as rate switches it off."""

    __slots__ = ("_credits", "_filled_at_ms", "credits_per_second", "refused_count")

    def __init__(self, credits_per_second: int | None) -> None:
        self.credits_per_second = credits_per_second
        # At most one second's worth is saved up.
        self._credits = float(credits_per_second or 0)
        self._filled_at_ms = 0
        self.refused_count = 0

    def take(self, cost: float, now_ms: int, *, is_partitioned: bool = False) -> None:
        """Pay, or raise ServerBusy."""
        rate = self.credits_per_second
        if rate is None:
            return
        if now_ms > self._filled_at_ms:
            self._credits = min(float(rate), self._credits + (now_ms - self._filled_at_ms) * rate / 1000)
            self._filled_at_ms = now_ms
        if is_partitioned:
            cost /= PARTITION_COUNT
        if self._credits < cost:
            self.refused_count += 1
            raise ServerBusy(
                f"The request was terminated because the namespace is being throttled at {rate} credits a second. "
                "Error code : 50009. Please wait 10 seconds and try again."
            )
        self._credits -= cost
