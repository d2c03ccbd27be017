"""Only a scheduled message has a time at which it is due, wherever it ends up: `tandem check` finds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tandem.engine.queue import Queue
from tandem.store.check import check
from tandem.store.sqlite import SqliteStore
from tandem.testing.memory_store import MemoryStore
from tests.engine.desk import START_MS, Desk, payload

LATER_MS = START_MS + 60_000


def _desk(tmp_path: Path) -> Desk:
    return Desk(cast("MemoryStore", SqliteStore(tmp_path, ballast_bytes=0)))


def _send_by_way(desk: Desk, via: Queue, destination: str, *, in_transaction: bool) -> None:
    drafts = via.read(payload("late", due_ms=LATER_MS), 0)
    drafts[0].destination = destination
    if in_transaction:
        transaction = desk.namespace.transactions.declare("owner")
        transaction.send(via, drafts)
        desk.discharge(transaction)
    else:
        via.take(drafts)
        desk.flush()


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("destination", ["missing", "disabled", "sessions"])
def test_a_scheduled_message_that_cannot_reach_its_destination_leaves_a_sound_store(
    tmp_path: Path, destination: str, in_transaction: bool
) -> None:
    desk = _desk(tmp_path)
    via = desk.queue("via")
    desk.queue("disabled", status="Disabled")
    desk.queue("sessions", requires_session=True)
    _send_by_way(desk, via, destination, in_transaction=in_transaction)
    assert via.transfer_dead_letter_queue.active_count == 1
    desk.advance(120_000)
    assert via.transfer_dead_letter_queue.active_count == 1
    desk.store.close()
    assert check(tmp_path).findings == []


def test_a_scheduled_message_that_is_forwarded_or_dies_when_due_leaves_a_sound_store(tmp_path: Path) -> None:
    desk = _desk(tmp_path)
    desk.queue("target")
    source = desk.queue("source", forward_to="target")
    desk.send(source, payload("late", due_ms=LATER_MS))
    desk.namespace.delete(desk.namespace.get("target"))
    desk.advance(120_000)
    assert source.dead_letter_queue.active_count == 1
    desk.store.close()
    assert check(tmp_path).findings == []
