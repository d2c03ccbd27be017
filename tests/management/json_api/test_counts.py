"""`GET /counts`: the messages of all entities, in one answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandem.engine.message import NEVER_MS
from tandem.engine.queue import Queue
from tests.engine.desk import payload
from tests.management.json_api.api_client import Api, running

COUNTS = "/$api/v1/counts"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path) as api:
        yield api


async def made(api: Api, path: str, **fields: object) -> None:
    answer = await api.ask("PUT", f"/$api/v1/{path}", fields)
    assert answer.status == 201, answer.value


async def sent(api: Api, path: str, *messages: bytes) -> None:
    def send(queue: Queue) -> None:
        for message in messages:
            queue.send(message, 0)

    await api.broker.perform(lambda namespace: send(namespace.get(path)))


def counted(entity: dict[str, Any]) -> dict[str, Any]:
    """Any: an entity as JSON. What of it is neither zero nor its size."""
    return {name: value for name, value in entity.items() if value and name not in {"size_in_bytes", "kind"}}


async def test_counts_lists_queues_topics_and_subscriptions_with_their_messages_by_state(api: Api) -> None:
    await made(api, "queues/orders")
    await made(api, "topics/news")
    for name in ("two", "one"):
        await made(api, f"topics/news/subscriptions/{name}")
    later_ms = NEVER_MS >> 10
    await sent(api, "orders", payload("a"), payload("b"), payload("c", due_ms=later_ms))
    await sent(api, "news", payload("d"), payload("e", due_ms=later_ms))
    answer = await api.ask("GET", COUNTS)
    assert answer.status == 200
    assert [counted(one) for one in answer.value["entities"]] == [
        {"path": "orders", "active_message_count": 2, "scheduled_message_count": 1, "message_count": 3},
        {"path": "news", "scheduled_message_count": 1, "message_count": 1},
        {"path": "news/Subscriptions/one", "active_message_count": 1, "message_count": 1},
        {"path": "news/Subscriptions/two", "active_message_count": 1, "message_count": 1},
    ]
    assert [one["kind"] for one in answer.value["entities"]] == ["queue", "topic", "subscription", "subscription"]
    assert answer.value["message_count"] == 6


async def test_a_page_of_counts_adds_up_what_it_lists(api: Api) -> None:
    for number in range(4):
        await made(api, f"queues/q{number}")
        await sent(api, f"q{number}", *[payload("a")] * number)
    answer = await api.ask("GET", f"{COUNTS}?skip=1&top=2")
    assert [one["path"] for one in answer.value["entities"]] == ["q1", "q2"]
    assert answer.value["message_count"] == 3
    assert (await api.ask("GET", f"{COUNTS}?top=1001")).status == 400


async def test_a_topic_reports_what_it_could_not_transfer(api: Api) -> None:
    await made(api, "topics/news")

    def transfer(topic: Queue) -> None:
        drafts = topic.read(payload("a"), 0)
        drafts[0].destination = "missing"
        topic.take(drafts)

    await api.broker.perform(lambda namespace: transfer(namespace.get("news")))
    topic = (await api.ask("GET", "/$api/v1/topics/news")).value
    assert topic["transfer_dead_letter_message_count"] == 1
    (entity,) = (await api.ask("GET", COUNTS)).value["entities"]
    assert counted(entity) == {"path": "news", "transfer_dead_letter_message_count": 1, "message_count": 1}
