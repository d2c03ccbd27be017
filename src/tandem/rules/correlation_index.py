"""Which of very many correlation filters a message satisfies, without asking those that it does not.

Filters that name the same properties form a group, which has one dict from the values that they want to whoever wants
them. A message is looked up once in each group. So the cost grows with the number of different sets of properties, of
which even 100,000 filters have a handful, and not with the number of filters.
"""

from __future__ import annotations

from typing import TypeAlias

from tandem.errors import UsageError
from tandem.rules.filters import CorrelationFilter
from tandem.rules.subject import Subject
from tandem.rules.values import typed_key

__all__ = ["CorrelationIndex"]

# What a group names: the numbers of system properties and the folded names of user properties.
_Named: TypeAlias = tuple[tuple[int, ...], tuple[str, ...]]


class _Group:
    """The filters that name the same properties."""

    __slots__ = ("holders", "system_codes", "user_names")

    def __init__(self, system_codes: list[int], user_names: list[str]) -> None:
        self.system_codes = system_codes
        self.user_names = user_names
        # A dict in the place of an ordered set: keys in the order in which they were added.
        self.holders: dict[tuple[object, ...], dict[object, None]] = {}

    def wanted_by(self, subject: Subject) -> dict[object, None] | None:
        """Whoever wants what the message has, if it has all that the group names."""
        values: list[object] = []
        for code in self.system_codes:
            key = typed_key(subject.system_at(code))
            if key is None:
                return None
            values.append(key)
        for name in self.user_names:
            key = typed_key(subject.user(name))
            if key is None:
                return None
            values.append(key)
        return self.holders.get(tuple(values))


class CorrelationIndex:
    """Correlation filters by key: whatever the caller knows their rules by."""

    __slots__ = ("_groups", "_places")

    def __init__(self) -> None:
        self._groups: dict[_Named, _Group] = {}
        self._places: dict[object, tuple[_Named, tuple[object, ...]]] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def group_count(self) -> int:
        """How many look-ups a message costs."""
        return len(self._groups)

    def add(self, key: object, filter: CorrelationFilter) -> None:
        if key in self._places:
            raise UsageError(f"the index has a filter for {key!r:.80} already")
        named = (tuple(filter.system_codes), tuple(filter.user_names))
        group = self._groups.get(named)
        if group is None:
            group = _Group(filter.system_codes, filter.user_names)
            self._groups[named] = group
        wanted = filter.keys
        group.holders.setdefault(wanted, {})[key] = None
        self._places[key] = (named, wanted)

    def remove(self, key: object) -> None:
        """Nothing is left behind: a group ends with its last filter."""
        place = self._places.pop(key, None)
        if place is None:
            raise UsageError(f"the index has no filter for {key!r:.80}")
        named, wanted = place
        group = self._groups[named]
        holders = group.holders[wanted]
        del holders[key]
        if not holders:
            del group.holders[wanted]
            if not group.holders:
                del self._groups[named]

    def find(self, subject: Subject) -> list[object]:
        """The keys of all filters that match."""
        found: list[object] = []
        for group in self._groups.values():
            holders = group.wanted_by(subject)
            if holders is not None:
                found.extend(holders)
        return found
