"""Messages and sessions over the JSON API: browsing, purging, resubmitting, moving, un-deferring; and jobs."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import Symbol, Timestamp, ULong
from tandem.auth import AuthorizationRule, Right
from tandem.management.json_api import PREFIX, jobs
from tests.management.json_api.api_client import Api, running
from tests.management.json_api.states_and_jobs import (
    LATER_MS,
    bodies,
    browse,
    bury,
    fill,
    finished,
    lock,
    payload,
    progress,
    put_aside,
    rule_of,
    send,
    work,
)

STATES = {
    "active": "active",
    "deferred": "deferred",
    "scheduled": "scheduled",
    "dead-lettered": "dead",
    "transfer-dead-lettered": "undeliverable",
}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path / "data") as api:
        yield api


# --- browsing -------------------------------------------------------------------------------------------------------


async def test_messages_are_browsed_by_their_state(api: Api) -> None:
    await fill(api)
    for state, body in STATES.items():
        answer = await browse(api, "orders", state)
        assert answer.status == 200
        (one,) = answer.value["messages"]
        assert (one["state"], one["body"], one["body_encoding"]) == (state, body, "text")
        assert answer.value["next_from"] is None


async def test_a_message_is_shown_with_all_that_is_known_of_it(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders", {"default_message_time_to_live_ms": 60_000})
    identity = uuid.UUID(int=7)
    await bury(
        api,
        "orders",
        encode_message(
            properties=Properties(
                message_id=identity, subject="new", correlation_id=3, content_type="text/plain", to="you", reply_to="me"
            ),
            application_properties={
                "text": "t",
                "big": ULong(2**64 - 1),
                "when": Timestamp(1_000),
                "id": identity,
                "raw": b"\xff",
                "symbol": Symbol("s"),
                "infinite": float("inf"),
                "nothing": None,
            },
            data=b"body",
        ),
    )
    (one,) = (await browse(api, "orders", "dead-lettered")).value["messages"]
    assert {field: one[field] for field in ("message_id", "label", "correlation_id", "content_type", "to")} == {
        "message_id": str(identity),
        "label": "new",
        "correlation_id": "3",
        "content_type": "text/plain",
        "to": "you",
    }
    assert one["dead_letter_reason"] == "Broken"
    assert one["dead_letter_error_description"] == "It is broken."
    assert (one["dead_letter_source"], one["delivery_count"], one["expires_at_ms"]) == (None, 0, None)
    assert one["application_properties"] == {
        "text": "t",
        "big": 2**64 - 1,
        "when": {"datetime": 621355968000000000 + 1_000 * 10_000},
        "id": {"uuid": str(identity)},
        "raw": {"binary": "ff"},
        "symbol": "s",
        "infinite": {"double": "inf"},
        "nothing": None,
        "DeadLetterReason": "Broken",
        "DeadLetterErrorDescription": "It is broken.",
    }


async def test_times_and_locks_are_shown(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders", {"default_message_time_to_live_ms": 60_000})
    await send(api, "orders", payload("one"), payload("two", due_ms=LATER_MS))
    (held,) = await lock(api, "orders", 1)
    (one,) = (await browse(api, "orders")).value["messages"]
    assert one["locked_until_ms"] == held.locked_until_ms
    assert one["expires_at_ms"] == one["enqueued_time_ms"] + 60_000
    (two,) = (await browse(api, "orders", "scheduled")).value["messages"]
    assert (two["scheduled_enqueue_time_ms"], two["locked_until_ms"]) == (LATER_MS, None)


async def test_bodies_are_shown_as_text_or_base64_and_cut_in_a_preview(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    # The limit of a preview falls into the middle of a character.
    await send(api, "orders", payload(b"\xff" * 2_000), payload("x" * 1_023 + "é" * 10))
    one, two = (await browse(api, "orders")).value["messages"]
    assert (one["body_encoding"], base64.b64decode(one["body"])) == ("base64", b"\xff" * 1_024)
    assert (one["is_body_truncated"], one["body_size_in_bytes"]) == (True, 2_000)
    assert (two["body"], two["body_encoding"], two["is_body_truncated"]) == ("x" * 1_023, "text", True)
    one, two = (await browse(api, "orders", query="&body=full")).value["messages"]
    assert (base64.b64decode(one["body"]), one["is_body_truncated"]) == (b"\xff" * 2_000, False)
    assert two["body"] == "x" * 1_023 + "é" * 10
    one, two = (await browse(api, "orders", query="&body=none")).value["messages"]
    assert (one["body"], one["body_size_in_bytes"]) == (None, 2_000)


@pytest.mark.parametrize(
    "value,body,encoding",
    [
        ("text", "text", "text"),
        (b"raw", "raw", "text"),
        ({"a": [1, Symbol("s"), None]}, '{"a": [1, "s", null]}', "json"),
        ({7: b"\xff"}, '{"7": {"binary": "ff"}}', "json"),
        (None, "null", "json"),
    ],
)
async def test_a_body_that_is_a_value_is_shown_as_json(api: Api, value: Any, body: str, encoding: str) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await send(api, "orders", encode_message(value=value))
    (one,) = (await browse(api, "orders")).value["messages"]
    assert (one["body_kind"], one["body"], one["body_encoding"]) == ("amqp-value", body, encoding)


async def test_a_message_that_is_no_amqp_is_shown_as_far_as_it_can_be_read(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    # Application properties whose value is of a type that there is not.
    broken = b"\x00\x53\x74\xc1\x05\x02\xa1\x01a\x99" + b"\x00\x53\x75\xa0\x01x"
    await send(api, "orders", broken)
    (one,) = (await browse(api, "orders")).value["messages"]
    assert (one["body"], one["application_properties"]) == ("x", {})
    assert one["unreadable"]


async def test_browsing_goes_by_pages(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await send(api, "orders", *[payload(str(number)) for number in range(5)])
    seen: list[str] = []
    start: int | None = 0
    while start is not None:
        page = (await browse(api, "orders", query=f"&top=2&from={start}")).value
        seen += [one["body"] for one in page["messages"]]
        start = page["next_from"]
    assert seen == ["0", "1", "2", "3", "4"]


async def test_a_few_messages_are_found_among_many_of_another_state(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await send(api, "orders", *[payload("x")] * 4_500, payload("late", due_ms=LATER_MS))
    assert await bodies(api, "orders", "scheduled") == ["late"]


async def test_large_bodies_end_an_answer_before_it_is_full(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await send(api, "orders", *[payload("x" * 200_000)] * 30)
    first = (await browse(api, "orders", query="&body=full")).value
    assert 0 < len(first["messages"]) < 30
    rest = (await browse(api, "orders", query=f"&body=full&from={first['next_from']}")).value
    assert len(first["messages"]) + len(rest["messages"]) == 30
    assert rest["next_from"] is None
    assert len((await browse(api, "orders")).value["messages"]) == 30


@pytest.mark.parametrize("path", ["news/Subscriptions/all", "news/subscriptions/ALL", "news%2FSubscriptions%2Fall"])
async def test_a_subscription_is_an_entity_too(api: Api, path: str) -> None:
    await api.ask("PUT", "/$api/v1/topics/news")
    await api.ask("PUT", "/$api/v1/topics/news/subscriptions/all")
    await send(api, "news", payload("one"), payload("two", due_ms=LATER_MS))
    assert await bodies(api, path) == ["one"]
    # What is scheduled waits in the topic.
    assert await bodies(api, "news", "scheduled") == ["two"]


async def test_an_entity_may_be_named_like_an_operation(api: Api) -> None:
    for name in ("a/messages", "a/purge"):
        await api.ask("PUT", f"/$api/v1/queues/{name}")
        await send(api, name, payload(name))
        assert await bodies(api, name) == [name]


@pytest.mark.parametrize(
    "query,words",
    [
        ("state=late", "state is 'late'"),
        ("top=0", "top is '0'"),
        ("top=251", "from 1 to 250"),
        ("from=-1", "from is '-1'"),
        ("from=99999999999999999999", "from is"),
        ("body=some", "none, preview, full"),
    ],
)
async def test_a_wrong_query_is_refused_by_name(api: Api, query: str, words: str) -> None:
    answer = await api.ask("GET", f"{PREFIX}/entities/orders/messages?{query}")
    assert answer.status == 400
    assert words in answer.error["message"]


async def test_there_is_nothing_to_browse_where_there_is_no_entity(api: Api) -> None:
    assert (await browse(api, "orders")).status == 404
    assert (await api.ask("GET", f"{PREFIX}/nonsense")).status == 404
    assert (await api.ask("GET", "/$api")).status == 404
    assert (await api.ask("PUT", f"{PREFIX}/entities/orders/messages")).status == 405


# --- purging --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
async def test_a_purge_deletes_what_is_of_one_state(api: Api, state: str) -> None:
    await fill(api)
    job = await work(api, "orders", "purge", {"state": state})
    assert progress(job) == ("completed", 1, 0, 0)
    assert (job["kind"], job["entity"], job["message_state"]) == ("purge", "orders", state)
    assert (job["progress"]["total"], job["error"]) == (1, None)
    assert job["finished_at_ms"] >= job["created_at_ms"]
    for other, body in STATES.items():
        assert await bodies(api, "orders", other) == ([] if other == state else [body])


async def test_a_purge_of_many_goes_by_steps_and_leaves_what_is_locked(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await send(api, "orders", *[payload("x")] * 2_500)
    await lock(api, "orders", 3)
    assert progress(await work(api, "orders", "purge", {"state": "active"})) == ("completed", 2_497, 3, 0)
    assert (await api.ask("GET", "/$api/v1/queues/orders")).value["active_message_count"] == 3


async def test_a_purge_can_leave_what_came_after_a_time_or_before_a_number(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await send(api, "orders", payload("one"), payload("two"), payload("three"))
    assert progress(await work(api, "orders", "purge", {"state": "active", "before": 1_000}))[1:] == (0, 3, 0)
    assert progress(await work(api, "orders", "purge", {"state": "active", "before": "2020-01-01T00:00:00Z"}))[1] == 0
    assert progress(await work(api, "orders", "purge", {"state": "active", "from": 3}))[1] == 1
    assert (
        progress(await work(api, "orders", "purge", {"state": "active", "before": "2999-01-01T00:00:00+01:00"}))[1] == 2
    )


async def test_what_was_purged_is_gone_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        await fill(api)
        await work(api, "orders", "purge", {"state": "active"})
    async with running(tmp_path) as api:
        assert await bodies(api, "orders") == []
        assert await bodies(api, "orders", "deferred") == ["deferred"]
        assert (await api.ask("GET", f"{PREFIX}/jobs")).value == {"jobs": []}


@pytest.mark.parametrize(
    "task,body,words",
    [
        ("purge", {}, "state"),
        ("purge", {"state": "late"}, "late"),
        ("purge", {"state": "active", "before": "yesterday"}, "before is 'yesterday'"),
        ("purge", {"state": "active", "before": "2020-01-01T00:00:00"}, "without a time zone"),
        ("purge", {"state": "active", "after": 1}, "after"),
        ("purge", [], "object"),
        ("resubmit", {"limit": 0}, "limit"),
        ("resubmit", {"filter": "color ="}, "^"),
        ("resubmit", {"state": "transfer-dead-lettered"}, "target is missing"),
        ("resubmit", {"state": "scheduled"}, "scheduled"),
        ("move", {"state": "active"}, "target"),
        ("move", {"state": "active", "target": "ORDERS"}, "already"),
        ("undefer", {"sequence_numbers": []}, "sequence_numbers"),
        ("undefer", {"sequence_numbers": list(range(1_001))}, "1000"),
        ("undefer", {"sequence_numbers": [-1]}, "sequence_numbers"),
    ],
)
async def test_a_wrong_request_is_refused_by_name_and_starts_nothing(
    api: Api, task: str, body: Any, words: str
) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    answer = await api.ask("POST", f"{PREFIX}/entities/orders/{task}", body)
    assert answer.status == 400, answer
    assert words in answer.error["message"]
    assert (await api.ask("GET", f"{PREFIX}/jobs")).value == {"jobs": []}


# --- resubmitting, moving, un-deferring -----------------------------------------------------------------------------


async def test_dead_letters_are_resubmitted_after_a_dry_run(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await bury(api, "orders", payload("one", color="red"), payload("two", color="blue"))
    body = {"dry_run": True, "filter": "color = 'red'"}
    tried = await work(api, "orders", "resubmit", body)
    assert progress(tried) == ("completed", 1, 1, 0)
    assert tried["dry_run"]
    assert [(one["message_id"], one["target"]) for one in tried["sample"]] == [(b"one".hex(), "orders")]
    assert await bodies(api, "orders") == []
    done = await work(api, "orders", "resubmit", {**body, "dry_run": False})
    assert progress(done) == ("completed", 1, 1, 0)
    assert done["removed_properties"] == ["DeadLetterReason", "DeadLetterErrorDescription"]
    (one,) = (await browse(api, "orders")).value["messages"]
    assert (one["body"], one["application_properties"], one["delivery_count"]) == ("one", {"color": "red"}, 0)
    assert one["dead_letter_reason"] is None
    assert await bodies(api, "orders", "dead-lettered") == ["two"]


async def test_a_limit_holds_over_all_steps(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await bury(api, "orders", *[payload(str(number)) for number in range(300)])
    job = await work(api, "orders", "resubmit", {"limit": 250})
    assert (progress(job), len(job["sample"])) == (("completed", 250, 0, 0), 20)
    queue = (await api.ask("GET", "/$api/v1/queues/orders")).value
    assert (queue["active_message_count"], queue["dead_letter_message_count"]) == (250, 50)
    # The next one goes on where this one stopped.
    rest = await work(api, "orders", "resubmit", {"from": job["last_sequence_number"] + 1})
    assert progress(rest)[1] == 50


async def test_dead_letters_of_one_subscription_go_to_another_or_to_a_queue(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/topics/news")
    for name in ("first", "second"):
        await api.ask("PUT", f"/$api/v1/topics/news/subscriptions/{name}")
    await api.ask("PUT", "/$api/v1/queues/orders")
    path = "news/Subscriptions/first"
    await send(api, "news", payload("one"), payload("two"))
    for held in await lock(api, path, 2):
        await api.broker.perform(lambda namespace, held=held: namespace.get(path).main.dead_letter(held, "B", None))  # type: ignore[misc]
    job = await work(api, path, "resubmit", {"target": "news/subscriptions/SECOND", "limit": 1})
    assert (job["target"], progress(job)[1]) == ("news/Subscriptions/second", 1)
    assert await bodies(api, "news/Subscriptions/second") == ["one", "two", "one"]
    await work(api, path, "resubmit", {"target": "orders"})
    assert await bodies(api, "orders") == ["two"]


async def test_forwarded_dead_letters_go_back_to_their_sources(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/graves")
    await api.ask("PUT", "/$api/v1/queues/orders", {"forward_dead_lettered_messages_to": "graves"})
    await bury(api, "orders", payload("one"))
    assert (await browse(api, "graves")).value["messages"][0]["dead_letter_source"] == "orders"
    assert progress(await work(api, "graves", "resubmit", {"state": "active"})) == ("completed", 1, 0, 0)
    assert await bodies(api, "orders") == ["one"]


@pytest.mark.parametrize("state", ["active", "deferred", "dead-lettered", "transfer-dead-lettered"])
async def test_messages_of_a_state_move_to_another_entity(api: Api, state: str) -> None:
    await fill(api)
    await api.ask("PUT", "/$api/v1/queues/target")
    job = await work(api, "orders", "move", {"state": state, "target": "target"})
    assert (progress(job), job["removed_properties"]) == (("completed", 1, 0, 0), [])
    assert await bodies(api, "target") == [STATES[state]]
    assert await bodies(api, "orders", state) == []


async def test_what_a_target_cannot_take_stays_and_the_job_says_why(api: Api) -> None:
    await fill(api)
    await api.ask("PUT", "/$api/v1/queues/target", {"requires_session": True})
    job = await work(api, "orders", "move", {"state": "active", "target": "target"})
    assert progress(job) == ("completed", 0, 0, 1)
    assert "session" in job["failures"][0]["reason"]
    assert await bodies(api, "orders") == ["active"]


async def test_deferred_messages_become_active_again_all_or_by_number(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await put_aside(api, "orders", payload("one"), payload("two"), payload("three"))
    job = await work(api, "orders", "undefer", {"sequence_numbers": [2, 77]})
    assert progress(job) == ("completed", 1, 0, 1)
    assert [one["sequence_number"] for one in job["failures"]] == [77]
    assert await bodies(api, "orders") == ["two"]
    assert progress(await work(api, "orders", "undefer")) == ("completed", 2, 0, 0)
    assert await bodies(api, "orders") == ["one", "two", "three"]


# --- jobs -----------------------------------------------------------------------------------------------------------


async def test_jobs_are_listed_with_the_newest_first(api: Api) -> None:
    await fill(api)
    made = [await work(api, "orders", "purge", {"state": state}) for state in ("active", "deferred")]
    listed = (await api.ask("GET", f"{PREFIX}/jobs")).value["jobs"]
    assert listed == list(reversed(made))
    assert (await api.ask("GET", f"{PREFIX}/jobs/none")).status == 404
    assert (await api.ask("DELETE", f"{PREFIX}/jobs/none")).status == 404


async def test_a_job_tells_where_it_is_found(api: Api) -> None:
    await fill(api)
    url = f"{api.base}{PREFIX}/entities/orders/purge"
    headers = {"Authorization": api.token()}
    async with api.session.post(url, json={"state": "active"}, headers=headers) as response:
        assert response.headers["Location"] == f"{PREFIX}/jobs/{(await response.json())['id']}"


async def test_a_cancelled_job_stops_and_what_it_did_stays(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await send(api, "orders", *[payload("x")] * 5_000)
    started = await api.ask("POST", f"{PREFIX}/entities/orders/purge", {"state": "active"})
    job = (await api.ask("DELETE", f"{PREFIX}/jobs/{started.value['id']}")).value
    assert job["state"] == "cancelled"
    left = (await api.ask("GET", "/$api/v1/queues/orders")).value["active_message_count"]
    assert left == 5_000 - job["progress"]["done"] > 0
    # A job that is over is not cancelled any more.
    done = await work(api, "orders", "purge", {"state": "active", "from": job["last_sequence_number"] + 1})
    assert (await api.ask("DELETE", f"{PREFIX}/jobs/{done['id']}")).value == done
    assert progress(done) == ("completed", left, 0, 0)


async def test_a_job_fails_when_its_entity_is_deleted_and_leaves_the_next_one_alone(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await send(api, "orders", *[payload("x")] * 5_000)
    started = await api.ask("POST", f"{PREFIX}/entities/orders/purge", {"state": "active"})
    await api.ask("DELETE", "/$api/v1/queues/orders")
    await api.ask("PUT", "/$api/v1/queues/orders")
    await send(api, "orders", payload("new"))
    job = await finished(api, started.value["id"])
    assert (job["state"], job["error"]["status"]) == ("failed", 404)
    assert await bodies(api, "orders") == ["new"]


async def test_others_are_served_while_a_job_runs(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    await api.ask("PUT", "/$api/v1/queues/other")
    await send(api, "orders", *[payload("x")] * 20_000)
    started = (await api.ask("POST", f"{PREFIX}/entities/orders/purge", {"state": "active"})).value
    await send(api, "other", payload("one"))
    assert await bodies(api, "other") == ["one"]
    assert (await api.ask("GET", f"{PREFIX}/jobs/{started['id']}")).value["state"] == "running"
    assert progress(await finished(api, started["id"])) == ("completed", 20_000, 0, 0)


async def test_jobs_are_bounded_in_number(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "MAX_JOBS", 2)
    await api.ask("PUT", "/$api/v1/queues/orders")
    made = [await work(api, "orders", "purge", {"state": "active"}) for _ in range(3)]
    assert (await api.ask("GET", f"{PREFIX}/jobs")).value["jobs"] == [made[2], made[1]]
    monkeypatch.setattr(jobs, "MAX_RUNNING_JOBS", 0)
    refused = await api.ask("POST", f"{PREFIX}/entities/orders/purge", {"state": "active"})
    assert (refused.status, refused.error["condition"]) == (503, "com.microsoft:server-busy")


async def test_a_broker_stops_in_the_middle_of_a_job(tmp_path: Path) -> None:
    async with running(tmp_path) as api:
        await api.ask("PUT", "/$api/v1/queues/orders")
        await send(api, "orders", *[payload("x")] * 20_000)
        await api.ask("POST", f"{PREFIX}/entities/orders/purge", {"state": "active"})
    async with running(tmp_path) as api:
        left = (await api.ask("GET", "/$api/v1/queues/orders")).value["active_message_count"]
        assert 0 < left <= 20_000
        assert progress(await work(api, "orders", "purge", {"state": "active"}))[1] == left


# --- sessions -------------------------------------------------------------------------------------------------------


async def test_sessions_are_listed_and_their_state_is_edited(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders", {"requires_session": True})
    await send(api, "orders", *[payload(name, session_id=name) for name in ("a", "b", "b")])
    state = f"{PREFIX}/entities/orders/sessions/b/state"
    nothing = {"session_id": "b", "state": None, "encoding": None}
    assert await api.ask("GET", state) == (200, nothing)
    text = {"session_id": "b", "state": "half done", "encoding": "text"}
    assert await api.ask("PUT", state, {"state": "half done"}) == (200, text)
    assert await api.ask("GET", state) == (200, text)
    raw = {"state": base64.b64encode(b"\xff\x00").decode(), "encoding": "base64"}
    assert await api.ask("PUT", state, raw) == (200, {"session_id": "b", **raw})
    sessions = (await api.ask("GET", f"{PREFIX}/entities/orders/sessions")).value["sessions"]
    assert [(one["session_id"], one["active_message_count"], one["has_state"]) for one in sessions] == [
        ("a", 1, False),
        ("b", 2, True),
    ]
    assert sessions[1]["state_size_in_bytes"] == 2
    assert (await api.ask("DELETE", state)).value == nothing
    assert await api.ask("GET", state) == (200, nothing)


async def test_sessions_are_listed_by_pages(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders", {"requires_session": True})
    await send(api, "orders", *[payload("x", session_id=name) for name in "cab"])
    first = (await api.ask("GET", f"{PREFIX}/entities/orders/sessions?top=2")).value
    assert ([one["session_id"] for one in first["sessions"]], first["next_after"]) == (["a", "b"], "b")
    rest = (await api.ask("GET", f"{PREFIX}/entities/orders/sessions?top=2&after=b")).value
    assert ([one["session_id"] for one in rest["sessions"]], rest["next_after"]) == (["c"], None)


async def test_the_state_of_a_session_that_is_held_is_not_edited(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders", {"requires_session": True})
    await send(api, "orders", payload("one", session_id="a"))
    (held,) = await lock(api, "orders", 1, session_id="a")
    (session,) = (await api.ask("GET", f"{PREFIX}/entities/orders/sessions")).value["sessions"]
    assert (session["is_locked"], session["locked_until_ms"]) == (True, held.locked_until_ms)
    for method in ("PUT", "DELETE"):
        refused = await api.ask(method, f"{PREFIX}/entities/orders/sessions/a/state", {"state": "x"})
        assert refused.error["condition"] == "com.microsoft:session-cannot-be-locked"


async def test_a_session_id_may_hold_slashes_and_spaces(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders", {"requires_session": True})
    path = f"{PREFIX}/entities/orders/sessions/a%2Fb%20c/state"
    assert (await api.ask("PUT", path, {"state": "x"})).value["session_id"] == "a/b c"
    (session,) = (await api.ask("GET", f"{PREFIX}/entities/orders/sessions")).value["sessions"]
    assert session["session_id"] == "a/b c"


@pytest.mark.parametrize(
    "session_id,body",
    [("a", {"state": "###", "encoding": "base64"}), ("a", {}), ("a", {"state": 1}), ("x" * 129, {"state": "x"})],
)
async def test_a_wrong_state_is_refused(api: Api, session_id: str, body: Any) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders", {"requires_session": True})
    answer = await api.ask("PUT", f"{PREFIX}/entities/orders/sessions/{session_id}/state", body)
    assert answer.status == 400


async def test_a_queue_without_sessions_has_none_to_list(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    assert (await api.ask("GET", f"{PREFIX}/entities/orders/sessions")).status == 400
    assert (await api.ask("GET", f"{PREFIX}/entities/other/sessions")).status == 404


# --- rights ---------------------------------------------------------------------------------------------------------

LISTENING = [
    ("GET", "/entities/orders/messages", None),
    ("GET", "/entities/orders/sessions", None),
    ("GET", "/entities/orders/sessions/a/state", None),
    ("PUT", "/entities/orders/sessions/a/state", {"state": "x"}),
    ("DELETE", "/entities/orders/sessions/a/state", None),
]
MANAGING = [
    ("POST", "/entities/orders/purge", {"state": "active"}),
    ("POST", "/entities/orders/resubmit", {}),
    ("POST", "/entities/orders/undefer", {}),
]
OWNING = [
    ("POST", "/entities/orders/resubmit", {"state": "active"}),
    ("POST", "/entities/orders/resubmit", {"target": "other"}),
    ("POST", "/entities/orders/move", {"state": "active", "target": "other"}),
    ("GET", "/jobs", None),
    ("GET", "/export", None),
    ("POST", "/import", {"mode": "replace", "document": {}}),
]


async def test_each_operation_needs_its_right_and_no_more(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders", {"requires_session": True})
    await api.ask("PUT", "/$api/v1/queues/other", {"requires_session": True})
    for scope, rights in [
        ("orders", Right.SEND),
        ("orders", Right.LISTEN),
        ("orders", Right.MANAGE),
        ("other", Right.MANAGE),
    ]:
        token = api.token(f"/{scope}", rule_of(api, scope, rights))
        for operations, allowed in (
            (LISTENING, scope == "orders" and rights is not Right.SEND),
            (MANAGING, scope == "orders" and rights is Right.MANAGE),
            (OWNING, False),
        ):
            for method, path, body in operations:
                answer = await api.ask(method, PREFIX + path, body, token)
                assert answer.status in ({200, 202} if allowed else {401}), (scope, rights, method, path, answer)
    for method, path, body in [*LISTENING, *MANAGING, *OWNING]:
        assert (await api.ask(method, PREFIX + path, body)).status in {200, 202}, path
        assert (await api.ask(method, PREFIX + path, body, token="nonsense")).status == 401, path


async def test_a_token_moves_messages_only_to_entities_that_its_rule_reaches(api: Api) -> None:
    await fill(api)
    await api.ask("PUT", "/$api/v1/queues/orders/done")
    order = {"state": "active", "target": "orders/done"}
    # A key of the queue orders does not reach the queue orders/done, whatever their names have in common.
    of_entity = api.token("/orders", rule_of(api, "orders", Right.MANAGE))
    assert (await api.ask("POST", f"{PREFIX}/entities/orders/move", order, of_entity)).status == 401
    # A key of the namespace reaches both, and the token is for all paths that begin with /orders.
    job = await work(api, "orders", "move", order, api.token("/orders"))
    assert progress(job) == ("completed", 1, 0, 0)


async def test_a_job_is_shown_to_who_manages_its_entity(api: Api) -> None:
    await fill(api)
    await api.ask("PUT", "/$api/v1/queues/other")
    job = await work(api, "orders", "purge", {"state": "active"})
    mine = api.token("/orders", rule_of(api, "orders", Right.MANAGE))
    theirs = api.token("/other", rule_of(api, "other", Right.MANAGE))
    for method in ("GET", "DELETE"):
        assert (await api.ask(method, f"{PREFIX}/jobs/{job['id']}", token=mine)).status == 200
        assert (await api.ask(method, f"{PREFIX}/jobs/{job['id']}", token=theirs)).status == 401
        assert (await api.ask(method, f"{PREFIX}/jobs/{uuid.uuid4()}", token=theirs)).status == 401


async def test_a_token_for_the_url_says_nothing_about_the_target(api: Api) -> None:
    """The rule of one queue, in a token that was signed for the whole path of the request."""
    for name in ("mine", "theirs"):
        assert (await api.ask("PUT", f"/$api/v1/queues/{name}")).status == 201
    api.broker.key_ring.put(AuthorizationRule("owner", Right.MANAGE, "key", scope="mine"))
    for order in ({"target": "theirs", "state": "active"}, {"target": "theirs", "state": "dead-lettered"}):
        url = "/$api/v1/entities/mine/move"
        assert (await api.ask("POST", url, order, token=api.token(url, ("owner", "key")))).status == 401
    url = "/$api/v1/entities/mine/resubmit"
    assert (await api.ask("POST", url, {"state": "active"}, token=api.token(url, ("owner", "key")))).status == 401
