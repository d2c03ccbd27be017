"""Who holds which message, and until when.

Locks end in the order in which they were taken or renewed, because all locks of a queue last equally long, unless that
was changed meanwhile. So the order of expiry is a queue too: the first that is still held is the next to expire. Locks
that were settled meanwhile are passed over, and thrown out when they outnumber the held ones, so that each costs
constant time.
"""

from __future__ import annotations

import struct
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from tandem.engine.message import NEVER_MS, SEQUENCE_MASK, BrokeredMessage

if TYPE_CHECKING:
    from tandem.engine.consumer import Consumer
    from tandem.engine.outlet import Outlet

__all__ = ["Lock", "LockTable", "by_consumer", "sequence_number_of_token", "tag_of_token"]

# A lock token is a GUID: 64 random bits, so that nobody guesses it, and the sequence number, so that it is found
# without an index of its own. On the wire it appears in two orders of bytes: as an AMQP uuid (RFC 4122), and as a
# delivery tag in .NET's order, with the first three groups reversed.
_pack_number: Final = struct.Struct(">Q").pack
_read_groups: Final = struct.Struct(">IHH").unpack
_pack_reversed: Final = struct.Struct("<IHH").pack

# Settled locks that may lie in the order of expiry before it is cleaned, beside as many as are held.
_TOLERATED_SETTLED: Final = 1_024


def sequence_number_of_token(token: bytes) -> int:
    return int.from_bytes(token[8:16], "big") & SEQUENCE_MASK


def tag_of_token(token: bytes) -> bytes:
    """The delivery tag for a token, and the token for a tag."""
    return token[3::-1] + token[5:3:-1] + token[7:5:-1] + token[8:]


class Lock:
    """One message, locked for one consumer."""

    __slots__ = (
        "consumer",
        "is_enlisted",
        "is_held",
        "locked_until_ms",
        "message",
        "outlet",
        "payload",
        "tag",
        "token",
    )

    def __init__(
        self, outlet: Outlet, message: BrokeredMessage, consumer: Consumer | None, locked_until_ms: int, nonce: bytes
    ) -> None:
        self.outlet = outlet
        self.message = message
        self.consumer = consumer
        self.locked_until_ms = locked_until_ms
        self.is_held = True
        # A settlement is part of a transaction that is open: the lock lasts as long as that.
        self.is_enlisted = False
        number: bytes = _pack_number(message.sequence_number)
        reversed_groups: bytes = _pack_reversed(*_read_groups(nonce))
        self.token = nonce + number
        self.tag = reversed_groups + number
        # The bytes to deliver, until they are delivered.
        self.payload = b""


def by_consumer(locks: list[Lock]) -> list[tuple[Consumer, list[Lock]]]:
    """Who gets which of them, in the order in which they were taken."""
    groups: list[tuple[Consumer, list[Lock]]] = []
    last: Consumer | None = None
    group: list[Lock] = []
    for lock in locks:
        consumer = lock.consumer
        if consumer is not last:
            assert consumer is not None
            last = consumer
            group = []
            groups.append((consumer, group))
        group.append(lock)
    return groups


class LockTable:
    """The locks of one outlet, by sequence number."""

    __slots__ = ("_count", "_early", "_order", "held")

    def __init__(self) -> None:
        self.held: dict[int, Lock] = {}
        self._order: deque[tuple[int, Lock]] = deque()
        # Locks that end before others that were taken earlier, as after the queue's lock duration was shortened: a
        # heap, with a count that keeps locks from being compared.
        self._early: list[tuple[int, int, Lock]] = []
        self._count = 0

    def add(self, lock: Lock) -> None:
        self.held[lock.message.sequence_number] = lock
        self._append(lock)

    def renew(self, lock: Lock, locked_until_ms: int) -> None:
        # In the same millisecond nothing changes, and one lock must not expire twice.
        if lock.locked_until_ms != locked_until_ms:
            lock.locked_until_ms = locked_until_ms
            self._append(lock)

    def _append(self, lock: Lock) -> None:
        order = self._order
        until_ms = lock.locked_until_ms
        if order and order[-1][0] > until_ms:
            self._count += 1
            heappush(self._early, (until_ms, self._count, lock))
            return
        if len(order) > 2 * len(self.held) + _TOLERATED_SETTLED:
            self._order = order = deque([entry for entry in order if _is_current(entry[0], entry[1])])
        order.append((until_ms, lock))

    def drop(self, lock: Lock) -> None:
        lock.is_held = False
        del self.held[lock.message.sequence_number]

    def clear(self) -> None:
        """The messages are gone, and so are their locks."""
        for lock in self.held.values():
            lock.is_held = False
        self.held.clear()
        self._order.clear()
        self._early.clear()

    def find(self, token: bytes) -> Lock | None:
        lock = self.held.get(sequence_number_of_token(token))
        return lock if lock is not None and lock.token == token else None

    def take_expired(self, now_ms: int) -> list[Lock]:
        """The locks whose time is over. Those of open transactions wait for the end of that."""
        expired: list[Lock] = []
        order = self._order
        while order:
            until_ms, lock = order[0]
            if _is_current(until_ms, lock):
                if until_ms > now_ms:
                    break
                if not lock.is_enlisted:
                    expired.append(lock)
            order.popleft()
        early = self._early
        while early and early[0][0] <= now_ms:
            until_ms, _, lock = heappop(early)
            if _is_current(until_ms, lock) and not lock.is_enlisted:
                expired.append(lock)
        return expired

    def next_expiry_ms(self) -> int:
        next_ms = self._early[0][0] if self._early else NEVER_MS
        order = self._order
        while order:
            if _is_current(order[0][0], order[0][1]):
                return min(next_ms, order[0][0])
            order.popleft()
        return next_ms


def _is_current(until_ms: int, lock: Lock) -> bool:
    """Held still, and not renewed since."""
    return lock.is_held and lock.locked_until_ms == until_ms
