"""Names on the wire are spelled out in one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tandem import wire_names

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"
# The module itself; the conditions of errors, some of which are spelled as the property of a link is.
HOMES: Final = ("tandem/wire_names.py", "tandem/errors.py")
NAMES: Final = {
    value for name, value in vars(wire_names).items() if name.isupper() and isinstance(value, str) and len(value) > 1
}
TICKS: Final = wire_names.TICKS_OF_1970


def literals(source: str) -> Iterator[str | bytes | int]:
    """Every constant that is not a documentation string."""
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and id(node) not in documentation
            and isinstance(node.value, str | bytes | int)
        ):
            yield node.value


def spelled_out(source: str) -> list[str]:
    """The wire names in a source, whole or as a part of a longer text."""
    found = []
    for value in literals(source):
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if text == TICKS or text in NAMES or (isinstance(text, str) and "x-opt-" in text):
            found.append(str(text))
    return found


def paths() -> list[str]:
    return sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", [path for path in paths() if path not in HOMES])
def test_a_wire_name_is_spelled_out_in_one_module_only(path: str) -> None:
    assert spelled_out((SOURCE / path).read_text(encoding="utf-8")) == []


def test_a_wire_name_that_is_spelled_out_is_found() -> None:
    assert spelled_out('"""x-opt-offset"""\nname = "$cbs"\nkey = b"x-opt-offset"\n') == ["$cbs", "x-opt-offset"]
    assert spelled_out("epoch = 621_355_968_000_000_000") == [str(TICKS)]


def test_a_moment_of_1970_is_that_many_ticks_of_dotnet() -> None:
    assert wire_names.ticks_of(1) == 621_355_968_000_010_000
