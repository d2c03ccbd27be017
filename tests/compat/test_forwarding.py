"""Messages that go on from one queue to another."""

from __future__ import annotations

from tests.compat.sdk import AT_ONCE, Bus, number_of, take, take_one, text, texts
from tests.markers import mission

pytestmark = AT_ONCE


@mission("M1")
def test_forwarded_messages_arrive_in_order_with_their_first_sequence_numbers(bus: Bus) -> None:
    target = bus.queue()
    target.send("was here before")
    source = bus.queue(forward_to=target.name)
    source.send("one", "two", "three")
    with target.receiver() as receiver:
        _, *forwarded = take(receiver, 4)
    assert texts(forwarded) == ["one", "two", "three"]
    assert [number_of(message) for message in forwarded] == [2, 3, 4]
    assert [message.enqueued_sequence_number for message in forwarded] == [1, 2, 3]
    assert source.counts() == {}


def test_forwarding_may_go_through_several_queues(bus: Bus) -> None:
    last = bus.queue()
    middle = bus.queue(forward_to=last.name)
    first = bus.queue(forward_to=middle.name)
    first.send("far")
    with last.receiver() as receiver:
        assert text(take_one(receiver)) == "far"


def test_a_message_that_is_forwarded_too_often_is_dead_lettered(bus: Bus) -> None:
    queues = [bus.queue()]
    for _ in range(5):
        queues.append(bus.queue(forward_to=queues[-1].name))
    queues[-1].send("too far")
    # Four hops are allowed: the fifth queue keeps it.
    with queues[1].dead_letters() as receiver:
        dead = take_one(receiver)
    assert dead.dead_letter_reason == "MaxTransferHopCountExceeded"


def test_forwarded_dead_letters_say_where_they_come_from(bus: Bus) -> None:
    target = bus.queue()
    source = bus.queue(forward_dead_lettered_messages_to=target.name)
    source.send("bad")
    with source.receiver() as receiver:
        receiver.dead_letter_message(take_one(receiver), reason="unreadable", error_description="not JSON")
    with target.receiver() as receiver:
        message = take_one(receiver)
    assert message.dead_letter_source == source.name
    assert (message.dead_letter_reason, message.dead_letter_error_description) == ("unreadable", "not JSON")
    assert source.counts() == {}


def test_what_cannot_be_forwarded_is_dead_lettered_where_it_is(bus: Bus) -> None:
    target = bus.queue()
    source = bus.queue(forward_to=target.name)
    bus.broker.update_queue(target.name, status="Disabled")
    source.send("stuck")
    with source.dead_letters() as receiver:
        assert text(take_one(receiver)) == "stuck"
