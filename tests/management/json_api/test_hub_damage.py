"""Bulk reads, JSON and the diagnosis when events on disk are damaged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tandem.store.log.damage_log import DamageLog
from tandem.store.log.journal.frames import EVENTS as EVENTS_KIND
from tandem.store.log.journal.frames import decode_record_head
from tandem.store.log.journal.journal import FileScan
from tests.management.http_api import Http, serving
from tests.management.json_api.test_hub_events import EVENTS, HUBS, fill, numbers, read
from tests.markers import mission


@pytest.fixture
async def damaged(tmp_path: Path) -> AsyncIterator[Http]:
    """A hub with events 0 to 3, 4 to 7 and 8 to 11 in one record each, of which the second is damaged."""
    async with serving(tmp_path / "data") as http:
        await http.api.ask("PUT", f"{HUBS}/logs", {"partition_count": 1})
        for _ in range(3):
            await fill(http, 4)
        (journal,) = (tmp_path / "data").rglob("*.journal")
        frames = FileScan(journal, 1, True, None, DamageLog(is_quiet=True)).frames()
        records = [found for found in frames if found.frame.kind == EVENTS_KIND]
        second = next(one for one in records if decode_record_head(one.buffer, one.frame).first_sequence_number == 4)
        content = bytearray(journal.read_bytes())
        content[second.frame.end - 1] ^= 1
        journal.write_bytes(content)
        yield http


async def missing_of(http: Http) -> str:
    with pytest.raises(aiohttp.ClientPayloadError):
        await read(http)
    return (await read(http)).headers["tandem-missing-events"]


@mission("M11")
async def test_a_bulk_read_that_meets_damage_is_broken_off_and_the_next_knows_of_it(damaged: Http) -> None:
    missing = await missing_of(damaged)
    first, last = map(int, missing.split("-"))
    assert last == first + 3
    assert numbers(await read(damaged)) == [*range(first), *range(last + 1, 12)]
    assert numbers(await read(damaged, f"?from={first}&to={last + 1}")) == []


@mission("M11")
async def test_a_page_of_json_goes_on_behind_damage(damaged: Http) -> None:
    missing = await missing_of(damaged)
    first, last = map(int, missing.split("-"))
    page = (await damaged.api.ask("GET", f"{EVENTS}?format=json&from={first}&max=3")).value
    assert (page["events"], page["next_from"]) == ([], first + 3)
    page = (await damaged.api.ask("GET", f"{EVENTS}?format=json&from={first}")).value
    assert [event["sequence_number"] for event in page["events"]] == list(range(last + 1, 12))


@mission("M22")
async def test_damage_is_part_of_the_diagnosis(damaged: Http) -> None:
    assert (await damaged.api.ask("GET", "/$api/v1/diagnosis")).value["status"] == "well"
    missing = await missing_of(damaged)
    found = (await damaged.api.ask("GET", "/$api/v1/diagnosis")).value
    assert found["status"] == "damaged"
    (damage,) = found["damages"]
    assert damage["unit"] == f"hub 'logs' partition 0, events {missing.replace('-', ' to ')}"
    assert damage["lost"] == "4 events"
    assert found["troubles"] == [f"damaged: {damage['unit']}: {damage['what']}"]
