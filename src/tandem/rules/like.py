"""LIKE in time proportional to the text, whatever the pattern is: no regular expression is ever made of a user's text.

A pattern is cut at its `%` into segments. The first has to stand at the beginning of the text, the last at its end, and
for those between it is enough to take the first place of each behind the one before. A segment without `_` is found by
`str.find`, which is linear in long texts. With `_` inside it is found by bit-parallel matching (the shift-or of
Baeza-Yates and Gonnet): one bit for each character of the segment says whether the segment can still fit at that
offset, and a character of the text costs one shift and one OR of an integer of at most 1,024 bits.
"""

from __future__ import annotations

from typing import Final

from tandem.limits import MAX_PATTERN_CHARACTERS
from tandem.rules.errors import RuleEvaluationError

__all__ = ["MAKING_WORK", "Pattern"]

# Units of work, as `RULE_WORK_PER_TURN` has them: to take a pattern apart, for each of its characters.
MAKING_WORK: Final = 100

# The same for each character of a text that is looked through: by `str.find`, and bit by bit.
_FINDING_WORK: Final = 1
_BITS_WORK: Final = 50


class Segment:
    """What stands between two `%`: pieces of literal text at their offsets, with `_` before, between and behind."""

    __slots__ = ("length", "offsets", "pieces")

    def __init__(self) -> None:
        self.length: int = 0
        self.pieces: list[str] = []
        self.offsets: list[int] = []

    def add(self, literal: list[str]) -> None:
        """A run of characters that stand for themselves."""
        if literal:
            self.offsets.append(self.length)
            self.pieces.append("".join(literal))
            self.length += len(literal)
            literal.clear()

    def is_at(self, text: str, at: int) -> bool:
        """Whether the segment fits at this place. The caller sees to it that the text is long enough."""
        for index in range(len(self.pieces)):  # noqa: SIM110 - a generator would be slower, compiled or not
            if not text.startswith(self.pieces[index], at + self.offsets[index]):
                return False
        return True

    def find(self, text: str, start: int, end: int) -> int:
        """The first place from `start` on where the segment fits before `end`, or -1."""
        if end - start < self.length:
            return -1
        if not self.pieces:
            return start
        lead = self.offsets[0]
        last = len(self.pieces) - 1
        behind = self.length - self.offsets[last] - len(self.pieces[last])
        found = text.find(self.pieces[0], start + lead, end - behind)
        if found >= 0 and last > 0:
            found = self._find_bit_parallel(text, found, end - behind)
        return found - lead if found >= 0 else -1

    def _find_bit_parallel(self, text: str, start: int, end: int) -> int:
        """Where the part from the first piece to the last fits, from `start` on.

        A bit that is 0 says "fits so far". The highest bit is the first character of the part, so that the shift brings
        in a 0 there, as it must: the part may begin at any character.
        """
        lead = self.offsets[0]
        last = len(self.pieces) - 1
        size = self.offsets[last] + len(self.pieces[last]) - lead
        literals = 0
        places: dict[str, int] = {}
        for index in range(len(self.pieces)):
            bit = size - 1 - (self.offsets[index] - lead)
            for character in self.pieces[index]:
                places[character] = places.get(character, 0) | (1 << bit)
                literals |= 1 << bit
                bit -= 1
        # Where each character does not fit; any other character fits at the `_` only.
        misfits = {character: literals & ~bits for character, bits in places.items()}
        state = (1 << size) - 1
        for at in range(start, end):
            state = (state >> 1) | misfits.get(text[at], literals)
            if not state & 1:
                return at - size + 1
        return -1


class Pattern:
    """A pattern taken apart, to be matched many times."""

    __slots__ = ("_head", "_is_whole", "_least", "_middle", "_tail", "work_per_character")

    def __init__(self, text: str, escape: str = "") -> None:
        """`escape` is one character or none. RuleEvaluationError if the pattern is too long or ends with it."""
        if len(text) > MAX_PATTERN_CHARACTERS:
            raise RuleEvaluationError(
                f"a LIKE pattern of {len(text)} characters, a pattern has at most {MAX_PATTERN_CHARACTERS}"
            )
        segments = _segments(text, escape)
        last = len(segments) - 1
        # Without any % one segment is the whole text.
        self._is_whole: bool = last == 0
        self._head: Segment = segments[0]
        self._tail: Segment = segments[last]
        self._middle: list[Segment] = [segment for segment in segments[1:-1] if segment.length]
        self._least: int = sum([segment.length for segment in segments])
        # At most, in the units of `RULE_WORK_PER_TURN`: nothing if only the ends of a text are looked at.
        self.work_per_character: int = 0
        for segment in self._middle:
            self.work_per_character = max(
                self.work_per_character, _BITS_WORK if len(segment.pieces) > 1 else _FINDING_WORK
            )

    def matches(self, text: str) -> bool:
        if len(text) < self._least or not self._head.is_at(text, 0):
            return False
        if self._is_whole:
            return len(text) == self._least
        end = len(text) - self._tail.length
        if not self._tail.is_at(text, end):
            return False
        at = self._head.length
        for segment in self._middle:
            at = segment.find(text, at, end)
            if at < 0:
                return False
            at += segment.length
        return True


def _segments(text: str, escape: str) -> list[Segment]:
    segment = Segment()
    segments = [segment]
    literal: list[str] = []
    is_escaped = False
    for character in text:
        if is_escaped:
            literal.append(character)
            is_escaped = False
        elif character == escape:
            is_escaped = True
        elif character == "%":
            segment.add(literal)
            segment = Segment()
            segments.append(segment)
        elif character == "_":
            segment.add(literal)
            segment.length += 1
        else:
            literal.append(character)
    if is_escaped:
        raise RuleEvaluationError("a LIKE pattern must not end with its escape character")
    segment.add(literal)
    return segments
