"""Time that a test moves: locks, expiry, schedules and windows pass without waiting."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandem.amqp import ACCEPTED, Message, Rejected
from tandem.amqp.terminus import Source
from tandem.amqp.types import Symbol
from tandem.connection_string import ConnectionString
from tandem.driver import Client
from tandem.errors import RemoteError
from tandem.management.client import ManagementClient
from tandem.testing import Bus
from tests.testing.conftest import connect


def in_hours(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


def reasons(bus: Bus, entity: str) -> list[str | None]:
    return [dead.dead_letter_reason for dead in bus.dead_letters(entity)]


async def test_a_lock_ends_and_the_message_goes_to_the_next(bus: Bus, client: Client) -> None:
    bus.create_queue("q", lock_duration_ms=30_000)
    bus.send("q", "x")
    receiver = await client.receiver("q", credit=1, is_second=True)
    delivery = await receiver.receive()
    bus.clock.advance(29)
    assert [one.delivery_count for one in bus.messages("q")] == [0]
    bus.clock.advance(1)
    assert [one.delivery_count for one in bus.messages("q")] == [1]
    outcome = await receiver.confirm(delivery, ACCEPTED)
    assert isinstance(outcome, Rejected)
    again = Message((await receiver.receive()).payload)
    assert again.header is not None
    assert again.header.delivery_count == 1


async def test_a_session_lock_ends_and_its_receiver_is_told(bus: Bus, client: Client) -> None:
    bus.create_queue("q", requires_session=True, lock_duration_ms=30_000)
    receiver = await client.receiver(Source("q", filter={Symbol("com.microsoft:session-filter"): "s"}), credit=0)
    bus.clock.advance(minutes=1)
    with pytest.raises(RemoteError, match="session-lock-lost"):
        await receiver.receive()


def test_messages_expire_and_scheduled_ones_come(bus: Bus) -> None:
    bus.create_queue("q", dead_lettering_on_message_expiration=True)
    bus.send("q", "short", time_to_live=timedelta(hours=1))
    bus.send("q", "later", scheduled_enqueue_time_utc=in_hours(2))
    bus.clock.advance(hours=1)
    assert reasons(bus, "q") == ["TTLExpiredException"]
    assert [one.state for one in bus.messages("q")] == ["scheduled"]
    bus.clock.advance(minutes=61)
    assert [str(one) for one in bus.receive_all("q")] == ["later"]


def test_what_follows_from_what_was_due_happens_in_its_order(bus: Bus) -> None:
    bus.create_queue("q", dead_lettering_on_message_expiration=True)
    bus.send("q", "x", scheduled_enqueue_time_utc=in_hours(1), time_to_live=timedelta(minutes=5))
    bus.clock.advance(hours=2)
    (dead,) = bus.dead_letters("q")
    assert dead.dead_letter_reason == "TTLExpiredException"
    # It came after an hour, and not when the two hours were over.
    assert abs(bus.clock.now() - dead.enqueued_time_utc - timedelta(hours=1)) < timedelta(minutes=1)


def test_message_ids_are_forgotten_after_their_window_however_long(bus: Bus) -> None:
    week_ms = 7 * 86_400_000
    fields: dict[str, Any] = {"duplicate_detection_history_time_window_ms": week_ms}
    bus.create_queue("q", requires_duplicate_detection=True, **fields)
    for _ in range(2):
        bus.send("q", "x", message_id="1")
    bus.clock.advance(days=6)
    bus.send("q", "x", message_id="1")
    assert len(bus.messages("q")) == 1
    bus.clock.advance(days=2)
    bus.send("q", "x", message_id="1")
    assert len(bus.messages("q")) == 2


def test_an_idle_queue_is_deleted(bus: Bus) -> None:
    bus.create_queue("q", auto_delete_on_idle_ms=3_600_000)
    bus.clock.advance(hours=1)
    with pytest.raises(Exception, match="could not be found"):
        bus.messages("q")


async def test_clients_stay_and_come_though_years_have_passed(bus: Bus, client: Client) -> None:
    bus.create_queue("q")
    sender = await client.sender("q")
    bus.clock.advance(days=1_000)
    assert await sender.send(b"\x00\x53\x75\xa0\x01x") is ACCEPTED
    address = ConnectionString.parse(bus.admin_connection_string)
    fields = await asyncio.to_thread(ManagementClient(address).queues.show, "q")
    assert fields["active_message_count"] == 1
    async with await connect(bus) as other:
        assert Message((await (await other.receiver("q")).receive()).payload).data == b"x"


async def test_who_waits_for_a_session_waits_in_real_time_too(bus: Bus, client: Client) -> None:
    bus.create_queue("q", requires_session=True)
    source = Source("q", filter={Symbol("com.microsoft:session-filter"): None})
    with pytest.raises(RemoteError, match="timeout"):
        await client.receiver(source, properties={Symbol("com.microsoft:timeout"): 20})


# --- from one test to the next --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["expiry", "schedule", "lock", "duplicates", "idle"])
async def test_time_is_as_good_as_new_after_a_test_that_has_moved_it(bus: Bus, client: Client, what: str) -> None:
    bus.create_queue("q", dead_lettering_on_message_expiration=True, lock_duration_ms=30_000)
    bus.create_queue("d", requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=60_000)
    bus.create_queue("i", auto_delete_on_idle_ms=3_600_000)
    kept = bus.take_stock()
    bus.send("q", "x", time_to_live=timedelta(hours=1))
    bus.send("d", "x", message_id="1")
    for _ in range(4):
        bus.clock.advance(minutes=50)
        bus.send("i", "x")
    assert bus.clock.now() - datetime.now(UTC) > timedelta(hours=3)
    bus.clean(kept)
    assert abs(bus.clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
    if what == "expiry":
        bus.send("q", "x", time_to_live=timedelta(minutes=1))
        bus.clock.advance(minutes=1)
        assert reasons(bus, "q") == ["TTLExpiredException"]
    elif what == "schedule":
        bus.send("q", "x", scheduled_enqueue_time_utc=in_hours(1))
        assert bus.receive_all("q") == []
        bus.clock.advance(hours=1)
        assert len(bus.receive_all("q")) == 1
    elif what == "lock":
        bus.send("q", "x")
        await (await client.receiver("q")).receive()
        bus.clock.advance(seconds=31)
        assert [one.delivery_count for one in bus.messages("q")] == [1]
    elif what == "duplicates":
        for _ in range(2):
            bus.send("d", "x", message_id="1")
        assert len(bus.messages("d")) == 1
        bus.clock.advance(minutes=2)
        bus.send("d", "x", message_id="1")
        assert len(bus.messages("d")) == 2
    else:
        bus.clock.advance(minutes=61)
        with pytest.raises(Exception, match="could not be found"):
            bus.messages("i")
