"""Answers of the management API that recordings of the service show.

The recordings are those of the tests of azure-sdk-for-python, -java, -net and -js.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tandem.store.connection import connect
from tandem.store.sqlite import DATABASE_NAME
from tests.management.atom.documents import ATOM, FEED, SERVICE_BUS, UPDATE, elements, put, value
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


@mission("M4")
async def test_a_queue_with_sessions_may_forward_and_a_queue_may_forward_to_itself(http: Http) -> None:
    await put(http, "/target", "QueueDescription")
    both = "<RequiresSession>true</RequiresSession><ForwardTo>sb://ns.example/target</ForwardTo>"
    assert (await put(http, "/q", "QueueDescription", both)).status == 201
    itself = both.replace("/target<", "/Q<") + "<ForwardDeadLetteredMessagesTo>q</ForwardDeadLetteredMessagesTo>"
    updated = await put(http, "/q", "QueueDescription", itself, is_update=True)
    assert (updated.status, value(updated, "QueueDescription", "RequiresSession")) == (200, "true")
    assert (value(updated, "QueueDescription", "ForwardTo") or "").endswith("/Q")
    await put(http, "/t", "TopicDescription")
    assert (await put(http, "/t/subscriptions/s", "SubscriptionDescription", both)).status == 201


@mission("M4")
async def test_enable_express_is_kept(tmp_path: Path) -> None:
    entities = (("/q", "QueueDescription"), ("/t", "TopicDescription"))
    async with serving(tmp_path / "data") as http:
        for path, kind in entities:
            assert value(await put(http, path, kind), kind, "EnableExpress") == "false"
            on = "<EnableExpress>true</EnableExpress>"
            updated = await put(http, path, kind, on, is_update=True)
            assert value(updated, kind, "EnableExpress") == "true"
            assert value(await put(http, f"{path}2", kind, on), kind, "EnableExpress") == "true"
    async with serving(tmp_path / "data") as http:
        for path, kind in entities:
            assert value(await http.ask("GET", path), kind, "EnableExpress") == "true"


async def test_entities_that_an_older_broker_stored_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The fields are those of the commits before these properties were stored."""
    async with serving(tmp_path / "data") as http:
        await http.make_queue("target")
        await http.make_queue("q", forward_to="target")
        await http.make_topic("t", "s")
    new = {"enable_express", "forward_to_scheme", "forward_dead_lettered_messages_to_scheme"}
    with contextlib.closing(connect(tmp_path / "data" / DATABASE_NAME)) as database:
        rows = list(database.execute("SELECT number, fields FROM queue"))
        for number, text in rows:
            old = {name: field for name, field in json.loads(str(text)).items() if name not in new}
            database.execute("UPDATE queue SET fields = ? WHERE number = ?", (json.dumps(old), number))
    caplog.clear()
    async with serving(tmp_path / "data") as http:
        assert "damage" not in caplog.text
        queue = await http.ask("GET", "/q")
        assert (value(queue, "QueueDescription", "ForwardTo") or "").startswith("https://")
        assert value(queue, "QueueDescription", "EnableExpress") == "false"
        assert value(await http.ask("GET", "/t"), "TopicDescription", "EnableExpress") == "false"
        assert (await http.ask("GET", "/t/subscriptions/s")).status == 200


# --- parts of an entity ---------------------------------------------------------------------------------------------


@mission("M4")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "path", ["/a/q/$DeadLetterQueue", "/q/$deadletterqueue", "/q/$Transfer/$DeadLetterQueue", "/t/$DeadLetterQueue"]
)
async def test_a_sub_queue_is_nothing_that_can_be_described(http: Http, method: str, path: str) -> None:
    await http.make_queue("q")
    await http.make_queue("a/q")
    await http.make_topic("t", "s")
    for part in (path, "/t/Subscriptions/s/$deadletterqueue"):
        reply = await http.ask(method, f"{part}?api-version=2021-05&enrich=False")
        assert reply.status == 400
        assert reply.detail.startswith(f"The specified HTTP verb ({method}) is not valid. {VISIT} TrackingId:")
    assert http.broker.namespace.find("q") is not None


@pytest.mark.parametrize("path", ["/missing/$DeadLetterQueue", "/t/subscriptions/missing/$DeadLetterQueue"])
async def test_a_sub_queue_of_nothing_is_an_empty_list(http: Http, path: str) -> None:
    await http.make_topic("t")
    reply = await http.ask("GET", path)
    assert (reply.status, reply.headers["content-type"]) == (200, FEED)


@pytest.mark.parametrize("path", ["/$DeadLetterQueue", "/$x/$DeadLetterQueue", "/$management", "/q/$management"])
async def test_a_reserved_path_that_names_nothing_is_not_found(http: Http, path: str) -> None:
    await http.make_queue("q")
    assert (await http.ask("GET", path)).status == 404


# --- details --------------------------------------------------------------------------------------------------------


