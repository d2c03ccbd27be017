"""What ruff and mypy cannot see: the length of functions, and what a lock may hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_FUNCTION_LINES: Final = 70
SOURCES = sorted(path for folder in ("src", "tools", "bench", "examples") for path in (ROOT / folder).rglob("*.py"))
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def long_functions_without_a_reason(source: str) -> Iterator[str]:
    """A longer function says why in a comment of this form, on or above the line of its `def`."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            head = "\n".join(lines[max(0, node.lineno - 4) : node.body[0].lineno])
            if length > MAX_FUNCTION_LINES and re.search(r"# Longer than 70 lines: \S", head) is None:
                yield f"{node.name}: {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_function_longer_than_70_lines_gives_its_reason(path: Path) -> None:
    assert list(long_functions_without_a_reason(path.read_text(encoding="utf-8"))) == []


def test_the_rule_for_long_functions_sees_them() -> None:
    body = "    pass\n" * MAX_FUNCTION_LINES
    assert list(long_functions_without_a_reason(f"def f() -> None:\n{body}")) == ["f: 71 lines"]
    reason = "# Longer than 70 lines: one branch per type code.\n"
    assert list(long_functions_without_a_reason(f"{reason}def f() -> None:\n{body}")) == []


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_holds_exact_versions_with_hashes_and_no_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    requirements = re.findall(r"^[A-Za-z0-9].*(?:\n    --hash.*)*", text, re.MULTILINE)
    assert requirements
    for requirement in requirements:
        assert re.match(r"[A-Za-z0-9._-]+==\S+ .*\\\n    --hash=sha256:[0-9a-f]{64}", requirement), requirement
