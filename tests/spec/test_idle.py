"""Idle time-outs (part 2.4.5): deadlines handed to whoever has a clock."""

from __future__ import annotations

from tandem.amqp.connection import Connection, Role
from tandem.amqp.events import ConnectionFailed
from tandem.amqp.performatives import Close, Open
from tandem.amqp.settings import Settings
from tandem.errors import ConnectionForced, IdleTimeoutExpired
from tests.markers import spec
from tests.spec.raw_peer import RawPeer, only, server
from tests.spec.wire import raw_frame

EMPTY_FRAME = raw_frame(b"")


def opened(*, ours_ms: int = 0, theirs_ms: int | None = None) -> RawPeer:
    peer = server(Settings("server", idle_timeout_ms=ours_ms))
    peer.open(idle_timeout_ms=theirs_ms)
    return peer


@spec("amqp:2.4.5")
def test_without_time_outs_there_is_no_deadline() -> None:
    peer = opened()
    assert peer.connection.next_deadline_ms() is None
    assert peer.connection.tick(10**9) == []
    assert peer.connection.data_to_send() == b""


@spec("amqp:2.4.5", "amqp:2.7.1")
def test_what_is_advertised_is_half_of_what_is_tolerated() -> None:
    peer = server(Settings("server", idle_timeout_ms=60_000))
    peer.write(b"AMQP\x00\x01\x00\x00", 1_000)
    peer.send(Open("raw"))
    assert peer.read_one(Open).idle_timeout_ms == 60_000
    peer.write(EMPTY_FRAME, 5_000)
    assert peer.connection.next_deadline_ms() == 125_000


@spec("amqp:2.4.5")
def test_a_silent_peer_is_dropped_when_its_time_is_up_and_not_before() -> None:
    peer = opened(ours_ms=60_000)
    peer.write(EMPTY_FRAME, 5_000)
    assert peer.connection.tick(124_999) == []
    failed = only(peer.connection.tick(125_000), ConnectionFailed)
    assert isinstance(failed.error, IdleTimeoutExpired)
    close = peer.read_one(Close)
    assert close.error is not None
    assert close.error.condition == "amqp:resource-limit-exceeded"
    assert peer.connection.is_finished
    assert peer.connection.next_deadline_ms() is None
    assert peer.connection.tick(10**9) == []
    assert peer.connection.data_to_send() == b""


@spec("amqp:2.4.5")
def test_any_byte_counts_as_a_sign_of_life_but_no_bytes_do_not() -> None:
    peer = opened(ours_ms=60_000)
    peer.write(EMPTY_FRAME[:1], 100_000)
    assert peer.connection.next_deadline_ms() == 220_000
    peer.write(b"", 200_000)
    assert peer.connection.next_deadline_ms() == 220_000


@spec("amqp:2.4.5")
def test_a_heartbeat_is_written_at_half_the_time_out_of_the_peer() -> None:
    peer = opened(theirs_ms=30_000)
    peer.connection.begin()
    peer.connection.data_to_send(1_000)
    assert peer.connection.next_deadline_ms() == 16_000
    assert peer.connection.tick(15_999) == []
    assert peer.connection.data_to_send(15_999) == b""
    assert peer.connection.tick(16_000) == []
    assert peer.connection.data_to_send(16_000) == EMPTY_FRAME
    assert peer.connection.next_deadline_ms() == 31_000


@spec("amqp:2.4.5")
def test_the_nearer_of_two_deadlines_counts() -> None:
    peer = opened(ours_ms=10_000, theirs_ms=30_000)
    assert peer.connection.next_deadline_ms() == 15_000
    peer.connection.tick(15_000)
    assert peer.connection.data_to_send(15_000) == EMPTY_FRAME
    assert peer.connection.next_deadline_ms() == 20_000


@spec("amqp:2.4.3", "amqp:2.4.5")
def test_no_heartbeat_is_written_behind_a_close_and_a_silent_peer_is_still_dropped() -> None:
    peer = opened(ours_ms=60_000, theirs_ms=30_000)
    peer.connection.close()
    peer.read_one(Close)
    assert peer.connection.next_deadline_ms() == 120_000
    assert peer.connection.tick(119_999) == []
    assert peer.connection.data_to_send() == b""
    only(peer.connection.tick(120_000), ConnectionFailed)
    assert peer.connection.data_to_send() == b""
    assert peer.connection.is_finished


@spec("amqp:2.4.3", "amqp:2.4.5")
def test_an_open_that_crosses_our_close_starts_no_heartbeat() -> None:
    for error in (None, ConnectionForced("never mind")):
        peer = RawPeer(Connection(Role.CLIENT, Settings("client", idle_timeout_ms=0)))
        peer.connection.open(sasl=False)
        peer.write(b"AMQP\x00\x01\x00\x00")
        peer.connection.close(error)
        peer.read()
        # Out of range, too: there is nothing left to agree upon, so nothing to complain about.
        assert peer.send(Open("raw", max_frame_size=100, idle_timeout_ms=1_000)) == []
        assert peer.connection.next_deadline_ms() is None
        assert peer.connection.data_to_send() == b""


@spec("amqp:2.4.5")
def test_a_peer_that_never_opens_is_dropped_too() -> None:
    peer = server(Settings("server", idle_timeout_ms=60_000))
    peer.write(b"AMQP\x00\x01", 1_000)
    assert peer.connection.next_deadline_ms() == 121_000
    only(peer.connection.tick(121_000), ConnectionFailed)
    assert peer.connection.data_to_send() == b""
    assert peer.connection.is_finished
