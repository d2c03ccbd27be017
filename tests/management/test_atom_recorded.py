"""Answers of the management API that recordings of the service show.

The recordings are those of the tests of azure-sdk-for-python, -java, -net and -js.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.management.atom import ATOM, FEED, UPDATE, put, value
from tests.management.http_api import Http, serving
from tests.markers import mission

VISIT = "To know more visit https://aka.ms/sbResourceMgrExceptions."


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    async with serving(tmp_path / "data") as http:
        yield http


# --- what does not exist --------------------------------------------------------------------------------------------


@mission("M4")
@pytest.mark.parametrize("path", ["/missing", "/missing/subscriptions/s", "/missing/subscriptions/s/rules/r"])
async def test_an_entity_that_does_not_exist_is_an_empty_list(http: Http, path: str) -> None:
    reply = await http.ask("GET", path)
    assert (reply.status, reply.headers["content-type"]) == (200, FEED)
    root = ET.fromstring(reply.body)
    assert root.findtext(f"{ATOM}title") == "Publicly Listed Services"
    assert root.find(f"{ATOM}entry") is None
    assert (await http.ask("DELETE", path)).status == 404


@mission("M4")
@pytest.mark.parametrize(
    "path, name",
    [
        ("/t/Subscriptions/missing", "Topic:t|missing"),
        ("/t/subscriptions/missing/rules/r", "Topic:t|missing|r"),
        ("/t/subscriptions/s/rules/missing", "Topic:t|s|missing"),
        ("/q/subscriptions/s", "Topic:q|s"),
        ("/h/consumergroups/missing", "EventHub:h|missing"),
    ],
)
async def test_a_part_that_an_entity_does_not_have_is_not_found(http: Http, path: str, name: str) -> None:
    await put(http, "/q", "QueueDescription")
    await put(http, "/t", "TopicDescription")
    await put(http, "/t/subscriptions/s", "SubscriptionDescription")
    await put(http, "/h", "EventHubDescription", "<PartitionCount>1</PartitionCount>")
    reply = await http.ask("GET", path)
    assert reply.status == 404
    assert reply.detail.startswith(f"Entity 'sbemulatorns:{name}' was not found. {VISIT} TrackingId:")
    assert (await http.ask("DELETE", path)).status == 404


# --- forwarding -----------------------------------------------------------------------------------------------------


@mission("M4")
@pytest.mark.parametrize("field", ["ForwardTo", "ForwardDeadLetteredMessagesTo"])
@pytest.mark.parametrize(
    "sent, answered",
    [
        ("https://ns.example/Target", "https://{host}/Target"),
        ("http://ns.example/Target", "http://{host}/Target"),
        ("SB://NS.EXAMPLE/TARGET", "sb://{host}/TARGET"),
        ("amqp+ssl://ns.example/target", "amqp+ssl://{host}/target"),
        ("target", "https://{host}/target"),
    ],
)
async def test_the_target_of_forwarding_comes_back_with_the_scheme_it_was_sent_with(
    tmp_path: Path, field: str, sent: str, answered: str
) -> None:
    async with serving(tmp_path / "data") as http:
        await put(http, "/target", "QueueDescription")
        await put(http, "/t", "TopicDescription")
        for path, kind in (("/q", "QueueDescription"), ("/t/subscriptions/s", "SubscriptionDescription")):
            created = await put(http, path, kind, f"<{field}>{sent}</{field}>")
            assert created.status == 201, created.body
            assert value(created, kind, field) == answered.format(host=http.base.removeprefix("http://"))
    async with serving(tmp_path / "data") as http:
        expected = answered.format(host=http.base.removeprefix("http://"))
        for path, kind in (("/q", "QueueDescription"), ("/t/subscriptions/s", "SubscriptionDescription")):
            reply = await http.ask("GET", path)
            assert value(reply, kind, field) == expected
            # Sent back as it came, it stays as it is.
            again = await http.ask("PUT", path, reply.body, UPDATE)
            assert (again.status, value(again, kind, field)) == (200, expected)


async def test_a_target_set_by_another_way_comes_back_as_a_url(http: Http) -> None:
    await http.make_queue("target")
    await http.make_queue("q", forward_to="target")
    reply = await http.ask("GET", "/q")
    assert value(reply, "QueueDescription", "ForwardTo") == f"https://{http.base.removeprefix('http://')}/target"
