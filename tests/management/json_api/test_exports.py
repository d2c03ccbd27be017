"""Entities as one document, and back; and the document that describes the API."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import hdrs

from tandem.engine.description import QueueDescription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.management.json_api import PREFIX, entity_shapes
from tandem.management.json_api.routes import all_operations
from tests.management.json_api.api_client import Api, running
from tests.management.json_api.states_and_jobs import fill, payload, send


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path / "data") as api:
        yield api


RULES: list[Any] = [
    {"name": "blue", "filter": {"kind": "correlation", "label": "blue"}, "action": None},
    {
        "name": "red",
        "filter": {"kind": "sql", "expression": "color = @c", "parameters": {"@c": "red"}},
        "action": {"expression": "SET seen = 1", "parameters": {}},
    },
]
KEYS = [{"name": "mine", "rights": ["Listen"], "primary_key": "p", "secondary_key": "s"}]


async def make_all(api: Api) -> None:
    """Entities that forward in a ring."""
    await api.ask("PUT", "/$api/v1/queues/b", {"max_delivery_count": 3, "authorization_rules": KEYS})
    await api.ask("PUT", "/$api/v1/queues/a", {"forward_to": "b"})
    await api.ask("PATCH", "/$api/v1/queues/b", {"forward_to": "a"})
    await api.ask("PUT", "/$api/v1/topics/news/today", {"user_metadata": "naïve"})
    await api.ask("PUT", "/$api/v1/topics/news/today/subscriptions/all", {"forward_to": "a"})
    await api.ask("PUT", "/$api/v1/topics/news/today/subscriptions/some", {"rules": RULES})


async def export(api: Api, query: str = "") -> Any:
    answer = await api.ask("GET", f"{PREFIX}/export{query}")
    assert answer.status == 200, answer
    return answer.value


async def take(api: Api, document: Any, mode: str = "create-missing", dry_run: bool = False) -> Any:
    answer = await api.ask("POST", f"{PREFIX}/import", {"mode": mode, "document": document, "dry_run": dry_run})
    assert answer.status == 200, answer
    return answer.value


def outcomes(report: Any) -> dict[str, str]:
    return {one["name"]: one["outcome"] for one in report["entities"]}


def settings(document: Any) -> Any:
    return {field: document[field] for field in ("version", "queues", "topics")}


async def test_an_export_has_every_entity_with_its_settings_and_rules(api: Api) -> None:
    await make_all(api)
    document = await export(api)
    assert document["namespace"] == api.broker.namespace.name
    assert [one["name"] for one in document["queues"]] == ["a", "b"]
    assert document["queues"][1] == {**QueueDescription("b", max_delivery_count=3, forward_to="a").to_fields()}
    (topic,) = document["topics"]
    assert (topic["name"], topic["user_metadata"]) == ("news/today", "naïve")
    everything, some = topic["subscriptions"]
    assert (everything["name"], everything["forward_to"]) == ("all", "a")
    assert [rule["name"] for rule in everything["rules"]] == ["$Default"]
    assert some["rules"][1] == RULES[1]


async def test_keys_are_exported_only_if_they_are_asked_for(api: Api) -> None:
    await make_all(api)
    assert "secondary_key" not in str(await export(api))
    with_keys = await export(api, "?keys=true")
    (rule,) = with_keys["queues"][1]["authorization_rules"]
    assert (rule["name"], rule["primary_key"]) == ("mine", "p")
    assert (await api.ask("GET", f"{PREFIX}/export?keys=yes")).status == 400


async def test_what_was_exported_is_the_same_where_it_is_imported(api: Api, tmp_path: Path) -> None:
    await make_all(api)
    document = await export(api, "?keys=true")
    async with running(tmp_path / "other") as other:
        report = await take(other, document)
        assert set(outcomes(report).values()) == {"created"}
        assert (report["created"], report["failed"]) == (5, 0)
        assert settings(await export(other, "?keys=true")) == settings(document)
        await send(other, "news/today", payload("one", color="red"))
        assert outcomes(await take(other, document, "replace")) == dict.fromkeys(outcomes(report), "unchanged")
        assert outcomes(await take(other, document)) == dict.fromkeys(outcomes(report), "kept")
    async with running(tmp_path / "other") as other:
        assert settings(await export(other, "?keys=true")) == settings(document)


async def test_an_empty_namespace_is_exported_and_imported_too(api: Api) -> None:
    document = await export(api)
    assert (document["queues"], document["topics"]) == ([], [])
    assert (await take(api, document))["entities"] == []


async def test_many_entities_are_exported_and_imported_by_steps(api: Api, tmp_path: Path) -> None:
    document: Any = {
        "queues": [{"name": f"q{number:03}"} for number in range(230)],
        "topics": [{"name": "t", "subscriptions": [{"name": f"s{number:03}"} for number in range(130)]}],
    }
    assert (await take(api, document))["created"] == 361
    exported = await export(api)
    assert [one["name"] for one in exported["queues"]] == [one["name"] for one in document["queues"]]
    assert len(exported["topics"][0]["subscriptions"]) == 130


async def test_a_dry_run_changes_nothing_and_says_what_would_be(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/a", {"requires_session": True})
    await api.ask("PUT", "/$api/v1/queues/kept", {"max_delivery_count": 5})
    before = settings(await export(api))
    document: Any = {
        "queues": [
            {"name": "a", "requires_session": False},
            {"name": "KEPT", "max_delivery_count": 6},
            {"name": "new", "forward_to": "newer"},
            {"name": "newer"},
            {"name": "lost", "forward_to": "nowhere"},
            {"name": "wrong", "max_delivery_count": "many"},
        ],
        "topics": [{"name": "t", "subscriptions": [{"name": "s", "rules": RULES}]}],
    }
    report = await take(api, document, "replace", dry_run=True)
    assert outcomes(report) == {
        "a": "failed",
        "KEPT": "updated",
        "new": "created",
        "newer": "created",
        "lost": "failed",
        "wrong": "failed",
        "t": "created",
        "t/Subscriptions/s": "created",
    }
    errors = {one["name"]: one["error"] for one in report["entities"] if one["error"]}
    assert "requires_session" in errors["a"]
    assert "nowhere" in errors["lost"]
    assert "max_delivery_count" in errors["wrong"]
    assert settings(await export(api)) == before
    # And so it is.
    assert outcomes(await take(api, document, "replace")) == outcomes(report)


async def test_replacing_gives_what_exists_the_settings_and_rules_of_the_document(api: Api) -> None:
    await make_all(api)
    document = await export(api)
    some = document["topics"][0]["subscriptions"][1]
    some["max_delivery_count"] = 4
    some["rules"] = [{**RULES[0], "filter": {"kind": "true"}}, {"name": "third", "filter": {"kind": "false"}}]
    document["queues"][0]["forward_to"] = None
    changed = outcomes(await take(api, document, "replace"))
    assert (changed["a"], changed["b"]) == ("updated", "unchanged")
    assert changed["news/today/Subscriptions/some"] == "updated"
    after = await export(api, "?keys=true")
    assert after["queues"][0]["forward_to"] is None
    rules = after["topics"][0]["subscriptions"][1]["rules"]
    assert [(rule["name"], rule["filter"]["kind"]) for rule in rules] == [("blue", "true"), ("third", "false")]
    # A document without keys leaves those that there are.
    assert after["queues"][1]["authorization_rules"][0]["name"] == "mine"


async def test_messages_stay_when_entities_are_replaced(api: Api) -> None:
    await fill(api)
    document = await export(api)
    document["queues"][0]["max_delivery_count"] = 77
    assert outcomes(await take(api, document, "replace")) == {"orders": "updated"}
    assert (await api.ask("GET", "/$api/v1/queues/orders")).value["message_count"] == 5


async def test_a_queue_does_not_become_a_topic(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/a")
    report = await take(api, {"topics": [{"name": "a", "subscriptions": [{"name": "s"}]}]}, "replace")
    assert outcomes(report) == {"a": "failed", "a/Subscriptions/s": "failed"}


@pytest.mark.parametrize(
    "body,words",
    [
        ({}, "mode"),
        ({"mode": "all", "document": {}}, "mode"),
        ({"mode": "replace"}, "document"),
        ({"mode": "replace", "document": []}, "document"),
        ({"mode": "replace", "document": {"relays": []}}, "document.relays"),
        ({"mode": "replace", "document": {"version": 2}}, "version"),
        ({"mode": "replace", "document": {"queues": {}}}, "document.queues"),
        ({"mode": "replace", "document": {"queues": [1]}}, "document.queues[0]"),
        ({"mode": "replace", "document": {"queues": [{}]}}, "document.queues[0].name"),
        ({"mode": "replace", "document": {"topics": [{"name": "t", "subscriptions": 1}]}}, "topics[0].subscriptions"),
        ({"mode": "replace", "document": {"queues": [{"name": "a"}, {"name": "A"}]}}, "two entities"),
    ],
)
async def test_a_document_of_another_form_is_refused_as_a_whole(api: Api, body: Any, words: str) -> None:
    answer = await api.ask("POST", f"{PREFIX}/import", body)
    assert answer.status == 400, answer
    assert words in answer.error["message"]


# --- the OpenAPI document -------------------------------------------------------------------------------------------


async def document_of(api: Api) -> Any:
    async with api.session.get(f"{api.base}{PREFIX}/openapi.json") as response:
        assert response.status == 200
        return await response.json()


async def test_every_route_is_in_the_document_and_the_other_way_round(api: Api) -> None:
    documented = {
        (method.upper(), path) for path, methods in (await document_of(api))["paths"].items() for method in methods
    }
    served = set()
    for resource in api.broker.http.router.resources():
        # Until all of the API lies below the prefix, entities are served below /api.
        path = resource.canonical.replace("/$api/v1/", f"{PREFIX}/", 1) if resource.canonical[:5] == "/$api/v1/" else ""
        path = path or resource.canonical
        if path.startswith(f"{PREFIX}/"):
            served |= {(route.method, path) for route in resource if route.method not in {hdrs.METH_ANY, "HEAD"}}
    assert documented == served


def test_every_operation_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/json-api.md").read_text(encoding="utf-8")
    for one in all_operations():
        assert f"| `{one.method} {one.path}` | {one.right or 'no token'} | {one.summary} |" in page


async def test_the_document_holds_together(api: Api) -> None:
    document = await document_of(api)
    assert document["openapi"] == "3.1.0"
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    names = [one["operationId"] for one in operations]
    assert len(set(names)) == len(names)
    schemas = document["components"]["schemas"]
    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in schemas
    for path, methods in document["paths"].items():
        for one in methods.values():
            in_path = [parameter["name"] for parameter in one["parameters"] if parameter["in"] == "path"]
            assert all(f"{{{name}}}" in path for name in in_path)
            assert len(in_path) == path.count("{")
    assert [one["operationId"] for one in operations if one.get("security") == []] == ["openapi"]


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        found = {node["$ref"]} if "$ref" in node else set()
        return found.union(*[references(one) for one in node.values()])
    return set().union(*[references(one) for one in node]) if isinstance(node, list) else set()


@pytest.mark.parametrize(
    "shape,described",
    [
        (entity_shapes.QueueSettings, QueueDescription("x").to_fields()),
        (entity_shapes.TopicSettings, TopicDescription("x").to_fields()),
        (entity_shapes.SubscriptionSettings, SubscriptionDescription("x", "x").to_fields()),
    ],
)
def test_documented_settings_are_those_of_the_engine(shape: type[msgspec.Struct], described: dict[str, object]) -> None:
    documented = {one.name: one.default for one in msgspec.structs.fields(shape)}
    documented.pop("authorization_rules", None)
    assert documented.keys() == described.keys()
    for name, default in documented.items():
        assert default in {msgspec.UNSET, described[name]}, name
    names = {"name", "topic_name"}
    msgspec.convert(described, shape, strict=True)
    assert {name for name, default in documented.items() if default is msgspec.UNSET} <= names


async def test_answers_are_as_the_document_says(api: Api) -> None:
    await make_all(api)
    queue = (await api.ask("GET", "/$api/v1/queues/a")).value
    topic = (await api.ask("GET", "/$api/v1/topics/news/today")).value
    subscription = (await api.ask("GET", "/$api/v1/topics/news/today/subscriptions/some")).value
    rules = (await api.ask("GET", "/$api/v1/topics/news/today/subscriptions/some/rules")).value
    explained = (await api.ask("POST", "/$api/v1/topics/news/today/explain", {"properties": {"color": "red"}})).value
    for value, shape in [
        (queue, entity_shapes.Queue),
        (topic, entity_shapes.Topic),
        (subscription, entity_shapes.Subscription),
        (rules, entity_shapes.RuleList),
        (explained, entity_shapes.Explanation),
        (await export(api, "?keys=true"), entity_shapes.ExportDocument),
    ]:
        read = msgspec.convert(value, shape, strict=True)
        # Nothing is answered that the document does not name.
        assert missing(value, msgspec.to_builtins(read)) == []


def missing(value: Any, read: Any, where: str = "") -> list[str]:
    if isinstance(value, dict) and isinstance(read, dict):
        lost = [f"{where}.{name}" for name in value if name not in read]
        return lost + list(
            itertools.chain(*[missing(value[name], read[name], f"{where}.{name}") for name in value if name in read])
        )
    if isinstance(value, list) and isinstance(read, list):
        return list(itertools.chain(*[missing(one, two, f"{where}[]") for one, two in zip(value, read, strict=True)]))
    return []
