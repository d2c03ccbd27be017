"""Which lines of the mission have a test that names them: `python -m tools.coverage_of_mission [--strict]`.

The lines come from the tables of docs/mission.md, the names from the `@mission("M22")` decorators in tests/, read from
the syntax tree: no test is imported or run, so the answer does not depend on what happens to be installed. A name that
is not a line of the mission is a mistake in a test and is shown too. The exit code is 0 unless --strict asks for more.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parent.parent

_ROW: Final = re.compile(r"^\| (M[1-9]\d*) \| (\d+(?:, \d+)*) \| (.+?) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Line:
    """A row of docs/mission.md."""

    name: str
    steps: str
    promise: str


@dataclass(frozen=True)
class Naming:
    """A test that says which line it proves."""

    line: str
    test: str


def read_mission(text: str) -> list[Line]:
    """The lines of the mission, in the order of the page."""
    return [Line(*row.groups()) for row in _ROW.finditer(text)]


def find_namings(source: str, path: str) -> Iterator[Naming]:
    """The `@mission(...)` decorators of one file, on functions and on classes."""
    for node in ast.walk(ast.parse(source, filename=path)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and _last_name(decorator.func) == "mission":
                for argument in decorator.args:
                    if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                        raise SystemExit(f"{path}:{argument.lineno}: @mission takes literal strings")
                    yield Naming(argument.value, f"{path}::{node.name}")


def find_all_namings(root: Path) -> list[Naming]:
    return [
        naming
        for path in sorted((root / "tests").rglob("*.py"))
        for naming in find_namings(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())
    ]


def find_strays(lines: Sequence[Line], namings: Sequence[Naming]) -> list[Naming]:
    """The tests that name a line the mission does not have."""
    known = {line.name for line in lines}
    return [naming for naming in namings if naming.line not in known]


def report(lines: Sequence[Line], namings: Sequence[Naming], console: Console) -> int:
    """Print the lines without a test; return how many there are."""
    tested = {naming.line for naming in namings}
    missing = [line for line in lines if line.name not in tested]
    if missing:
        table = Table("line", "step", "promise", title="Lines of the mission without a test")
        for line in missing:
            table.add_row(line.name, line.steps, escape(line.promise))
        console.print(table)
    console.print(f"{len(lines) - len(missing)} of {len(lines)} lines of the mission are named by a test.")
    return len(missing)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="List the lines of docs/mission.md that no test names.")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if there are any, or a test names no such line"
    )
    options = parser.parse_args(arguments)

    lines = read_mission((root / "docs" / "mission.md").read_text(encoding="utf-8"))
    namings = find_all_namings(root)
    strays = find_strays(lines, namings)
    for stray in strays:
        print(f"{stray.test} names {stray.line}, which is no line of docs/mission.md", file=sys.stderr)
    missing_count = report(lines, namings, Console())
    return 1 if options.strict and (strays or missing_count) else 0


def _last_name(expression: ast.expr) -> str | None:
    """`mission` of `mission(...)` and of `markers.mission(...)`."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else None


if __name__ == "__main__":
    raise SystemExit(main())
