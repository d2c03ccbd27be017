"""What aiohttp has to say: malformed requests in one short line now and then, everything else as it comes.

aiohttp writes a traceback for every request that it cannot parse. Anybody can send such requests, and 28 bytes would
make 548 in the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from aiohttp.http_exceptions import HttpProcessingError

__all__ = ["HttpLog"]

# Seconds between two lines about malformed requests.
LINE_INTERVAL_S: Final = 60.0

# Characters of what a stranger has sent, in one line.
_MAX_QUOTED: Final = 100


class HttpLog(logging.Logger):
    """The logger that a server of aiohttp writes to."""

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logger.name)
        self.parent = logger
        self._now_s = now_s
        self._told_at_s: float | None = None
        self.malformed_count = 0

    def exception(self, msg: object, *args: object, exc_info: Any = True, **kwargs: Any) -> None:
        if isinstance(exc_info, HttpProcessingError):
            self._count(exc_info, str(args[0]) if args else "an unknown address")
        else:
            super().exception(msg, *args, exc_info=exc_info, **kwargs)

    def _count(self, error: HttpProcessingError, remote: str) -> None:
        """The client learns what is wrong from its answer, 400. The operator learns that there are such clients."""
        self.malformed_count += 1
        now_s = self._now_s()
        if self._told_at_s is not None and now_s - self._told_at_s < LINE_INTERVAL_S:
            return
        self._told_at_s = now_s
        text = " ".join(error.message.split())
        # As repr has it: what a stranger has sent may hold control characters.
        self.warning(
            "%d malformed HTTP requests so far, one from %s: %r", self.malformed_count, remote, text[:_MAX_QUOTED]
        )
