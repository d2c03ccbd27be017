"""Connections take turns on the event loop: nobody waits until another one has nothing more to say."""

from __future__ import annotations

import asyncio
from typing import Any

from tandem.amqp import Event, SessionBegun, Settings
from tandem.amqp.connection import AMQP_HEADER, EMPTY_FRAME, Role
from tandem.amqp.hot_paths import frame
from tandem.amqp.performatives import Begin, End, Open
from tandem.driver import Endpoint
from tandem.driver.turns import Allowance, Turns
from tandem.limits import MAX_WORK_PER_SLICE
from tests.patience import until

HANDSHAKE = AMQP_HEADER + frame(0, Open("peer").encode())
BEGIN = frame(0, Begin(None, 0, 5_000, 5_000).encode())
BEGIN_AND_END = BEGIN + frame(0, End().encode())


class ScriptedTransport(asyncio.Transport):
    """Takes what is written, and notes whether it is read from."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = False
        self.pause_count = 0
        self.written = bytearray()
        self.is_aborted = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True
        self.pause_count += 1

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_aborted = True

    def abort(self) -> None:
        self.is_aborted = True


class Journal:
    """The application of several endpoints, which notes who did something, in this order."""

    def __init__(self) -> None:
        self.names: dict[Endpoint, str] = {}
        self.seen: list[tuple[str, Event]] = []

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        self.seen += [(self.names[endpoint], event) for event in events]

    def on_writable(self, endpoint: Endpoint) -> None:
        pass

    def on_lost(self, endpoint: Endpoint) -> None:
        pass

    def sessions_of(self, name: str) -> list[int]:
        """When each of its sessions was begun, counted in events of everybody."""
        return [at for at, (who, event) in enumerate(self.seen) if who == name and isinstance(event, SessionBegun)]


class SteppingClock:
    """Each look at it takes as long as a turn may."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.002
        return self.now_s


class ManualClock:
    """One that somebody else moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def connected(journal: Journal, name: str, turns: Turns) -> tuple[Endpoint, ScriptedTransport]:
    endpoint = Endpoint(Role.SERVER, Settings(name), journal, turns)
    journal.names[endpoint] = name
    transport = ScriptedTransport()
    endpoint.connection_made(transport)
    endpoint.data_received(HANDSHAKE)
    return endpoint, transport


async def test_a_peer_that_never_stops_sending_takes_turns_with_another() -> None:
    journal = Journal()
    turns = Turns(asyncio.get_running_loop(), SteppingClock())
    greedy, transport = connected(journal, "greedy", turns)
    modest, _ = connected(journal, "modest", turns)
    greedy.data_received(BEGIN_AND_END * 1_000)
    # All of it came in one read, and most of it is left for later turns.
    assert 0 < len(journal.sessions_of("greedy")) <= MAX_WORK_PER_SLICE
    assert transport.is_paused
    modest.data_received(BEGIN)
    await until(lambda: len(journal.sessions_of("greedy")) == 1_000)
    (modest_at,) = journal.sessions_of("modest")
    assert modest_at < journal.sessions_of("greedy")[100]
    await until(lambda: not transport.is_paused)


async def test_two_peers_that_never_stop_sending_are_served_in_rotation() -> None:
    journal = Journal()
    turns = Turns(asyncio.get_running_loop(), SteppingClock())
    endpoints = [connected(journal, name, turns)[0] for name in ("first", "second")]
    for endpoint in endpoints:
        endpoint.data_received(BEGIN_AND_END * 1_000)
    await until(lambda: len(journal.sessions_of("first")) == len(journal.sessions_of("second")) == 1_000)
    halves = [journal.sessions_of(name)[500] for name in ("first", "second")]
    assert abs(halves[0] - halves[1]) < 200


async def test_a_read_that_takes_a_whole_turn_is_not_followed_by_another_before_everybody_had_a_turn() -> None:
    endpoint, transport = connected(Journal(), "greedy", Turns(asyncio.get_running_loop(), SteppingClock()))
    await until(lambda: not transport.is_paused)
    # All of it is handled at once, in a turn. uvloop would go on with what the kernel has, up to 32 times.
    endpoint.data_received(EMPTY_FRAME)
    assert not endpoint.connection.has_more
    assert transport.is_paused
    await until(lambda: not transport.is_paused)


class Taker:
    """Counts its turns, and how far another one had come by each of them."""

    def __init__(self) -> None:
        self.count = 0

    def take_turn(self) -> None:
        self.count += 1


async def test_who_has_taken_longer_than_a_turn_lets_others_have_as_many_turns_first() -> None:
    clock = ManualClock()
    turns = Turns(asyncio.get_running_loop(), clock)
    ends_at = turns.end_of_turn()
    clock.now_s += 0.021
    assert turns.passes_to_skip(ends_at) == 9
    clock.now_s += 3_600
    assert turns.passes_to_skip(ends_at) == 32
    slow, quick = Taker(), Taker()
    turns.add(slow, is_stranger=False, skipped_passes=9)
    for number in range(9):
        turns.add(quick, is_stranger=False)
        turns._pass()
        assert (slow.count, quick.count) == (0, number + 1)
    await until(lambda: slow.count == 1)


class Slow(Journal):
    """An application that takes 20 ms for whatever comes."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        self._clock.now_s += 0.02


