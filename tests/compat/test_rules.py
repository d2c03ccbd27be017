"""What rules do to messages of the official SDK: which subscriptions get a copy, how many, and what is in it."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any, Final

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage

from tests.compat.sdk import (
    AT_ONCE,
    Bus,
    Subscription,
    correlation,
    drain_all,
    rule,
    sql,
    take,
    take_all,
    take_one,
    text,
    texts,
)
from tests.markers import mission

pytestmark = AT_ONCE

EVERYTHING = {"kind": "true"}
NOTHING = {"kind": "false"}


# What an SQL filter says to the message of the test below.
EXPRESSIONS: Final = {
    "sys.Label LIKE 'ord%'": True,
    "sys.MessageId = 'one' AND sys.CorrelationId = 'two'": True,
    "sys.To = 'somewhere' OR missing = 1": True,
    "sys.ContentType = 'text/plain'": True,
    "EXISTS(colour) AND NOT EXISTS(missing)": True,
    "missing IS NULL AND colour IS NOT NULL": True,
    "missing = 'red'": False,
    # Unknown is not false: its opposite is unknown too.
    "NOT missing = 'red'": False,
    "COLOUR = 'red'": True,
    "colour = 'RED'": False,
    "[colour] = 'red' AND \"colour\" = 'red'": True,
    "number * 2 + 1 = 15 AND -number < 0": True,
    "number / 2 = 3 AND number % 2 = 1": True,
    "weight > 2 AND weight < 3": True,
    "number = '7'": False,
    "flag = TRUE AND flag <> FALSE": True,
    "note LIKE '100!%%' ESCAPE '!'": True,
    "colour NOT IN ('blue', 'green')": True,
    "property('colour') = 'red' AND p('number') = 7": True,
    "note = 'it''s'": False,
}


def message(body: str, **properties: Any) -> ServiceBusMessage:
    return ServiceBusMessage(body, application_properties={name: properties[name] for name in properties})


def properties_of(copy: ServiceBusReceivedMessage) -> dict[str, Any]:
    """The application properties with texts as texts: the SDK gives them as they came over the wire."""
    found: dict[str, Any] = {}
    for name, value in (copy.application_properties or {}).items():
        assert isinstance(name, bytes)
        found[name.decode()] = value.decode() if isinstance(value, bytes) else value
    return found


def copies(subscription: Subscription) -> list[dict[str, Any]]:
    """The application properties of everything that is there."""
    with subscription.receiver() as receiver:
        return [properties_of(copy) for copy in take(receiver, subscription.counts()["active"])]


# --- which subscriptions --------------------------------------------------------------------------------------------


@mission("M8")
def test_rules_select_by_sql_correlation_true_and_false(bus: Bus) -> None:
    topic = bus.topic()
    by_sql = topic.subscription(rule("sql", sql("amount >= 100 AND region IN ('eu', 'uk')")))
    by_correlation = topic.subscription(rule("correlation", correlation(label="order", properties={"region": "eu"})))
    by_true = topic.subscription(rule("true", EVERYTHING))
    by_false = topic.subscription(rule("false", NOTHING))
    sent = (("a", "order", "eu", 100), ("b", "order", "us", 500), ("c", "offer", "eu", 500), ("d", "order", "eu", 1))
    topic.send(
        *(
            ServiceBusMessage(body, subject=label, application_properties={"region": region, "amount": amount})
            for body, label, region, amount in sent
        )
    )
    assert by_false.counts() == {}
    assert drain_all(by_sql, by_correlation, by_true) == [["a", "c"], ["a", "d"], ["a", "b", "c", "d"]]


@mission("M8")
def test_an_sql_filter_judges_what_the_sdk_sends(bus: Bus) -> None:
    topic = bus.topic()
    subscriptions = {expression: topic.subscription(rule("one", sql(expression))) for expression in EXPRESSIONS}
    topic.send(
        ServiceBusMessage(
            "x",
            subject="order",
            message_id="one",
            correlation_id="two",
            to="somewhere",
            content_type="text/plain",
            application_properties={"colour": "red", "number": 7, "weight": 2.5, "flag": True, "note": "100% new"},
        )
    )
    found = {expression: subscription.counts() == {"active": 1} for expression, subscription in subscriptions.items()}
    assert found == EXPRESSIONS


@mission("M8")
def test_an_sql_filter_may_have_parameters(bus: Bus) -> None:
    topic = bus.topic()
    parameters = {"@store": "Store1", "@least": 10}
    condition = {"kind": "sql", "expression": "StoreName = @store AND amount > @least", "parameters": parameters}
    subscription = topic.subscription(rule("with-parameters", condition))
    topic.send(
        message("yes", StoreName="Store1", amount=11),
        message("too little", StoreName="Store1", amount=10),
        message("elsewhere", StoreName="Store2", amount=11),
    )
    assert subscription.drain() == ["yes"]


@mission("M8")
def test_a_correlation_filter_wants_the_same_type_as_well_as_the_same_value(bus: Bus) -> None:
    topic = bus.topic()
    key = uuid.uuid4()
    wanted: dict[str, Any] = {
        "text": "7",
        "integer": 7,
        "double": 7.0,
        "boolean": True,
        "uuid": {"uuid": str(key)},
    }
    by_type = {
        name: topic.subscription(rule(name, correlation(properties={"value": value}))) for name, value in wanted.items()
    }
    sent: dict[str, Any] = {"text": "7", "integer": 7, "double": 7.0, "boolean": True, "uuid": key}
    topic.send(*(message(name, value=value) for name, value in sent.items()), message("text of uuid", value=str(key)))
    assert drain_all(*by_type.values()) == [[name] for name in by_type]


@mission("M8")
def test_a_correlation_filter_compares_every_system_property_and_their_case(bus: Bus) -> None:
    topic = bus.topic()
    fields = {
        "correlation_id": "a",
        "message_id": "b",
        "to": "c",
        "reply_to": "d",
        "label": "e",
        "session_id": "f",
        "reply_to_session_id": "g",
        "content_type": "h",
    }
    whole = topic.subscription(rule("all-of-them", correlation(**fields)))
    single = [topic.subscription(rule("one", correlation(**{field: value}))) for field, value in fields.items()]
    other_case = [
        topic.subscription(rule("one", correlation(**{field: value.upper()}))) for field, value in fields.items()
    ]
    topic.send(
        ServiceBusMessage(
            "x",
            correlation_id="a",
            message_id="b",
            to="c",
            reply_to="d",
            subject="e",
            session_id="f",
            reply_to_session_id="g",
            content_type="h",
        ),
        ServiceBusMessage("y", correlation_id="a"),
    )
    assert whole.counts() == {"active": 1}
    assert [subscription.counts() for subscription in single] == [{"active": 2}] + [{"active": 1}] * 7
    assert [subscription.counts() for subscription in other_case] == [{}] * 8


# --- how many copies ------------------------------------------------------------------------------------------------


@mission("M7", "M8")
def test_rules_without_actions_make_one_copy_however_many_match(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription(
        rule("one", sql("number > 1")),
        rule("two", correlation(properties={"number": 7})),
        rule("three", EVERYTHING),
    )
    topic.send(message("x", number=7), message("y", number=0))
    assert copies(subscription) == [{"number": 7}, {"number": 0}]


@mission("M8")
def test_each_rule_with_an_action_makes_a_copy_of_its_own_that_names_the_rule(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription(
        rule("plain", EVERYTHING),
        rule("also-plain", sql("amount > 0")),
        rule("raise", sql("amount > 100"), "SET priority = 'high'"),
        rule("tax", sql("amount > 50"), "SET tax = amount / 10"),
        rule("never", sql("amount > 10000"), "SET priority = 'never'"),
    )
    topic.send(message("large", amount=200), message("middle", amount=60), message("small", amount=5))
    found = copies(subscription)
    plain = [copy for copy in found if "RuleName" not in copy]
    assert plain == [{"amount": 200}, {"amount": 60}, {"amount": 5}]
    changed = sorted(
        (copy for copy in found if "RuleName" in copy), key=lambda copy: (copy["RuleName"], copy["amount"])
    )
    assert changed == [
        {"amount": 200, "priority": "high", "RuleName": "raise"},
        {"amount": 60, "tax": 6, "RuleName": "tax"},
        {"amount": 200, "tax": 20, "RuleName": "tax"},
    ]


@mission("M8")
def test_an_action_without_a_filter_applies_to_every_message(bus: Bus) -> None:
    topic = bus.topic()
    # No filter is given at all.
    marked = topic.subscription({"name": "mark", "action": {"expression": "SET seen = TRUE; REMOVE secret"}})
    untouched = topic.subscription()
    topic.send(message("one", secret="x"), message("two", other=1), ServiceBusMessage("three"))
    assert copies(marked) == [
        {"seen": True, "RuleName": "mark"},
        {"other": 1, "seen": True, "RuleName": "mark"},
        {"seen": True, "RuleName": "mark"},
    ]
    assert copies(untouched) == [{"secret": "x"}, {"other": 1}, {}]


# --- what an action changes -----------------------------------------------------------------------------------------


@mission("M8")
def test_an_action_changes_system_properties_of_its_copy_only(bus: Bus) -> None:
    topic = bus.topic()
    action = "; ".join(
        [
            "SET sys.Label = sys.Label + '-' + colour",
            "SET sys.CorrelationId = sys.MessageId",
            "SET sys.To = 'elsewhere'",
            "SET sys.ReplyTo = 'us'",
            "SET sys.ContentType = 'text/changed'",
            "SET sys.MessageId = 'new'",
        ]
    )
    changed, untouched = topic.subscription(rule("change", EVERYTHING, action)), topic.subscription()
    body = b"\x00" * 10_000
    topic.send(ServiceBusMessage(body, subject="order", message_id="old", application_properties={"colour": "red"}))
    with changed.receiver() as receiver:
        copy = take_one(receiver)
    assert (copy.subject, copy.correlation_id, copy.to) == ("order-red", "old", "elsewhere")
    assert (copy.reply_to, copy.content_type, copy.message_id) == ("us", "text/changed", "new")
    assert b"".join(copy.body) == body
    with untouched.receiver() as receiver:
        copy = take_one(receiver)
    assert (copy.subject, copy.correlation_id, copy.to, copy.message_id) == ("order", None, None, "old")
    assert b"".join(copy.body) == body


@mission("M8")
def test_the_statements_of_an_action_see_what_the_ones_before_did(bus: Bus) -> None:
    topic = bus.topic()
    action = "SET a = 1; SET a = a + 1; SET b = a * 10; REMOVE a; SET c = newid(); SET [d d] = 'x' + 'y'"
    subscription = topic.subscription(rule("steps", EVERYTHING, action))
    topic.send(ServiceBusMessage("x"))
    (found,) = copies(subscription)
    assert isinstance(found.pop("c"), uuid.UUID)
    assert found == {"b": 20, "d d": "xy", "RuleName": "steps"}


def test_the_changed_copies_of_a_large_message_are_whole(bus: Bus) -> None:
    topic = bus.topic()
    changed = topic.subscription(rule("a", EVERYTHING, "SET a = 1"), rule("b", EVERYTHING, "SET b = 2"))
    plain = topic.subscription()
    topic.send(ServiceBusMessage(bytes(range(250)) * 800, application_properties={"kept": "yes"}))
    with changed.receiver() as receiver, plain.receiver() as plain_receiver:
        for copy in (*take(receiver, 2), take_one(plain_receiver)):
            assert b"".join(copy.body) == bytes(range(250)) * 800
            assert properties_of(copy)["kept"] == "yes"
    # What an action does not change is kept once.
    assert 200_000 < topic.fields()["size_in_bytes"] < 250_000


def test_the_time_that_an_action_sets_is_not_waited_for_in_its_subscription(bus: Bus) -> None:
    topic = bus.topic()
    action = {
        "expression": "SET sys.ScheduledEnqueueTimeUtc = sys.EnqueuedTimeUtc + @later",
        "parameters": {"@later": {"timespan": 60 * 10_000_000}},
    }
    subscription = topic.subscription({**rule("later", EVERYTHING), "action": action})
    topic.send(ServiceBusMessage("x"))
    with subscription.receiver() as receiver:
        copy = take_one(receiver)
    assert copy.scheduled_enqueue_time_utc is not None
    assert copy.enqueued_time_utc is not None
    assert copy.scheduled_enqueue_time_utc == copy.enqueued_time_utc + timedelta(minutes=1)


# --- changes of rules -----------------------------------------------------------------------------------------------


@mission("M8")
def test_a_change_of_rules_applies_to_later_messages_only(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription()
    topic.send(message("before", colour="blue"))
    subscription.add_rule("red", sql("colour = 'red'"), "SET marked = TRUE")
    bus.broker.delete_rule(topic.name, subscription.own_name, "$Default")
    topic.send(message("blue", colour="blue"), message("red", colour="red"))
    bus.broker.update_rule(topic.name, subscription.own_name, "red", filter=sql("colour = 'green'"), action=None)
    topic.send(message("red again", colour="red"), message("green", colour="green"))
    with subscription.receiver() as receiver:
        found = take(receiver, 3)
        assert take_all(receiver) == []
    assert texts(found) == ["before", "red", "green"]
    assert [properties_of(copy).get("RuleName") for copy in found] == [None, "red", None]


def test_a_subscription_without_rules_gets_nothing(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription()
    bus.broker.delete_rule(topic.name, subscription.own_name, "$Default")
    topic.send("news")
    assert subscription.counts() == {}
    assert bus.broker.rules(topic.name, subscription.own_name) == []


# --- what cannot be judged ------------------------------------------------------------------------------------------

# Arithmetic has no result for a text; a comparison has none either, but is only no match.
FAILING = sql("amount + 1 > 0")


@mission("M8")
def test_a_message_that_a_rule_cannot_judge_is_a_dead_letter_where_the_subscription_asks_for_it(bus: Bus) -> None:
    topic = bus.topic()
    asking = topic.subscription(rule("sum", FAILING))
    dropping = topic.subscription(rule("sum", FAILING), dead_lettering_on_filter_evaluation_exceptions=False)
    other = topic.subscription()
    topic.send(message("text", amount="many"), message("number", amount=1))
    assert asking.counts() == {"active": 1, "dead_letter": 1}
    assert dropping.counts() == {"active": 1}
    assert other.counts() == {"active": 2}
    with asking.dead_letters() as receiver:
        dead = take_one(receiver)
    assert text(dead) == "text"
    assert dead.dead_letter_reason == "FilterEvaluationException"
    assert dead.dead_letter_error_description


@mission("M8")
def test_a_rule_that_fails_does_not_keep_another_from_its_copy(bus: Bus) -> None:
    topic = bus.topic()
    subscription = topic.subscription(rule("sum", FAILING), rule("all", EVERYTHING))
    topic.send(message("text", amount="many"))
    assert subscription.counts() == {"active": 1, "dead_letter": 1}


def test_an_action_that_fails_makes_no_half_changed_copy(bus: Bus) -> None:
    topic = bus.topic()
    action = "SET first = 'done'; SET sum = amount + 1"
    asking = topic.subscription(rule("sum", EVERYTHING, action))
    dropping = topic.subscription(rule("sum", EVERYTHING, action), dead_lettering_on_filter_evaluation_exceptions=False)
    topic.send(message("text", amount="many"))
    assert dropping.counts() == {}
    assert asking.counts() == {"dead_letter": 1}
    with asking.dead_letters() as receiver:
        assert "first" not in properties_of(take_one(receiver))
