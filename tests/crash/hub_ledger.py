"""What producers of an event hub were told, and what every reader of it must see.

An event says who made it, which of its events it is, and with which others it was sent. A send that ended in an error
is in doubt, and not tried again: its events are there, all of them and side by side, or none is.

The official SDK sends a batch a second time by itself when its connection breaks, whatever its settings for retries are
(`EventHubProducerClient.send_batch`). So a batch of an impatient producer that was under way when the broker died may
be there twice, and each time as a whole.
"""

from __future__ import annotations

import struct
import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["HubEvent", "HubLedger"]

# How many examples of a broken promise are kept: the first ones tell what to look for.
EXAMPLES: Final = 20

_BODY: Final = struct.Struct(">IIII")


class HubEvent(NamedTuple):
    """One event, as its producer made it."""

    producer: int
    number: int
    # The number of the first event of its batch, and how many there are.
    first: int
    batch_size: int

    def encode(self, size: int) -> bytes:
        return _BODY.pack(*self).ljust(size, b"x")

    @staticmethod
    def decode(body: bytes) -> HubEvent:
        return HubEvent(*_BODY.unpack_from(body))


class HubLedger:
    """The account of one hub."""

    def __init__(self, hub: str, partition_count: int) -> None:
        self.hub = hub
        self.lock = threading.Lock()
        self._producers = 0
        self._taken: dict[int, int] = defaultdict(int)
        self.acknowledged: dict[int, set[int]] = defaultdict(set)
        # Of each partition: every event that anybody has seen, in the order of the sequence numbers, and how many of
        # them were accounted for.
        self.seen: list[list[HubEvent]] = [[] for _ in range(partition_count)]
        self._accounted = [0] * partition_count
        self._stored: dict[int, set[int]] = defaultdict(set)
        # Producers that send again by themselves: the first event of the batch under way, and of those during deaths.
        self._under_way: dict[int, int] = {}
        self._interrupted: set[tuple[int, int]] = set()
        self._stored_again: set[tuple[int, int]] = set()
        self._last: list[dict[int, int]] = [defaultdict(lambda: -1) for _ in range(partition_count)]
        self.broken: dict[str, list[str]] = defaultdict(list)
        self.broken_count = 0

    def break_promise(self, promise: str, what: str) -> None:
        self.broken_count += 1
        if len(self.broken[promise]) < EXAMPLES:
            self.broken[promise].append(what)

    # --- sends ------------------------------------------------------------------------------------------------------

    def new_producer(self) -> int:
        self._producers += 1
        return self._producers

    def take(self, producer: int, count: int, *, is_impatient: bool = False) -> list[HubEvent]:
        """A batch of events that nobody has sent before."""
        with self.lock:
            first = self._taken[producer]
            self._taken[producer] += count
            if is_impatient:
                self._under_way[producer] = first
        return [HubEvent(producer, number, first, count) for number in range(first, first + count)]

    def acknowledge(self, events: Sequence[HubEvent]) -> None:
        """The call that sent these has returned."""
        with self.lock:
            for event in events:
                self.acknowledged[event.producer].add(event.number)

    def record_death(self) -> None:
        """The broker was killed, and is not up again yet."""
        with self.lock:
            self._interrupted.update(self._under_way.items())

    @property
    def acknowledged_count(self) -> int:
        return sum([len(numbers) for numbers in self.acknowledged.values()])

    # --- receipts ---------------------------------------------------------------------------------------------------

    def see(self, partition: int, sequence_number: int, event: HubEvent) -> None:
        """A reader got an event. Whoever comes first says what is there, and everybody else must see the same."""
        with self.lock:
            seen = self.seen[partition]
            if sequence_number < len(seen):
                if seen[sequence_number] != event:
                    self.break_promise(
                        "not_the_same_for_all",
                        f"{partition}/{sequence_number} was {seen[sequence_number]}, and is {event}",
                    )
            elif sequence_number == len(seen):
                seen.append(event)
            else:
                self.break_promise("gap", f"{partition}/{sequence_number} came after {len(seen) - 1}")

    def accounted_count(self, partition: int) -> int:
        """How many events of a partition were accounted for, from the first on."""
        return self._accounted[partition]

    def account(self, partition: int, length: int) -> None:
        """So many events of a partition have been read, from the first on. Others may have seen more meanwhile."""
        with self.lock:
            for at in range(self._accounted[partition], length):
                self._account_for(partition, at)
            self._accounted[partition] = length

    def _account_for(self, partition: int, at: int) -> None:
        event = self.seen[partition][at]
        is_repetition = self._is_repetition(event)
        if event.number in self._stored[event.producer] and not is_repetition:
            self.break_promise("stored_twice", f"{partition}/{at}: {event}")
        self._stored[event.producer].add(event.number)
        if event.number <= self._last[partition][event.producer] and not is_repetition:
            self.break_promise("order", f"{partition}/{at}: {event} after {self._last[partition][event.producer]}")
        self._last[partition][event.producer] = event.number
        if event.number >= self._taken[event.producer]:
            self.break_promise("never_sent", f"{partition}/{at}: {event}")
        first = at - (event.number - event.first)
        batch = self.seen[partition][max(0, first) : first + event.batch_size]
        if [one.number for one in batch] != list(range(event.first, event.first + event.batch_size)) or {
            one.producer for one in batch
        } != {event.producer}:
            self.break_promise("half_a_batch", f"{partition}/{at}: {event} lies among {batch[:5]}")

    def _is_repetition(self, event: HubEvent) -> bool:
        """True for the second time of an event whose batch was interrupted by a death, and once only."""
        key = (event.producer, event.number)
        is_second = event.number in self._stored[event.producer] and key not in self._stored_again
        if is_second and (event.producer, event.first) in self._interrupted:
            self._stored_again.add(key)
            return True
        return False

    def close(self) -> dict[str, int]:
        """Everything was read: what was acknowledged must be there. Returns the figures."""
        with self.lock:
            for producer, numbers in self.acknowledged.items():
                for number in sorted(numbers - self._stored[producer]):
                    self.break_promise("lost", f"event {number} of producer {producer}")
        return {
            "acknowledged": self.acknowledged_count,
            "stored": sum(self._accounted),
            "stored_again": len(self._stored_again),
        }

    def check_acknowledged(self, acknowledged: dict[int, set[int]]) -> None:
        """What was acknowledged before a crash is there after it."""
        with self.lock:
            for producer, numbers in acknowledged.items():
                missing = numbers - self._stored[producer]
                if missing:
                    self.break_promise("lost", f"{len(missing)} events of producer {producer}, as {min(missing)}")
