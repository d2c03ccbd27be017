"""Who may read a partition for a consumer group: epochs, and how many may read without one."""

from __future__ import annotations

import itertools
from typing import Final

import pytest

from tandem.engine.hubs.position import LATEST, START, parse_selector
from tandem.errors import ArgumentError, LinkStolen, NotFound, ResourceLimitExceeded, Scope
from tandem.limits import MAX_RECEIVERS_WITHOUT_EPOCH
from tests.engine.hubs.hub_desk import HubDesk, event
from tests.markers import mission

EPOCHS: Final = (None, 0, 1, 2, 7)


@mission("M10")
@pytest.mark.parametrize("old, new", list(itertools.product(EPOCHS, EPOCHS)))
def test_every_pair_of_epochs_ends_as_the_table_says(old: int | None, new: int | None) -> None:
    desk = HubDesk()
    partition = desk.hub().partitions[0]
    first = desk.open(partition, epoch=old)
    is_refused = old is not None and (new is None or new < old)
    if is_refused:
        with pytest.raises(LinkStolen) as caught:
            desk.open(partition, epoch=new)
        assert caught.value.scope is Scope.LINK
        assert first.own.is_open
        assert first.error is None
        assert partition.receiver_count() == 1
        return
    second = desk.open(partition, epoch=new)
    assert second.own.is_open
    # Without epochs they read side by side; a new one with an epoch is alone.
    assert first.own.is_open == (new is None)
    assert isinstance(first.error, LinkStolen) == (new is not None)
    assert partition.receiver_count() == (2 if new is None else 1)


@pytest.mark.parametrize(
    "epoch, name, expected",
    [
        (0, "old", "current receiver 'old' with epoch '0' is getting disconnected"),
        (None, None, "current receiver 'nil' with epoch '' is getting disconnected"),
    ],
)
def test_who_is_displaced_is_told_by_whom(epoch: int | None, name: str | None, expected: str) -> None:
    desk = HubDesk()
    partition = desk.hub().partitions[0]
    first = desk.open(partition, epoch=epoch, name=name)
    desk.open(partition, epoch=1, name="new")
    assert isinstance(first.error, LinkStolen)
    assert str(first.error).startswith("New receiver 'new' with higher epoch of '1' is created hence ")
    assert expected in str(first.error)
    assert first.error.condition == "amqp:link:stolen"


def test_who_comes_too_low_is_told_of_the_higher_epoch() -> None:
    desk = HubDesk()
    partition = desk.hub().partitions[0]
    desk.open(partition, epoch=2, name="owner")
    with pytest.raises(
        LinkStolen, match=r"At least one receiver .* with epoch of '2', and so non-epoch receiver is not"
    ):
        desk.open(partition)
    with pytest.raises(LinkStolen, match=r"'owner' with a higher epoch '2' already exists.* with epoch 1 cannot be"):
        desk.open(partition, epoch=1)


@mission("M10")
def test_five_may_read_without_an_epoch_and_the_sixth_is_told_who_they_are() -> None:
    desk = HubDesk()
    partition = desk.hub().partitions[0]
    readers = [desk.open(partition, name=f"reader-{number}") for number in range(MAX_RECEIVERS_WITHOUT_EPOCH)]
    with pytest.raises(ResourceLimitExceeded, match=r"maximum number of allowed receivers.* which is 5") as caught:
        desk.open(partition)
    assert "reader-0, reader-1, reader-2, reader-3, reader-4" in str(caught.value)
    assert caught.value.scope is Scope.LINK
    desk.close(readers[2])
    desk.open(partition)
    assert partition.receiver_count() == MAX_RECEIVERS_WITHOUT_EPOCH


def test_one_with_an_epoch_displaces_all_without() -> None:
    desk = HubDesk()
    partition = desk.hub().partitions[0]
    readers = [desk.open(partition) for _ in range(MAX_RECEIVERS_WITHOUT_EPOCH)]
    owner = desk.open(partition, epoch=0)
    assert all(isinstance(reader.error, LinkStolen) for reader in readers)
    assert partition.receiver_count() == 1
    assert owner.own.is_open