async def test_a_peer_whose_input_took_longer_than_a_turn_is_not_read_from_while_others_have_theirs() -> None:
    clock = ManualClock()
    turns = Turns(asyncio.get_running_loop(), clock)
    endpoint, transport = connected(Slow(clock), "greedy", turns)
    await until(lambda: not transport.is_paused)
    endpoint.data_received(BEGIN_AND_END)
    assert not endpoint.connection.has_more
    assert transport.is_paused
    loop = asyncio.get_running_loop()
    passes: list[None] = []

    def count() -> None:
        passes.append(None)
        if transport.is_paused:
            loop.call_soon(count)

    count()
    await until(lambda: not transport.is_paused)
    assert len(passes) >= 9


async def test_a_peer_that_does_not_read_gets_no_further_turn_until_it_does() -> None:
    journal = Journal()
    endpoint, transport = connected(journal, "deaf", Turns(asyncio.get_running_loop(), SteppingClock()))
    endpoint.data_received(BEGIN_AND_END * 1_000)
    endpoint.pause_writing()
    count = len(journal.sessions_of("deaf"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(journal.sessions_of("deaf")) == count
    assert transport.is_paused
    endpoint.resume_writing()
    await until(lambda: len(journal.sessions_of("deaf")) == 1_000)
    await until(lambda: not transport.is_paused)


async def test_input_that_comes_although_reading_is_paused_is_handled_in_its_order() -> None:
    journal = Journal()
    endpoint, _ = connected(journal, "busy", Turns(asyncio.get_running_loop(), SteppingClock()))
    for _ in range(10):
        endpoint.data_received(BEGIN_AND_END * 100)
    await until(lambda: len(journal.sessions_of("busy")) == 1_000)
    assert endpoint.connection.is_open


async def test_a_stranger_above_its_rate_is_not_read_from_until_it_has_proved_something() -> None:
    journal = Journal()
    loop = asyncio.get_running_loop()
    endpoint, transport = connected(journal, "stranger", Turns(loop))
    # A unit in three hours: whatever is handled beyond the first 300 is handled against the rule.
    endpoint.limit(Allowance(300, 0.0001, loop.time()))
    endpoint.data_received(EMPTY_FRAME * 5_000 + BEGIN)
    await until(lambda: endpoint._suspension is not None)
    for _ in range(20):
        await asyncio.sleep(0)
    assert transport.is_paused
    assert endpoint.is_stranger
    handled = endpoint.connection.unread.left_at // len(EMPTY_FRAME)
    assert 300 <= handled <= 300 + MAX_WORK_PER_SLICE
    assert journal.sessions_of("stranger") == []
    endpoint.lift_limit()
    await until(lambda: len(journal.sessions_of("stranger")) == 1)
    await until(lambda: not transport.is_paused)


async def test_strangers_wait_for_a_turn_from_their_first_byte_on() -> None:
    journal = Journal()
    loop = asyncio.get_running_loop()
    turns = Turns(loop, SteppingClock())
    stranger, transport = connected(journal, "stranger", turns)
    stranger.limit(Allowance(1_000, 1_000, loop.time()))
    client, _ = connected(journal, "client", turns)
    stranger.data_received(BEGIN)
    assert transport.is_paused
    client.data_received(BEGIN)
    await until(lambda: len(journal.sessions_of("stranger")) == 1)
    assert journal.sessions_of("client") < journal.sessions_of("stranger")


async def test_a_peer_that_is_gone_gets_no_turn() -> None:
    journal = Journal()
    endpoint, _ = connected(journal, "gone", Turns(asyncio.get_running_loop(), SteppingClock()))
    endpoint.data_received(BEGIN_AND_END * 1_000)
    count = len(journal.seen)
    endpoint.connection_lost(None)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(journal.seen) == count


def test_an_allowance_is_spent_at_once_and_comes_back_with_time() -> None:
    allowance = Allowance(10, 2, 100.0)
    allowance.spend(10, 100.0)
    assert allowance.wait_s() == 0
    allowance.spend(4, 100.0)
    assert allowance.wait_s() == 2
    allowance.spend(0, 101.0)
    assert allowance.wait_s() == 1
    # However long nothing is asked for, no more than the first amount is saved up.
    allowance.spend(10, 1_000.0)
    assert allowance.wait_s() == 0
    allowance.spend(1, 1_000.0)
    assert allowance.wait_s() == 0.5