@mission("M4")
@pytest.mark.parametrize("path, kind", [("/q", "QueueDescription"), ("/t", "TopicDescription")])
async def test_a_partitioned_entity_reports_the_room_of_all_its_partitions(http: Http, path: str, kind: str) -> None:
    chosen = "<MaxSizeInMegabytes>3072</MaxSizeInMegabytes><EnablePartitioning>true</EnablePartitioning>"
    created = await put(http, path, kind, chosen)
    assert value(created, kind, "MaxSizeInMegabytes") == "49152"
    assert value(created, kind, "SupportOrdering") == "false"
    assert http.broker.namespace.get(path[1:]).description.max_size_bytes == 49_152 << 20
    # What came is sent back with a change, and stays as it is.
    document = (await http.ask("GET", path)).body.replace(b"<Status>Active<", b"<Status>Disabled<")
    for _ in range(2):
        updated = await http.ask("PUT", path, document, UPDATE)
        assert (updated.status, value(updated, kind, "MaxSizeInMegabytes")) == (200, "49152")
    smaller = await put(http, path, kind, chosen.replace("3072", "1024"), is_update=True)
    assert value(smaller, kind, "MaxSizeInMegabytes") == "16384"


@mission("M4")
async def test_a_topic_supports_ordering_unless_that_is_declined(http: Http) -> None:
    created = await put(http, "/t", "TopicDescription")
    assert value(created, "TopicDescription", "SupportOrdering") == "true"
    declined = await put(http, "/u", "TopicDescription", "<SupportOrdering>false</SupportOrdering>")
    assert value(declined, "TopicDescription", "SupportOrdering") == "false"


@mission("M4")
@pytest.mark.parametrize(
    "version, has_message_size, has_filter_counts",
    [("2017-04", False, False), ("2021-05", True, False), ("2024-05", True, True)],
)
async def test_an_api_version_knows_the_elements_of_its_time(
    http: Http, version: str, has_message_size: bool, has_filter_counts: bool
) -> None:
    await http.make_queue("q")
    await http.make_topic("t", "s")
    newest = await http.ask("GET", "/t")
    for path, kind in (("/q", "QueueDescription"), ("/t", "TopicDescription")):
        reply = await http.ask("GET", f"{path}?api-version={version}")
        assert ("MaxMessageSizeInKilobytes" in elements(reply, kind)) is has_message_size
        page = await http.ask(
            "GET", f"/$Resources/{path[1]}{'ueues' if path == '/q' else 'opics'}?api-version={version}"
        )
        assert (b"MaxMessageSizeInKilobytes" in page.body) is has_message_size
    topic = await http.ask("GET", f"/t?api-version={version}")
    assert ("SqlFilterCount" in elements(topic, "TopicDescription")) is has_filter_counts
    assert ("CorrelationFilterCount" in elements(topic, "TopicDescription")) is has_filter_counts
    assert value(topic, "TopicDescription", "SubscriptionCount") == "1"
    assert value(newest, "TopicDescription", "SqlFilterCount") == "1"


@mission("M4")
async def test_access_rights_come_in_the_order_of_the_clients(http: Http) -> None:
    for rights, expected in (
        (["Listen", "Send", "Manage"], ["Manage", "Send", "Listen"]),
        (["Listen", "Send"], ["Send", "Listen"]),
    ):
        sent = "".join(f"<AccessRights>{right}</AccessRights>" for right in rights)
        rule = (
            "<AuthorizationRules><AuthorizationRule i:type='SharedAccessAuthorizationRule'>"
            f"<Rights>{sent}</Rights><KeyName>k</KeyName></AuthorizationRule></AuthorizationRules>"
        )
        reply = await put(http, f"/{'-'.join(rights)}", "QueueDescription", rule)
        found = ET.fromstring(reply.body).iter(f"{SERVICE_BUS}AccessRights")
        assert [right.text for right in found] == expected


@mission("M4")
async def test_a_duplicate_is_refused_in_the_words_of_the_service(http: Http) -> None:
    conflict = (
        "SubCode=40900. Conflict. You're requesting an operation that isn't allowed in the resource's current state."
    )
    for path, kind, detail in (
        ("/q", "QueueDescription", conflict),
        ("/t", "TopicDescription", conflict),
        (
            "/t/subscriptions/s",
            "SubscriptionDescription",
            "The messaging entity 'sbemulatorns:Topic:t|s' already exists.",
        ),
        (
            "/t/subscriptions/s/rules/r",
            "RuleDescription",
            "The messaging entity 'sbemulatorns:Topic:t|s|r' already exists.",
        ),
    ):
        assert (await put(http, path, kind)).status == 201
        again = await put(http, path, kind)
        assert again.status == 409
        assert again.detail.startswith(f"{detail} {VISIT}")


@mission("M4")
async def test_the_root_lists_the_namespace_for_those_who_manage_it(http: Http) -> None:
    await http.make_queue("b")
    await http.make_topic("a", "s")
    await put(http, "/C", "EventHubDescription", "<PartitionCount>1</PartitionCount>")
    reply = await http.ask("GET", "/?api-version=2021-05&$top=2")
    assert (reply.status, reply.headers["content-type"]) == (200, FEED)
    root = ET.fromstring(reply.body)
    assert [one.findtext(f"{ATOM}title") for one in root.findall(f"{ATOM}entry")] == ["a", "b"]
    (following,) = [link.get("href") for link in root.findall(f"{ATOM}link") if link.get("rel") == "next"]
    rest = await http.ask("GET", (following or "").removeprefix(http.base))
    assert [one.findtext(f"{ATOM}title") for one in ET.fromstring(rest.body).findall(f"{ATOM}entry")] == ["C"]
    assert (await http.ask("GET", "/", token="")).status == 401
    assert (await http.ask("GET", "/", token=http.api.token("/a"))).status == 401
    assert (await http.ask("PUT", "/", "<x/>")).status == 405
