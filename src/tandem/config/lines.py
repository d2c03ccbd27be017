"""On which line of a file something stands. The parsers of Python know, and do not tell.

Both scanners read files that a parser has accepted, so that they need not know everything: a place that they do not
find is on the line of what it is a part of.
"""

from __future__ import annotations

import json
import re
from typing import Final

__all__ = ["Place", "json_lines", "line_of", "toml_lines"]

# `queues[0].name` is ("queues", 0, "name").
Place = tuple[str | int, ...]

_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")

# Strings first, so that nothing inside them is taken for anything else; a comment is one that is passed over.
_TOML_TOKEN: Final = re.compile(
    r"""\"{3}(?:\\.|[^\\])*?\"{3,5} | '{3}.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*' | \#[^\n]* |
        [\[\]{}=,\n] | [^\s"'\#\[\]{}=,]+""",
    re.DOTALL | re.VERBOSE,
)
_JSON_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|[\[\]{}:,\n]|[^\s"\[\]{}:,]+', re.DOTALL)


def line_of(place: str, lines: dict[Place, int]) -> int | None:
    """The line of `queues[0].name`, or of the nearest thing around it that was found."""
    steps: list[str | int] = [int(match[2]) if match[2] else match[1] for match in _STEP.finditer(place)]
    while steps and tuple(steps) not in lines:
        steps.pop()
    return lines.get(tuple(steps))


# --- TOML -----------------------------------------------------------------------------------------------------------


def toml_lines(text: str) -> dict[Place, int]:
    """Of tables, of entries of lists of tables, and of keys. What is inside a value is on the line of its key."""
    lines: dict[Place, int] = {}
    lengths: dict[Place, int] = {}
    table: Place = ()
    line = 1
    statement: list[str] = []
    started_on = 1
    depth = 0
    for mark in _TOML_TOKEN.findall(text):
        if mark == "\n":
            line += 1
            # Inside brackets a line break is as good as a space.
            if depth > 0 and "=" in statement:
                continue
            if statement and statement[0] == "[":
                table = _header(statement, lengths)
                lines[table] = started_on
            statement, depth = [], 0
            continue
        if not mark.startswith("#"):
            started_on = started_on if statement else line
            if mark == "=" and depth == 0 and "=" not in statement:
                lines[(*table, *_dotted(statement))] = started_on
            statement.append(mark)
            depth += (mark in {"[", "{"}) - (mark in {"]", "}"})
        line += mark.count("\n")
    if statement and statement[0] == "[":
        lines[_header(statement, lengths)] = started_on
    return lines


def _header(statement: list[str], lengths: dict[Place, int]) -> Place:
    """`[a.b]` or `[[a.b]]`, where `a` may be a list: then its last entry is meant."""
    is_list = statement[1] == "["
    *parents, last = _dotted([mark for mark in statement if mark not in {"[", "]"}])
    place: Place = ()
    for parent in parents:
        place = (*place, parent)
        if place in lengths:
            place = (*place, lengths[place] - 1)
    place = (*place, last)
    if is_list:
        lengths[place] = lengths.get(place, 0) + 1
        place = (*place, lengths[place] - 1)
    return place


def _dotted(marks: list[str]) -> list[str]:
    """The parts of a key such as `a."b.c".d`."""
    parts: list[str] = []
    for mark in marks:
        parts += [mark[1:-1]] if mark[0] in "\"'" else [part for part in mark.split(".") if part]
    return parts


# --- JSON -----------------------------------------------------------------------------------------------------------


def json_lines(text: str) -> dict[Place, int]:
    """Of every value: a member of an object is on the line of its name."""
    lines: dict[Place, int] = {}
    # What is open: for an object the name of the member that is being read, for a list the number of the entry.
    stack: list[str | int | None] = []
    line = 1
    previous = ""
    for mark in _JSON_TOKEN.findall(text):
        if mark == "\n":
            line += 1
            continue
        if mark == ":":
            stack[-1] = json.loads(previous)
        elif mark in {"}", "]"}:
            stack.pop()
        elif mark == ",":
            current = stack[-1]
            stack[-1] = current + 1 if isinstance(current, int) else None
        elif None not in stack:
            lines.setdefault(tuple(step for step in stack if step is not None), line)
        if mark in {"{", "["}:
            stack.append(0 if mark == "[" else None)
        elif mark[0] == '"' and stack and stack[-1] is None:
            # The name of a member, most likely: its line, should the value be on another one.
            lines.setdefault((*[step for step in stack if step is not None], json.loads(mark)), line)
        previous = mark
    return lines
