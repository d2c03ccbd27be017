"""Event hubs over the JSON API: settings, consumer groups, positions; exported, imported, and sent to over HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.hubs.partition_key import partition_of
from tandem.management.json_api import entity_shapes, hub_shapes
from tandem.management.sizes import parse_size_bytes
from tests.management.http_api import Http, serving
from tests.management.json_api.api_client import Answer, Api
from tests.markers import mission

HUBS = "/$api/v1/hubs"
BATCH = {"Content-Type": "application/vnd.microsoft.servicebus.json"}


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    """With a hub of four partitions."""
    async with serving(tmp_path / "data") as http:
        assert (await http.api.ask("PUT", f"{HUBS}/logs", {"partition_count": 4})).status == 201
        yield http


@pytest.fixture
def api(http: Http) -> Api:
    return http.api


async def groups(api: Api) -> list[str]:
    answer = await api.ask("GET", f"{HUBS}/logs/consumer-groups")
    return [one["name"] for one in answer.value["consumer_groups"]]


async def counts(api: Api, hub: str = "logs") -> list[int]:
    answer = await api.ask("GET", f"{HUBS}/{hub}/partitions")
    return [one["next_sequence_number"] for one in answer.value["partitions"]]


async def events(api: Api, partition: int, query: str = "") -> list[dict[str, Any]]:
    answer = await api.ask("GET", f"{HUBS}/logs/partitions/{partition}/events?format=json{query}")
    assert answer.status == 200, answer
    shown: list[dict[str, Any]] = answer.value["events"]
    return shown


# --- hubs -----------------------------------------------------------------------------------------------------------


@mission("M10")
async def test_a_hub_is_created_shown_updated_and_deleted(api: Api) -> None:
    created = await api.ask("PUT", f"{HUBS}/a/b", {"partition_count": 2, "consumer_groups": ["mine"]})
    assert created.status == 201
    expected = EventHubDescription("a/b", partition_count=2, consumer_groups=["mine"]).to_fields()
    runtime = {"incarnation", "event_count", "size_in_bytes", "created_at_ms", "updated_at_ms"}
    assert {name: created.value[name] for name in created.value.keys() - runtime} == expected
    assert (created.value["event_count"], created.value["size_in_bytes"]) == (0, 0)
    msgspec.convert(created.value, entity_shapes.Hub, strict=True)
    assert await api.ask("GET", f"{HUBS}/A%2FB") == (200, created.value)
    updated = await api.ask("PATCH", f"{HUBS}/a/b", {"retention_ms": None, "name": "A/B"})
    assert (updated.status, updated.value["retention_ms"]) == (200, None)
    assert (updated.value["consumer_groups"], updated.value["name"]) == (["$Default", "mine"], "a/b")
    assert [one["name"] for one in (await api.ask("GET", HUBS)).value["hubs"]] == ["a/b", "logs"]
    assert [one["name"] for one in (await api.ask("GET", f"{HUBS}?skip=1&top=1")).value["hubs"]] == ["logs"]
    assert await api.ask("DELETE", f"{HUBS}/a/b") == (200, {"name": "a/b"})
    assert (await api.ask("GET", f"{HUBS}/a/b")).status == 404


@pytest.mark.parametrize(
    "name, body, reason",
    [
        ("new", {"partition_count": 0}, "partition_count is 0"),
        ("new", {"retention_ms": 1}, "retention_ms is 1"),
        ("new", {"retention_bytes": 1}, "retention_bytes is 1"),
        ("new", {"colour": "red"}, "colour"),
        ("new", {"consumer_groups": ["a/b"]}, "consumer_groups"),
        ("new", {"name": "other"}, "name is 'other' in the body"),
        ("a%2FPartitions%2F0", {}, "reads as a part of the hub 'a'"),
        ("a%2FConsumerGroups%2Fb", {}, "reads as a part of the hub 'a'"),
        ("$operations", {}, "only the broker makes"),
        ("$other", {}, "reserved"),
    ],
)
async def test_a_hub_that_cannot_be_is_refused_by_name(api: Api, name: str, body: object, reason: str) -> None:
    refused = await api.ask("PUT", f"{HUBS}/{name}", body)
    assert refused.status == 400
    assert reason in refused.error["message"]


async def test_the_number_of_partitions_is_for_life(api: Api) -> None:
    refused = await api.ask("PATCH", f"{HUBS}/logs", {"partition_count": 5})
    assert refused.status == 400
    assert "partition_count" in refused.error["message"]


async def test_hubs_share_their_names_with_queues_and_keep_to_their_path(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    for path in (f"{HUBS}/Orders", "/$api/v1/queues/LOGS", "/$api/v1/topics/logs", f"{HUBS}/logs"):
        assert (await api.ask("PUT", path)).error["condition"] == "com.microsoft:entity-already-exists"
    assert (await api.ask("GET", f"{HUBS}/orders")).status == 404
    assert (await api.ask("GET", "/$api/v1/queues/logs")).status == 404
    assert (await api.ask("PUT", f"{HUBS}/logs/partitions")).status == 405


async def test_a_hub_may_have_keys_of_its_own(api: Api) -> None:
    rules = "/$api/v1/authorization-rules"
    made = await api.ask("PUT", f"{rules}/reader?entity=logs", {"rights": ["Listen"], "primary_key": "key"})
    assert made.status == 201
    token = api.token("/logs", ("reader", "key"))
    assert (await api.ask("GET", f"{HUBS}/logs", token=token)).status == 200
    assert (await api.ask("PATCH", f"{HUBS}/logs", {}, token=token)).status == 401
    assert (await api.ask("GET", HUBS, token=token)).status == 401
    # A change of something else leaves them, and nobody sees keys here.
    shown = await api.ask("PATCH", f"{HUBS}/logs", {"user_metadata": "x"})
    assert "key" not in json.dumps(list(shown.value.values()))
    assert (await api.ask("GET", f"{HUBS}/logs", token=token)).status == 200
    assert (await api.ask("DELETE", f"{rules}/reader?entity=logs")).status == 200
    assert (await api.ask("GET", f"{HUBS}/logs", token=token)).status == 401


async def test_the_hub_of_the_broker_is_shown_on_request_and_only_its_retention_is_ours(api: Api) -> None:
    names = [one["name"] for one in (await api.ask("GET", f"{HUBS}?all=true")).value["hubs"]]
    assert names == ["$operations", "logs"]
    assert [one["name"] for one in (await api.ask("GET", HUBS)).value["hubs"]] == ["logs"]
    assert (await api.ask("GET", f"{HUBS}?all=yes")).status == 400
    path = f"{HUBS}/$operations"
    assert (await api.ask("PATCH", path, {"retention_ms": 60_000})).value["retention_ms"] == 60_000
    refused = await api.ask("PATCH", path, {"status": "Disabled"})
    assert (refused.status, refused.error["condition"]) == (400, "amqp:not-allowed")
    assert (await api.ask("DELETE", path)).error["condition"] == "amqp:not-allowed"
    assert (await api.ask("GET", f"{path}/partitions/0/events?format=json")).status == 200


# --- consumer groups ------------------------------------------------------------------------------------------------


@mission("M10")
async def test_consumer_groups_come_and_go_but_for_the_default(api: Api) -> None:
    path = f"{HUBS}/logs/consumer-groups"
    assert await api.ask("PUT", f"{path}/Mine") == (201, {"hub_name": "logs", "name": "Mine"})
    assert (await api.ask("PUT", f"{path}/mine")).status == 409
    assert await api.ask("GET", f"{path}/MINE") == (200, {"hub_name": "logs", "name": "Mine"})
    assert await groups(api) == ["$Default", "Mine"]
    assert await api.ask("DELETE", f"{path}/mine") == (200, {"name": "Mine"})
    assert (await api.ask("DELETE", f"{path}/mine")).status == 404
    refused = await api.ask("DELETE", f"{path}/$default")
    assert (refused.status, refused.error["condition"]) == (400, "amqp:not-allowed")
    assert await groups(api) == ["$Default"]


# --- positions ------------------------------------------------------------------------------------------------------


@mission("M10", "M11")
async def test_all_partitions_are_told_in_one_call(http: Http) -> None:
    api = http.api
    for body in ("a", "b"):
        assert (await http.ask("POST", "/logs/partitions/2/messages", body)).status == 201
    answer = await api.ask("GET", f"{HUBS}/logs/partitions")
    msgspec.convert(answer.value, hub_shapes.HubPositions, strict=True)
    hub = (await api.ask("GET", f"{HUBS}/logs")).value
    assert (answer.value["hub"], answer.value["incarnation"]) == ("logs", hub["incarnation"])
    assert hub["event_count"] == 2
    empty, _, full, _ = answer.value["partitions"]
    assert (empty["last_sequence_number"], empty["last_enqueued_offset"], empty["is_empty"]) == (-1, "-1", True)
    assert empty["last_enqueued_at_ms"] is None
    assert (full["begin_sequence_number"], full["next_sequence_number"], full["last_sequence_number"]) == (0, 2, 1)
    assert (full["partition"], full["last_enqueued_offset"], full["is_empty"]) == ("2", "1", False)
    assert full["size_in_bytes"] == hub["size_in_bytes"] > 0
    one = await api.ask("GET", f"{HUBS}/logs/partitions/2")
    assert one == (200, {**full, "hub": "logs", "incarnation": hub["incarnation"]})
    for wrong in ("4", "x", "-1"):
        assert (await api.ask("GET", f"{HUBS}/logs/partitions/{wrong}")).status == 400


@mission("M11")
async def test_a_time_is_the_first_event_of_that_time_or_later(http: Http) -> None:
    await http.ask("POST", "/logs/partitions/1/messages", "a")
    at_ms = (await http.api.ask("GET", f"{HUBS}/logs/partitions/1")).value["last_enqueued_at_ms"]

    async def found(query: str) -> list[int]:
        answer = await http.api.ask("GET", f"{HUBS}/logs/partitions?at_ms={query}")
        return [one["sequence_number_at_time"] for one in answer.value["partitions"]]

    assert await found("0") == [0, 0, 0, 0]
    assert await found(str(at_ms)) == [0, 0, 0, 0]
    assert await found(str(at_ms + 1)) == [0, 1, 0, 0]
    assert "at_ms is" in (await http.api.ask("GET", f"{HUBS}/logs/partitions?at_ms=x")).error["message"]


async def test_positions_are_the_same_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as http:
        await http.api.ask("PUT", f"{HUBS}/logs", {"partition_count": 1, "consumer_groups": ["mine"]})
        await http.ask("POST", "/logs/messages", "a")
        hub = await http.api.ask("GET", f"{HUBS}/logs")
        before = await http.api.ask("GET", f"{HUBS}/logs/partitions")
    async with serving(tmp_path / "data") as http:
        assert (await http.api.ask("GET", f"{HUBS}/logs")).value["consumer_groups"] == ["$Default", "mine"]
        assert (await http.api.ask("GET", f"{HUBS}/logs")).value["incarnation"] == hub.value["incarnation"]
        after = await http.api.ask("GET", f"{HUBS}/logs/partitions")
        # What they take on disk may be told more exactly by then.
        for answer in (before, after):
            del answer.value["partitions"][0]["size_in_bytes"]
        assert after == before


# --- sending over HTTP ----------------------------------------------------------------------------------------------


@mission("M10")
async def test_an_event_is_sent_over_http_with_its_key_and_properties(http: Http) -> None:
    headers = {"BrokerProperties": '{"PartitionKey": "kitchen"}', "Content-Type": "text/plain", "Floor": "2"}
    assert (await http.ask("POST", "/logs/messages", "warm", headers)).status == 201
    (event,) = await events(http.api, partition_of("kitchen", 4))
    assert (event["body"], event["body_encoding"], event["partition_key"]) == ("warm", "text", "kitchen")
    assert (event["content_type"], event["application_properties"]) == ("text/plain", {"Floor": 2})
    assert (event["sequence_number"], event["offset"]) == (0, "0")


async def test_events_go_to_a_partition_to_a_publisher_or_around(http: Http) -> None:
    assert (await http.ask("POST", "/logs/Partitions/3/messages", "x")).status == 201
    assert await counts(http.api) == [0, 0, 0, 1]
    assert (await http.ask("POST", "/logs/publishers/me/messages", "x")).status == 201
    (event,) = (await events(http.api, partition_of("me", 4)))[-1:]
    assert event["publisher"] == "me"
    before = await counts(http.api)
    for _ in range(4):
        await http.ask("POST", "/logs/messages", "x")
    assert await counts(http.api) == [one + 1 for one in before]


async def test_a_batch_lands_whole_in_the_partition_of_its_key(http: Http) -> None:
    one = {"Body": "a", "BrokerProperties": {"PartitionKey": "k"}}
    batch = json.dumps([one, {"Body": "YQ==", "IsBodyBase64": True, "UserProperties": {"n": 1}}])
    assert (await http.ask("POST", "/logs/messages", batch, BATCH)).status == 201
    found = await events(http.api, partition_of("k", 4))
    assert [(event["body"], event["partition_key"]) for event in found] == [("a", "k"), ("a", "k")]
    with_key = {**BATCH, "BrokerProperties": '{"PartitionKey": "other"}'}
    refused = await http.ask("POST", "/logs/messages", batch, with_key)
    assert refused.status == 400
    assert "in one batch" in refused.detail
    assert sum(await counts(http.api)) == 2


@pytest.mark.parametrize(
    "path, status",
    [
        ("/logs/partitions/9/messages", 400),
        ("/logs/consumergroups/$Default/messages", 400),
        ("/missing/partitions/0/messages", 410),
    ],
)
async def test_what_cannot_be_sent_to_is_said(http: Http, path: str, status: int) -> None:
    assert (await http.ask("POST", path, "x")).status == status
    assert await counts(http.api) == [0, 0, 0, 0]


@pytest.mark.parametrize("path", ["/$operations/messages", "/$operations/partitions/0/messages"])
async def test_what_a_client_reports_of_itself_never_lies_with_the_records_of_the_broker(http: Http, path: str) -> None:
    before = await counts(http.api, "$operations")
    assert (await http.ask("POST", path, "failed over")).status == 201
    after = await counts(http.api, "$operations")
    assert after[1] == before[1] + 1


async def test_a_disabled_hub_takes_nothing(http: Http) -> None:
    await http.api.ask("PATCH", f"{HUBS}/logs", {"status": "SendDisabled"})
    assert "disabled" in (await http.ask("POST", "/logs/messages", "x")).detail
    assert await counts(http.api) == [0, 0, 0, 0]


# --- exports and imports --------------------------------------------------------------------------------------------


async def take(api: Api, document: object, mode: str = "create-missing") -> Answer:
    return await api.ask("POST", "/$api/v1/import", {"mode": mode, "document": document})


@mission("M10")
async def test_hubs_are_exported_and_imported_with_the_rest(api: Api, tmp_path: Path) -> None:
    await api.ask("PUT", f"{HUBS}/more", {"partition_count": 1, "consumer_groups": ["mine"]})
    document = (await api.ask("GET", "/$api/v1/export?keys=true")).value
    assert [one["name"] for one in document["hubs"]] == ["logs", "more"]
    msgspec.convert(document, entity_shapes.ExportDocument, strict=True)
    async with serving(tmp_path / "other") as other:
        for mode, outcome in (("create-missing", "created"), ("replace", "unchanged"), ("create-missing", "kept")):
            report = (await take(other.api, document, mode)).value
            assert {one["name"]: one["outcome"] for one in report["entities"]} == {"logs": outcome, "more": outcome}
        assert (await other.api.ask("GET", "/$api/v1/export?keys=true")).value["hubs"] == document["hubs"]
        document["hubs"][1]["retention_ms"] = None
        assert (await take(other.api, document, "replace")).value["updated"] == 1
        assert (await other.api.ask("GET", f"{HUBS}/more")).value["retention_ms"] is None


async def test_an_import_says_what_a_hub_cannot_become(api: Api) -> None:
    await api.ask("PUT", "/$api/v1/queues/orders")
    hubs = [{"name": "logs", "partition_count": 9}, {"name": "orders"}, {"name": "$operations"}]
    report = (await take(api, {"hubs": hubs, "queues": [{"name": "Logs2"}]}, "replace")).value
    errors = {one["name"]: one["error"] for one in report["entities"] if one["outcome"] == "failed"}
    assert "cannot be changed" in errors["logs"]
    assert "a queue of this name" in errors["orders"]
    assert "only the broker" in errors["$operations"]
    report = (await take(api, {"queues": [{"name": "LOGS"}]})).value
    assert "an event hub of this name" in report["entities"][0]["error"]
    assert (await take(api, {"hubs": [{"name": "x"}], "queues": [{"name": "X"}]})).status == 400


def test_documented_settings_are_those_of_the_engine() -> None:
    described = EventHubDescription("x").to_fields()
    shown = msgspec.to_builtins(entity_shapes.HubSettings(name="x"))
    assert shown == described


@pytest.mark.parametrize(
    "text, size_bytes",
    [("0", 0), ("500M", 524_288_000), ("10g", 10_737_418_240), ("1TiB", 1 << 40), ("2KB", 2_048), ("none", None)],
)
def test_sizes_are_read_as_people_write_them(text: str, size_bytes: int | None) -> None:
    assert parse_size_bytes(text, "--retention-bytes") == size_bytes


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "10X", "1" * 16, "\u0661G"])
def test_what_is_no_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(Exception, match="--retention-bytes is"):
        parse_size_bytes(text, "--retention-bytes")
