"""Who holds which message, and until when.

Locks end in the order in which they were taken or renewed, because all locks of a queue last equally long, unless that
was changed meanwhile. So the order of expiry is a line: the first is the next to expire. Each lock knows who is before
and behind it, so that one in the middle of the line leaves it in constant time when it is settled.
"""

from __future__ import annotations

import struct
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from tandem.engine.message import NEVER_MS, SEQUENCE_MASK, BrokeredMessage

if TYPE_CHECKING:
    from tandem.engine.consumer import Consumer, Gate
    from tandem.engine.outlet import Outlet

__all__ = ["Lock", "LockTable", "by_consumer", "find_lock", "sequence_number_of_token", "tag_of_token"]

# A lock token is a GUID: 64 random bits, so that nobody guesses it, and the sequence number, so that it is found
# without an index of its own. On the wire it appears in two orders of bytes: as an AMQP uuid (RFC 4122), and as a
# delivery tag in .NET's order, with the first three groups reversed.
_pack_number: Final = struct.Struct(">Q").pack


def sequence_number_of_token(token: bytes) -> int:
    return int.from_bytes(token[8:16], "big") & SEQUENCE_MASK


def find_lock(held: dict[int, Lock], token: bytes) -> Lock | None:
    """Return the lock with this token among those that are held, by sequence number."""
    lock = held.get(sequence_number_of_token(token))
    return lock if lock is not None and lock.token == token else None


def tag_of_token(token: bytes) -> bytes:
    """The delivery tag for a token, and the token for a tag."""
    return token[3::-1] + token[5:3:-1] + token[7:5:-1] + token[8:]


class Lock:
    """One message, locked for one consumer."""

    __slots__ = (
        "bare",
        "consumer",
        "earlier",
        "gate",
        "is_enlisted",
        "is_held",
        "later",
        "locked_until_ms",
        "message",
        "outlet",
        "prefix",
        "tag",
        "token",
    )

    def __init__(
        self,
        outlet: Outlet,
        message: BrokeredMessage,
        consumer: Consumer | None,
        gate: Gate | None,
        locked_until_ms: int,
        nonces: tuple[bytes, bytes],
    ) -> None:
        self.outlet = outlet
        self.message = message
        # None if a request has locked the message, rather than a receiver.
        self.consumer = consumer
        # That of the connection which the lock counts to; None where nobody counts.
        self.gate = gate
        self.locked_until_ms = locked_until_ms
        self.is_held = True
        # A settlement is part of a transaction that is open: the lock lasts as long as that.
        self.is_enlisted = False
        # Its neighbours in the order of expiry.
        self.earlier: Lock | None = None
        self.later: Lock | None = None
        number: bytes = _pack_number(message.sequence_number)
        self.token = nonces[0] + number
        self.tag = nonces[1] + number
        # The bytes to deliver, until they are: what the broker says before the message, and the message itself. They
        # are put together on the wire only, since each copy of a message costs as much as all else about its lock.
        self.prefix = b""
        self.bare = b""

    def count(self) -> None:
        """Count the lock to the connection that it was taken for."""
        if self.gate is not None:
            self.gate.locked_count += 1

    def uncount(self) -> None:
        """The lock is over."""
        if self.gate is not None:
            self.gate.locked_count -= 1

    @property
    def payload(self) -> bytes:
        """The bytes to deliver, as one."""
        return self.prefix + self.bare

    def take_parts(self) -> tuple[bytes, bytes]:
        """The bytes to deliver. The lock keeps them no longer: it may last for minutes."""
        prefix, self.prefix = self.prefix, b""
        bare, self.bare = self.bare, b""
        return prefix, bare


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

    __slots__ = ("_count", "_early", "_first", "_last", "_of_all_sessions", "held", "highest")

    def __init__(self, of_all_sessions: dict[int, Lock] | None = None) -> None:
        """`of_all_sessions` has the locks of all sessions of a line, so that one is found without knowing whose."""
        self.held: dict[int, Lock] = {}
        self._of_all_sessions = of_all_sessions
        # No lock was ever on a message with a higher sequence number: of those nobody has to look for one.
        self.highest = 0
        # The ends of the line in which they expire.
        self._first: Lock | None = None
        self._last: Lock | None = None
        # Locks that end before others that were taken earlier, as after the queue's lock duration was shortened: a
        # heap, with a count that keeps locks from being compared. Those that were settled or renewed are passed over.
        self._early: list[tuple[int, int, Lock]] = []
        self._count = 0

    def add(self, lock: Lock) -> None:
        number = lock.message.sequence_number
        self.held[number] = lock
        if self._of_all_sessions is not None:
            self._of_all_sessions[number] = lock
        lock.count()
        self.highest = max(self.highest, number)
        self._append(lock)

    def renew(self, lock: Lock, locked_until_ms: int) -> None:
        # In the same millisecond nothing changes, and one lock must not expire twice.
        if lock.locked_until_ms != locked_until_ms:
            self._unlink(lock)
            lock.locked_until_ms = locked_until_ms
            self._append(lock)

    def _append(self, lock: Lock) -> None:
        last = self._last
        if last is None:
            self._first = lock
        elif last.locked_until_ms > lock.locked_until_ms:
            self._count += 1
            heappush(self._early, (lock.locked_until_ms, self._count, lock))
            return
        else:
            last.later = lock
            lock.earlier = last
        self._last = lock

    def _unlink(self, lock: Lock) -> None:
        """Out of the line, if it is in it."""
        earlier = lock.earlier
        later = lock.later
        if earlier is not None:
            earlier.later = later
            lock.earlier = None
        elif self._first is lock:
            self._first = later
        if later is not None:
            later.earlier = earlier
            lock.later = None
        elif self._last is lock:
            self._last = earlier

    def drop(self, lock: Lock) -> None:
        lock.is_held = False
        del self.held[lock.message.sequence_number]
        if self._of_all_sessions is not None:
            self._of_all_sessions.pop(lock.message.sequence_number, None)
        self._unlink(lock)
        lock.uncount()

    def clear(self) -> None:
        """The messages are gone, and so are their locks."""
        for number, lock in self.held.items():
            lock.uncount()
            lock.is_held = False
            lock.earlier = None
            lock.later = None
            if self._of_all_sessions is not None:
                self._of_all_sessions.pop(number, None)
        self.held.clear()
        self._first = None
        self._last = None
        self._early.clear()

    def find(self, token: bytes) -> Lock | None:
        return find_lock(self.held, token)

    def take_expired(self, now_ms: int) -> list[Lock]:
        """The locks whose time is over. Those of open transactions wait for the end of that."""
        expired: list[Lock] = []
        first = self._first
        while first is not None and first.locked_until_ms <= now_ms:
            self._unlink(first)
            if not first.is_enlisted:
                expired.append(first)
            first = self._first
        early = self._early
        while early and early[0][0] <= now_ms:
            until_ms, _, lock = heappop(early)
            if lock.is_held and lock.locked_until_ms == until_ms and not lock.is_enlisted:
                expired.append(lock)
        return expired

    def next_expiry_ms(self) -> int:
        first = self._first
        next_ms = NEVER_MS if first is None else first.locked_until_ms
        return min(next_ms, self._early[0][0]) if self._early else next_ms