def test_the_epoch_of_an_owner_that_left_binds_nobody() -> None:
    desk = HubDesk()
    partition = desk.hub().partitions[0]
    desk.close(desk.open(partition, epoch=9))
    low = desk.open(partition, epoch=1)
    assert low.own.is_open
    desk.close(low)
    assert desk.open(partition).own.is_open


def test_groups_and_partitions_have_owners_of_their_own() -> None:
    desk = HubDesk()
    hub = desk.hub(partition_count=2, consumer_groups=["audit"])
    owners = [
        desk.open(partition, group=group, epoch=epoch)
        for partition, (group, epoch) in itertools.product(hub.partitions, [("$Default", 5), ("audit", 1)])
    ]
    assert all(owner.own.is_open for owner in owners)


def test_the_case_of_a_group_does_not_make_another_group() -> None:
    desk = HubDesk()
    partition = desk.hub().partitions[0]
    first = desk.open(partition, group="$default", epoch=1)
    desk.open(partition, group="$Default", epoch=1)
    assert isinstance(first.error, LinkStolen)


@mission("M10")
def test_who_was_displaced_gets_nothing_more_even_of_the_same_turn() -> None:
    desk = HubDesk()
    hub = desk.hub()
    partition = hub.partitions[0]
    first = desk.open(partition, epoch=1)
    desk.append(hub, "a")
    assert first.take() == ["a"]
    hub.send(event("b"), 0)
    written = desk.write()
    second = desk.open_without_flush(partition, LATEST, epoch=2)
    desk.commit(*written)
    desk.flush()
    assert first.take() == []
    assert second.take() == ["b"]


def test_a_question_to_the_store_that_is_under_way_brings_a_displaced_reader_nothing() -> None:
    desk = HubDesk()
    hub = desk.hub()
    partition = hub.partitions[0]
    desk.append(hub, "a", "b")
    first = desk.open_without_flush(partition, epoch=1)
    # The turn ends, and the question is asked; before it is answered another one takes over.
    desk.namespace.settle_turn()
    assert first.own.is_reading
    second = desk.open_without_flush(partition, epoch=2)
    desk.flush()
    assert first.events == []
    assert isinstance(first.error, LinkStolen)
    assert second.take() == ["a", "b"]


def test_a_refused_receiver_leaves_no_trace() -> None:
    desk = HubDesk()
    partition = desk.hub().partitions[0]
    desk.open(partition, epoch=2)
    for epoch in (None, 0, 1):
        with pytest.raises(LinkStolen):
            desk.open(partition, epoch=epoch)
    assert partition.receiver_count() == 1


def test_a_receiver_whose_position_is_wrong_leaves_no_trace() -> None:
    desk = HubDesk()
    partition = desk.hub().partitions[0]
    reading = desk.open(partition, parse_selector("amqp.annotation.x-opt-offset >= '0'"), epoch=3)
    assert isinstance(reading.error, ArgumentError)
    assert partition.receiver_count() == 0
    assert desk.open(partition, START).own.is_open


@mission("M10")
def test_a_group_that_is_deleted_closes_its_receivers_and_no_others() -> None:
    desk = HubDesk()
    hub = desk.hub(consumer_groups=["audit", "billing"])
    audit = desk.open(hub.partitions[0], group="audit")
    billing = desk.open(hub.partitions[0], group="billing")
    desk.update_hub(hub, consumer_groups=["billing"])
    assert isinstance(audit.error, NotFound)
    assert "audit" in str(audit.error)
    assert billing.error is None
    desk.append(hub, "a")
    assert (audit.texts, billing.texts) == ([], ["a"])


def test_a_group_that_is_not_there_is_not_found() -> None:
    hub = HubDesk().hub(consumer_groups=["Audit"])
    assert hub.consumer_group("AUDIT") == "Audit"
    assert hub.consumer_group("$default") == "$Default"
    with pytest.raises(NotFound, match="'telemetry/ConsumerGroups/billing' could not be found"):
        hub.consumer_group("billing")
