"""Delayed visibility, step by step on the engine: order, the moment at which a delay ends, and crashes."""

from __future__ import annotations

from tandem.auth import Right
from tandem.engine.queue import Queue
from tandem.server.faults import Fault, FaultKind, FaultSettings
from tandem.server.faults.visibility import Visibility
from tests.markers import mission
from tests.unit.engine_desk import Desk, payload


def send(desk: Desk, visibility: Visibility, queue: Queue, *bodies: str) -> None:
    """Without performing anything: that is the caller's."""
    for body in bodies:
        drafts = queue.read(payload(body), 0)
        visibility.hold(queue, drafts)
        queue.take(drafts)


@mission("M14")
def test_what_comes_while_a_delay_ends_goes_behind_what_was_delayed() -> None:
    desk = Desk()
    queue = desk.queue()
    visibility = Visibility()
    visibility.delay(queue, 60_000)
    send(desk, visibility, queue, "a", "b")
    desk.flush()
    # In one turn: the end has asked for what waits, and has no answer yet.
    visibility.end(queue)
    send(desk, visibility, queue, "c")
    desk.flush()
    send(desk, visibility, queue, "d")
    desk.flush()
    desk.receiver(queue.main)
    assert desk.take_bodies() == ["a", "b", "c", "d"]
    assert visibility.is_idle


@mission("M14")
def test_a_shorter_delay_does_not_let_a_message_overtake() -> None:
    desk = Desk()
    queue = desk.queue()
    visibility = Visibility()
    visibility.delay(queue, 60_000)
    send(desk, visibility, queue, "a")
    visibility.delay(queue, 1_000)
    send(desk, visibility, queue, "b")
    desk.flush()
    desk.receiver(queue.main)
    desk.advance(59_999)
    assert desk.take_bodies() == []
    desk.advance(1)
    assert desk.take_bodies() == ["a", "b"]


@mission("M14")
def test_delayed_messages_appear_once_and_in_order_after_a_crash() -> None:
    desk = Desk()
    queue = desk.queue()
    visibility = Visibility()
    visibility.delay(queue, 60_000)
    send(desk, visibility, queue, *[str(number) for number in range(10)])
    desk.flush()
    for _ in range(2):
        desk.restart()
    again = desk.namespace.get("orders")
    desk.receiver(again.main, 100)
    assert desk.take_bodies() == []
    desk.advance(60_000)
    assert desk.take_bodies() == [str(number) for number in range(10)]


def test_a_queue_that_is_deleted_while_its_delay_ends_is_forgotten() -> None:
    desk = Desk()
    queue = desk.queue()
    visibility = Visibility()
    visibility.delay(queue, 60_000)
    send(desk, visibility, queue, "a")
    desk.flush()
    visibility.end(queue)
    desk.namespace.delete(queue)
    desk.flush()
    assert visibility.is_idle


def test_a_fault_is_over_at_its_end_though_nobody_has_looked_at_the_clock() -> None:
    fault = Fault(1, FaultSettings(FaultKind.REFUSE_SENDS, "Orders", duration_ms=1_000), 5_000)
    assert fault.meets(Right.SEND, "orders", 5_999)
    assert not fault.meets(Right.SEND, "orders", 6_000)
    assert not fault.meets(Right.LISTEN, "orders", 5_000)
    assert not fault.meets(Right.SEND, "orders/eu", 5_000)
