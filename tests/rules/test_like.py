"""LIKE against a matcher that is too simple to be wrong, and against the clock."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.limits import MAX_PATTERN_CHARACTERS
from tandem.rules import RuleEvaluationError
from tandem.rules.like import Pattern


def naive(text: str, pattern: str, escape: str = "") -> bool:
    """By the book: a table of which beginnings of the pattern match which beginnings of the text."""
    letters = iter(pattern)
    parts = [(next(letters), True) if letter == escape else (letter, False) for letter in letters]
    row = [True] + [False] * len(text)
    for letter, is_literal in parts:
        after = [False] * (len(text) + 1)
        if letter == "%" and not is_literal:
            reached = False
            for at in range(len(text) + 1):
                reached = reached or row[at]
                after[at] = reached
        else:
            for at in range(len(text)):
                after[at + 1] = row[at] and (text[at] == letter or (letter == "_" and not is_literal))
        row = after
    return row[len(text)]


@pytest.mark.parametrize(
    "text, pattern, is_match",
    [
        ("", "", True),
        ("", "%", True),
        ("", "_", False),
        ("a", "", False),
        ("a", "_", True),
        ("ab", "_", False),
        ("ab", "%_", True),
        ("abc", "a%c", True),
        ("ac", "a%c", True),
        ("a", "a%a", False),
        ("aba", "ab%ba", False),
        ("topic", "TOPIC", False),
        ("service bus", "%bus%", True),
        ("line\nbreak", "line_break", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("(x)*", "(x)*", True),
        ("xaxxbxaxxb", "%a_b%", False),
        ("xaxbxacb", "%a_b", True),
        ("xxxxab", "%ab%cd%", False),
        ("xa__bx", "%_a__b_%", True),
        ("éa😀b", "_a_b", True),
    ],
)
def test_like(text: str, pattern: str, is_match: bool) -> None:
    assert Pattern(pattern).matches(text) is is_match
    assert naive(text, pattern) is is_match


def test_an_escape_character_takes_the_meaning_of_the_next() -> None:
    assert Pattern("ABC\\%", "\\").matches("ABC%")
    assert not Pattern("ABC\\%", "\\").matches("ABCD")
    assert Pattern("!!!_!x%", "!").matches("!_xyz")
    assert not Pattern("!!!_", "!").matches("!x")
    assert Pattern("%%a", "%").matches("%a")
    with pytest.raises(RuleEvaluationError, match="must not end with its escape character"):
        Pattern("a!", "!")


@given(st.text("ab", max_size=24), st.text("ab%_", max_size=12))
@example("aabab", "%a_b%")
@example("abababab", "%a_b_b%")
def test_like_agrees_with_the_naive_matcher(text: str, pattern: str) -> None:
    assert Pattern(pattern).matches(text) == naive(text, pattern)


@given(
    st.text("ab%_!é", max_size=12), st.lists(st.sampled_from(("a", "b", "%", "_", "!!", "!%", "!_", "é")), max_size=9)
)
def test_like_with_escape_agrees_with_the_naive_matcher(text: str, parts: list[str]) -> None:
    pattern = "".join(parts)
    assert Pattern(pattern, "!").matches(text) == naive(text, pattern, "!")


def test_a_pattern_has_at_most_1024_characters() -> None:
    assert Pattern("_" * MAX_PATTERN_CHARACTERS).matches("x" * 1024)
    with pytest.raises(RuleEvaluationError, match="a LIKE pattern of 1025 characters"):
        Pattern("_" * (MAX_PATTERN_CHARACTERS + 1))


# Characters: a quadratic matcher would take 10^12 steps.
MANY = 1 << 20

WORST = {
    "one long segment": "%" + "a_" * 510 + "ab%",
    "literal segment": "%" + "a" * 1021 + "b%",
    "many segments": "%a" * 511 + "b%",
    "many short segments": "%a_a" * 255 + "%b%",
    "short segment": "%a_a_a_b%",
    "head": "a_" * 511 + "%b",
    "tail": "b%" + "a_" * 511,
    "only wildcards": "_%" * 511 + "b",
}


@pytest.mark.parametrize("pattern", WORST.values(), ids=WORST.keys())
@pytest.mark.parametrize("text", ["a" * MANY, "ab" * (MANY // 2), "a" * MANY + "b"], ids=["a", "ab", "aab"])
def test_the_worst_patterns_take_time_in_proportion_to_the_text(pattern: str, text: str) -> None:
    """Some hundredths of a second. A matcher that goes back would not come to an end before the limit of a test."""
    assert len(pattern) <= MAX_PATTERN_CHARACTERS
    assert Pattern(pattern).matches(text) in (True, False)
