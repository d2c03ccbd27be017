"""The official Event Hubs SDK with checkpoints in Tandem: processes that share a hub, and one of them killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from azure.eventhub import CheckpointStore, EventData
from azure.eventhub import aio as eventhub_aio

from tandem.checkpoints import TandemCheckpointStore, aio
from tests.compat.hubs import Hub, Reading, new_hub
from tests.compat.sdk import AT_ONCE, Bus, in_a_loop
from tests.markers import mission
from tests.patience import wait_until

pytestmark = AT_ONCE

PARTITIONS: Final = 4
EVENTS: Final = 400
FORMS: Final = ("sync", "aio")


class Processors:
    """Processes that read a hub together, one of each form, and what they have processed."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self._folder = folder
        self.started = {
            form: subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.compat.hub_processor",
                    form,
                    hub.broker.connection_string,
                    hub.name,
                    str(folder / form),
                ]
            )
            for form in FORMS
        }

    def processed(self, form: str) -> list[str]:
        path = self._folder / form
        return path.read_text().splitlines() if path.exists() else []

    def count(self) -> Counter[str]:
        return Counter(line for form in FORMS for line in self.processed(form))

    def stop(self) -> None:
        for process in self.started.values():
            process.kill()
            process.wait()


def owners(hub: Hub) -> Counter[str]:
    store = TandemCheckpointStore.from_connection_string(hub.broker.connection_string)
    listed = store.list_ownership("any", hub.name, "$Default")
    return Counter(one["owner_id"] for one in listed)


def send(hub: Hub, count: int) -> None:
    """So many events, in equal parts to all partitions."""
    with hub.producer() as producer:
        for partition in range(PARTITIONS):
            texts = [f"{number}" for number in range(count // PARTITIONS)]
            producer.send_batch([EventData(text) for text in texts], partition_id=str(partition))


@mission("M10")
@pytest.mark.parametrize("victim", FORMS)
def test_processes_share_a_hub_and_when_one_is_killed_no_event_is_lost(bus: Bus, victim: str) -> None:
    hub = new_hub(bus, partition_count=PARTITIONS)
    with tempfile.TemporaryDirectory() as folder:
        processors = Processors(hub, Path(folder))
        try:
            wait_until(lambda: sorted(owners(hub).values()) == [2, 2], "a fair share each", lambda: str(owners(hub)))
            send(hub, EVENTS // 2)
            wait_until(lambda: all(processors.processed(form) for form in FORMS), "events in both")
            # In the middle of its work: it may have processed an event whose checkpoint is not kept.
            processors.started[victim].kill()
            processors.started[victim].wait()
            send(hub, EVENTS // 2)
            wait_until(lambda: len(processors.count()) == EVENTS, "all events", lambda: str(len(processors.count())))
        finally:
            processors.stop()
        counted = processors.count()
    assert set(counted) == {f"{one} {n}" for one in range(PARTITIONS) for n in range(EVENTS // PARTITIONS)}
    # What the SDK has handed out between a checkpoint and the end of the process comes again: one event of each of its
    # two partitions.
    assert sum(counted.values()) - EVENTS <= 2


@mission("M10")
def test_a_new_process_goes_on_behind_the_checkpoint(bus: Bus) -> None:
    hub = new_hub(bus)
    hub.send("a", "b", "c")
    store = TandemCheckpointStore.from_connection_string(hub.broker.connection_string)
    store.update_checkpoint(
        {
            "fully_qualified_namespace": "any",
            "eventhub_name": hub.name,
            "consumer_group": "$Default",
            "partition_id": "0",
            "sequence_number": 1,
            "offset": hub.read(2)[1].offset,
        }
    )
    with Reading(hub, client={"checkpoint_store": store}) as reading:
        reading.wait_for(1)
        assert reading.texts == ["c"]
    # On its way out the consumer gives its partition back.
    (released,) = store.list_ownership("any", hub.name, "$Default")
    assert released["owner_id"] == ""


@in_a_loop
async def test_both_forms_have_the_interface_of_the_sdk_and_see_the_same(bus: Bus) -> None:
    hub = new_hub(bus, partition_count=2)
    given = hub.broker.connection_string
    blocking, waiting = TandemCheckpointStore.from_connection_string(given), aio.TandemCheckpointStore
    asynchronous_store = waiting.from_connection_string(given)
    assert isinstance(blocking, CheckpointStore)
    assert isinstance(asynchronous_store, eventhub_aio.CheckpointStore)
    group: dict[str, Any] = {
        "fully_qualified_namespace": "any",
        "eventhub_name": hub.name,
        "consumer_group": "$Default",
    }
    claims = [{**group, "partition_id": number, "owner_id": "me"} for number in ("0", "1")]
    granted = list(await asynchronous_store.claim_ownership(claims))
    assert [one["partition_id"] for one in granted] == ["0", "1"]
    assert list(blocking.list_ownership(**group)) == granted
    assert list(blocking.claim_ownership(claims)) == []
    checkpoint = {**group, "partition_id": "1", "sequence_number": 5, "offset": "7"}
    await asynchronous_store.update_checkpoint(dict(checkpoint))
    assert list(blocking.list_checkpoints(**group)) == [checkpoint]
    assert list(await asynchronous_store.list_checkpoints(**group)) == [checkpoint]
