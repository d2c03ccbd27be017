"""Options as a user of Spark writes them: any case, several spellings, all of them text.

Whatever is wrong with an option is said with its name, its value and what is allowed; of one that nobody knows, the
nearest that is known is named. Values that are secret are never repeated.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tandem.durations import parse_duration_ms
from tandem.errors import ArgumentError, ConfigurationError

__all__ = ["GivenOptions", "Option", "OptionError"]

# What Spark itself adds to the options of a sink.
_SPARKS_OWN: Final = frozenset({"checkpointlocation"})

_TRUE: Final = "true"
_FALSE: Final = "false"


class OptionError(ConfigurationError):
    """An option of a data source that cannot be. The message names it, its value and what is allowed."""


@dataclass(frozen=True)
class Option:
    """An option, the other names that it has, and what it is for."""

    name: str
    meaning: str
    aliases: tuple[str, ...] = ()
    is_secret: bool = False
    # Read for the sake of programs that were written for other connectors; it changes nothing here.
    is_ignored: bool = False
    # An option of another connector whose meaning does not exist here: why, and what to do instead.
    refusal: str | None = None


class GivenOptions:
    """What was given, by the first name of each option."""

    def __init__(
        self, format_name: str, known: Sequence[Option], given: Mapping[str, str], prefixes: Sequence[str]
    ) -> None:
        self._format = format_name
        self._known = {option.name: option for option in known}
        self._by_spelling = {
            spelling.lower(): option for option in known for spelling in (option.name, *option.aliases)
        }
        self._prefixes = prefixes
        self._values: dict[str, str] = {}
        self._spellings: dict[str, str] = {}
        for spelling, value in given.items():
            if spelling.lower() not in _SPARKS_OWN:
                self._take(spelling, value)

    def _take(self, spelling: str, value: str) -> None:
        option = self._find(spelling)
        if option.refusal is not None:
            raise OptionError(f"{self._format}: {spelling} was given; {option.refusal}")
        before = self._values.get(option.name)
        if before is not None and before != value:
            raise OptionError(
                f"{self._format}: {self._spellings[option.name]} and {spelling} are one option and were given "
                "different values; leave one of them out"
            )
        self._values[option.name] = value
        self._spellings[option.name] = spelling

    def _find(self, spelling: str) -> Option:
        lowered = spelling.lower()
        for prefix in self._prefixes:
            lowered = lowered.removeprefix(prefix)
        option = self._by_spelling.get(lowered)
        if option is not None:
            return option
        useful = {
            spelling: one for spelling, one in self._by_spelling.items() if one.refusal is None and not one.is_ignored
        }
        near = difflib.get_close_matches(lowered, useful, n=1, cutoff=0.5)
        names = dict.fromkeys(one.name for one in useful.values())
        hint = f"did you mean {self._display(near[0])}?" if near else f"known are {', '.join(names)}"
        raise OptionError(f"{self._format}: there is no option {spelling!r:.80}; {hint}")

    def _display(self, lowered: str) -> str:
        option = self._by_spelling[lowered]
        return next(name for name in (option.name, *option.aliases) if name.lower() == lowered)

    def text(self, name: str) -> str | None:
        """None if it was not given; one that was given is not empty."""
        value = self._values.get(name)
        if value is not None and not value.strip():
            raise OptionError(f"{self._format}: {self._spellings[name]} is empty; give it a value or leave it out")
        return None if value is None else value.strip()

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        value = self.text(name)
        if value is None:
            return default
        for one in allowed:
            if value.lower() == one.lower():
                return one
        raise self.wrong(name, f"it must be {' or '.join(allowed)}")

    def is_true(self, name: str, default: bool) -> bool:
        return self.choice(name, (_TRUE, _FALSE), _TRUE if default else _FALSE) == _TRUE

    def number(self, name: str, least: int) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or len(value) > 18 or int(value) < least:
            raise self.wrong(name, f"it must be a whole number, {least} or more")
        return int(value)

    def seconds(self, name: str, default_s: float) -> float:
        """A time as `30s`, `5m`, `PT1M`, or a plain number of seconds."""
        value = self.text(name)
        if value is None:
            return default_s
        try:
            value_ms = parse_duration_ms(f"{value}s" if value.isdigit() else value, name)
        except ArgumentError:
            value_ms = None
        if not value_ms:
            raise self.wrong(name, "write a time longer than nothing as 30s, 5m or PT1M")
        return value_ms / 1_000

    def at_most_one(self, *names: str) -> str | None:
        """Which of options that exclude each other was given."""
        given = [name for name in names if name in self._values]
        if len(given) > 1:
            spellings = " and ".join(self._spellings[name] for name in given)
            raise OptionError(f"{self._format}: {spellings} were given together; each says the same in another way")
        return given[0] if given else None

    def refuse(self, names: Sequence[str], reason: str) -> None:
        for name in names:
            if name in self._values:
                raise OptionError(f"{self._format}: {self._spellings[name]} was given; {reason}")

    def wrong(self, name: str, reason: str) -> OptionError:
        """The error about the value of an option that was given."""
        shown = "as it is" if self._known[name].is_secret else f"{self._values[name]!r:.80}"
        return OptionError(f"{self._format}: {self._spellings[name]} is {shown}; {reason}")

    def __repr__(self) -> str:
        shown = {
            self._spellings[name]: "(redacted)" if self._known[name].is_secret else value
            for name, value in self._values.items()
        }
        return f"GivenOptions({shown})"
