"""Explanations: the part of a rule that decided, with the values that it saw."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given

from tandem.amqp.types import Timestamp
from tandem.rules import (
    CorrelationFilter,
    FalseFilter,
    RuleEvaluationError,
    SqlAction,
    SqlFilter,
    Subject,
    TrueFilter,
    explain,
)
from tandem.rules.expressions import Node
from tests.rules.strategies import application_properties, predicates

USER: dict[str, object] = {"StoreName": "Store2", "Quantity": 12, "Rush": False, "at": Timestamp(0), "nan": math.nan}
SUBJECT = Subject.of_values({"Label": "order"}, USER)


def lines(text: str) -> list[str]:
    return explain(SqlFilter(text), SUBJECT).lines()


def test_the_comparison_that_failed_is_named_with_the_value_that_it_saw() -> None:
    assert lines("StoreName = 'Store1'") == [
        "no match",
        "  StoreName = 'Store1' is false",
        "    StoreName is 'Store2'",
    ]


def test_a_match_names_all_that_had_to_be_true() -> None:
    assert lines("StoreName = 'Store2' AND (Quantity > 10 OR sys.Label = 'x') AND NOT Rush") == [
        "match",
        "  StoreName = 'Store2' is true",
        "    StoreName is 'Store2'",
        "  Quantity > 10 is true",
        "    Quantity is 12",
        "  Rush is false",
        "    Rush is FALSE",
    ]


def test_of_a_conjunction_that_is_false_the_first_false_operand_decided() -> None:
    assert lines("Quantity > 10 AND StoreName = 'Store1' AND Rush") == [
        "no match",
        "  StoreName = 'Store1' is false",
        "    StoreName is 'Store2'",
    ]


def test_of_a_disjunction_that_is_false_all_operands_decided() -> None:
    assert lines("Quantity > 20 OR Rush") == [
        "no match",
        "  Quantity > 20 is false",
        "    Quantity is 12",
        "  Rush is false",
        "    Rush is FALSE",
    ]


def test_what_is_unknown_says_which_property_is_missing() -> None:
    assert lines("Quantity > 10 AND Colour = 'red' + StoreName") == [
        "no match",
        "  Colour = 'red' + StoreName is unknown",
        "    Colour is null or missing",
        "    StoreName is 'Store2'",
    ]


def test_parameters_and_computed_names_are_shown() -> None:
    rule = SqlFilter("p('Quan' + @rest) > @most AND EXISTS(at)", {"rest": "tity", "most": 50})
    assert explain(rule, SUBJECT).lines() == [
        "no match",
        "  property('Quan' + @rest) > @most is false",
        "    property('Quan' + @rest) is 12",
        "    @rest is 'tity'",
        "    @most is 50",
    ]


def test_an_error_names_the_innermost_part_that_has_no_value() -> None:
    assert lines("Rush OR 1 + Quantity / 0 > 5") == [
        "error: 12 / 0: division by zero",
        "  Quantity / 0 is an error",
        "    Quantity is 12",
    ]
    assert lines("p(p(5)) = 1")[1:] == [
        "  property(5) is an error",
        "    property(5) is null or missing",
    ]


def test_every_kind_of_condition_shows_the_values_that_it_saw() -> None:
    conditions = ("a IS NULL", "EXISTS(a)", "a IN (b, 1)", "a LIKE b ESCAPE c", "-a = +b", "a = p(b)")
    for text in (*conditions, *[f"NOT {condition}" for condition in conditions]):
        (reason,) = explain(SqlFilter(text), SUBJECT).reasons
        assert [name for name, _ in reason.values if len(name) == 1] == [
            name for name in "abc" if name in text[4:] or name == "a"
        ]
    assert lines("NOT (Rush AND 1 / 0 = 1) AND NOT 1 % (Quantity - 12) = 0")[1:] == [
        "  1 % (Quantity - 12) is an error",
        "    Quantity is 12",
    ]


def test_true_and_false_filters_say_what_they_do() -> None:
    assert explain(TrueFilter(), SUBJECT).lines() == ["match", "  every message is selected"]
    assert explain(FalseFilter(), SUBJECT).lines() == ["no match", "  every message is refused"]


def test_a_correlation_filter_says_which_field_differs() -> None:
    correlation = CorrelationFilter(label="order", session_id="s", properties={"Quantity": "12", "StoreName": "Store2"})
    assert str(explain(correlation, SUBJECT)).splitlines() == [
        "no match",
        "  sys.SessionId = 's' is false",
        "    sys.SessionId is null or missing",
        "  Quantity = '12' is false",
        "    Quantity is 12",
    ]
    assert explain(CorrelationFilter(label="order"), SUBJECT).lines() == [
        "match",
        "  sys.Label = 'order' is true",
        "    sys.Label is 'order'",
    ]


def test_an_action_shows_what_was_before_and_what_is_after() -> None:
    action = SqlAction("SET Quantity = Quantity + 1 REMOVE Rush SET new = 'x' SET sys.Label = 'o2' REMOVE never")
    explanation = explain(action, SUBJECT)
    assert explanation.lines() == [
        "changes:",
        "  sys.Label: 'order' -> 'o2'",
        "  Quantity: 12 -> 13",
        "  Rush: FALSE -> (removed)",
        "  new: (none) -> 'x'",
        "  never: (none) -> (removed)",
    ]
    assert explanation.is_match
    changes = explanation.to_dict()["changes"]
    assert isinstance(changes, list)
    assert changes[2] == {"property": "Rush", "before": False, "after": None}


def test_an_action_that_fails_says_why() -> None:
    explanation = explain(SqlAction("SET a = 1 / 0"), SUBJECT)
    assert (explanation.is_match, explanation.lines()) == (False, ["error: 1 / 0: division by zero"])


def test_a_message_that_cannot_be_read_is_explained_too() -> None:
    subject = Subject.of_message(b"\xff")
    for rule in (SqlFilter("a = 1"), CorrelationFilter(label="x"), SqlAction("SET a = 1")):
        explanation = explain(rule, subject)
        assert explanation.outcome == "error"
        assert "cannot be read" in explanation.lines()[0]


def test_an_explanation_is_a_dict_for_json() -> None:
    explanation = explain(SqlFilter("at = nan AND StoreName = 'Store1'"), SUBJECT)
    assert json.loads(json.dumps(explanation.to_dict(), allow_nan=False)) == {
        "match": False,
        "outcome": "false",
        "reasons": [
            {"expression": "StoreName = 'Store1'", "outcome": "false", "values": {"StoreName": "Store2"}},
        ],
    }
    explanation = explain(SqlFilter("at = nan"), SUBJECT)
    assert json.loads(json.dumps(explanation.to_dict(), allow_nan=False)) == {
        "match": False,
        "outcome": "unknown",
        "reasons": [
            {"expression": "at = nan", "outcome": "unknown", "values": {"at": "1970-01-01T00:00:00Z", "nan": "nan"}},
        ],
    }
    error = explain(SqlFilter("1/0 = 1"), SUBJECT).to_dict()
    assert (error["outcome"], error["error"]) == ("error", "1 / 0: division by zero")


@given(predicates, application_properties)
def test_an_explanation_says_what_the_filter_says(tree: Node, user: dict[str, object]) -> None:
    subject = Subject.of_values({"Label": "x"}, user)
    rule = SqlFilter("1=1")
    rule.tree = tree
    explanation = explain(rule, subject)
    json.dumps(explanation.to_dict(), allow_nan=False)
    assert explanation.lines()
    assert explanation.reasons
    if explanation.outcome == "error":
        with pytest.raises(RuleEvaluationError):
            rule.matches(subject)
    else:
        assert rule.matches(subject) is explanation.is_match
