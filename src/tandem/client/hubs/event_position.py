"""Where in a partition to begin to read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tandem import wire_names
from tandem.amqp.types import Timestamp

__all__ = ["EventPosition"]

_OFFSET: Final = f"{wire_names.SELECTED_ANNOTATION}{wire_names.OFFSET}"
_SEQUENCE_NUMBER: Final = f"{wire_names.SELECTED_ANNOTATION}{wire_names.SEQUENCE_NUMBER}"
_ENQUEUED_TIME: Final = f"{wire_names.SELECTED_ANNOTATION}{wire_names.ENQUEUED_TIME}"


@dataclass(frozen=True)
class EventPosition:
    """A position, as the expression that the hub selects events by."""

    expression: str

    @staticmethod
    def earliest() -> EventPosition:
        """The oldest event that is kept."""
        return EventPosition(f"{_OFFSET} > '-1'")

    @staticmethod
    def latest() -> EventPosition:
        """Only what comes from now on."""
        return EventPosition(f"{_OFFSET} > '@latest'")

    @staticmethod
    def from_sequence_number(sequence_number: int, *, is_inclusive: bool = False) -> EventPosition:
        """Behind the event with this number, or at it."""
        return EventPosition(f"{_SEQUENCE_NUMBER} {'>=' if is_inclusive else '>'} '{sequence_number}'")

    @staticmethod
    def from_offset(offset: str, *, is_inclusive: bool = False) -> EventPosition:
        """Behind the event with this offset, or at it."""
        return EventPosition(f"{_OFFSET} {'>=' if is_inclusive else '>'} '{offset}'")

    @staticmethod
    def from_enqueued_time(moment: datetime) -> EventPosition:
        """The first event that the hub took after this moment."""
        return EventPosition(f"{_ENQUEUED_TIME} > '{int(Timestamp.from_datetime(moment))}'")
