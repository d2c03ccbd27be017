"""Shared access rules over the JSON API."""

from __future__ import annotations

import contextlib
import json
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tandem.auth import AuthorizationRule, KeyRing, Right, make_token
from tandem.connection_string import ROOT_RULE_NAME
from tandem.errors import ConfigurationError
from tandem.management.api import add_routes
from tandem.server.broker import Broker, BrokerSettings
from tandem.server.keys import load_or_make_keys, save_keys
from tests.management.json_api.api_client import Api, running

RULES = "/$api/v1/authorization-rules"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path / "data") as api:
        await api.ask("PUT", "/$api/v1/queues/orders", {})
        yield api


@contextlib.asynccontextmanager
async def with_keys_on_disk(data_dir: Path) -> AsyncIterator[Api]:
    """A broker that is not for development, and a client with the first key of its root rule."""
    broker = Broker(BrokerSettings(data_dir, port=0, http_port=0, tls="off"))
    gate = add_routes(broker)
    await broker.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(broker, gate, session)
    finally:
        await broker.stop()


def token_of(api: Api, rule: dict[str, Any], key: str = "primary_key", resource: str = "/") -> str:
    return make_token(f"{api.base}{resource}", rule["name"], rule[key], int(time.time()) + 60)


async def test_a_rule_is_made_with_new_keys_listed_shown_and_deleted(api: Api) -> None:
    created = await api.ask("PUT", f"{RULES}/readers", {"rights": ["Listen"]})
    assert created.status == 201
    rule = created.value
    assert (rule["name"], rule["rights"], rule["entity"]) == ("readers", ["Listen"], "")
    assert len({rule["primary_key"], rule["secondary_key"]}) == 2
    listed = (await api.ask("GET", RULES)).value["authorization_rules"]
    assert [one["name"] for one in listed] == [ROOT_RULE_NAME, "readers"]
    assert (await api.ask("GET", f"{RULES}/readers")).value == rule
    assert (await api.ask("GET", "/$api/v1/queues", token=token_of(api, rule))).status == 200
    assert (await api.ask("PUT", "/$api/v1/queues/x", {}, token=token_of(api, rule))).status == 401
    assert (await api.ask("DELETE", f"{RULES}/readers")).value == {"name": "readers"}
    assert (await api.ask("GET", "/$api/v1/queues", token=token_of(api, rule))).status == 401


async def test_a_rotated_key_proves_nothing_and_the_other_one_still_does(api: Api) -> None:
    rule = (await api.ask("PUT", f"{RULES}/app", {"rights": ["Manage"], "secondary_key": "mine"})).value
    assert rule["secondary_key"] == "mine"
    rotated = (await api.ask("POST", f"{RULES}/app/rotate")).value
    assert rotated["primary_key"] not in {rule["primary_key"], "mine"}
    assert rotated["secondary_key"] == "mine"
    answers = [
        (await api.ask("GET", "/$api/v1/queues", token=token)).status
        for token in (token_of(api, rule), token_of(api, rule, "secondary_key"), token_of(api, rotated))
    ]
    assert answers == [401, 200, 200]
    second = (await api.ask("POST", f"{RULES}/app/rotate", {"key": "secondary"})).value
    assert (second["primary_key"], second["secondary_key"] == "mine") == (rotated["primary_key"], False)


async def test_a_rule_of_an_entity_is_kept_with_it_over_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as api:
        await api.ask("PUT", "/$api/v1/queues/Orders", {})
        rule = (await api.ask("PUT", f"{RULES}/shop?entity=Orders", {"rights": ["Manage"]})).value
        assert rule["entity"] == "orders"
    async with running(tmp_path / "data") as api:
        listed = (await api.ask("GET", f"{RULES}?entity=orders")).value["authorization_rules"]
        assert listed == [rule]
        own = token_of(api, rule, resource="/orders")
        assert (await api.ask("GET", "/$api/v1/queues/orders", token=own)).status == 200
        # It manages its entity, with its rules, and nothing else.
        assert (await api.ask("GET", f"{RULES}?entity=orders", token=own)).status == 200
        assert (await api.ask("GET", RULES, token=own)).status == 401
        assert (await api.ask("DELETE", f"{RULES}/shop?entity=orders", token=own)).status == 200
        assert (await api.ask("GET", "/$api/v1/queues/orders", token=own)).status == 401


async def test_only_who_may_manage_sees_keys(api: Api) -> None:
    readers = (await api.ask("PUT", f"{RULES}/readers", {"rights": ["Listen", "Send"]})).value
    for method, path in (
        ("GET", RULES),
        ("GET", f"{RULES}/readers"),
        ("PUT", f"{RULES}/mine"),
        ("POST", f"{RULES}/readers/rotate"),
        ("DELETE", f"{RULES}/readers"),
        ("GET", f"{RULES}?entity=orders"),
    ):
        answer = await api.ask(method, path, token=token_of(api, readers))
        assert (answer.status, answer.error["condition"]) == (401, "amqp:unauthorized-access")
        assert (await api.ask(method, path, token="")).status == 401


