"""Filters, and the index that finds correlation filters without asking those that do not match."""

from __future__ import annotations

import datetime
import math
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import Decimal128, Float, Int, Symbol, Timestamp, UByte, ULong
from tandem.errors import UsageError
from tandem.rules import (
    CorrelationFilter,
    CorrelationIndex,
    FalseFilter,
    Filter,
    RuleArgumentError,
    RuleEvaluationError,
    SqlFilter,
    Subject,
    TrueFilter,
)
from tests.markers import mission

MESSAGE = Subject.of_message(
    encode_message(
        properties=Properties(
            message_id="m", to="t", subject="l", reply_to="r", correlation_id="c", content_type="x/y", group_id="s"
        ),
        application_properties={"StoreName": "Store1", "Quantity": Int(5), "Price": Float(1.5), "Rush": True},
    )
)


def correlation(fields: dict[str, str]) -> CorrelationFilter:
    values: dict[str, Any] = dict(fields)
    return CorrelationFilter(**values)


@mission("M8", "M9")
def test_a_filter_on_a_user_property_selects_its_messages_and_no_others() -> None:
    dashboard = SqlFilter("StoreName = 'Store1'")
    assert dashboard.matches(MESSAGE)
    assert not dashboard.matches(Subject.of_values({}, {"StoreName": "Store2"}))
    assert not dashboard.matches(Subject.of_values({}, {}))
    assert dashboard.expression == "StoreName = 'Store1'"
    assert repr(dashboard) == "SqlFilter(\"StoreName = 'Store1'\")"


@mission("M8")
def test_true_and_false_filters_select_all_and_nothing() -> None:
    assert TrueFilter().matches(MESSAGE)
    assert not FalseFilter().matches(MESSAGE)
    assert (repr(TrueFilter()), repr(FalseFilter())) == ("TrueFilter()", "FalseFilter()")
    for text, is_match in (("1=1", True), ("1=0", False)):
        assert SqlFilter(text).matches(MESSAGE) is is_match


def test_a_filter_keeps_its_parameters() -> None:
    sql = SqlFilter("Quantity >= @least", {"@least": 5})
    assert sql.matches(MESSAGE)
    assert sql.parameters == {"@least": 5}


def test_an_error_of_evaluation_is_not_a_decision() -> None:
    with pytest.raises(RuleEvaluationError):
        SqlFilter("Quantity + StoreName = 1").matches(MESSAGE)


@pytest.mark.parametrize(
    "fields",
    [
        {"message_id": "m"},
        {"to": "t"},
        {"label": "l"},
        {"reply_to": "r"},
        {"correlation_id": "c"},
        {"content_type": "x/y"},
        {"session_id": "s"},
        {"message_id": "m", "to": "t", "label": "l", "correlation_id": "c", "content_type": "x/y", "session_id": "s"},
    ],
)
def test_a_correlation_filter_compares_every_field_that_it_names(fields: dict[str, str]) -> None:
    assert correlation(fields).matches(MESSAGE)
    for name, text in fields.items():
        for other in ("other", text.upper(), ""):
            assert not correlation({**fields, name: other}).matches(MESSAGE)
    assert not correlation({**fields, "reply_to_session_id": "x"}).matches(MESSAGE)


@mission("M8")
@pytest.mark.parametrize(
    "properties, is_match",
    [
        ({"StoreName": "Store1"}, True),
        ({"STORENAME": "Store1"}, True),
        ({"StoreName": "store1"}, False),
        ({"StoreName": Symbol("Store1")}, True),
        ({"StoreName": "Store1", "Quantity": 5}, True),
        ({"StoreName": "Store1", "Quantity": 6}, False),
        ({"Quantity": UByte(5)}, True),
        ({"Quantity": ULong(5)}, True),
        ({"Quantity": "5"}, False),
        ({"Quantity": 5.0}, False),
        ({"Quantity": Decimal(5)}, False),
        ({"Price": 1.5}, True),
        ({"Price": Decimal("1.5")}, False),
        ({"Rush": True}, True),
        ({"Rush": 1}, False),
        ({"Missing": 1}, False),
    ],
)
def test_a_correlation_filter_compares_types_too(properties: dict[str, object], is_match: bool) -> None:
    assert CorrelationFilter(properties=properties).matches(MESSAGE) is is_match


@pytest.mark.parametrize(
    "value",
    [
        True,
        5,
        1.5,
        "x",
        b"x",
        uuid.UUID(int=1),
        Timestamp(5),
        datetime.timedelta(1),
        Decimal128.from_decimal(Decimal(5)),
    ],
)
def test_every_type_that_can_be_equal_can_be_correlated(value: object) -> None:
    rule = CorrelationFilter(properties={"a": value})
    index = CorrelationIndex()
    index.add("key", rule)
    assert rule.matches(Subject.of_values({}, {"A": value}))
    assert index.find(Subject.of_values({}, {"A": value})) == ["key"]
    for other in (None, False, 6, 2.5, "y", [5]):
        assert not rule.matches(Subject.of_values({}, {"A": other}))
        assert index.find(Subject.of_values({}, {"A": other})) == []


