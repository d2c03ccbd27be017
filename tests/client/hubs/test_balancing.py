"""Which partitions processors take: on a virtual clock, with as many processors as one likes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.client.hubs.balancing import choose_claims
from tandem.client.hubs.checkpoint_store import Ownership

EXPIRY_S = 30.0
INTERVAL_S = 10.0


class World:
    """A store, a clock, and processors that take their turns."""

    def __init__(self, partition_count: int, seed: int = 0) -> None:
        self.partition_ids = [str(number) for number in range(partition_count)]
        self.ownerships: dict[str, Ownership] = {}
        self.now_s = 1_000.0
        self._random = random.Random(seed)
        self._etags = 0

    def turn(self, owner_id: str) -> list[str]:
        """One round of a processor. Returns what it took from somebody who still held it."""
        claims = choose_claims(
            self.partition_ids,
            list(self.ownerships.values()),
            owner_id,
            self.now_s,
            EXPIRY_S,
            self._random.choice,
        )
        stolen: list[str] = []
        for claim in claims:
            before = self.ownerships.get(claim.partition_id)
            assert claim.etag == (None if before is None else before.etag)
            is_held = before is not None and before.owner_id and before.renewed_at_s + EXPIRY_S > self.now_s
            if before is not None and is_held and before.owner_id != owner_id:
                stolen.append(claim.partition_id)
            self._etags += 1
            self.ownerships[claim.partition_id] = Ownership(claim.partition_id, owner_id, self.now_s, str(self._etags))
        return stolen

    def round(self, owner_ids: list[str]) -> int:
        """Every processor once. Returns how many partitions changed hands."""
        stolen = sum(len(self.turn(owner_id)) for owner_id in owner_ids)
        self.now_s += INTERVAL_S
        return stolen

    def counts(self, owner_ids: list[str]) -> list[int]:
        owners = [one.owner_id for one in self.ownerships.values()]
        return sorted(owners.count(owner_id) for owner_id in owner_ids)


def test_the_first_processor_takes_everything_at_once() -> None:
    world = World(16)
    world.round(["a"])
    assert world.counts(["a"]) == [16]


def test_a_processor_takes_one_partition_of_another_at_a_time() -> None:
    world = World(8)
    world.round(["a"])
    assert len(world.turn("b")) == 1
    assert world.counts(["a", "b"]) == [1, 7]


def test_the_partitions_of_a_dead_processor_are_shared_when_their_time_is_up() -> None:
    world = World(6)
    for _ in range(6):
        world.round(["a", "b", "c"])
    assert world.counts(["a", "b", "c"]) == [2, 2, 2]
    for _ in range(2):
        world.round(["a", "b"])
    assert world.counts(["a", "b"]) == [2, 2]
    for _ in range(2):
        world.round(["a", "b"])
    assert world.counts(["a", "b"]) == [3, 3]


def test_a_partition_that_was_given_back_is_free_at_once() -> None:
    world = World(2)
    world.round(["a"])
    before = world.ownerships["0"]
    world.ownerships["0"] = Ownership("0", "", world.now_s, before.etag)
    assert world.turn("b") == []
    assert world.ownerships["0"].owner_id == "b"


@pytest.mark.parametrize("partition_count, owner_count", [(4, 4), (16, 3), (32, 5), (3, 5), (1, 2)])
def test_processors_that_come_one_after_the_other_end_with_fair_shares(partition_count: int, owner_count: int) -> None:
    world = World(partition_count)
    owner_ids: list[str] = []
    for number in range(owner_count):
        owner_ids.append(f"owner-{number}")
        for _ in range(partition_count + 2):
            world.round(owner_ids)
        counts = world.counts(owner_ids)
        assert sum(counts) == partition_count
        assert counts[-1] - counts[0] <= 1


@given(
    partition_count=st.integers(1, 40),
    owner_count=st.integers(1, 12),
    held_by=st.lists(st.integers(0, 11), max_size=40),
    seed=st.integers(0, 1_000),
)
def test_whoever_holds_what_it_ends_fair_and_then_stays(
    partition_count: int, owner_count: int, held_by: list[int], seed: int
) -> None:
    world = World(partition_count, seed)
    owner_ids = [f"owner-{number}" for number in range(owner_count)]
    for partition_id, holder in zip(world.partition_ids, held_by, strict=False):
        world.ownerships[partition_id] = Ownership(partition_id, f"owner-{holder}", world.now_s, "first")
    # Those of processors that do not exist expire first; then each round brings each processor one partition nearer.
    for _ in range(5 + partition_count):
        world.round(owner_ids)
    counts = world.counts(owner_ids)
    assert sum(counts) == partition_count
    assert counts[-1] - counts[0] <= 1
    assert sum(world.round(owner_ids) for _ in range(5)) == 0
