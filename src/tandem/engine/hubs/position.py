"""Where a reader wants to begin: what the SDKs write as the selector filter of a receiving link."""

from __future__ import annotations

import enum
import re
from typing import Final

from tandem.errors import ArgumentError, Scope
from tandem.limits import MAX_SELECTOR_CHARACTERS
from tandem.wire_names import (
    ENQUEUED_TIME,
    ENQUEUED_TIME_UTC,
    OFFSET,
    SELECTED_ANNOTATION,
    SELECTOR_FILTER,
    SEQUENCE_NUMBER,
)

__all__ = ["LATEST", "START", "PositionKind", "StartPosition", "parse_selector"]

_SELECTOR: Final = re.compile(
    rf"\s*amqp\.annotation\.({OFFSET}|{SEQUENCE_NUMBER}|{ENQUEUED_TIME}|{ENQUEUED_TIME_UTC})"
    r"\s*(>=?)\s*'?([^']*)'?\s*",
)


class PositionKind(enum.Enum):
    """What a position is given by."""

    OFFSET = "offset"
    SEQUENCE_NUMBER = "sequence number"
    ENQUEUED_TIME = "enqueued time"
    LATEST = "latest"


class StartPosition:
    """The first event that is wanted is the one at `value`, if it is inclusive, and otherwise the one behind it."""

    __slots__ = ("is_inclusive", "kind", "value")

    def __init__(self, kind: PositionKind, value: int, is_inclusive: bool) -> None:
        self.kind = kind
        self.value = value
        self.is_inclusive = is_inclusive

    @property
    def first(self) -> int:
        """The least value that is wanted."""
        return self.value if self.is_inclusive else self.value + 1


START: Final = StartPosition(PositionKind.OFFSET, -1, False)
LATEST: Final = StartPosition(PositionKind.LATEST, 0, False)


def parse_selector(text: str) -> StartPosition:
    """`amqp.annotation.x-opt-offset > '42'`. Quotes may be missing; `epoch:offset` is read as the offset."""
    match = _SELECTOR.fullmatch(text) if len(text) <= MAX_SELECTOR_CHARACTERS else None
    if match is None:
        raise ArgumentError(
            f"{SELECTOR_FILTER} is {text!r:.120}; a position is "
            f"\"{SELECTED_ANNOTATION}{OFFSET} > '42'\", or the same with >=, {SEQUENCE_NUMBER} or {ENQUEUED_TIME}",
            Scope.LINK,
        )
    name, comparison, value = match.group(1), match.group(2), match.group(3).strip()
    is_inclusive = comparison == ">="
    if name == OFFSET:
        if value.lower() == "@latest":
            return LATEST
        number = _number(text, value.rpartition(":")[2])
        # What lies behind the start is everything, and so is what lies at it.
        return START if number < 0 else StartPosition(PositionKind.OFFSET, number, is_inclusive)
    if name == SEQUENCE_NUMBER:
        if value.lower() == "@latest":
            return LATEST
        number = _number(text, value.rpartition(":")[2])
        return START if number < 0 else StartPosition(PositionKind.SEQUENCE_NUMBER, number, is_inclusive)
    return StartPosition(PositionKind.ENQUEUED_TIME, _number(text, value.partition(".")[0]), is_inclusive)


def _number(text: str, value: str) -> int:
    # Digits only: int() would also take underscores and the digits of other scripts.
    digits = value.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise ArgumentError(f"{SELECTOR_FILTER} is {text!r:.120}: {value!r} is no number", Scope.LINK)
    return int(value)
