"""The markers that tie a test to the sentence it proves.

    @spec("amqp:2.6.12")     a clause of a specification
    @mission("M22")          a line of docs/mission.md

`make coverage-of-mission` reads the arguments from the source, without running it: give them as literals.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pytest

# A test function or a class of them. Any: what a test takes and returns is between it and its fixtures.
Test = TypeVar("Test", bound=Callable[..., Any])

_MISSION_LINE: Final = re.compile(r"M[1-9]\d*")
_SPEC_CLAUSE: Final = re.compile(r"[a-z][a-z0-9-]*:\S.*")


def mission(*lines: str) -> Callable[[Test], Test]:
    """The test proves these lines of the mission."""
    _require_match(_MISSION_LINE, lines, "a line of the mission looks like M22")
    return _marked(pytest.mark.mission, lines)


def spec(*clauses: str) -> Callable[[Test], Test]:
    """The test proves these clauses, each written as <specification>:<clause>."""
    _require_match(_SPEC_CLAUSE, clauses, "a clause looks like amqp:2.6.12")
    return _marked(pytest.mark.spec, clauses)


def _require_match(pattern: re.Pattern[str], arguments: tuple[str, ...], shape: str) -> None:
    if not arguments:
        raise ValueError(f"the marker names nothing; {shape}")
    for argument in arguments:
        if pattern.fullmatch(argument) is None:
            raise ValueError(f"{argument!r}: {shape}")


def _marked(marker: pytest.MarkDecorator, arguments: tuple[str, ...]) -> Callable[[Test], Test]:
    def mark(test: Test) -> Test:
        # A call with one class or function as its only argument would decorate that instead: the arguments are strings.
        marked: Test = marker(*arguments)(test)
        return marked

    return mark
