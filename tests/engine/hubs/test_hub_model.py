"""One event hub against a naive model of it: a list of events for each partition, and readers with a place in it."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tandem.amqp.batch import BATCH_FORMAT
from tandem.engine.hubs.partition_key import partition_of
from tandem.engine.hubs.position import LATEST, START, PositionKind, StartPosition
from tandem.errors import ArgumentError, LinkStolen, ResourceLimitExceeded
from tandem.limits import MAX_RECEIVERS_WITHOUT_EPOCH
from tests.drawing import examples
from tests.engine.hubs.hub_desk import HubDesk, Reading, batch, event

PARTITIONS: Final = 2
RETENTION_MS: Final = 60_000
GROUPS: Final = ("$Default", "audit")
KEYS: Final = ("", "a", "b", "c")


class ModelReader:
    """What the model knows of a reader."""

    def __init__(self, reading: Reading, partition: int, group: str, epoch: int | None, following: int) -> None:
        self.reading = reading
        self.partition = partition
        self.group = group
        self.epoch = epoch
        self.following = following
        self.credit = 0
        self.is_paused = False


class HubModel(RuleBasedStateMachine):
    """The engine and the model get the same commands; whatever can be seen must be the same."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = HubDesk()
        self.hub = self.desk.hub(partition_count=PARTITIONS, retention_ms=RETENTION_MS, consumer_groups=["audit"])
        # Text and time of every event there ever was, and how many of them retention has taken.
        self.events: list[list[tuple[str, int]]] = [[] for _ in range(PARTITIONS)]
        self.begins = [0] * PARTITIONS
        self.round = 0
        self.sent_count = 0
        self.readers: list[ModelReader] = []

    # --- the model ------------------------------------------------------------------------------------------

    def _of(self, partition: int, group: str) -> list[ModelReader]:
        return [one for one in self.readers if (one.partition, one.group) == (partition, group)]

    def _pass_on(self) -> None:
        """Every reader gets what there is for it, up to its credit."""
        for reader in self.readers:
            events = self.events[reader.partition]
            reader.following = max(reader.following, self.begins[reader.partition])
            count = 0 if reader.is_paused else min(reader.credit, len(events) - reader.following)
            expected = [(number, *events[number]) for number in range(reader.following, reader.following + count)]
            reader.following += len(expected)
            reader.credit -= len(expected)
            numbers, times = reader.reading.numbers, [one.enqueued_at_ms for one in reader.reading.events]
            assert list(zip(numbers, reader.reading.take(), times, strict=True)) == expected

    # --- commands -------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 4), to=st.sampled_from(["any", "key", 0, 1]), key=st.sampled_from(KEYS))
    def send(self, count: int, to: str | int, key: str) -> None:
        texts = [f"{self.sent_count + index}" for index in range(count)]
        self.sent_count += count
        if to == "key":
            number = partition_of(key, PARTITIONS)
        elif to == "any":
            number = self.round
            self.round = (self.round + 1) % PARTITIONS
        else:
            number = int(to)
        own_key = key if to == "key" else None
        named = self.hub.partitions[number] if isinstance(to, int) else None
        if count == 1:
            self.hub.send(event(texts[0], key=own_key), 0, named)
        else:
            self.hub.send(batch(*[event(text) for text in texts], key=own_key), BATCH_FORMAT, named)
        self.events[number] += [(text, self.desk.now_ms) for text in texts]
        self.desk.flush()
        self._pass_on()

    @rule(
        partition=st.integers(0, PARTITIONS - 1),
        group=st.sampled_from(GROUPS),
        epoch=st.sampled_from([None, None, 0, 1, 2]),
        data=st.data(),
        credit=st.integers(0, 5),
    )
    def open(self, partition: int, group: str, epoch: int | None, data: st.DataObject, credit: int) -> None:
        position, following = self._position(partition, data)
        others = self._of(partition, group)
        owner = next((one for one in others if one.epoch is not None), None)
        place = self.hub.partitions[partition]
        if owner is not None and owner.epoch is not None and (epoch is None or epoch < owner.epoch):
            with pytest.raises(LinkStolen):
                place.open_receiver(Reading(), group, epoch, None, position)
            return
        if epoch is None and len(others) >= MAX_RECEIVERS_WITHOUT_EPOCH:
            with pytest.raises(ResourceLimitExceeded):
                place.open_receiver(Reading(), group, epoch, None, position)
            return
        reading = self.desk.open(place, position, group=group, epoch=epoch, credit=credit)
        if epoch is not None:
            for other in others:
                assert isinstance(other.reading.error, LinkStolen)
                self.readers.remove(other)
        if following is None:
            assert isinstance(reading.error, ArgumentError)
            return
        reader = ModelReader(reading, partition, group, epoch, following)
        reader.credit = credit
        self.readers.append(reader)
        self._pass_on()

    def _position(self, partition: int, data: st.DataObject) -> tuple[StartPosition, int | None]:
        """A position, and the number that it means; None if it is behind the end."""
        events = self.events[partition]
        kind = data.draw(st.sampled_from(["start", "latest", "number", "time"]), label="kind of position")
        if kind == "start":
            return START, 0
        if kind == "latest":
            return LATEST, len(events)
        is_inclusive = data.draw(st.booleans(), label="inclusive")
        if kind == "number":
            number = data.draw(st.integers(0, len(events) + 1), label="number")
            position = StartPosition(PositionKind.SEQUENCE_NUMBER, number, is_inclusive)
            return position, number + (not is_inclusive) if number < len(events) else None
        times = sorted({at_ms for _, at_ms in events} | {self.desk.now_ms})
        at_ms = data.draw(st.sampled_from(times), label="time")
        later = [number for number, (_, time) in enumerate(events) if time > at_ms or (is_inclusive and time == at_ms)]
        return StartPosition(PositionKind.ENQUEUED_TIME, at_ms, is_inclusive), min(later, default=len(events))

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), credit=st.integers(0, 6), is_draining=st.booleans())
    def grant(self, data: st.DataObject, credit: int, is_draining: bool) -> None:
        reader = data.draw(st.sampled_from(self.readers), label="reader")
        before = reader.reading.drained_count
        self.desk.credit(reader.reading, credit, is_draining=is_draining)
        reader.credit = credit
        self._pass_on()
        is_drained = is_draining and not (reader.is_paused and credit)
        assert reader.reading.drained_count - before == is_drained
        if is_drained:
            reader.credit = 0
        elif is_draining:
            # Who is paused gets the answer when it wakes; the model does without.
            self.desk.credit(reader.reading, reader.credit)

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def pause_or_wake(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers), label="reader")
        reader.is_paused = not reader.is_paused
        if reader.is_paused:
            reader.reading.own.is_paused = True
        else:
            self.hub.partitions[reader.partition].wake(reader.reading.own)
        self.desk.flush()
        self._pass_on()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers), label="reader")
        self.readers.remove(reader)
        self.desk.close(reader.reading)

    @rule(by_ms=st.sampled_from([1, 1_000, 20_000, 59_999, 60_000, 90_000]))
    def wait(self, by_ms: int) -> None:
        self.desk.advance(by_ms)
        self.desk.maintain()
        for number, partition in enumerate(self.hub.partitions):
            events, begin = self.events[number], partition.begin_sequence_number
            assert begin >= self.begins[number], "retention takes from the front"
            oldest_ms = self.desk.now_ms - RETENTION_MS
            assert all(at_ms <= oldest_ms for _, at_ms in events[:begin])
            assert all(at_ms >= oldest_ms for _, at_ms in events[begin:])
            self.begins[number] = begin
        self._pass_on()

    @rule()
    def restart(self) -> None:
        self.desk.restart()
        self.hub = self.desk.namespace.hubs.get("telemetry")
        self.readers.clear()
        self.round = 0

    @rule(group=st.sampled_from(GROUPS[1:]))
    def remake_group(self, group: str) -> None:
        self.desk.update_hub(self.hub, consumer_groups=[])
        gone = [one for one in self.readers if one.group == group]
        assert all(one.reading.error is not None for one in gone)
        self.readers = [one for one in self.readers if one not in gone]
        self.desk.update_hub(self.hub, consumer_groups=[group])

    # --- what must be the same ------------------------------------------------------------------------------

    @invariant()
    def the_partitions_hold_what_the_model_holds(self) -> None:
        for number, partition in enumerate(self.hub.partitions):
            events, begin = self.events[number], self.begins[number]
            assert partition.begin_sequence_number == begin
            assert partition.next_sequence_number == len(events)
            assert partition.is_empty == (begin == len(events))
            assert partition.last_enqueued_at_ms == (events[-1][1] if events else None)
            assert self.desk.read(partition) == [text for text, _ in events[begin:]]
            assert partition.receiver_count() == sum([one.partition == number for one in self.readers])


TestHubModel = HubModel.TestCase
TestHubModel.settings = settings(max_examples=examples(100), stateful_step_count=40)
