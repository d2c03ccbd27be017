"""What commands print: tables, JSON, progress; and texts of others, so that they cannot drive a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import typer

from tandem.cli.shared.failure import CommandFailed
from tandem.durations import duration_text

__all__ = [
    "Advance",
    "confirm",
    "fits_terminal",
    "is_terminal",
    "moment_text",
    "neutral",
    "neutral_lines",
    "print_done",
    "print_json",
    "print_properties",
    "print_records",
    "print_table",
    "progress",
]

# Unicode's categories of characters that a terminal may act upon, or that change what is shown around them: control
# characters, among them the one that begins every escape sequence, changes of the writing direction, lone surrogates,
# characters without a meaning, and separators of lines.
_UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

# Joins emoji, and does nothing else.
_JOINER: Final = "\u200d"

# Characters between two columns of a table.
_COLUMN_GAP: Final = 2

_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


# --- texts of others ------------------------------------------------------------------------------------------------


def neutral(text: str) -> str:
    """A text on one line, with what could drive a terminal written out: `\\x1b[2J` clears no screen."""
    # Most texts have nothing of the kind, and this is quick to see.
    return text if text.isprintable() else "".join(map(_shown, text))


def neutral_lines(text: str) -> str:
    """The same for a text that may have several lines."""
    return "\n".join("\t".join(map(neutral, line.split("\t"))) for line in text.split("\n"))


def _shown(character: str) -> str:
    if character == _JOINER or unicodedata.category(character) not in _UNSAFE_CATEGORIES:
        return character
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# --- on the standard output -----------------------------------------------------------------------------------------


def print_json(value: object) -> None:
    """On one line, in ASCII: whatever a text in it holds cannot drive a terminal."""
    typer.echo(json.dumps(value))


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Collection[str] = (),
    unbroken: Collection[str] = (),
    *,
    has_header: bool = True,
) -> None:
    """Columns as wide as the terminal allows; those headed as in `numbers` keep to the right, and like those in
    `unbroken` to one line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=has_header)
    for heading in headings:
        if heading in numbers:
            table.add_column(heading, justify="right", no_wrap=True)
        else:
            table.add_column(heading, overflow="fold", no_wrap=heading in unbroken)
    for row in rows:
        table.add_row(*row)
    # Texts of users may have brackets, which are no markup, and words between colons, which are no emoji.
    Console(markup=False, emoji=False, highlight=False).print(table)


def fits_terminal(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table has room for each cell on one line."""
    from rich.cells import cell_len
    from rich.console import Console

    widths = [max(cell_len(cell) for cell in column) for column in zip(headings, *rows, strict=True)]
    return sum(widths) + _COLUMN_GAP * (len(widths) - 1) <= Console().width


def print_records(records: Iterable[Mapping[str, str]]) -> None:
    """Print a block for each record: a line for each field, its name in front, and as wide as the terminal."""
    for number, record in enumerate(records):
        if number:
            typer.echo()
        print_table(("field", "value"), list(record.items()), unbroken=("field",), has_header=False)


def print_done(sentence: str, value: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        typer.echo(sentence)


def print_properties(properties: dict[str, Any], as_json: bool) -> None:
    """Print a line for each property: its name and its value."""
    if as_json:
        print_json(properties)
    else:
        print_table(("", " "), [_row(field, value) for field, value in properties.items()], has_header=False)


def _row(field: str, value: object) -> tuple[str, str]:
    """A property in words: its unit moves from the name to the value."""
    if field.endswith("_at_ms") and isinstance(value, int):
        return _label(field.removesuffix("_ms")), moment_text(value)
    if field.endswith("_ms") and (value is None or isinstance(value, int)):
        return _label(field.removesuffix("_ms")), duration_text(value)
    if isinstance(value, bool):
        return _label(field), "yes" if value else "no"
    if isinstance(value, int):
        return _label(field), f"{value:,}"
    return _label(field), "-" if value is None else neutral(str(value))


def moment_text(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _label(field: str) -> str:
    return field.replace("_", " ")


# --- with people ----------------------------------------------------------------------------------------------------


def is_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str, is_agreed: bool) -> None:
    """Ask before something cannot be undone. A script is not asked: it has --yes, or is refused."""
    if is_agreed:
        return
    if not is_terminal():
        raise CommandFailed(f"{question} Give --yes to say so.")
    typer.confirm(question, abort=True)


# Told how much is done and, once that is known, of how much.
Advance = Callable[[int, int | None], object]


@contextlib.contextmanager
def progress(description: str, total: int | None, is_quiet: bool = False) -> Iterator[Advance]:
    """A bar on the standard error, since scripts read the standard output; none if that is no terminal."""
    if is_quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda done, of: bar.update(task, completed=done, total=of)
