"""Idempotent producers: a partition remembers what each sent last, so that a transfer that is repeated is stored once.

A producer numbers its events, and 0 says that it has sent none. It has one transfer under way at a time, so only its
last one can be in doubt: that one may come again, unchanged, and is acknowledged without being stored. Any other event
with an old number is refused. Acknowledging it would lose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.engine.hubs.record import ProducerMark
from tandem.errors import ArgumentError, ArgumentOutOfRange, OutOfOrderSequence, ProducerEpochStolen, Scope
from tandem.limits import MAX_PRODUCERS_PER_PARTITION
from tandem.wire_names import PRODUCER_EPOCH, PRODUCER_ID, PRODUCER_SEQUENCE_NUMBER

__all__ = ["NO_SEQUENCE_NUMBER", "Producers", "read_number"]

# The state of a producer, in the properties of an attach and in the annotations of a transfer, and its bounds.
_MOST: Final = {PRODUCER_ID: 0x7FFF_FFFF_FFFF_FFFF, PRODUCER_EPOCH: 0x7FFF, PRODUCER_SEQUENCE_NUMBER: 0x7FFF_FFFF}

# Numbers of a producer are 32 bits wide, without the negative ones, and start again at zero.
_NUMBERS: Final = 1 << 31

# Stands for the number of a producer that has sent nothing: its first event has the number 1. As the service does it.
NO_SEQUENCE_NUMBER: Final = 0


def read_number(fields: Mapping[object, object], name: str, place: str, scope: Scope) -> int | None:
    """Return a part of a producer's state, None if it is missing. Raise if it is not a number in its range."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentError(f"{place}.{name} must be a number, got {value!r:.80}", scope)
    if not 0 <= value <= _MOST[name]:
        raise ArgumentOutOfRange(
            "Invalid range for idempotent producer state. Producer Id, Epoch, and Sequence Number must be zero or "
            f"positive. {place}.{name} is {int(value)}; allowed are 0 to {_MOST[name]}.",
            scope,
        )
    return int(value)


class Producers:
    """The producers of one partition, and what each sent last. The one that is silent longest is forgotten first."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[int, ProducerMark] = {}

    def restore(self, mark: ProducerMark) -> None:
        self._last.pop(mark.producer_id, None)
        self._last[mark.producer_id] = mark
        if len(self._last) > MAX_PRODUCERS_PER_PARTITION:
            del self._last[next(iter(self._last))]

    def open(self, producer_id: int, epoch: int, last_number: int | None) -> ProducerMark:
        """Attach a producer with its epoch and, if it knows, the number it sent last. Return where it goes on.

        A producer that has not seen the acknowledgement of its last transfer goes on before it: that transfer is
        recognised when it comes again. An SDK that was told of it here would send it again under new numbers.
        """
        known = self._last.get(producer_id)
        if known is not None and epoch < known.epoch:
            raise ProducerEpochStolen(
                f"The producer {producer_id} has epoch {known.epoch} already; a link with epoch {epoch} is older. "
                f"Open it with a higher epoch. Received:{epoch} Current:{known.epoch}."
            )
        if known is None or (epoch > known.epoch and last_number is not None):
            mark = ProducerMark(producer_id, epoch, NO_SEQUENCE_NUMBER if last_number is None else last_number)
            self.restore(mark)
            return mark
        number = known.sequence_number
        self.restore(ProducerMark(producer_id, epoch, number, known.count, known.checksum))
        if last_number is None or _distance(last_number, number) >= _NUMBERS // 2:
            last_number = number
        return ProducerMark(producer_id, epoch, last_number)

    def admit(self, mark: ProducerMark, count: int, checksum: int) -> ProducerMark | None:
        """Decide about a transfer of `count` events, of which the first has the number in `mark`.

        Return where the producer stands behind a new one, None for the last one repeated. Raise for any other.
        """
        first = mark.sequence_number
        known = self._last.get(mark.producer_id)
        if known is None:
            # Forgotten, or never opened: it says itself where it stands.
            known = ProducerMark(mark.producer_id, mark.epoch, (first - 1) % _NUMBERS)
        if mark.epoch < known.epoch:
            raise ProducerEpochStolen(
                f"The producer {mark.producer_id} has epoch {known.epoch} already; events with epoch {mark.epoch} are "
                f"of an older one, which has been replaced. Received:{mark.epoch} Current:{known.epoch}."
            )
        last = (first + count - 1) % _NUMBERS
        if last == known.sequence_number and count == known.count and checksum == known.checksum:
            return None
        expected = (known.sequence_number + 1) % _NUMBERS
        if first != expected:
            raise _out_of_order(mark.producer_id, first, expected)
        admitted = ProducerMark(mark.producer_id, mark.epoch, last, count, checksum)
        self.restore(admitted)
        return admitted


def _out_of_order(producer_id: int, first: int, expected: int) -> OutOfOrderSequence:
    if _distance(first, expected) < _NUMBERS // 2:
        return OutOfOrderSequence(
            f"The producer {producer_id} sent an old sequence number, {first}; expected is {expected}. Only its last "
            "transfer may be sent again, with the same events. Go on from the number that is expected."
        )
    return OutOfOrderSequence(
        f"The producer {producer_id} sent an event with the number {first}; expected is {expected}. Numbers rise by "
        "one with each event."
    )


def _distance(earlier: int, later: int) -> int:
    """Count upwards from one number to another. From half of all numbers on, it is the other way round."""
    return (later - earlier) % _NUMBERS
