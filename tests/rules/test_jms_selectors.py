"""Selectors of JMS as filters of rules."""

from __future__ import annotations

import pytest

from tandem.errors import ArgumentError
from tandem.rules import RuleSyntaxError, SqlFilter, Subject, jms_filter

SUBJECT = Subject.of_values(
    {"MessageId": "ID:1", "CorrelationId": "c", "Label": "order", "SessionId": "g"},
    {"n": 5, "x": 2.5, "s": "it's", "_u": 1, "$d": 2, "a.b": 3, "between": 4, "exists": 5, "flag": True},
)


@pytest.mark.parametrize(
    "selector",
    [
        "n BETWEEN 1 AND 5",
        "n NOT BETWEEN 6 AND 10 AND s = 'it''s'",
        "n + 1 BETWEEN 2 * 3 AND 6 OR FALSE",
        "NOT n BETWEEN 6 AND 10",
        "n = 5L AND x = 2.5F AND x > 2D AND n = 0x5 AND n < 017",
        "_u = 1 AND $d = 2 AND a.b = 3",
        "exists = 5 AND between = 4",
        "JMSMessageID = 'ID:1' AND JMSCorrelationID LIKE 'c%' AND JMSType IN ('order') AND JMSXGroupID = 'g'",
        "missing IS NULL AND NOT (n IS NULL)",
        "flag AND flag = TRUE AND s LIKE 'it!''%' ESCAPE '!'",
        "s LIKE '%_s'",
    ],
)
def test_a_selector_picks_what_jms_says(selector: str) -> None:
    assert jms_filter(selector).matches(SUBJECT)


@pytest.mark.parametrize(
    "selector",
    ["n BETWEEN 6 AND 10", "missing BETWEEN 1 AND 2", "NOT missing BETWEEN 1 AND 2", "s = 5", "JMSType = 'x'"],
)
def test_a_selector_picks_nothing_else(selector: str) -> None:
    assert not jms_filter(selector).matches(SUBJECT)


@pytest.mark.parametrize(
    "selector",
    ["n BETWEEN 1", "n BETWEEN 1 OR 2", "n =", "JMSPriority = 4", "JMSTimestamp > 0", "n = 'open", "n " * 600],
)
def test_a_selector_that_cannot_be_applied_is_refused(selector: str) -> None:
    with pytest.raises(ArgumentError):
        jms_filter(selector)


def test_a_selector_is_kept_as_a_filter_that_says_the_same() -> None:
    """It may be stored as the rule of a subscription, and read again."""
    kept = jms_filter("n BETWEEN 1 AND 5 AND JMSType = 'order'").expression
    assert kept == "(n >= 1 AND n <= 5) AND sys.Label = 'order'"


def test_rules_have_no_between() -> None:
    """To them it is a word that may name a property."""
    with pytest.raises(RuleSyntaxError):
        SqlFilter("n BETWEEN 1 AND 5")
    assert SqlFilter("between = 4").matches(SUBJECT)
