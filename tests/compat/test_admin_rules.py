"""Rules of every kind, with values of every type, are managed by the official clients."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from tandem.testing import Broker
from tests.compat.admin import KINDS, Admin, new_name
from tests.markers import mission

VALUES: Final[dict[str, Any]] = {
    "text": 'it\'s <a> & "b" ü',
    "blanks": "  kept  ",
    "int": 5,
    "negative": -5,
    "long": 2**40,
    "longest": 2**63 - 1,
    "least": -(2**63),
    "yes": True,
    "no": False,
    "double": 1.5,
    "small": 1e-300,
    "date": datetime(2020, 7, 5, 11, 12, 13, tzinfo=UTC),
    "long-ago": datetime(1, 1, 1, tzinfo=UTC),
    "without-zone": datetime(2020, 7, 5, 11, 12, 13),  # noqa: DTZ001 - it comes back without one
    "far": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    "day": timedelta(days=1, hours=2, minutes=3, seconds=4),
    "part": timedelta(microseconds=1_500_001),
    "back": timedelta(hours=-2),
    "none": timedelta(0),
}
PARAMETERS: Final = {f"@{name.replace('-', '_')}": value for name, value in VALUES.items()}


@pytest.fixture(params=KINDS, scope="module")
def admin(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Admin]:
    with Admin(broker, request.param) as admin:
        yield admin


@pytest.fixture
def topic(broker: Broker) -> str:
    """With one subscription, `all`."""
    name = new_name("topic")
    broker.create_topic(name)
    broker.create_subscription(name, "all")
    return name


@mission("M4", "M8")
def test_a_subscription_begins_with_the_rule_for_everything(admin: Admin, topic: str) -> None:
    (rule,) = admin.list_rules(topic, "all")
    assert rule.name == "$Default"
    assert isinstance(rule.filter, TrueRuleFilter)
    assert rule.action is None
    assert rule.created_at_utc <= datetime.now(UTC)


@mission("M4", "M8")
def test_a_sql_filter_and_its_action_keep_parameters_of_every_type(admin: Admin, topic: str) -> None:
    condition = SqlRuleFilter("a = @text AND b > @int OR c < @day", dict(PARAMETERS))
    action = SqlRuleAction("SET x = @double; SET y = @date", dict(PARAMETERS))
    created = admin.create_rule(topic, "all", "typed", filter=condition, action=action)
    for rule in (created, admin.get_rule(topic, "all", "typed"), admin.list_rules(topic, "all")[1]):
        assert rule.filter.sql_expression == "a = @text AND b > @int OR c < @day"
        assert dict(rule.filter.parameters) == PARAMETERS
        assert {name: type(value) for name, value in rule.filter.parameters.items()} == {
            name: type(value) for name, value in PARAMETERS.items()
        }
        assert rule.action.sql_expression == "SET x = @double; SET y = @date"
        assert dict(rule.action.parameters) == PARAMETERS


@mission("M4", "M8")
def test_a_correlation_filter_keeps_everything_it_compares(admin: Admin, topic: str) -> None:
    texts = {
        "correlation_id": "c",
        "message_id": "m",
        "to": "t",
        "reply_to": "r",
        "label": "l <&> ü",
        "session_id": "s",
        "reply_to_session_id": "rs",
        "content_type": "text/plain",
    }
    admin.create_rule(topic, "all", "full", filter=CorrelationRuleFilter(**texts, properties=dict(VALUES)))
    rule = admin.get_rule(topic, "all", "full")
    assert {name: getattr(rule.filter, name) for name in texts} == texts
    assert dict(rule.filter.properties) == VALUES
    admin.create_rule(topic, "all", "label", filter=CorrelationRuleFilter(label="only"))
    rule = admin.get_rule(topic, "all", "label")
    assert rule.filter.label == "only"
    assert {getattr(rule.filter, name) for name in texts if name != "label"} == {None}
    assert not rule.filter.properties


@mission("M4", "M8")
@pytest.mark.parametrize("text", ["1 = 1", "1=1", "1 = 0", "  a = 1 "])
def test_a_sql_filter_keeps_its_kind_and_its_text(admin: Admin, topic: str, text: str) -> None:
    admin.create_rule(topic, "all", "simple", filter=SqlRuleFilter(text))
    condition = admin.get_rule(topic, "all", "simple").filter
    assert (type(condition), condition.sql_expression) == (SqlRuleFilter, text)


@mission("M4", "M8")
@pytest.mark.parametrize("condition", [TrueRuleFilter(), FalseRuleFilter()], ids=["true", "false"])
def test_the_simplest_filters_are_what_they_were(admin: Admin, topic: str, condition: Any) -> None:
    admin.create_rule(topic, "all", "simple", filter=condition)
    assert isinstance(admin.get_rule(topic, "all", "simple").filter, type(condition))


@mission("M4", "M8")
def test_a_rule_is_updated_by_what_was_fetched_and_changed(admin: Admin, topic: str) -> None:
    admin.create_rule(topic, "all", "changing", filter=SqlRuleFilter("a = @p", {"@p": 1}))
    rule = admin.get_rule(topic, "all", "changing")
    rule.filter = CorrelationRuleFilter(label="x", properties={"n": 1})
    rule.action = SqlRuleAction("SET a = @p", {"@p": "text"})
    admin.update_rule(topic, "all", rule)
    changed = admin.get_rule(topic, "all", "changing")
    assert (changed.filter.label, dict(changed.filter.properties)) == ("x", {"n": 1})
    assert (changed.action.sql_expression, dict(changed.action.parameters)) == ("SET a = @p", {"@p": "text"})
    assert changed.created_at_utc == rule.created_at_utc
    admin.update_rule(topic, "all", {**dict(changed), "filter": FalseRuleFilter(), "action": None})
    changed = admin.get_rule(topic, "all", "changing")
    assert isinstance(changed.filter, FalseRuleFilter)
    assert changed.action is None
    admin.update_rule(topic, "all", changed, filter=SqlRuleFilter("b = 2"))
    assert admin.get_rule(topic, "all", "changing").filter.sql_expression == "b = 2"


@mission("M4", "M8")
def test_rules_are_listed_by_name_over_all_pages_and_deleted(broker: Broker, admin: Admin, topic: str) -> None:
    names = [f"rule-{number:03}" for number in range(105)]
    for name in names:
        broker.add_rule(topic, "all", name, {"kind": "sql", "expression": "n = 1"})
    assert [rule.name for rule in admin.list_rules(topic, "all")] == ["$Default", *names]
    admin.delete_rule(topic, "all", "$Default")
    admin.delete_rule(topic, "all", "rule-000")
    assert [rule.name for rule in admin.list_rules(topic, "all")] == names[1:]


@mission("M4", "M8")
def test_a_topic_counts_the_filters_of_its_subscriptions(broker: Broker, topic: str) -> None:
    broker.add_rule(topic, "all", "sql", {"kind": "sql", "expression": "n = 1"})
    broker.add_rule(topic, "all", "correlation", {"kind": "correlation", "label": "x"})
    with Admin(broker, "sync") as admin:
        # The SDK reads them and shows them to nobody.
        counts = admin.get_topic_runtime_properties(topic)._internal_td
        assert (counts.sql_filter_count, counts.correlation_filter_count) == (2, 1)


@mission("M4", "M8")
def test_rules_that_cannot_be_are_refused(admin: Admin, topic: str) -> None:
    for condition, words in {
        SqlRuleFilter("a ==="): "is expected",
        SqlRuleFilter("x" * 1025 + " = 1"): "1024",
        SqlRuleFilter("a = @p", {"@p": 2**63}): "@p",
        CorrelationRuleFilter(): "correlation",
    }.items():
        with pytest.raises(HttpResponseError, match=words) as refused:
            admin.create_rule(topic, "all", "refused", filter=condition)
        assert refused.value.status_code == 400
    with pytest.raises(HttpResponseError, match="Name"):
        admin.create_rule(topic, "all", "n" * 51, filter=TrueRuleFilter())
    with pytest.raises(ResourceExistsError):
        admin.create_rule(topic, "all", "$Default", filter=TrueRuleFilter())
    with pytest.raises(ResourceNotFoundError):
        admin.get_rule(topic, "all", "refused")
    with pytest.raises(ResourceNotFoundError):
        admin.delete_rule(topic, "all", "refused")
    rule = admin.get_rule(topic, "all", "$Default")
    rule.name = "refused"
    with pytest.raises(HttpResponseError) as missing:
        admin.update_rule(topic, "all", rule)
    assert missing.value.status_code == 404
