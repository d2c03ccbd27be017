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

# Seconds. Far below the limit of a whole test in pyproject.toml, so that a wait in vain is reported as such.
PATIENCE_S: Final = 60.0

# Seconds between two looks, at first and at last: most of them ask a broker, which has better things to do.
_FIRST_PAUSE_S: Final = 0.005
_LONGEST_PAUSE_S: Final = 0.1


async def until(is_so: Callable[[], object], what: str = "", seen: Callable[[], str] = str) -> None:
    """Return as soon as the condition holds. Fails after PATIENCE_S, with `what` was expected and `seen` instead."""
    deadline_s = time.monotonic() + PATIENCE_S
    pause_s = _FIRST_PAUSE_S
    while not is_so():
        _check(deadline_s, what, seen)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def wait_until(is_so: Callable[[], object], what: str = "", seen: Callable[[], str] = str) -> None:
    """`until`, for tests without an event loop."""
    deadline_s = time.monotonic() + PATIENCE_S
    pause_s = _FIRST_PAUSE_S
    while not is_so():
        _check(deadline_s, what, seen)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


def _check(deadline_s: float, what: str, seen: Callable[[], str]) -> None:
    assert time.monotonic() < deadline_s, f"waited {PATIENCE_S:.0f} s in vain {what} {seen()}".rstrip()
