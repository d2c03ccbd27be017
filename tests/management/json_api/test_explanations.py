"""Which subscriptions would get a message, and why: over the JSON API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.management.json_api.api_client import Api, running


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """With a topic of three subscriptions."""
    async with running(tmp_path / "data") as api:
        await api.ask("PUT", "/$api/v1/topics/orders")
        await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/all")
        await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/none", {"rules": []})
        rules = [
            {"name": "large", "filter": sql("amount > 1000"), "action": {"expression": "SET amount = amount + 1"}},
            {"name": "share", "filter": sql("1000 / amount > 5")},
            {"name": "vip", "filter": {"kind": "correlation", "label": "vip", "properties": {"tier": 1}}},
        ]
        await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/some", {"rules": rules})
        yield api


def sql(expression: str) -> dict[str, str]:
    return {"kind": "sql", "expression": expression}


async def explained(api: Api, body: Any, query: str = "") -> dict[str, dict[str, Any]]:
    """Rules by name, of all subscriptions."""
    answer = await api.ask("POST", f"/$api/v1/topics/orders/explain{query}", body)
    assert answer.status == 200
    return {one["name"]: {rule["name"]: rule for rule in one["rules"]} for one in answer.value["subscriptions"]}


async def test_every_rule_of_every_subscription_is_explained(api: Api) -> None:
    answer = await api.ask("POST", "/$api/v1/topics/orders/explain", {"properties": {"amount": 1_200}})
    assert answer.status == 200
    assert answer.value["next_skip"] is None
    verdicts = {one["name"]: one["matches"] for one in answer.value["subscriptions"]}
    assert verdicts == {"all": True, "none": False, "some": True}
    large, share, vip = answer.value["subscriptions"][2]["rules"]
    assert large == {
        "name": "large",
        "matches": True,
        "outcome": "true",
        "error": None,
        "reasons": [{"expression": "amount > 1000", "outcome": "true", "values": {"amount": 1_200}}],
        "reason_lines": ["amount > 1000 is true", "  amount is 1200"],
        "changes": [
            {"property": "amount", "before": 1_200, "after": 1_201},
            # By which a receiver can tell which rule made the copy.
            {"property": "RuleName", "before": None, "after": "large"},
        ],
        "change_lines": ["amount: 1200 -> 1201", "RuleName: (none) -> 'large'"],
    }
    assert (share["matches"], share["changes"]) == (False, None)
    assert vip["reason_lines"][:2] == ["sys.Label = 'vip' is false", "  sys.Label is null or missing"]


async def test_types_and_system_properties_count(api: Api) -> None:
    for tier, is_match in ((1, True), ("1", False), (1.0, False), ({"decimal": "1"}, False)):
        found = await explained(api, {"properties": {"tier": tier}, "system": {"Label": "vip"}})
        assert found["some"]["vip"]["matches"] is is_match


async def test_a_rule_that_fails_says_why_and_changes_nothing(api: Api) -> None:
    found = await explained(api, {"properties": {"amount": 0}})
    share = found["some"]["share"]
    assert (share["matches"], share["outcome"], share["changes"]) == (False, "error", None)
    assert "division by zero" in share["error"]
    action = {"name": "fails", "action": {"expression": "SET x = 1 / amount"}}
    await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/acts", {"rules": [action]})
    fails = (await explained(api, {"properties": {"amount": 0}}))["acts"]["fails"]
    assert (fails["matches"], fails["changes"]) == (True, None)
    assert "division by zero" in fails["error"]


async def test_one_subscription_can_be_asked_for(api: Api) -> None:
    assert list(await explained(api, {"subscription": "SOME"})) == ["some"]
    assert (await api.ask("POST", "/$api/v1/topics/orders/explain", {"subscription": "missing"})).status == 404
    assert (await api.ask("POST", "/$api/v1/topics/missing/explain", {})).status == 404


async def test_the_answer_comes_in_pages_of_whole_subscriptions(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(await explained(api, {}, "?skip=1&top=1")) == ["none"]
    monkeypatch.setattr("tandem.management.json_api.explanations.MAX_EXPLAINED_RULES", 1)
    seen: list[list[str]] = []
    skip: int | None = 0
    while skip is not None:
        answer = await api.ask("POST", f"/$api/v1/topics/orders/explain?skip={skip}", {})
        seen.append([one["name"] for one in answer.value["subscriptions"]])
        skip = answer.value["next_skip"]
    assert seen == [["all", "none"], ["some"]]


async def test_new_ids_can_be_made_and_nothing_is_sent_or_changed(api: Api) -> None:
    rule = {"name": "stamp", "action": {"expression": "SET id = newid()"}}
    assert (await api.ask("PUT", "/$api/v1/topics/orders/subscriptions/ids", {"rules": [rule]})).status == 201
    before = await api.ask("GET", "/$api/v1/topics/orders/subscriptions")
    stamp = (await explained(api, {}))["ids"]["stamp"]
    assert stamp["error"] is None
    assert stamp["changes"][0]["property"] == "id"
    assert await api.ask("GET", "/$api/v1/topics/orders/subscriptions") == before


@pytest.mark.parametrize(
    "body, reason",
    [
        ({"colour": 1}, "colour is not known; allowed are properties, system and subscription"),
        ({"properties": 1}, "properties must be an object"),
        ({"properties": {"a": []}}, "properties.a must be a text, a number"),
        ({"properties": {"a": {"uuid": "x"}}}, "properties.a is not a uuid: 'x'"),
        ({"system": {"Colour": "red"}}, "there is no system property 'Colour'"),
        ({"subscription": 1}, "subscription must be a text, got 1"),
    ],
)
async def test_a_message_that_cannot_be_is_refused_by_what_is_wrong(api: Api, body: Any, reason: str) -> None:
    refused = await api.ask("POST", "/$api/v1/topics/orders/explain", body)
    assert refused.status == 400
    assert reason in refused.error["message"]
