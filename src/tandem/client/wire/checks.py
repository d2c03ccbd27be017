"""Checks of the types that options have, so that a mistake is refused where it is made, by name, value and remedy.

Python does not check them: `timedelta(0) <= 10` fails with words that name no option, and 2.5 is between 1 and 1,000.
"""

from __future__ import annotations

import math
from datetime import timedelta

from tandem.errors import TandemError, UsageError

__all__ = ["require_seconds", "require_timedelta", "require_whole_number"]


def require_whole_number(name: str, value: object, error: type[TandemError] = UsageError) -> None:
    # True and False are whole numbers to Python.
    if not isinstance(value, int) or isinstance(value, bool):
        raise error(f"{name} is {value!r:.80}; it must be a whole number, an int")


def require_timedelta(name: str, value: object, error: type[TandemError] = UsageError) -> None:
    if not isinstance(value, timedelta):
        example = value if _is_number(value) else 10
        raise error(f"{name} is {value!r:.80}; it must be a timedelta, such as timedelta(seconds={example!r:.40})")


def require_seconds(name: str, value: object, error: type[TandemError] = UsageError) -> None:
    if not _is_number(value):
        raise error(f"{name} is {value!r:.80}; it must be a number of seconds")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
