"""A log that loses its power at any moment: what was acknowledged is there, in order and without gaps."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.errors import StoreFailed
from tandem.store.log.check import check_log
from tests.markers import mission
from tests.store.log.disk import PowerLost
from tests.store.log.drive import HUB, OTHER_HUB, SMALL, Home, Writer, body, commit, read_all

# With a journal so short that quiet partitions are carried over.
LIMITS = replace(SMALL, journal_bytes=6_000)
RETENTION = (40_000, 20_000)


class Account:
    """What was acknowledged, what was only sent, and what retention may have taken, by hub and partition."""

    def __init__(self) -> None:
        self.acknowledged = {(HUB, 0): 0, (HUB, 1): 0, (OTHER_HUB, 0): 0}
        self.sent = dict(self.acknowledged)
        self.begin = dict(self.acknowledged)

    def replace_hub(self, hub_number: int) -> None:
        """A hub is gone, and another one is there."""
        for column in (self.acknowledged, self.sent, self.begin):
            del column[hub_number, 0]
            column[hub_number + 1, 0] = 0

    def judge(self, home: Home) -> None:
        """Start again, and compare. What is there is the truth from then on."""
        log = home.crash()
        recovery = log.recover(home.hubs)
        assert recovery.last_hub_number == max(home.hubs)
        assert {(found.hub_number, found.partition_id) for found in recovery.partitions} == set(self.sent)
        for found in recovery.partitions:
            key = (found.hub_number, found.partition_id)
            assert self.acknowledged[key] <= found.next_sequence_number <= self.sent[key]
            assert found.begin_sequence_number <= self.begin[key]
            self.acknowledged[key] = self.sent[key] = found.next_sequence_number
            self.begin[key] = found.begin_sequence_number
            events = read_all(log, found.partition_id, found.hub_number, limit=50)
            expected = range(found.begin_sequence_number, found.next_sequence_number)
            assert [event.sequence_number for event in events] == list(expected)
            for event in events:
                assert body(event.sequence_number, found.partition_id, found.hub_number) in event.bare
        assert check_log(home.directory, home.hubs).findings == []


def worked(home: Home, account: Account, chance: random.Random, now_ms: int, turns: int) -> None:
    """Send, commit and look after the log, until the power is lost or the turns are over."""
    writer = Writer(home.log, now_ms)
    for (hub_number, partition_id), number in account.acknowledged.items():
        writer.continue_at(hub_number, partition_id, number)
    for _ in range(turns):
        writer.now_ms += 1_000
        for hub_number, partition_id in chance.sample(sorted(account.sent), chance.randint(0, 3)):
            record = writer.record(
                chance.randint(1, 12),
                partition_id=partition_id,
                hub_number=hub_number,
                padding=chance.choice((0, 30, 600)),
            )
            account.sent[hub_number, partition_id] = record.next_sequence_number
            home.log.append([record])
        commit(home.log)
        account.acknowledged.update(account.sent)
        if chance.random() < 0.03:
            # The record of a hub is gone before its events are.
            dropped = max(home.hubs)
            home.hubs[dropped + 1] = home.hubs.pop(dropped)
            account.replace_hub(dropped)
            home.log.drop_hub(dropped)
        for hub_number, partition_id, begin in home.log.maintain(writer.now_ms, {HUB: RETENTION}):
            account.begin[hub_number, partition_id] = begin
        commit(home.log)
        home.log.sweep()


@mission("M10")
@pytest.mark.parametrize("seed", range(5))
def test_nothing_acknowledged_is_lost_when_the_power_is(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    home = Home(tmp_path, LIMITS, seed)
    account = Account()
    for generation in range(6):
        home.files.lose_power_after(chance.randint(5, 400))
        with contextlib.suppress(StoreFailed, PowerLost):
            worked(home, account, chance, 100_000 * (generation + 1), turns=30)
        account.judge(home)
    home.close()


@mission("M10")
def test_a_crash_at_any_step_of_sealing_loses_nothing(tmp_path: Path) -> None:
    """Of writing, carrying over, trimming and deleting too: every operation on the disk once is the last."""
    step = 0
    is_done = False
    while not is_done:
        home = Home(tmp_path / str(step), LIMITS, step)
        account = Account()
        worked(home, account, random.Random(1), 1_000, turns=8)
        home.files.lose_power_after(step)
        with contextlib.suppress(StoreFailed, PowerLost):
            worked(home, account, random.Random(2), 50_000, turns=4)
            is_done = True
        account.judge(home)
        home.close()
        step += 1
    assert step > 20
