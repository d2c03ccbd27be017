"""Idle time-outs as deadlines, by the clock of the driver."""

from __future__ import annotations

from tandem.amqp.idle import IdleTimeouts
from tests.markers import spec


@spec("amqp:2.4.5")
def test_a_silent_peer_is_given_twice_the_time_that_was_advertised() -> None:
    idle = IdleTimeouts(60_000)
    idle.heard_at_ms = 5_000
    assert idle.next_deadline_ms() == 125_000
    assert not idle.is_peer_gone(124_999)
    assert idle.is_peer_gone(125_000)


@spec("amqp:2.4.5")
def test_whatever_is_heard_puts_the_deadline_off() -> None:
    idle = IdleTimeouts(60_000)
    idle.heard_at_ms = 124_999
    assert not idle.is_peer_gone(125_000)
    assert idle.next_deadline_ms() == 244_999


@spec("amqp:2.4.5")
def test_we_speak_at_half_of_the_peers_time_out() -> None:
    idle = IdleTimeouts(0)
    idle.on_peer_timeout(30_000)
    idle.spoke_at_ms = 1_000
    assert idle.next_deadline_ms() == 16_000
    assert not idle.is_heartbeat_due(15_999)
    assert idle.is_heartbeat_due(16_000)
    idle.spoke_at_ms = 16_000
    assert not idle.is_heartbeat_due(16_001)


@spec("amqp:2.7.1")
def test_no_time_out_on_either_side_has_no_deadline() -> None:
    idle = IdleTimeouts(0)
    assert idle.next_deadline_ms() is None
    assert not idle.is_peer_gone(10**12)
    assert not idle.is_heartbeat_due(10**12)
    # A peer's time-out of zero is none (part 2.7.1).
    idle.on_peer_timeout(0)
    assert idle.next_deadline_ms() is None
    assert not idle.is_heartbeat_due(10**12)


def test_the_earlier_of_the_two_deadlines_comes_next() -> None:
    idle = IdleTimeouts(10_000)
    idle.on_peer_timeout(60_000)
    assert idle.next_deadline_ms() == 20_000
    idle.heard_at_ms = 15_000
    assert idle.next_deadline_ms() == 30_000
