"""From one test to the next: what was made is gone, what was shared is empty and as it was, and links go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tandem.amqp import ACCEPTED, Message, Modified, Rejected
from tandem.amqp.message import encode_message
from tandem.amqp.terminus import Source
from tandem.amqp.types import Symbol
from tandem.connection_string import ConnectionString
from tandem.driver import Client
from tandem.management.client import ManagementClient
from tandem.testing import Bus


def manager(bus: Bus) -> ManagementClient:
    return ManagementClient(ConnectionString.parse(bus.admin_connection_string))


def test_what_a_test_has_made_is_gone_after_it(bus: Bus) -> None:
    bus.create_queue("shared")
    bus.create_topic("topic")
    kept = bus.take_stock()
    bus.create_queue("q", forward_to="shared")
    bus.create_topic("t")
    bus.create_subscription("t", "s")
    bus.create_subscription("topic", "s")
    bus.clean(kept)
    assert [one["name"] for one in manager(bus).queues.list_all()] == ["shared"]
    assert [one["name"] for one in manager(bus).topics.list_all()] == ["topic"]
    assert list(manager(bus).subscriptions("topic").list_all()) == []


async def test_shared_entities_are_emptied_whatever_became_of_their_messages(bus: Bus, client: Client) -> None:
    bus.create_queue("q", requires_duplicate_detection=True)
    kept = bus.take_stock()
    receiver = await client.receiver("q", credit=0, is_second=True)
    for number in range(4):
        bus.send("q", str(number), message_id=str(number))
    bus.send("q", "later", scheduled_enqueue_time_utc=datetime.now(UTC) + timedelta(hours=1))
    await receiver.drain(3)
    deferred, dead, locked = [await receiver.receive() for _ in range(3)]
    await receiver.confirm(deferred, Modified(undeliverable_here=True))
    await receiver.confirm(dead, Rejected())
    assert (len(bus.messages("q")), len(bus.dead_letters("q"))) == (4, 1)
    bus.clean(kept)
    assert (bus.messages("q"), bus.dead_letters("q")) == ([], [])
    fields = manager(bus).queues.show("q")
    assert (fields["message_count"], fields["size_in_bytes"]) == (0, 0)
    assert isinstance(await receiver.confirm(locked), Rejected)
    # The same id again is no duplicate.
    bus.send("q", "new", message_id="0")
    assert [str(one) for one in bus.messages("q")] == ["new"]


async def test_links_to_shared_entities_go_on(bus: Bus, client: Client) -> None:
    bus.create_topic("t")
    bus.create_subscription("t", "s")
    kept = bus.take_stock()
    sender = await client.sender("t")
    receiver = await client.receiver("t/Subscriptions/s", is_second=True)
    for number in range(3):
        assert await sender.send(encode_message(data=str(number).encode())) is ACCEPTED
        delivery = await receiver.receive()
        assert Message(delivery.payload).data == str(number).encode()
        bus.clean(kept)
    assert bus.messages("t/Subscriptions/s") == []


async def test_sessions_lose_their_messages_and_their_state(bus: Bus, client: Client) -> None:
    bus.create_queue("q", requires_session=True)
    kept = bus.take_stock()
    bus.send("q", "x", session_id="s")
    receiver = await client.receiver(Source("q", filter={Symbol("com.microsoft:session-filter"): "s"}))
    await receiver.receive()
    await _set_state(client, "s", b"state")
    bus.clean(kept)
    assert bus.messages("q") == []
    assert await _set_state(client, "s", None) == 200
    fields = manager(bus).queues.show("q")
    assert (fields["message_count"], fields["size_in_bytes"]) == (0, 0)
    bus.send("q", "y", session_id="s")
    assert Message((await receiver.receive()).payload).data == b"y"


async def _set_state(client: Client, session_id: str, state: bytes | None) -> object:
    responses = await client.receiver("q/$management")
    requests = await client.sender("q/$management")
    await requests.send(
        encode_message(
            application_properties={"operation": "com.microsoft:set-session-state"},
            value={"session-id": session_id, "session-state": state},
        )
    )
    answer = Message((await responses.receive()).payload)
    return (answer.application_properties or {})["statusCode"]


def test_what_was_changed_is_changed_back_and_what_was_deleted_is_made_again(bus: Bus) -> None:
    bus.create_queue("target")
    bus.create_queue("source", forward_to="target", lock_duration_ms=7_000)
    bus.create_topic("t")
    bus.create_subscription("t", "changed", rules=["n = 1"])
    bus.create_subscription("t", "deleted", rules=["n = 2"], forward_to="source")
    kept = bus.take_stock()
    manage = manager(bus)
    manage.rules("t", "changed").delete("rule-1")
    manage.rules("t", "changed").create("everything", {})
    manage.subscriptions("t").update("changed", {"max_delivery_count": 3})
    manage.subscriptions("t").delete("deleted")
    manage.queues.delete("source")
    manage.queues.delete("target")
    bus.clean(kept)
    assert manage.queues.show("source")["lock_duration_ms"] == 7_000
    assert manage.subscriptions("t").show("changed")["max_delivery_count"] == 10
    assert [rule["name"] for rule in manage.rules("t", "changed").list_all()] == ["rule-1"]
    bus.send("t", "x", application_properties={"n": 2})
    assert [str(one) for one in bus.messages("target")] == ["x"]


def test_a_ring_that_a_test_has_deleted_is_made_again(bus: Bus) -> None:
    bus.create_queue("a")
    bus.create_queue("b", forward_to="a")
    manage = manager(bus)
    manage.queues.update("a", {"forward_to": "b"})
    kept = bus.take_stock()
    manage.queues.delete("a")
    manage.queues.delete("b")
    bus.clean(kept)
    assert {one["name"]: one["forward_to"] for one in manage.queues.list_all()} == {"a": "b", "b": "a"}
