"""Events by their sequence numbers: in bulk as Arrow, and as JSON for people."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pyarrow as pa
import pytest

from tandem.management.json_api import hub_shapes
from tandem.management.json_api.hub_events import ARROW_STREAM
from tests.management.http_api import Http, Reply, serving
from tests.markers import mission
from tests.patience import PATIENCE_S

HUBS = "/$api/v1/hubs"
EVENTS = f"{HUBS}/logs/partitions/0/events"
BATCH = {"Content-Type": "application/vnd.microsoft.servicebus.json"}


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    """With a hub of one partition."""
    async with serving(tmp_path / "data") as http:
        await http.api.ask("PUT", f"{HUBS}/logs", {"partition_count": 1})
        yield http


async def fill(http: Http, count: int) -> None:
    """Events whose bodies are their numbers."""
    batch = json.dumps([{"Body": str(number), "UserProperties": {"n": number}} for number in range(count)])
    assert (await http.ask("POST", "/logs/messages", batch, BATCH)).status == 201


async def read(http: Http, query: str = "") -> Reply:
    return await http.ask("GET", f"{EVENTS}{query}")


def table(reply: Reply) -> Any:
    assert (reply.status, reply.headers["content-type"]) == (200, ARROW_STREAM), reply
    return pa.ipc.open_stream(io.BytesIO(reply.body)).read_all()


def numbers(reply: Reply) -> list[int]:
    found: list[int] = table(reply)["sequenceNumber"].to_pylist()
    return found


# --- in bulk --------------------------------------------------------------------------------------------------------


@mission("M11")
async def test_a_range_comes_as_columns_in_order(http: Http) -> None:
    await fill(http, 10)
    reply = await read(http)
    columns = table(reply)
    assert columns.column_names == [
        *("body", "partition", "offset", "sequenceNumber", "enqueuedTime"),
        *("publisher", "partitionKey", "properties", "systemProperties"),
    ]
    assert columns["body"].to_pylist() == [str(number).encode() for number in range(10)]
    assert columns["properties"].to_pylist()[3] == [("n", "3")]
    incarnation = (await http.api.ask("GET", f"{HUBS}/logs")).value["incarnation"]
    told = {name: value for name, value in reply.headers.items() if name.startswith("tandem-")}
    assert told == {
        "tandem-incarnation": incarnation,
        "tandem-begin-sequence-number": "0",
        "tandem-next-sequence-number": "10",
        "tandem-first-sequence-number": "0",
        "tandem-next-from": "10",
    }


@mission("M11")
@pytest.mark.parametrize(
    "query, expected",
    [
        ("?from=3", range(3, 10)),
        ("?from=3&to=5", range(3, 5)),
        ("?max=4", range(4)),
        ("?from=8&max=4", range(8, 10)),
        ("?from=2&to=1000000", range(2, 10)),
        ("?from=10", range(0)),
        ("?from=10&to=12", range(0)),
        ("?from=4&to=4", range(0)),
        ("?max=0", range(0)),
    ],
)
async def test_a_range_is_what_was_asked_for(http: Http, query: str, expected: range) -> None:
    await fill(http, 10)
    reply = await read(http, query)
    assert numbers(reply) == list(expected)
    if expected:
        assert reply.headers["tandem-next-from"] == str(expected.stop)


async def test_an_empty_partition_is_an_empty_stream(http: Http) -> None:
    assert numbers(await read(http)) == []


@pytest.mark.parametrize(
    "query, reason",
    [
        ("?from=x", "from is 'x'"),
        ("?from=-1", "from is '-1'"),
        ("?from=11", "from is 11; the next event of partition 0 will have number 10"),
        ("?from=5&to=4", "to is 4, which is less than from"),
        ("?to=1e3", "to is '1e3'"),
        ("?max=x", "max is 'x'"),
        ("?from=99999999999999999999", "from is"),
        ("?format=csv", "format is 'csv'"),
        ("?format=json&max=1001", "max is '1001'"),
    ],
)
async def test_a_wrong_number_is_refused_by_name(http: Http, query: str, reason: str) -> None:
    await fill(http, 10)
    refused = await http.api.ask("GET", f"{EVENTS}{query}")
    assert refused.status == 400
    assert reason in refused.error["message"]


@mission("M11")
async def test_a_hub_made_anew_is_not_taken_for_the_old_one(http: Http) -> None:
    await fill(http, 3)
    old = (await http.api.ask("GET", f"{HUBS}/logs")).value["incarnation"]
    assert numbers(await read(http, f"?incarnation={old}")) == [0, 1, 2]
    await http.api.ask("DELETE", f"{HUBS}/logs")
    await http.api.ask("PUT", f"{HUBS}/logs", {"partition_count": 1})
    refused = await http.api.ask("GET", f"{EVENTS}?incarnation={old}")
    assert (refused.status, refused.error["condition"]) == (410, "tandem:hub-recreated")
    assert numbers(await read(http)) == []


@mission("M11")
async def test_expired_events_are_told_and_the_rest_is_read(http: Http) -> None:
    await fill(http, 10)
    hub = http.broker.namespace.hubs.get("logs")
    # As the runner does it when retention has dropped a segment.
    hub.partitions[0].trimmed(4, 100)
    reply = await read(http, "?from=1&to=8")
    assert numbers(reply) == [4, 5, 6, 7]
    assert (reply.headers["tandem-expired-events"], reply.headers["tandem-begin-sequence-number"]) == ("3", "4")
    assert numbers(await read(http, "?from=1&to=2")) == []
    shown = (await http.api.ask("GET", f"{EVENTS}?format=json&from=1&to=6")).value
    assert [one["sequence_number"] for one in shown["events"]] == [4, 5]


async def test_a_disabled_hub_is_not_read(http: Http) -> None:
    await http.api.ask("PATCH", f"{HUBS}/logs", {"status": "ReceiveDisabled"})
    refused = await http.api.ask("GET", EVENTS)
    assert refused.error["condition"] == "com.microsoft:entity-disabled"


# --- those who come and go ------------------------------------------------------------------------------------------


class Endless:
    """A snapshot that never ends, and knows whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.missing: list[tuple[int, int]] = []

    def stream(self, max_events: int | None = None) -> Iterator[bytes]:
        while True:
            yield b"x" * 1_048_576

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self.is_closed.set)