@pytest.mark.parametrize(
    "method, path, body, status, reason",
    [
        ("GET", f"{RULES}/missing", None, 404, "'missing' could not be found"),
        ("POST", f"{RULES}/missing/rotate", None, 404, "'missing' could not be found"),
        ("DELETE", f"{RULES}/missing", None, 404, "'missing' could not be found"),
        ("GET", f"{RULES}?entity=missing", None, 404, "'missing' could not be found"),
        ("PUT", f"{RULES}/{ROOT_RULE_NAME}", {"rights": ["Send"]}, 409, "exists already"),
        ("DELETE", f"{RULES}/{ROOT_RULE_NAME}", None, 400, "the last one with the Manage right"),
        ("PUT", f"{RULES}/a", {"rights": []}, 400, "rights"),
        ("PUT", f"{RULES}/a", {"rights": ["Dance"]}, 400, "Dance"),
        ("PUT", f"{RULES}/a", {"rights": ["Send"], "colour": 1}, 400, "colour"),
        ("PUT", f"{RULES}/a", {"rights": ["Send"], "primary_key": "a\nb"}, 400, "cannot be printed"),
        ("POST", f"{RULES}/{ROOT_RULE_NAME}/rotate", {"key": "third"}, 400, "third"),
        ("PUT", f"{RULES}/{'a' * 257}", {"rights": ["Send"]}, 400, "257 characters"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(
    api: Api, method: str, path: str, body: object, status: int, reason: str
) -> None:
    answer = await api.ask(method, path, body)
    assert answer.status == status
    assert reason in answer.error["message"]


async def test_there_are_at_most_twelve_rules(api: Api) -> None:
    for number in range(11):
        assert (await api.ask("PUT", f"{RULES}/r{number}", {"rights": ["Send"]})).status == 201
    answer = await api.ask("PUT", f"{RULES}/one-more", {"rights": ["Send"]})
    assert (answer.status, answer.error["condition"]) == (403, "amqp:resource-limit-exceeded")


async def test_a_subscription_has_the_rules_of_its_topic(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/topics/t", {})
    await api.ask("PUT", "/$api/v1/topics/t/subscriptions/s", {})
    answer = await api.ask("GET", f"{RULES}?entity=t/Subscriptions/s")
    assert "those of its topic count" in answer.error["message"]


async def test_rules_of_the_namespace_are_on_disk_before_the_answer(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    root = load_or_make_keys(data_dir, is_dev=False).get(ROOT_RULE_NAME)
    assert root is not None
    async with with_keys_on_disk(data_dir) as api:
        token = make_token(f"{api.base}/", root.name, root.primary_key, int(time.time()) + 60)
        rule = (await api.ask("PUT", f"{RULES}/readers", {"rights": ["Listen"]}, token=token)).value
        kept = load_or_make_keys(data_dir, is_dev=False).get("readers")
        assert kept is not None
        assert kept.primary_key == rule["primary_key"]
        for name in ("keys.json", "keys.json.copy"):
            (data_dir / name).write_text("{")
        refused = await api.ask("POST", f"{RULES}/readers/rotate", token=token)
        assert refused.status == 400
        # What could not be kept does not count.
        assert (await api.ask("GET", f"{RULES}/readers", token=token)).value == rule


# --- the file -------------------------------------------------------------------------------------------------------


def test_saved_keys_replace_those_of_the_namespace_and_keep_the_others(tmp_path: Path) -> None:
    load_or_make_keys(tmp_path, is_dev=False)
    path = tmp_path / "keys.json"
    own = AuthorizationRule("own", Right.SEND, "k", scope="orders")
    root = AuthorizationRule("root", Right.MANAGE, "k")
    path.write_text(json.dumps(KeyRing([root, own]).to_dict()))
    save_keys(tmp_path, [AuthorizationRule("new", Right.MANAGE, "k2")])
    kept = load_or_make_keys(tmp_path, is_dev=False)
    assert sorted((rule.name, rule.scope) for rule in kept) == [("new", ""), ("own", "orders")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["keys.json", "keys.json.copy"]


def test_keys_that_cannot_be_saved_are_an_error_and_the_old_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_or_make_keys(tmp_path, is_dev=False).to_dict()

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ConfigurationError, match="cannot be changed: Permission denied"):
        save_keys(tmp_path, [AuthorizationRule("new", Right.MANAGE, "k")])
    assert load_or_make_keys(tmp_path, is_dev=False).to_dict() == before
    assert [one.name for one in tmp_path.iterdir()] == ["keys.json"]