@pytest.mark.parametrize(
    "properties, problem",
    [
        ({}, "must name at least one property"),
        ({"a": None}, "property a of a correlation filter is NULL, which equals nothing"),
        ({"a": [1]}, "which equals nothing"),
        ({"a": math.nan}, "which equals nothing"),
        ({"a": 2**64}, "beyond the range of 64 bits"),
        ({"a": "x" * 1025}, "1025 characters"),
        ({"": 1}, "1 to 256 characters"),
        ({"n" * 257: 1}, "1 to 256 characters"),
        ({"a": 1, "A": 1}, "named twice"),
        ({f"n{number}": 1 for number in range(65)}, "65 properties, at most 64"),
    ],
)
def test_a_correlation_filter_that_could_never_work_is_refused(properties: dict[str, object], problem: str) -> None:
    with pytest.raises(RuleArgumentError, match=problem):
        CorrelationFilter(properties=properties)


def test_the_system_fields_of_a_correlation_filter_are_strings() -> None:
    with pytest.raises(RuleArgumentError, match="Label of a correlation filter must be a string, got 5"):
        CorrelationFilter(label=5)
    with pytest.raises(RuleArgumentError, match="Label of a correlation filter has 1025 characters"):
        CorrelationFilter(label="x" * 1025)


def test_a_correlation_filter_reads_as_an_expression() -> None:
    named = CorrelationFilter(label="l", session_id="s", properties={"Color": "red", "n": 5})
    assert str(named) == "sys.Label = 'l' AND sys.SessionId = 's' AND Color = 'red' AND n = 5"
    assert SqlFilter(str(named)).matches(Subject.of_values({"Label": "l", "SessionId": "s"}, {"color": "red", "n": 5}))
    assert repr(named).startswith("CorrelationFilter(sys.Label = 'l'")


def test_all_filters_are_filters() -> None:
    for rule in (TrueFilter(), FalseFilter(), SqlFilter("1=1"), CorrelationFilter(label="x")):
        assert isinstance(rule, Filter)


# --- the index ----------------------------------------------------------------------------------------------------


def test_the_index_finds_every_filter_that_matches() -> None:
    index = CorrelationIndex()
    index.add("store", CorrelationFilter(properties={"StoreName": "Store1"}))
    index.add("same", CorrelationFilter(properties={"storename": "Store1"}))
    index.add("other", CorrelationFilter(properties={"StoreName": "Store2"}))
    index.add("both", CorrelationFilter(label="l", properties={"StoreName": "Store1"}))
    index.add("label", CorrelationFilter(label="l"))
    index.add("absent", CorrelationFilter(reply_to_session_id="l"))
    assert sorted(map(str, index.find(MESSAGE))) == ["both", "label", "same", "store"]
    assert len(index) == 6
    assert index.group_count == 4


def test_a_filter_that_was_removed_is_found_no_more_and_leaves_nothing_behind() -> None:
    index = CorrelationIndex()
    for key in (1, 2, 3):
        index.add(key, CorrelationFilter(label="l" if key < 3 else "m"))
    index.remove(1)
    assert index.find(MESSAGE) == [2]
    index.remove(2)
    assert index.find(MESSAGE) == []
    index.remove(3)
    assert (len(index), index.group_count) == (0, 0)


def test_a_key_is_in_the_index_once() -> None:
    index = CorrelationIndex()
    index.add("a", CorrelationFilter(label="l"))
    with pytest.raises(UsageError, match="has a filter for 'a' already"):
        index.add("a", CorrelationFilter(label="m"))
    with pytest.raises(UsageError, match="has no filter for 'b'"):
        index.remove("b")


def test_the_cost_of_a_message_does_not_depend_on_the_number_of_filters() -> None:
    index = CorrelationIndex()
    for number in range(2_000):
        index.add(number, CorrelationFilter(properties={"StoreName": f"Store{number}"}))
    # One look-up, whatever the number: what the time depends on.
    assert index.group_count == 1
    assert index.find(MESSAGE) == [1]


texts = st.sampled_from(("x", "y"))
correlated_properties = st.dictionaries(
    st.sampled_from(("a", "B")), st.sampled_from((1, 1.0, True, "1", "x")), max_size=2
)
filters = st.builds(
    lambda label, to, properties: (label, to, properties),
    st.none() | texts,
    st.none() | texts,
    correlated_properties,
).filter(any)


@given(st.lists(filters, max_size=12), st.sets(st.integers(0, 11)), texts, st.none() | texts, correlated_properties)
def test_the_index_agrees_with_asking_every_filter(
    fields: list[tuple[str | None, str | None, dict[str, object]]],
    removed: set[int],
    label: str,
    to: str | None,
    user: dict[str, object],
) -> None:
    subject = Subject.of_values({"Label": label, "To": to}, user)
    index = CorrelationIndex()
    wanted: dict[object, CorrelationFilter] = {}
    for key, (wanted_label, wanted_to, properties) in enumerate(fields):
        wanted[key] = CorrelationFilter(label=wanted_label, to=wanted_to, properties=properties)
        index.add(key, wanted[key])
    for key in removed & set(range(len(fields))):
        index.remove(key)
        del wanted[key]
    found = index.find(subject)
    assert len(found) == len(set(found))
    assert set(found) == {key for key, rule in wanted.items() if rule.matches(subject)}
