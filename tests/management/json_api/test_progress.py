"""Ownerships and checkpoints of consumer groups over the JSON API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tandem.management.json_api import hub_shapes
from tests.management.http_api import Http, serving
from tests.management.json_api.api_client import Api
from tests.markers import mission

HUB = "/$api/v1/hubs/logs%2Fall"
GROUP = f"{HUB}/consumer-groups/$Default"
OWNERSHIPS = f"{GROUP}/ownerships"
CHECKPOINTS = f"{GROUP}/checkpoints"


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    """With a hub of four partitions."""
    async with serving(tmp_path / "data") as http:
        assert (await http.api.ask("PUT", HUB, {"partition_count": 4})).status == 201
        yield http


@pytest.fixture
def api(http: Http) -> Api:
    return http.api


@mission("M10")
async def test_of_two_processors_that_claim_a_partition_one_gets_it(api: Api) -> None:
    assert await api.ask("GET", OWNERSHIPS) == (200, {"ownerships": []})
    claims = [{"partition": str(number), "owner_id": "a", "etag": None} for number in (0, 3)]
    first = await api.ask("POST", OWNERSHIPS, {"claims": claims})
    assert [(one["partition"], one["owner_id"]) for one in first.value["ownerships"]] == [("0", "a"), ("3", "a")]
    msgspec.convert(first.value, hub_shapes.PartitionOwnershipList, strict=True)
    claims = [{"partition": "0", "owner_id": "b"}, {"partition": "1", "owner_id": "b"}]
    second = await api.ask("POST", OWNERSHIPS, {"claims": claims})
    assert [one["partition"] for one in second.value["ownerships"]] == ["1"]
    etag = first.value["ownerships"][0]["etag"]
    stolen = await api.ask("POST", OWNERSHIPS, {"claims": [{"partition": "0", "owner_id": "b", "etag": etag}]})
    assert stolen.value["ownerships"][0]["etag"] != etag
    # The one that was stolen from may neither renew nor release what is not its own any more.
    for owner in ("a", ""):
        late = await api.ask("POST", OWNERSHIPS, {"claims": [{"partition": "0", "owner_id": owner, "etag": etag}]})
        assert late == (200, {"ownerships": []})
    listed = (await api.ask("GET", OWNERSHIPS)).value["ownerships"]
    assert [(one["partition"], one["owner_id"]) for one in listed] == [("0", "b"), ("1", "b"), ("3", "a")]


@pytest.mark.parametrize("etag", ["", "x", "-1", "²", "9" * 40])
async def test_what_never_was_an_etag_matches_none(api: Api, etag: str) -> None:
    refused = await api.ask("POST", OWNERSHIPS, {"claims": [{"partition": "0", "owner_id": "a", "etag": etag}]})
    assert refused == (200, {"ownerships": []})


@mission("M10")
async def test_a_checkpoint_says_how_many_events_are_still_to_be_processed(http: Http, api: Api) -> None:
    for text in ("a", "b", "c"):
        sent = await http.ask("POST", "/logs/all/partitions/1/messages", text.encode())
        assert sent.status == 201
    kept = await api.ask("PUT", f"{CHECKPOINTS}/1", {"sequence_number": 0, "offset": "0"})
    assert kept.status == 200
    msgspec.convert(kept.value, hub_shapes.Checkpoint, strict=True)
    assert (kept.value["sequence_number"], kept.value["offset"], kept.value["events_behind"]) == (0, "0", 2)
    assert await api.ask("GET", CHECKPOINTS) == (200, {"checkpoints": [kept.value]})
    # A checkpoint is no claim.
    assert await api.ask("GET", OWNERSHIPS) == (200, {"ownerships": []})
    ahead = await api.ask("PUT", f"{CHECKPOINTS}/1", {"sequence_number": 99})
    assert (ahead.value["offset"], ahead.value["events_behind"]) == (None, 0)


async def test_both_are_there_after_a_restart_and_go_with_the_consumer_group(tmp_path: Path) -> None:
    group = f"{HUB}/consumer-groups/mine"
    async with serving(tmp_path) as http:
        await http.api.ask("PUT", HUB, {"partition_count": 2})
        await http.api.ask("PUT", group)
        await http.api.ask("POST", f"{group}/ownerships", {"claims": [{"partition": "1", "owner_id": "a"}]})
        await http.api.ask("PUT", f"{group}/checkpoints/1", {"sequence_number": 41})
        owned = await http.api.ask("GET", f"{group}/ownerships")
    async with serving(tmp_path) as http:
        api = http.api
        assert await api.ask("GET", f"{group}/ownerships") == owned
        assert (await api.ask("GET", f"{group}/checkpoints")).value["checkpoints"][0]["sequence_number"] == 41
        await api.ask("DELETE", group)
        assert (await api.ask("GET", f"{group}/checkpoints")).status == 404
        await api.ask("PUT", group)
    async with serving(tmp_path) as http:
        for what in ("ownerships", "checkpoints"):
            assert await http.api.ask("GET", f"{group}/{what}") == (200, {what: []})


@pytest.mark.parametrize(
    "method, path, body, status, reason",
    [
        ("GET", f"{HUB}/consumer-groups/none/ownerships", None, 404, "no such consumer group"),
        ("GET", "/$api/v1/hubs/none/consumer-groups/$Default/checkpoints", None, 404, "none"),
        ("POST", OWNERSHIPS, {"claims": [{"partition": "4", "owner_id": "a"}]}, 400, "between 0 and 3"),
        ("POST", OWNERSHIPS, {"claims": [{"partition": "0", "owner_id": "a" * 200}]}, 400, "128"),
        ("POST", OWNERSHIPS, {}, 400, "claims"),
        ("PUT", f"{CHECKPOINTS}/9", {"sequence_number": 1}, 400, "between 0 and 3"),
        ("PUT", f"{CHECKPOINTS}/0", {"offset": "1"}, 400, "sequence_number"),
        ("PUT", f"{CHECKPOINTS}/0", {"sequence_number": 1, "offset": "1" * 200}, 400, "128"),
        ("PUT", f"{CHECKPOINTS}/0", {"sequence_number": "1"}, 400, "sequence_number"),
    ],
)
async def test_what_cannot_be_kept_is_refused_with_the_reason(
    api: Api, method: str, path: str, body: object, status: int, reason: str
) -> None:
    refused = await api.ask(method, path, body)
    assert refused.status == status
    assert reason in refused.error["message"]
    assert await api.ask("GET", OWNERSHIPS) == (200, {"ownerships": []})
    assert await api.ask("GET", CHECKPOINTS) == (200, {"checkpoints": []})
