"""What docs/reference/rules.md shows and says is true."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tandem.limits import (
    MAX_ACTED_BYTES,
    MAX_COMPUTED_CHARACTERS,
    MAX_CORRELATION_PROPERTIES,
    MAX_EXPRESSION_CHARACTERS,
    MAX_HEADER_BYTES,
    MAX_PATTERN_CHARACTERS,
    MAX_PROPERTY_NAME_CHARACTERS,
    MAX_RULE_DEPTH,
    MAX_RULE_STATEMENTS,
)
from tandem.rules import SqlAction, SqlFilter, Subject
from tandem.rules.system import CODES, NAMES, SETTABLE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    section = PAGE.split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_examples_in_python_print_what_the_page_says() -> None:
    text = "\n".join(blocks("python"))
    test = doctest.DocTestParser().get_doctest(text, {}, "rules.md", None, 0)
    assert len(test.examples) > 10
    output: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=output.append)
    assert result.failed == 0, "".join(output)


@pytest.mark.parametrize("line", [line for block in blocks("sql") for line in block.splitlines()])
def test_the_examples_of_rules_are_in_the_language(line: str) -> None:
    if line.startswith("SET"):
        SqlAction(line)
    else:
        SqlFilter(line)


def test_the_table_of_system_properties_is_complete() -> None:
    table = rows("System properties")
    assert [row[0] for row in table] == list(NAMES)
    assert {name.lower() for row in table for name in row[:2] if name} == set(CODES)
    for name, also, _, is_settable in table:
        assert is_settable.startswith("yes") is (CODES[name.lower()] in SETTABLE)
        assert not also or CODES[also.lower()] == CODES[name.lower()]


def test_the_table_of_limits_has_the_limits() -> None:
    limits = [int(row[1].replace(",", "")) for row in rows("Limits")]
    assert limits == [
        MAX_EXPRESSION_CHARACTERS,
        MAX_PROPERTY_NAME_CHARACTERS,
        MAX_RULE_DEPTH,
        MAX_RULE_STATEMENTS,
        MAX_HEADER_BYTES,
        MAX_ACTED_BYTES,
        MAX_PATTERN_CHARACTERS,
        MAX_COMPUTED_CHARACTERS,
        MAX_CORRELATION_PROPERTIES,
    ]


@pytest.mark.parametrize("row", rows("True, false and unknown"), ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_truth_table_is_true(row: list[str]) -> None:
    words = {"true": "TRUE", "false": "FALSE", "unknown": "missing"}
    left, right = words[row[0]], words[row[1]]
    for text, expected in ((f"{left} AND {right}", row[2]), (f"{left} OR {right}", row[3]), (f"NOT {left}", row[4])):
        outcome = SqlFilter(text).tree.evaluate(Subject.of_values())
        assert ("unknown" if outcome is None else str(outcome).lower()) == expected