@pytest.fixture
async def endless(http: Http, monkeypatch: pytest.MonkeyPatch) -> Endless:
    snapshot = Endless()
    log = http.broker.directory.default.store.log
    monkeypatch.setattr(log, "snapshot", lambda *_: snapshot, raising=False)
    return snapshot


@mission("M11")
async def test_a_reader_that_goes_away_lets_go_of_its_files(http: Http, endless: Endless) -> None:
    headers = {"Authorization": http.api.token()}
    async with aiohttp.ClientSession() as session:
        response = await session.get(f"{http.base}{EVENTS}", headers=headers)
        assert len(await response.content.readexactly(3_000_000)) == 3_000_000
        assert not endless.is_closed.is_set()
        response.close()
    await asyncio.wait_for(endless.is_closed.wait(), PATIENCE_S)
    assert (await http.api.ask("GET", f"{HUBS}/logs")).status == 200


async def test_a_broker_that_stops_waits_for_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with aiohttp.ClientSession() as session:
        async with serving(tmp_path / "data") as http:
            await http.api.ask("PUT", f"{HUBS}/logs", {"partition_count": 1})
            endless = Endless()
            monkeypatch.setattr(http.broker.directory.default.store.log, "snapshot", lambda *_: endless, raising=False)
            headers = {"Authorization": http.api.token()}
            response = await session.get(f"{http.base}{EVENTS}", headers=headers)
            assert await response.content.readany()
        assert endless.is_closed.is_set()
        with pytest.raises(aiohttp.ClientError):
            await response.read()


async def test_a_stream_that_breaks_does_not_look_whole(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Endless):
        def stream(self, max_events: int | None = None) -> Iterator[bytes]:
            yield b"x"
            raise OSError("the disk is gone")

    broken = Broken()
    monkeypatch.setattr(http.broker.directory.default.store.log, "snapshot", lambda *_: broken, raising=False)
    with pytest.raises(aiohttp.ClientError):
        await read(http)
    await asyncio.wait_for(broken.is_closed.wait(), PATIENCE_S)


async def test_too_many_bulk_reads_are_told_to_wait(
    http: Http, endless: Endless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.management.json_api.hub_events.MAX_BULK_READS", 1)
    async with aiohttp.ClientSession() as session:
        response = await session.get(f"{http.base}{EVENTS}", headers={"Authorization": http.api.token()})
        refused = await http.api.ask("GET", EVENTS)
        assert (refused.status, refused.error["condition"]) == (503, "com.microsoft:server-busy")
        response.close()
    await asyncio.wait_for(endless.is_closed.wait(), PATIENCE_S)


# --- for people -----------------------------------------------------------------------------------------------------


async def test_json_has_a_page_and_says_where_to_go_on(http: Http) -> None:
    await fill(http, 60)
    first = (await http.api.ask("GET", f"{EVENTS}?format=json")).value
    msgspec.convert(first, hub_shapes.EventList, strict=True)
    assert [one["sequence_number"] for one in first["events"]] == list(range(50))
    rest = (await http.api.ask("GET", f"{EVENTS}?format=json&from={first['next_from']}")).value
    assert [one["body"] for one in rest["events"]] == [str(number) for number in range(50, 60)]
    assert rest["events"][0]["application_properties"] == {"n": 50}
    end = (await http.api.ask("GET", f"{EVENTS}?format=json&from={rest['next_from']}")).value
    assert (end["events"], end["next_from"], end["next_sequence_number"]) == ([], 60, 60)


async def test_a_body_that_is_no_text_is_base64(http: Http) -> None:
    await http.ask("POST", "/logs/messages", b"\xff\xfe")
    (event,) = (await http.api.ask("GET", f"{EVENTS}?format=json")).value["events"]
    assert (event["body"], event["body_encoding"], event["body_size_in_bytes"]) == ("//4=", "base64", 2)
