"""How many connections there may be, over all ports, and which of them make room when there are too many.

Each connection is a file descriptor. The limit of the process is raised as far as the system allows, and some of it is
kept for files. Connections that have not proved anything make room first, the oldest before the others.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from tandem.limits import MAX_CONNECTIONS, MAX_RESERVED_DESCRIPTORS, MIN_RESERVED_DESCRIPTORS
from tandem.store.descriptors import RESERVE

__all__ = ["Door", "Guest", "connections_for", "descriptor_limit", "raise_descriptor_limit"]

# Strangers that are sent away at once when a file cannot be opened.
_EVICTED_AT_ONCE: Final = 32

# Seconds. After that the descriptors in reserve are opened again, once there are some.
_REFILL_S: Final = 0.2


class Guest(Protocol):
    """A connection, whatever it speaks."""

    @property
    def is_stranger(self) -> bool:
        """It has not proved anything."""

    def abort(self) -> None:
        """Hang up at once."""


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as its connections could need, as far as the system allows."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit.
    wanted = MAX_CONNECTIONS + MAX_RESERVED_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def descriptor_limit() -> int | None:
    """Return how many descriptors this process may have; None if there is no limit."""
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def connections_for(descriptors: int | None) -> int:
    """Return how many connections there may be with so many descriptors."""
    if descriptors is None:
        return MAX_CONNECTIONS
    reserved = min(MAX_RESERVED_DESCRIPTORS, max(MIN_RESERVED_DESCRIPTORS, descriptors // 4))
    return min(MAX_CONNECTIONS, max(1, descriptors - reserved))


class Door:
    """All connections of a broker."""

    def __init__(self, max_connections: int | None = None) -> None:
        """Without a limit it follows from the descriptors of the process."""
        self._loop = asyncio.get_running_loop()
        self.max_connections = connections_for(descriptor_limit()) if max_connections is None else max_connections
        self._guests: set[Guest] = set()
        # When each was heard of first, in this order. Who has proved something since is found out in passing.
        self._strangers: dict[Guest, float] = {}
        self._refilling: asyncio.TimerHandle | None = None
        self.evicted_count = 0

    @property
    def count(self) -> int:
        return len(self._guests)

    @property
    def is_full(self) -> bool:
        return len(self._guests) >= self.max_connections

    def enter(self, guest: Guest) -> None:
        self._guests.add(guest)
        self._strangers[guest] = self._loop.time()

    def leave(self, guest: Guest) -> None:
        self._guests.discard(guest)
        self._strangers.pop(guest, None)

    def evict(self, min_age_s: float) -> bool:
        """Hang up on the oldest stranger, unless all of them are younger than this. Return whether there was one."""
        for guest, since in list(self._strangers.items()):
            if not guest.is_stranger:
                del self._strangers[guest]
            elif self._loop.time() - since < min_age_s:
                return False
            else:
                # At once, since its transport may take another turn of the loop to end.
                self.leave(guest)
                guest.abort()
                self.evicted_count += 1
                return True
        return False

    # --- out of descriptors ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Hold descriptors in reserve, until `close`."""
        RESERVE.join(self._on_exhausted)

    def close(self) -> None:
        RESERVE.leave(self._on_exhausted)
        if self._refilling is not None:
            self._refilling.cancel()

    def _on_exhausted(self) -> None:
        """Called in any thread."""
        self._loop.call_soon_threadsafe(self.make_room)

    def make_room(self) -> None:
        """Hang up on some strangers, however young, and restore the reserve when that is done."""
        for _ in range(_EVICTED_AT_ONCE):
            if not self.evict(0):
                break
        if self._refilling is None:
            self._refilling = self._loop.call_later(_REFILL_S, self._refill)

    def _refill(self) -> None:
        self._refilling = None
        RESERVE.refill()
        if not RESERVE.is_full:
            self._refilling = self._loop.call_later(_REFILL_S, self._refill)
