"""What event hubs must hold: every event in its place, and how far it is known to be on disk.

Hubs, the lengths of their partitions and the numbers of their producers are parts of the ledger: what is on disk only
with the next commit is undone there by a crash.
"""

from __future__ import annotations

from collections import deque
from typing import cast

from tandem.engine.hubs.description import EventHubDescription
from tests.sim.ledger import Ledger, Violation

__all__ = ["HubBook", "HubBooks", "PartitionBook", "SimEvent"]


class SimEvent:
    """One event."""

    __slots__ = ("at_ms", "is_acknowledged", "key", "size_bytes", "uid")

    def __init__(self, uid: int, at_ms: int, key: str | None, size_bytes: int) -> None:
        self.uid = uid
        self.at_ms = at_ms
        self.key = key
        # Its share of what it came in.
        self.size_bytes = size_bytes
        self.is_acknowledged = False

    def __repr__(self) -> str:
        return f"<event {self.uid} of {self.at_ms}>"


class PartitionBook:
    """One partition: its events in the order of their numbers, from zero on."""

    __slots__ = (
        "awaiting",
        "begin",
        "committed_count",
        "committed_ms",
        "events",
        "hub_number",
        "last_at_ms",
        "partition_id",
    )

    def __init__(self, hub_number: int, partition_id: int) -> None:
        self.hub_number = hub_number
        self.partition_id = partition_id
        self.events: list[SimEvent] = []
        # The first that retention has left.
        self.begin = 0
        self.committed_count = 0
        # When the last of them were on disk.
        self.committed_ms = 0
        self.last_at_ms = 0
        # Lengths that are on disk with a position of the ledger.
        self.awaiting: deque[tuple[int, int]] = deque()

    @property
    def key(self) -> tuple[int, int]:
        return self.hub_number, self.partition_id

    def first_at(self, at_ms: int) -> int:
        """The first event on disk that is not older, or the next one to come."""
        for number in range(self.begin, self.committed_count):
            if self.events[number].at_ms >= at_ms:
                return number
        return self.committed_count

    def __repr__(self) -> str:
        return f"partition {self.partition_id} of hub {self.hub_number}"


class HubBook:
    """One event hub."""

    __slots__ = ("described_ms", "description", "homes", "number", "partitions")

    def __init__(self, number: int, description: EventHubDescription) -> None:
        self.number = number
        self.description = description
        # Since when the broker knows what it does about it.
        self.described_ms = 0
        self.partitions = [PartitionBook(number, one) for one in range(description.partition_count)]
        # Where each key went the first time.
        self.homes: dict[str, int] = {}


class HubBooks:
    """All event hubs, those that are there and those that a crash may bring back."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._every: dict[int, HubBook] = {}
        # By number; by number and partition; by number, partition and producer.
        self._descriptions: dict[object, object] = {}
        self._counts: dict[object, object] = {}
        self._producers: dict[object, object] = {}
        # The last that was given, under one key; what a crash undid was given to nobody.
        self._last_number: dict[object, object] = {}

    # --- hubs -----------------------------------------------------------------------------------------------

    @property
    def hubs(self) -> list[HubBook]:
        return [self._every[cast("int", number)] for number in self._descriptions]

    def find(self, number: int) -> HubBook | None:
        return self._every[number] if number in self._descriptions else None

    @property
    def last_hub_number(self) -> int:
        return cast("int", self._last_number.get("", 0))

    def put(self, number: int, description: EventHubDescription, now_ms: int) -> None:
        """A hub was made or changed."""
        is_new = number not in self._descriptions
        self._ledger.put(self._descriptions, number, description)
        if is_new:
            self._ledger.put(self._last_number, "", number)
            self._every[number] = HubBook(number, description)
        book = self._every[number]
        book.description = description
        book.described_ms = now_ms

    def drop(self, number: int) -> None:
        self._ledger.put(self._descriptions, number, None)

    # --- events ---------------------------------------------------------------------------------------------

    def append(self, book: PartitionBook, events: list[SimEvent]) -> None:
        book.events += events
        book.last_at_ms = events[-1].at_ms
        self._ledger.put(self._counts, book.key, len(book.events))
        book.awaiting.append((self._ledger.position, len(book.events)))

    def last_transfer(self, book: PartitionBook, producer_id: int) -> tuple[int, bytes]:
        """The last number of an idempotent producer and the transfer that had it; 0 and nothing before the first."""
        return cast("tuple[int, bytes]", self._producers.get((*book.key, producer_id), (0, b"")))

    def put_last_transfer(self, book: PartitionBook, producer_id: int, number: int, payload: bytes) -> None:
        self._ledger.put(self._producers, (*book.key, producer_id), (number, payload))

    def commit(self, now_ms: int) -> None:
        """The ledger knows how far everything is on disk."""
        position = self._ledger.committed_position
        for hub in self._every.values():
            for book in hub.partitions:
                while book.awaiting and book.awaiting[0][0] <= position:
                    book.committed_count = book.awaiting.popleft()[1]
                    book.committed_ms = now_ms

    def crash(self) -> None:
        """The ledger has undone what was not on disk."""
        for number, description in self._descriptions.items():
            self._every[cast("int", number)].description = cast("EventHubDescription", description)
        for hub in self._every.values():
            for book in hub.partitions:
                count = cast("int", self._counts.get(book.key, 0))
                lost = [event for event in book.events[count:] if event.is_acknowledged]
                if lost:
                    raise Violation("no acknowledged event is lost", f"a crash undid {lost[:5]} of {book}")
                del book.events[count:]
                book.awaiting.clear()
                book.committed_count = count
                book.last_at_ms = book.events[-1].at_ms if book.events else 0

    def start(self, now_ms: int) -> None:
        """The broker starts."""
        for hub in self._every.values():
            hub.described_ms = now_ms
