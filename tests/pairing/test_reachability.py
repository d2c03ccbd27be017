"""When something counts as away, how it is asked for, and who is told."""

from __future__ import annotations

import asyncio

import pytest

from tandem.client.wire.waiting import Waiting
from tandem.pairing.reachability import Reachability
from tests.markers import mission
from tests.pairing.hurry import SetTime
from tests.patience import until


class Probe:
    """Answers as the test says."""

    def __init__(self) -> None:
        self.count = 0
        self.is_back = False

    async def __call__(self) -> bool:
        self.count += 1
        return self.is_back


@pytest.fixture
def clock() -> SetTime:
    return SetTime()


@pytest.fixture
def probe() -> Probe:
    return Probe()


@mission("M26")
async def test_pauses_between_probes_double_up_to_the_longest(clock: SetTime, probe: Probe) -> None:
    away = Reachability(probe, clock, longest_pause_s=4.0)
    away.lose(away.epoch)
    for number, pause_s in enumerate((0.5, 1.0, 2.0, 4.0, 4.0)):
        await until(lambda pause_s=pause_s: clock.is_awaited(pause_s), f"a pause of {pause_s} s")  # type: ignore[misc]
        assert probe.count == number
        clock.advance(pause_s)
    await until(lambda: probe.count == 5, "the last probe")
    assert away.is_away
    await away.close()


@mission("M26")
async def test_pauses_begin_anew_only_when_a_message_was_accepted(clock: SetTime, probe: Probe) -> None:
    probe.is_back = True
    away = Reachability(probe, clock, longest_pause_s=60.0)
    # The probe succeeds each time, and messages fail all the same.
    for pause_s in (0.5, 1.0, 2.0):
        away.lose(away.epoch)
        await until(lambda pause_s=pause_s: clock.is_awaited(pause_s), f"a pause of {pause_s} s")  # type: ignore[misc]
        clock.advance(pause_s)
        await until(lambda: not away.is_away, "the probe reaches it")
    away.confirm()
    away.lose(away.epoch)
    await until(lambda: clock.is_awaited(0.5), "the first pause again")
    await away.close()


async def test_a_failure_from_before_the_last_loss_says_nothing(clock: SetTime, probe: Probe) -> None:
    away = Reachability(probe, clock, longest_pause_s=60.0)
    epoch = away.epoch
    away.lose(epoch)
    away.reach()
    away.lose(epoch)
    assert not away.is_away
    await away.close()


async def test_what_is_doubted_is_asked_for_at_once(probe: Probe) -> None:
    probe.is_back = True
    away = Reachability(probe, Waiting(), longest_pause_s=60.0)
    away.doubt()
    assert away.is_away
    await until(lambda: not away.is_away, "it is reached")
    assert probe.count == 1


async def test_closing_lets_everybody_go_on_who_waits(clock: SetTime, probe: Probe) -> None:
    away = Reachability(probe, clock, longest_pause_s=60.0)
    away.lose(away.epoch)
    waiting = asyncio.create_task(away.wait_for_change())
    await until(lambda: clock.is_awaited(0.5), "it waits for the next probe")
    await away.close()
    await waiting
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, "nothing probes any more")
    assert probe.count == 0
