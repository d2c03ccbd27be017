"""Topics, subscriptions and rules over the JSON API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandem.auth import AuthorizationRule, Right
from tandem.engine.description import QueueDescription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tests.management.json_api.api_client import Api, running
from tests.markers import mission

COUNTS = (
    *("active_message_count", "dead_letter_message_count", "scheduled_message_count", "deferred_message_count"),
    *("transfer_message_count", "transfer_dead_letter_message_count", "message_count", "size_in_bytes"),
)
TIMES = ("created_at_ms", "updated_at_ms", "accessed_at_ms")
EVERYTHING = {"name": "$Default", "filter": {"kind": "true"}, "action": None}
LARGE = {"filter": {"kind": "sql", "expression": "amount > 1000"}, "action": {"expression": "SET is_large = TRUE"}}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """With a topic of one subscription."""
    async with running(tmp_path / "data") as api:
        assert (await api.ask("PUT", "/$api/v1/topics/orders")).status == 201
        assert (await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/billing")).status == 201
        yield api


async def rules(api: Api, path: str = "orders/subscriptions/billing") -> dict[str, Any]:
    """By their names."""
    answer = await api.ask("GET", f"/$api/v1/topics/{path}/rules")
    assert answer.status == 200
    return {rule.pop("name"): rule for rule in answer.value["rules"]}


# --- topics ---------------------------------------------------------------------------------------------------------


async def test_a_topic_is_created_shown_updated_and_deleted(api: Api) -> None:
    created = await api.ask("PUT", "/$api/v1/topics/prices", {"requires_duplicate_detection": True})
    assert created.status == 201
    assert created.value == {
        **TopicDescription("prices", requires_duplicate_detection=True).to_fields(),
        **dict.fromkeys(
            ("subscription_count", "scheduled_message_count", "transfer_dead_letter_message_count", "size_in_bytes"), 0
        ),
        **{field: created.value[field] for field in TIMES},
    }
    assert await api.ask("GET", "/$api/v1/topics/PRICES") == (200, created.value)
    updated = await api.ask("PATCH", "/$api/v1/topics/prices", {"default_message_time_to_live_ms": 60_000})
    assert updated.status == 200
    assert updated.value["default_message_time_to_live_ms"] == 60_000
    assert updated.value["requires_duplicate_detection"] is True
    assert [one["name"] for one in (await api.ask("GET", "/$api/v1/topics")).value["topics"]] == ["orders", "prices"]
    assert await api.ask("DELETE", "/$api/v1/topics/prices") == (200, {"name": "prices"})
    assert (await api.ask("DELETE", "/$api/v1/topics/prices")).status == 404


async def test_a_topic_counts_its_subscriptions_and_takes_them_with_it(api: Api) -> None:
    assert (await api.ask("GET", "/$api/v1/topics/orders")).value["subscription_count"] == 1
    assert (await api.ask("DELETE", "/$api/v1/topics/orders")).status == 200
    assert (await api.ask("GET", "/$api/v1/topics/orders/subscriptions/billing")).status == 404
    assert (await api.ask("PUT", "/$api/v1/topics/orders")).value["subscription_count"] == 0


async def test_queues_and_topics_share_their_names_and_keep_to_their_paths(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/late")
    for path in ("/$api/v1/topics/Late", "/$api/v1/queues/Orders"):
        refused = await api.ask("PUT", path)
        assert refused.status == 409
        assert refused.error["condition"] == "com.microsoft:entity-already-exists"
    for path in ("/$api/v1/topics/late", "/$api/v1/queues/orders", "/$api/v1/queues/orders/Subscriptions/billing"):
        for method in ("GET", "PATCH", "DELETE"):
            assert (await api.ask(method, path)).status == 404
    assert [one["name"] for one in (await api.ask("GET", "/$api/v1/queues")).value["queues"]] == ["late"]
    assert len((await api.ask("GET", "/$api/v1/topics")).value["topics"]) == 1


# --- subscriptions --------------------------------------------------------------------------------------------------


async def test_a_subscription_is_created_shown_updated_and_deleted(api: Api) -> None:
    path = "/$api/v1/topics/orders/subscriptions/Audit"
    created = await api.ask("PUT", path, {"max_delivery_count": 3, "requires_session": True})
    assert created.status == 201
    expected = SubscriptionDescription("orders", "Audit", max_delivery_count=3, requires_session=True)
    assert created.value == {
        **expected.to_fields(),
        **dict.fromkeys(COUNTS, 0),
        **{field: created.value[field] for field in TIMES},
    }
    assert await api.ask("GET", path.lower()) == (200, created.value)
    updated = await api.ask("PATCH", path, {"lock_duration_ms": 5_000, "name": "AUDIT", "topic_name": "Orders"})
    assert updated.status == 200
    assert (updated.value["lock_duration_ms"], updated.value["max_delivery_count"]) == (5_000, 3)
    assert (updated.value["topic_name"], updated.value["name"]) == ("orders", "Audit")
    listed = (await api.ask("GET", "/$api/v1/topics/orders/subscriptions")).value["subscriptions"]
    assert [one["name"] for one in listed] == ["Audit", "billing"]
    assert await api.ask("DELETE", path) == (200, {"name": "Audit"})
    assert (await api.ask("GET", path)).status == 404


async def test_a_new_subscription_gets_everything_unless_rules_are_given(api: Api) -> None:
    assert await rules(api) == {
        "$Default": {
            "filter": {"kind": "true"},
            "action": None,
            "created_at_ms": (await rules(api))["$Default"]["created_at_ms"],
        }
    }
    await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/some", {"rules": [{"name": "large", **LARGE}]})
    assert list(await rules(api, "orders/subscriptions/some")) == ["large"]
    await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/none", {"rules": []})
    assert await rules(api, "orders/subscriptions/none") == {}


@pytest.mark.parametrize(
    "given, reason",
    [
        (1, "rules must be a list of rules, got 1"),
        ([1], "rules[0] must be an object with a name, got 1"),
        ([{}], "rules[0] must be an object with a name"),
        ([{"name": "a"}, {"name": "A"}], "rules[1].name is 'A', which an earlier rule has"),
        ([{"name": "a", "colour": 1}], "rules[0]: colour is not a property of a rule"),
        ([{"name": "a b"}], "rules[0]: name 'a b'"),
        ([{"name": "a", "filter": {"kind": "sql", "expression": "n = "}}], "rules[0]: "),
    ],
)
async def test_a_subscription_with_a_rule_that_cannot_be_is_not_created(api: Api, given: object, reason: str) -> None:
    refused = await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/some", {"rules": given})
    assert refused.status == 400
    assert reason in refused.error["message"]
    assert (await api.ask("GET", "/$api/v1/topics/orders/subscriptions/some")).status == 404


async def test_a_subscription_with_more_rules_than_there_can_be_is_not_created(api: Api) -> None:
    path = "/$api/v1/topics/orders/subscriptions/some"
    refused = await api.ask("PUT", path, {"rules": [{"name": f"r{number}"} for number in range(2_001)]})
    assert refused.status == 403
    assert "at most 2000" in refused.error["message"]
    assert (await api.ask("GET", path)).status == 404
    assert (await api.ask("PUT", path, {"rules": [{"name": "r"}]})).status == 201


async def test_rules_are_not_changed_with_the_settings_of_their_subscription(api: Api) -> None:
    refused = await api.ask("PATCH", "/$api/v1/topics/orders/subscriptions/billing", {"rules": []})
    assert refused.status == 400
    assert "one by one" in refused.error["message"]
    assert list(await rules(api)) == ["$Default"]


async def test_a_subscription_needs_its_topic(api: Api) -> None:
    for method in ("PUT", "GET", "PATCH", "DELETE"):
        assert (await api.ask(method, "/$api/v1/topics/missing/subscriptions/s")).status == 404
    assert (await api.ask("GET", "/$api/v1/topics/missing/subscriptions")).status == 404
    assert (await api.ask("GET", "/$api/v1/topics/orders/subscriptions/missing/rules")).status == 404


# --- rules ----------------------------------------------------------------------------------------------------------


async def test_a_rule_is_created_shown_replaced_and_deleted(api: Api) -> None:
    path = "/$api/v1/topics/orders/subscriptions/billing/rules/Large"
    created = await api.ask("PUT", path, LARGE)
    assert created.status == 201
    assert created.value == {
        "name": "Large",
        "filter": {"kind": "sql", "expression": "amount > 1000", "parameters": {}},
        "action": {"expression": "SET is_large = TRUE", "parameters": {}},
        "created_at_ms": created.value["created_at_ms"],
    }
    assert await api.ask("GET", path.lower()) == (200, created.value)
    again = await api.ask("PUT", path.lower(), LARGE)
    assert again.status == 409
    assert again.error["condition"] == "com.microsoft:entity-already-exists"
    # What is left out stays.
    changed = await api.ask("PATCH", path, {"filter": {"kind": "false"}})
    assert changed == (200, {**created.value, "filter": {"kind": "false"}})
    assert (await api.ask("PATCH", path, {"action": None})).value["action"] is None
    assert list(await rules(api)) == ["$Default", "Large"]
    assert await api.ask("DELETE", path) == (200, {"name": "Large"})
    for method in ("GET", "PATCH", "DELETE"):
        assert (await api.ask(method, path)).status == 404
    assert list(await rules(api)) == ["$Default"]


@pytest.mark.parametrize(
    "condition",
    [
        {"kind": "sql", "expression": "n = @n", "parameters": {"@n": 3, "@d": {"datetime": 5}}},
        {
            **dict.fromkeys(("correlation_id", "message_id", "to", "reply_to", "session_id")),
            **dict.fromkeys(("reply_to_session_id", "content_type")),
            "kind": "correlation",
            "label": "vip",
            "properties": {
                "text": "x",
                "int": 3,
                "double": 1.5,
                "bool": True,
                "span": {"timespan": 5},
                "id": {"uuid": "00000000-0000-0000-0000-000000000001"},
                "blob": {"binary": "00ff"},
                "price": {"decimal": "1.50"},
            },
        },
        {"kind": "true"},
        {"kind": "false"},
    ],
    ids=lambda value: value["kind"],
)
async def test_every_kind_of_filter_is_answered_as_it_was_given_also_after_a_restart(
    tmp_path: Path, condition: dict[str, Any]
) -> None:
    path = "/$api/v1/topics/orders/subscriptions/billing/rules/one"
    async with running(tmp_path) as api:
        await api.ask("PUT", "/$api/v1/topics/orders")
        await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/billing")
        created = await api.ask("PUT", path, {"filter": condition, "action": LARGE["action"]})
        assert created.status == 201
        assert created.value["filter"] == condition
        await api.ask("DELETE", "/$api/v1/topics/orders/subscriptions/billing/rules/$Default")
    async with running(tmp_path) as api:
        assert await api.ask("GET", path) == (200, created.value)
        assert list(await rules(api)) == ["one"]


@mission("M17")
@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"colour": 1}, "colour is not a property of a rule"),
        ({"filter": 1}, "filter must be an object"),
        ({"filter": {}}, "filter.kind is None; it must be one of sql, correlation, true, false"),
        ({"filter": {"kind": "sql"}}, "filter.expression must be a text, got None"),
        ({"filter": {"kind": "sql", "expression": "a = 1", "label": "x"}}, "label is not a property of filter"),
        ({"filter": {"kind": "sql", "expression": "a == 1"}}, "(at character 4)\n  a == 1\n     ^"),
        ({"filter": {"kind": "sql", "expression": "a = '" + "x" * 1_024 + "'"}}, "1024"),
        ({"filter": {"kind": "correlation"}}, "must name at least one property"),
        ({"filter": {"kind": "correlation", "label": 1}}, "filter.label must be a text, got 1"),
        ({"filter": {"kind": "correlation", "properties": {"a": []}}}, "filter.properties.a must be a text"),
        ({"filter": {"kind": "correlation", "properties": {"a": None}}}, "property a of a correlation filter is NULL"),
        ({"action": "SET a = 1"}, "action must be an object"),
        ({"action": {"expression": "SET a"}}, "  SET a\n"),
        ({"name": "other"}, "name is 'other' in the body and 'one' in the URL"),
        ({"subscription_name": "other"}, "subscription_name is 'other' in the body and 'billing' in the URL"),
    ],
)
async def test_a_rule_that_cannot_be_is_refused_by_what_is_wrong(api: Api, fields: Any, reason: str) -> None:
    for method, name in (("PUT", "one"), ("PATCH", "$Default")):
        refused = await api.ask(method, f"/$api/v1/topics/orders/subscriptions/billing/rules/{name}", fields)
        assert refused.status == 400
        assert refused.error["condition"].startswith("com.microsoft:argument-")
        assert reason.replace("'one'", f"'{name}'") in refused.error["message"]
    assert {name: rule["filter"] for name, rule in (await rules(api)).items()} == {"$Default": {"kind": "true"}}


async def test_lists_of_subscriptions_and_rules_are_in_order_and_come_in_pages(api: Api) -> None:
    for name in ("b", "C", "a"):
        await api.ask("PUT", f"/$api/v1/topics/orders/subscriptions/{name}")
        await api.ask("PUT", f"/$api/v1/topics/orders/subscriptions/billing/rules/{name}")
    for path, plural in (("subscriptions", "subscriptions"), ("subscriptions/billing/rules", "rules")):
        everything = (await api.ask("GET", f"/$api/v1/topics/orders/{path}")).value[plural]
        names = [one["name"] for one in everything]
        assert names == sorted(names, key=str.lower)
        assert len(names) == 4
        part = (await api.ask("GET", f"/$api/v1/topics/orders/{path}?skip=1&top=2")).value[plural]
        assert part == everything[1:3]
        assert (await api.ask("GET", f"/$api/v1/topics/orders/{path}?top=1001")).status == 400


# --- paths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["eu/orders", "eu%2Forders", "eu%2Fsubscriptions", "a/rules/b", "explain"])
async def test_the_name_of_a_topic_may_hold_slashes_and_what_follows_is_found_from_the_right(
    api: Api, topic: str
) -> None:
    encoded = topic.replace("/", "%2F")
    assert (await api.ask("PUT", f"/$api/v1/topics/{encoded}")).status == 201
    name = topic.replace("%2F", "/")
    # These are also the words between the names.
    for subscription in ("subscriptions", "rules", "explain"):
        path = f"/$api/v1/topics/{topic}/subscriptions/{subscription}"
        assert (await api.ask("PUT", path)).value["topic_name"] == name
        assert (await api.ask("PUT", f"{path}/rules/rules", LARGE)).status == 201
        assert (
            await api.ask("GET", f"/$api/v1/topics/{encoded}/subscriptions/{subscription}/rules/rules")
        ).status == 200
        assert list(await rules(api, f"{topic}/subscriptions/{subscription}")) == ["$Default", "rules"]
    listed = (await api.ask("GET", f"/$api/v1/topics/{topic}/subscriptions")).value["subscriptions"]
    assert [one["name"] for one in listed] == ["explain", "rules", "subscriptions"]
    assert (await api.ask("POST", f"/$api/v1/topics/{topic}/explain", {})).status == 200
    assert (await api.ask("GET", f"/$api/v1/topics/{encoded}")).value["subscription_count"] == 3


@pytest.mark.parametrize("path", ["orders/Subscriptions/new", "orders%2Fsubscriptions%2Fnew"])
async def test_a_topic_whose_name_reads_as_a_subscription_is_refused(api: Api, path: str) -> None:
    refused = await api.ask("PUT", f"/$api/v1/topics/{path}")
    assert refused.status == 400
    assert "reads as a subscription" in refused.error["message"]


@pytest.mark.parametrize("path", ["orders/subscriptions", "orders/subscriptions/billing/rules"])
async def test_a_list_can_only_be_read(api: Api, path: str) -> None:
    for method in ("PUT", "PATCH", "DELETE", "POST"):
        refused = await api.ask(method, f"/$api/v1/topics/{path}")
        assert refused.status == 405
        assert "allowed: GET" in refused.error["message"]
    assert [topic.name for topic in api.broker.namespace.topics] == ["orders"]


@pytest.mark.parametrize("name", ["a%2Fb", "a%20b", "%24a", "x" * 51, "caf%C3%A9"])
async def test_a_name_that_no_subscription_can_have_is_refused(api: Api, name: str) -> None:
    refused = await api.ask("PUT", f"/$api/v1/topics/orders/subscriptions/{name}")
    assert refused.status == 400
    assert "name" in refused.error["message"]


# --- who may --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", [Right.SEND, Right.LISTEN])
async def test_any_right_may_read_and_only_manage_may_write(api: Api, right: Right) -> None:
    api.broker.key_ring.put(AuthorizationRule("worker", right, "key"))
    token = api.token(rule=("worker", "key"))
    paths = ["/$api/v1/topics/orders", "/$api/v1/topics/orders/subscriptions/billing"]
    paths.append(f"{paths[-1]}/rules/$Default")
    for path in paths:
        assert (await api.ask("GET", path.rpartition("/")[0], token=token)).status == 200
        assert (await api.ask("GET", path, token=token)).status == 200
        for method in ("PUT", "PATCH", "DELETE"):
            refused = await api.ask(method, path, token=token)
            assert refused.status == 401
            assert "'Manage' claim(s) are required" in refused.error["message"]
            assert (await api.ask(method, path, token="x")).status == 401
    assert (await api.ask("POST", "/$api/v1/topics/orders/explain", {}, token=token)).status == 200
    assert (await api.ask("POST", "/$api/v1/topics/orders/explain", {}, token="x")).status == 401


async def test_the_rule_of_a_topic_manages_its_subscriptions_and_no_other_topic(api: Api) -> None:
    api.broker.key_ring.put(AuthorizationRule("owner", Right.MANAGE, "key", scope="orders"))
    token = api.token("/orders", ("owner", "key"))
    assert (await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/new", token=token)).status == 201
    assert (await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/new/rules/r", token=token)).status == 201
    assert (await api.ask("GET", "/$api/v1/topics/orders/subscriptions", token=token)).status == 200
    for path in ("/$api/v1/topics/orders2", "/$api/v1/topics/orders2/subscriptions/new", "/$api/v1/topics"):
        assert (await api.ask("GET", path, token=token)).status == 401


async def test_the_rule_of_a_subscription_manages_its_rules_and_no_other_subscription(api: Api) -> None:
    api.broker.key_ring.put(AuthorizationRule("owner", Right.MANAGE, "key", scope="orders/Subscriptions/billing"))
    token = api.token("/orders/Subscriptions/billing", ("owner", "key"))
    assert (await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/billing/rules/r", token=token)).status == 201
    assert (await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/other", token=token)).status == 401
    assert (await api.ask("GET", "/$api/v1/topics/orders/subscriptions", token=token)).status == 401
    assert (await api.ask("POST", "/$api/v1/topics/orders/explain", {}, token=token)).status == 401


# --- settings -------------------------------------------------------------------------------------------------------


@mission("M17")
@pytest.mark.parametrize(
    "path, fields, reason",
    [
        ("orders", {"lock_duration_ms": 5_000}, "lock_duration_ms is not a property of a topic"),
        ("orders", {"subscription_count": 0}, "subscription_count is not a property of a topic"),
        ("orders", {"status": "ReceiveDisabled"}, "of a topic it must be one of Active, Disabled, SendDisabled"),
        ("orders", {"max_size_in_megabytes": 0}, "max_size_in_megabytes is 0; it must be between 1"),
        ("orders/subscriptions/billing", {"max_size_in_megabytes": 1}, "max_size_in_megabytes is not a property"),
        (
            "orders/subscriptions/billing",
            {"status": "SendDisabled"},
            "must be one of Active, Disabled, ReceiveDisabled",
        ),
        ("orders/subscriptions/billing", {"forward_to": "nowhere"}, "forward_to is 'nowhere', which does not exist"),
        ("orders/subscriptions/billing", {"topic_name": "other"}, "topic_name is 'other' in the body"),
        ("orders/subscriptions/billing", {"max_delivery_count": 0}, "max_delivery_count is 0; it must be between 1"),
    ],
)
async def test_a_setting_that_cannot_be_is_refused_by_its_name(
    api: Api, path: str, fields: dict[str, Any], reason: str
) -> None:
    for method, one in (("PATCH", path), ("PUT", f"{path}2")):
        refused = await api.ask(method, f"/$api/v1/topics/{one}", fields)
        assert refused.status == 400
        assert reason in refused.error["message"]
        assert (await api.ask("GET", "/$api/v1/topics/orders2")).status == 404
    assert len((await api.ask("GET", "/$api/v1/topics/orders/subscriptions")).value["subscriptions"]) == 1


async def test_what_is_fixed_at_creation_cannot_be_changed(api: Api) -> None:
    for path, field in (
        ("orders", "requires_duplicate_detection"),
        ("orders/subscriptions/billing", "requires_session"),
    ):
        refused = await api.ask("PATCH", f"/$api/v1/topics/{path}", {field: True})
        assert refused.status == 400
        assert field in refused.error["message"]


async def test_topics_and_subscriptions_outlive_the_broker(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        await api.broker.perform(lambda namespace: namespace.create_queue(QueueDescription("late")))
        await api.ask("PUT", "/$api/v1/topics/orders", {"user_metadata": "naïve 📦"})
        await api.ask(
            "PUT", "/$api/v1/topics/orders/subscriptions/billing", {"forward_dead_lettered_messages_to": "late"}
        )
        before = [await api.ask("GET", path) for path in ("/$api/v1/topics", "/$api/v1/topics/orders/subscriptions")]
    async with running(tmp_path) as api:
        after = [await api.ask("GET", path) for path in ("/$api/v1/topics", "/$api/v1/topics/orders/subscriptions")]
    for answer in (*before, *after):
        for one in answer.value.get("topics", []) + answer.value.get("subscriptions", []):
            del one["accessed_at_ms"]
    assert after == before
