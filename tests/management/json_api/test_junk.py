"""Whatever is asked of a documented operation, the answer is JSON, and never that the broker failed."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

import pytest
from yarl import URL

from tandem.management.json_api import PREFIX
from tandem.management.json_api.described import Operation
from tandem.management.json_api.routes import all_operations
from tests.management.json_api.api_client import Api, running
from tests.management.json_api.states_and_jobs import fill

REQUESTS: Final = 25

TEXTS: Final = [
    *("orders", "news", "news/Subscriptions/all", "all", "$Default", "a", "", " ", "\x00", "é📦", "..", "%", "x" * 300),
    *("$management", "orders/$DeadLetterQueue", "sb://elsewhere/orders", "active", "dead-lettered", "1=1", "color = 1"),
    *("replace", "text", "base64", "2020-01-01T00:00:00Z", "9999-12-31T23:59:59.999999-23:59", "Active"),
]
NUMBERS: Final = [0, 1, -1, 2, 7, 250, 251, 1_000, 2**31, 2**44, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, 0.5, 1e308]
NAMES: Final = [
    *("state", "before", "from", "filter", "limit", "target", "dry_run", "sequence_numbers", "mode", "document"),
    *("queues", "topics", "subscriptions", "rules", "name", "kind", "expression", "action", "encoding", "properties"),
    *("max_delivery_count", "lock_duration_ms", "forward_to", "authorization_rules", "status", "system", "version"),
]


def value(random: Random, depth: int = 3) -> Any:
    kind = random.randrange(8 if depth else 5)
    if kind == 0:
        return random.choice([None, True, False])
    if kind in {1, 2}:
        return random.choice(NUMBERS)
    if kind in {3, 4}:
        return random.choice(TEXTS)
    if kind == 5:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    return {random.choice(NAMES): value(random, depth - 1) for _ in range(random.randrange(5))}


def likely(random: Random, schema: Any, schemas: Any, depth: int = 4) -> Any:
    """Mostly what a schema asks for, and sometimes anything."""
    if depth == 0 or random.random() < 0.15:
        return value(random)
    if "$ref" in schema:
        return likely(random, schemas[schema["$ref"].rpartition("/")[2]], schemas, depth)
    if "enum" in schema:
        return random.choice(schema["enum"])
    if "anyOf" in schema:
        return likely(random, random.choice(schema["anyOf"]), schemas, depth)
    kind = schema.get("type")
    if kind == "object":
        known = schema.get("properties", {})
        wanted = [name for name in known if name in schema.get("required", []) or random.random() < 0.3]
        return {name: likely(random, known[name], schemas, depth - 1) for name in wanted}
    if kind == "array":
        return [likely(random, schema.get("items", {}), schemas, depth - 1) for _ in range(random.randrange(3))]
    if kind in {"integer", "number"}:
        return random.choice(NUMBERS)
    return random.random() < 0.5 if kind == "boolean" else random.choice(TEXTS)


def url_of(random: Random, operation: Operation) -> str:
    # Until all of the API lies below the prefix, entities are served below /api.
    path = ("/$api/v1" if operation.path.startswith(("/queues", "/topics")) else PREFIX) + operation.path
    while "{" in path:
        start, end = path.index("{"), path.index("}")
        path = path[:start] + quote(random.choice(TEXTS), safe="") + path[end + 1 :]
    given = [one for one in operation.parameters if random.random() < 0.4]
    query = "&".join(f"{one.name}={quote(str(random.choice([*TEXTS, *NUMBERS])))}" for one in given)
    return f"{path}?{query}" if query else path


async def check(api: Api, random: Random, operation: Operation, schema: Any, schemas: Any) -> None:
    url = url_of(random, operation)
    content = None
    if operation.body is not None and random.random() < 0.9:
        content = json.dumps(likely(random, schema, schemas)).encode()
        if random.random() < 0.1:
            content = content[: random.randrange(len(content) + 1)] + random.choice([b"", b"\xff", b"[" * 5_000])
    headers = {"Authorization": api.token()}
    request = api.session.request(operation.method, URL(api.base + url, encoded=True), data=content, headers=headers)
    async with request as response:
        # 503 is for those who start too many jobs.
        assert response.status < 500 or response.status == 503, (operation.method, url, content, await response.text())
        assert response.content_type == "application/json", (operation.method, url)
        answer = await response.json()
        if response.status >= 400:
            assert answer["error"]["status"] == response.status


@pytest.mark.parametrize("seed", range(4))
async def test_no_request_makes_the_broker_fail(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    async with running(tmp_path) as api:
        await fill(api)
        await api.ask("PUT", "/$api/v1/topics/news")
        await api.ask("PUT", "/$api/v1/topics/news/subscriptions/all", {"requires_session": True})
        document = (await api.ask("GET", f"{PREFIX}/openapi.json")).value
        schemas = document["components"]["schemas"]
        # Those that delete come last: there is more to be tried while entities exist.
        operations = sorted(all_operations(), key=lambda one: one.method == "DELETE")
        for operation in operations:
            described = document["paths"][PREFIX + operation.path][operation.method.lower()]
            schema = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            for _ in range(REQUESTS):
                await check(api, random, operation, schema, schemas)
        assert not api.broker.failed.done()
