"""Waiting for something that another task, thread or process does.

The limit suits a machine that is busy and five times slower. It costs nothing while all goes well: only a broken test
reaches it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["PATIENCE_S", "until", "wait_until"]

# Seconds. Far below the limit of a whole test in pyproject.toml, so that a wait in vain is reported as what it is.
PATIENCE_S: Final = 60.0

# Seconds between two looks: most of them ask a broker, which has better things to do.
_PAUSE_S: Final = 0.02

_WHAT: Final = "what the other side brings about"


async def until(is_so: Callable[[], bool], what: str = _WHAT) -> None:
    """Return as soon as the condition holds. Fails after PATIENCE_S."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:.0f} s in vain: {what}"
        await asyncio.sleep(_PAUSE_S)


def wait_until(is_so: Callable[[], bool], what: str = _WHAT) -> None:
    """`until`, for tests without an event loop."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:.0f} s in vain: {what}"
        time.sleep(_PAUSE_S)
