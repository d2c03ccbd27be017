"""Idempotent producers: a partition remembers what each sent last, so that a send that is repeated is stored once."""

from __future__ import annotations

from typing import Final

from tandem.engine.hubs.record import ProducerMark
from tandem.errors import OutOfOrderSequence, ProducerEpochStolen
from tandem.limits import MAX_PRODUCERS_PER_PARTITION

__all__ = ["NO_SEQUENCE_NUMBER", "Producers"]

# Numbers of a producer are 32 bits wide, without the negative ones, and start again at zero.
_NUMBERS: Final = 1 << 31

# What stands for the number of a producer that has sent nothing.
NO_SEQUENCE_NUMBER: Final = -1


class Producers:
    """What the producers of one partition sent last. The one that has been silent longest is forgotten first."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        # The mark of a producer holds the number of the last event that it sent.
        self._last: dict[int, ProducerMark] = {}

    def restore(self, mark: ProducerMark) -> None:
        self._last.pop(mark.producer_id, None)
        self._last[mark.producer_id] = mark
        if len(self._last) > MAX_PRODUCERS_PER_PARTITION:
            del self._last[next(iter(self._last))]

    def open(self, producer_id: int, epoch: int, last_number: int | None) -> ProducerMark:
        """A producer says which epoch it has, and perhaps which number it sent last. Answered is where it goes on.

        Who has not seen the acknowledgement of its last events goes on before them: they are recognised when they come
        again. An SDK that was told of them here would send them again under new numbers.
        """
        known = self._last.get(producer_id)
        if known is not None and epoch < known.epoch:
            raise ProducerEpochStolen(
                f"The producer {producer_id} has epoch {known.epoch} already; a link with epoch {epoch} is older. "
                "Open it with a higher epoch."
            )
        number = known.sequence_number if known is not None else NO_SEQUENCE_NUMBER
        if last_number is None:
            last_number = number
        elif known is None or epoch > known.epoch:
            number = last_number
        elif _distance(last_number, number) >= _NUMBERS // 2:
            last_number = number
        self.restore(ProducerMark(producer_id, epoch, number))
        return ProducerMark(producer_id, epoch, last_number)

    def admit(self, mark: ProducerMark, count: int) -> bool:
        """Whether events with these numbers are new. False if they were stored before; raises if some are missing."""
        known = self._last.get(mark.producer_id)
        if known is None:
            known = ProducerMark(mark.producer_id, mark.epoch, NO_SEQUENCE_NUMBER)
            if mark.sequence_number != 0:
                # Forgotten, or never opened: it says itself where it stands.
                known.sequence_number = (mark.sequence_number - 1) % _NUMBERS
        if mark.epoch < known.epoch:
            raise ProducerEpochStolen(
                f"The producer {mark.producer_id} has epoch {known.epoch} already; events with epoch {mark.epoch} are "
                "of an older one, which has been replaced."
            )
        expected = (known.sequence_number + 1) % _NUMBERS
        if mark.sequence_number != expected:
            behind = _distance(mark.sequence_number, expected)
            if behind < _NUMBERS // 2 and behind >= count:
                return False
            raise OutOfOrderSequence(
                f"The producer {mark.producer_id} sent an event with the number {mark.sequence_number}; expected is "
                f"{expected}. Numbers rise by one with each event."
            )
        last = (mark.sequence_number + count - 1) % _NUMBERS
        self.restore(ProducerMark(mark.producer_id, mark.epoch, last))
        return True

    def last_of(self, producer_id: int) -> ProducerMark | None:
        return self._last.get(producer_id)


def _distance(earlier: int, later: int) -> int:
    """How many numbers lie between two, counted upwards. Half of all numbers and more: it is the other way round."""
    return (later - earlier) % _NUMBERS
