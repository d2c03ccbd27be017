"""The time that a client has and spends. Handed in, so that a test of ten seconds takes none."""

from __future__ import annotations

import asyncio
import time

__all__ = ["Waiting"]


class Waiting:
    """The machine's own time. A test replaces it by one that does not pass by itself."""

    def now_s(self) -> float:
        """Seconds on a clock that is never set."""
        return time.monotonic()

    def utc_now_s(self) -> float:
        """Seconds since 1970 in UTC: what tokens expire by."""
        return time.time()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
