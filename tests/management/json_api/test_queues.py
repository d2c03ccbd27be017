"""The JSON API, spoken to over a real socket, with a real broker behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandem.auth import AuthorizationRule, Right, make_token
from tandem.engine.description import QueueDescription
from tandem.limits import MAX_JSON_BODY_BYTES
from tests.management.json_api.api_client import ROOT_RULE, Api, running
from tests.markers import mission


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path / "data") as api:
        yield api


# --- queues ---------------------------------------------------------------------------------------------------------


async def test_a_queue_is_created_shown_updated_and_deleted(api: Api) -> None:
    created = await api.ask("PUT", "/$api/v1/queues/orders", {"max_delivery_count": 3, "requires_session": True})
    assert created.status == 201
    assert created.value["name"] == "orders"
    assert await api.ask("GET", "/$api/v1/queues/ORDERS") == (200, created.value)
    updated = await api.ask("PATCH", "/$api/v1/queues/orders", {"lock_duration_ms": 5_000})
    assert updated.status == 200
    for field, value in {"lock_duration_ms": 5_000, "max_delivery_count": 3, "requires_session": True}.items():
        assert updated.value[field] == value
    assert updated.value["updated_at_ms"] >= created.value["updated_at_ms"]
    assert await api.ask("DELETE", "/$api/v1/queues/orders") == (200, {"name": "orders"})
    assert (await api.ask("DELETE", "/$api/v1/queues/orders")).status == 404


async def test_a_queue_shows_every_setting_and_count(api: Api) -> None:
    created = await api.ask("PUT", "/$api/v1/queues/orders")
    counts = [
        *("active_message_count", "dead_letter_message_count", "scheduled_message_count", "deferred_message_count"),
        *("transfer_message_count", "transfer_dead_letter_message_count", "message_count", "size_in_bytes"),
    ]
    times = ["created_at_ms", "updated_at_ms", "accessed_at_ms"]
    assert created.value == {
        **QueueDescription("orders").to_fields(),
        **dict.fromkeys(counts, 0),
        **{field: created.value[field] for field in times},
    }
    assert abs(created.value["created_at_ms"] - time.time() * 1_000) < 60_000


async def test_a_created_queue_outlives_the_broker(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        await api.ask("PUT", "/$api/v1/queues/orders", {"user_metadata": "naïve 📦"})
        before = await api.ask("GET", "/$api/v1/queues/orders")
    async with running(tmp_path) as api:
        after = await api.ask("GET", "/$api/v1/queues/orders")
    assert after.value["user_metadata"] == "naïve 📦"
    assert after.value["created_at_ms"] == before.value["created_at_ms"]


async def test_null_takes_an_optional_setting_back(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/late")
    await api.ask("PUT", "/$api/v1/queues/orders", {"forward_to": "late", "default_message_time_to_live_ms": 60_000})
    updated = await api.ask(
        "PATCH", "/$api/v1/queues/orders", {"forward_to": None, "default_message_time_to_live_ms": None}
    )
    assert (updated.value["forward_to"], updated.value["default_message_time_to_live_ms"]) == (None, None)


@pytest.mark.parametrize("path", ["orders/eu", "orders%2Feu", "orders%2feu"])
async def test_a_name_may_hold_slashes_encoded_or_as_they_are(api: Api, path: str) -> None:
    assert (await api.ask("PUT", f"/$api/v1/queues/{path}")).value["name"] == "orders/eu"
    for spelling in ("orders/eu", "orders%2Feu"):
        assert (await api.ask("GET", f"/$api/v1/queues/{spelling}")).value["name"] == "orders/eu"
    assert (await api.ask("DELETE", f"/$api/v1/queues/{path}")).status == 200


@pytest.mark.parametrize("path", ["$orders", "a//b", "a%20b", "a%00b", "a%25b", "a" * 261, "caf%C3%A9"])
async def test_a_name_that_no_queue_can_have_is_refused(api: Api, path: str) -> None:
    refused = await api.ask("PUT", f"/$api/v1/queues/{path}")
    assert refused.status == 400
    assert refused.error["condition"] == "com.microsoft:argument-error"
    assert api.broker.namespace.queues == []


async def test_a_queue_is_created_once_only_however_it_is_spelled(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    refused = await api.ask("PUT", "/$api/v1/queues/Orders")
    assert refused.status == 409
    assert refused.error["condition"] == "com.microsoft:entity-already-exists"


async def test_one_of_many_that_create_the_same_queue_at_once_succeeds(api: Api) -> None:
    answers = await asyncio.gather(*[api.ask("PUT", "/$api/v1/queues/orders") for _ in range(20)])
    assert sorted(answer.status for answer in answers) == [201, *[409] * 19]


# --- the list -------------------------------------------------------------------------------------------------------


async def test_the_list_is_in_order_and_comes_in_pages(api: Api) -> None:
    assert await api.ask("GET", "/$api/v1/queues") == (200, {"queues": []})
    for number in range(5):
        await api.ask("PUT", f"/$api/v1/queues/q{number}")

    async def names(query: str) -> list[str]:
        return [queue["name"] for queue in (await api.ask("GET", f"/$api/v1/queues{query}")).value["queues"]]

    assert await names("") == ["q0", "q1", "q2", "q3", "q4"]
    assert await names("?skip=1&top=2") == ["q1", "q2"]
    assert await names("?skip=4") == ["q4"]
    assert await names("?skip=5") == []
    assert await names("?top=0") == []


async def test_a_page_has_100_queues_unless_more_are_asked_for(api: Api) -> None:
    def create(namespace: Any) -> None:
        for number in range(120):
            namespace.create_queue(QueueDescription(f"q{number}"))

    await api.broker.perform(create)
    assert len((await api.ask("GET", "/$api/v1/queues")).value["queues"]) == 100
    assert len((await api.ask("GET", "/$api/v1/queues?top=1000")).value["queues"]) == 120


@pytest.mark.parametrize(
    "query", ["top=1001", "top=-1", "top=", "skip=x", "skip=1e3", "skip=%C2%B2", "skip=" + "9" * 5_000]
)
async def test_a_page_that_cannot_be_is_refused(api: Api, query: str) -> None:
    refused = await api.ask("GET", f"/$api/v1/queues?{query}")
    assert refused.status == 400
    assert query.partition("=")[0] in refused.error["message"]


# --- what is refused ------------------------------------------------------------------------------------------------


@mission("M17")
@pytest.mark.parametrize(
    "fields, condition",
    [
        ({"no_such_field": 1}, "com.microsoft:argument-error"),
        ({"active_message_count": 0}, "com.microsoft:argument-error"),
        ({"lock_duration_ms": "60000"}, "com.microsoft:argument-error"),
        ({"lock_duration_ms": 6e4}, "com.microsoft:argument-error"),
        ({"lock_duration_ms": True}, "com.microsoft:argument-error"),
        ({"lock_duration_ms": None}, "com.microsoft:argument-error"),
        ({"requires_session": 1}, "com.microsoft:argument-error"),
        ({"status": "Sleepy"}, "com.microsoft:argument-error"),
        ({"forward_to": "nowhere"}, "com.microsoft:argument-error"),
        ({"name": "other"}, "com.microsoft:argument-error"),
        ({"lock_duration_ms": 10**30}, "com.microsoft:argument-out-of-range"),
        ({"lock_duration_ms": 0}, "com.microsoft:argument-out-of-range"),
        ({"max_delivery_count": -1}, "com.microsoft:argument-out-of-range"),
        ({"user_metadata": "x" * 1_025}, "com.microsoft:argument-out-of-range"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_a_setting_that_cannot_be_is_refused_by_its_name(api: Api, fields: Any, condition: str) -> None:
    await api.ask("PUT", "/$api/v1/queues/there")
    for method, path in (("PUT", "/$api/v1/queues/orders"), ("PATCH", "/$api/v1/queues/there")):
        refused = await api.ask(method, path, fields)
        assert refused.status == 400
        assert refused.error["condition"] == condition
        assert next(iter(fields)) in refused.error["message"]
    assert [queue.name for queue in api.broker.namespace.queues] == ["there"]
    assert api.broker.namespace.get("there").description.to_fields() == QueueDescription("there").to_fields()


async def test_what_is_fixed_at_creation_cannot_be_changed(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    refused = await api.ask("PATCH", "/$api/v1/queues/orders", {"requires_session": True})
    assert refused.status == 400
    assert "requires_session" in refused.error["message"]


@pytest.mark.parametrize(
    "content",
    [b"[]", b"{", b"null", b'"x"', b"\xff", b'{"a":"\\ud800"}', b"[" * 60_000, b'{"a":' + b"9" * 60_000 + b"}"],
)
async def test_a_body_that_is_no_object_is_refused(api: Api, content: bytes) -> None:
    refused = await api.ask("PUT", "/$api/v1/queues/orders", content=content)
    assert refused.status == 400
    assert "JSON object" in refused.error["message"]


@pytest.mark.parametrize("is_length_told", [True, False])
async def test_a_body_that_is_too_large_is_refused(api: Api, is_length_told: bool) -> None:
    async def in_pieces() -> AsyncIterator[bytes]:
        for _ in range(MAX_JSON_BODY_BYTES // 1_024 + 1):
            yield b" " * 1_024

    content: Any = b" " * (MAX_JSON_BODY_BYTES + 1) if is_length_told else in_pieces()
    refused = await api.ask("PUT", "/$api/v1/queues/orders", content=content)
    assert refused.status == 413
    assert "262,144" in refused.error["message"]
    assert (
        await api.ask("PUT", "/$api/v1/queues/orders", content=b" " * (MAX_JSON_BODY_BYTES - 2) + b"{}")
    ).status == 201


@pytest.mark.parametrize("path", ["/$api/v1", "/$api/v1/", "/$api/v1/queues/", "/$api/v1/topics/", "/$api/v1/nothing"])
async def test_other_paths_are_not_found_in_the_same_form(api: Api, path: str) -> None:
    refused = await api.ask("GET", path)
    assert refused.status == 404
    assert refused.error["condition"] == "amqp:not-found"


async def test_another_method_is_refused_with_those_that_are_allowed(api: Api) -> None:
    refused = await api.ask("POST", "/$api/v1/queues/orders")
    assert refused.status == 405
    assert "PATCH" in refused.error["message"]


async def test_an_unforeseen_failure_tells_nothing_of_the_inside(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(function: object) -> None:
        raise RuntimeError("secret")

    api.broker.directory.default.perform = fail  # type: ignore[assignment, method-assign] # the failure to come
    refused = await api.ask("GET", "/$api/v1/queues")
    assert refused.status == 500
    assert refused.error["condition"] == "amqp:internal-error"
    assert "secret" not in refused.error["message"]
    assert "secret" in caplog.text


# --- who may --------------------------------------------------------------------------------------------------------


async def test_health_needs_no_token(api: Api) -> None:
    async with api.session.get(f"{api.base}/health") as response:
        assert response.status == 200
        assert await response.json() == {"status": "healthy", "message": "Service is healthy."}


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_everything_else_needs_a_token_that_is_good(api: Api, method: str) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    bad_tokens = {
        "": "MissingToken",
        "Bearer x": "MalformedToken",
        "SharedAccessSignature sr=x": "MalformedToken",
        api.token(rule=("RootManageSharedAccessKey", "wrong")): "InvalidSignature",
        api.token(rule=("nobody", "SAS_KEY_VALUE")): "InvalidSignature",
        api.token(lifetime_s=-1): "ExpiredToken",
        api.token("/other"): "InvalidAudience",
        make_token("http://elsewhere/", *ROOT_RULE, int(time.time()) + 60): "InvalidAudience",
    }
    for token, reason in bad_tokens.items():
        refused = await api.ask(method, "/$api/v1/queues/orders", token=token)
        assert refused.status == 401
        assert refused.error["condition"] == "com.microsoft:auth-failed"
        assert refused.error["message"].startswith(reason)
    assert (await api.ask("GET", "/$api/v1/queues/orders")).status == 200


@pytest.mark.parametrize("resource", ["/", "/orders", "/$api/v1/queues/orders", "/$api/v1/queues", "/$API/v1/queues/"])
async def test_a_token_may_be_for_the_namespace_the_queue_or_the_url(api: Api, resource: str) -> None:
    token = api.token(resource)
    assert (await api.ask("PUT", "/$api/v1/queues/orders", token=token)).status == 201
    assert (await api.ask("GET", "/$api/v1/queues/orders?x=1", token=token)).status == 200


async def test_a_token_for_one_queue_is_no_good_for_another(api: Api) -> None:
    for resource in ("/orders", "/$api/v1/queues/orders"):
        token = api.token(resource)
        assert (await api.ask("PUT", "/$api/v1/queues/orders2", token=token)).status == 401
        assert (await api.ask("GET", "/$api/v1/queues", token=token)).status == 401


@pytest.mark.parametrize("right", [Right.SEND, Right.LISTEN])
async def test_any_right_may_read_and_only_manage_may_write(api: Api, right: Right) -> None:
    api.broker.key_ring.put(AuthorizationRule("worker", right, "key"))
    token = api.token(rule=("worker", "key"))
    await api.ask("PUT", "/$api/v1/queues/orders")
    for path in ("/$api/v1/queues", "/$api/v1/queues/orders"):
        assert (await api.ask("GET", path, token=token)).status == 200
    for method, path in (
        ("PUT", "/$api/v1/queues/new"),
        ("PATCH", "/$api/v1/queues/orders"),
        ("DELETE", "/$api/v1/queues/orders"),
    ):
        refused = await api.ask(method, path, token=token)
        assert refused.status == 401
        assert refused.error["condition"] == "amqp:unauthorized-access"
        assert "'Manage' claim(s) are required" in refused.error["message"]


async def test_the_rule_of_a_queue_manages_that_queue_only(api: Api) -> None:
    api.broker.key_ring.put(AuthorizationRule("owner", Right.MANAGE, "key", scope="orders"))
    rule = ("owner", "key")
    assert (await api.ask("PUT", "/$api/v1/queues/orders", token=api.token("/orders", rule))).status == 201
    assert (await api.ask("PUT", "/$api/v1/queues/other", token=api.token("/", rule))).status == 401
    assert (await api.ask("GET", "/$api/v1/queues", token=api.token("/", rule))).status == 401


async def test_the_rule_of_a_queue_named_like_a_path_of_the_api_manages_no_other(api: Api) -> None:
    api.broker.key_ring.put(AuthorizationRule("owner", Right.MANAGE, "key", scope="api/queues"))
    token = api.token("/api/queues", ("owner", "key"))
    assert (await api.ask("PUT", "/$api/v1/queues/orders", token=token)).status == 401
    assert (await api.ask("PUT", "/$api/v1/queues/api/queues", token=token)).status == 201


async def test_requests_are_counted_whoever_made_them(api: Api) -> None:
    await api.ask("GET", "/$api/v1/queues")
    await api.ask("GET", "/$api/v1/queues", token="x")
    assert api.gate.request_count == 2


@mission("M17")
async def test_a_time_may_be_written_for_people(api: Api) -> None:
    path = "/$api/v1/queues/readable"
    created = await api.ask("PUT", path, {"lock_duration": "30s", "default_message_time_to_live": "never"})
    assert (created.status, created.value["lock_duration_ms"]) == (201, 30_000)
    changed = await api.ask("PATCH", path, {"lock_duration": "1m30s", "auto_delete_on_idle": "7d"})
    assert (changed.value["lock_duration_ms"], changed.value["auto_delete_on_idle_ms"]) == (90_000, 604_800_000)
    for fields, reason in (
        ({"lock_duration": "30s", "lock_duration_ms": 1}, "lock_duration and lock_duration_ms are the same setting"),
        ({"lock_duration": 30}, "lock_duration must be a text such as 30s, 5m or 7d, got 30"),
        ({"lock_duration": "soon"}, "lock_duration is 'soon'; write a time as 30s"),
        ({"lock_duration": "never"}, "lock_duration is never; it must be between 1s and 5m"),
        ({"lock_duration": "10m"}, "lock_duration_ms is 600000; it must be between 1000 and 300000"),
        ({"max_delivery": "1s"}, "max_delivery is not a property of a queue"),
    ):
        refused = await api.ask("PATCH", path, fields)
        assert refused.status == 400
        assert reason in refused.value["error"]["message"]


@mission("M17")
async def test_an_error_has_the_field_its_value_and_its_bounds_as_data(api: Api) -> None:
    refused = await api.ask("PUT", "/$api/v1/queues/orders", {"lock_duration_ms": 600_000})
    error = refused.value["error"]
    assert error["message"] == "lock_duration_ms is 600000; it must be between 1000 and 300000"
    assert error["argument"]["field"] == "lock_duration_ms"
    assert error["argument"]["values"] == {"value": 600_000, "least": 1_000, "most": 300_000}
