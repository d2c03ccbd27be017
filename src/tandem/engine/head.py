"""The front of a queue, or of one session, in memory: a bounded part of what is on disk.

    returned   |  ready              | on disk only
    3  5       |  8 9 10 11 12       | 13 14 15 ... tail
                              cursor ^

Everything available up to the cursor is in memory, everything beyond it is not. Messages that come back lie before
the cursor and are taken first, being older. While nothing lies beyond the cursor, new messages are taken into memory as
they come and are never read back from disk; once the head is full, or nobody receives, they stay on disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from heapq import heappop, heappush
from typing import Final

from tandem.engine.message import BrokeredMessage
from tandem.limits import MAX_HEAD_BYTES, MAX_HEAD_MESSAGES, MAX_HEADS_BYTES, MIN_HEAD_BYTES

__all__ = ["Head", "HeadMemory"]


# Heads that can be as large as they may before others have to be smaller.
_HEADS_AT_FULL_SIZE: Final = 8


class HeadMemory:
    """Bytes of messages in the heads of all entities of a namespace."""

    __slots__ = ("held_bytes",)

    def __init__(self) -> None:
        self.held_bytes = 0

    @property
    def limit_bytes(self) -> int:
        """How much one head may hold now: less, the more all of them hold."""
        share_bytes = (MAX_HEADS_BYTES - self.held_bytes) // _HEADS_AT_FULL_SIZE
        return max(MIN_HEAD_BYTES, min(MAX_HEAD_BYTES, share_bytes))

    @property
    def is_full(self) -> bool:
        return self.held_bytes >= MAX_HEADS_BYTES


class Head:
    """The next messages of one line, in the order of their sequence numbers."""

    __slots__ = (
        "_dropped",
        "_is_behind",
        "_ready",
        "_ready_bytes",
        "_returned",
        "cursor",
        "floor",
        "generation",
        "is_complete",
        "is_loading",
        "memory",
    )

    def __init__(self, is_complete: bool, memory: HeadMemory) -> None:
        self.memory = memory
        self._ready: deque[BrokeredMessage] = deque()
        self._ready_bytes = 0
        self._returned: list[tuple[int, BrokeredMessage]] = []
        # Sequence numbers of messages in memory that are gone: expired, deleted or taken by somebody else; and what has
        # come back since in their places.
        self._dropped: dict[int, BrokeredMessage | None] = {}
        self.cursor = 0
        # No active message has a number up to this. Deferred and scheduled ones may, any number of them: they are read
        # past once, and not again whenever a consumer comes.
        self.floor = 0
        # Nothing available lies beyond the cursor.
        self.is_complete = is_complete
        # Something became available beyond the cursor since the query that is under way was asked.
        self._is_behind = False
        # A query is under way; its answer counts only if the generation is still the same.
        self.is_loading = False
        self.generation = 0

    def clear(self) -> None:
        """Forget everything: it is on disk."""
        self._ready.clear()
        self.memory.held_bytes -= self._ready_bytes
        self._ready_bytes = 0
        self._returned.clear()
        self._dropped.clear()
        self.cursor = self.floor
        self.is_complete = False
        self.is_loading = False
        self.generation += 1

    def add(self, message: BrokeredMessage) -> None:
        """A new message, younger than all others, has become available."""
        if not self.is_complete or message.stored is None or self.is_full:
            self._leave_on_disk()
            return
        self._ready.append(message)
        self._ready_bytes += message.size_bytes
        self.memory.held_bytes += message.size_bytes
        self.cursor = message.sequence_number

    def add_out_of_order(self, message: BrokeredMessage) -> None:
        """A message has become available, anew or again, that may be older than others. Beyond the cursor, it is
        found on disk."""
        if message.sequence_number <= self.floor:
            self.floor = message.sequence_number - 1
        if message.sequence_number > self.cursor:
            self._leave_on_disk()
        elif message.sequence_number in self._dropped:
            self._dropped[message.sequence_number] = message
        elif len(self._returned) >= MAX_HEAD_MESSAGES:
            # Dead letters come in any order and in any number: begin again with what is on disk.
            self.clear()
        else:
            heappush(self._returned, (message.sequence_number, message))

    def _leave_on_disk(self) -> None:
        self.is_complete = False
        self._is_behind = True

    def begin_loading(self) -> int:
        """A query for what lies beyond the cursor is asked. The number says later whether its answer still counts."""
        self.is_loading = True
        self._is_behind = False
        return self.generation

    def drop(self, sequence_number: int) -> None:
        """A message that was available is gone."""
        if sequence_number <= self.cursor:
            self._dropped[sequence_number] = None

    def fill(self, messages: list[BrokeredMessage], taken: Container[int] | None, is_all: bool) -> None:
        """What lies beyond the cursor was read from disk. Those in `taken`, if any are, are not available."""
        if messages and self.cursor == self.floor:
            self.floor = messages[0].sequence_number - 1
        for message in messages:
            self.cursor = message.sequence_number
            if taken is None or message.sequence_number not in taken:
                self._ready.append(message)
                self._ready_bytes += message.size_bytes
                self.memory.held_bytes += message.size_bytes
        self.is_complete = is_all and not self._is_behind
        self.is_loading = False

    @property
    def is_full(self) -> bool:
        return len(self._ready) >= MAX_HEAD_MESSAGES or self._ready_bytes >= self.memory.limit_bytes

    @property
    def limit_bytes(self) -> int:
        """How much is read at once."""
        return self.memory.limit_bytes

    @property
    def room(self) -> int:
        return MAX_HEAD_MESSAGES - len(self._ready)

    def is_short_of(self, wanted: int) -> bool:
        """Time to read more, if so many messages are to be at hand."""
        if self.is_complete:
            return False
        if len(self._ready) >= min(wanted, MAX_HEAD_MESSAGES // 2):
            return False
        return self._ready_bytes < self.memory.limit_bytes // 2

    def first(self) -> BrokeredMessage | None:
        """The oldest message in memory; it stays there."""
        while True:
            returned = self._returned
            ready = self._ready
            if returned and not (ready and ready[0].sequence_number < returned[0][0]):
                message = returned[0][1]
            elif ready:
                message = ready[0]
            else:
                return None
            if not self._dropped or message.sequence_number not in self._dropped:
                return message
            replacement = self._dropped.pop(message.sequence_number)
            self.take(message)
            if replacement is not None:
                self.add_out_of_order(replacement)

    def take(self, message: BrokeredMessage) -> None:
        """Remove what `first` returned."""
        ready = self._ready
        if ready and ready[0] is message:
            ready.popleft()
            self._ready_bytes -= message.size_bytes
            self.memory.held_bytes -= message.size_bytes
        else:
            heappop(self._returned)

    def without_bytes(self, limit: int) -> list[BrokeredMessage]:
        """The messages that came back and whose bytes have to be read again, oldest first."""
        missing = [entry[1] for entry in sorted(self._returned, key=_sequence_number) if entry[1].stored is None]
        return missing[:limit]


def _sequence_number(entry: tuple[int, BrokeredMessage]) -> int:
    return entry[0]
