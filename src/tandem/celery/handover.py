"""From the thread of the client library to that of the program: deliveries, and errors that end the connection.

The program waits on a file descriptor: in Celery's own event loop, which watches many, or in a call that drains events.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import deque
from typing import Generic, TypeVar

__all__ = ["Handover"]

Item = TypeVar("Item")


class Handover(Generic[Item]):
    """A queue of items whose descriptor is readable while there are any."""

    def __init__(self) -> None:
        self._items: deque[Item | BaseException] = deque()
        self._lock = threading.Lock()
        self._is_closed = False
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)

    def fileno(self) -> int:
        return self._reading.fileno()

    def put(self, item: Item | BaseException) -> None:
        """Add an item from any thread. An error is raised by everybody who takes from then on: it ends the connection,
        and Celery swallows one that is raised while its worker starts."""
        with self._lock:
            if self._is_closed:
                return
            # One byte for all items that wait.
            if not self._items:
                self._writing.send(b"\0")
            self._items.append(item)

    def take(self) -> Item | None:
        """Return the next item, None if there is none; raise it if it is an error, which stays."""
        with self._lock:
            if not self._items:
                return None
            item = self._items[0]
            if isinstance(item, BaseException):
                raise item.with_traceback(None)
            self._items.popleft()
            if not self._items and not self._is_closed:
                self._reading.recv(1)
        return item

    def wait(self, timeout_s: float | None) -> Item | None:
        """Wait for the next item; None if none came in this time."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            item = self.take()
            if item is not None or self._is_closed:
                return item
            left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            if not select.select([self._reading], [], [], left_s)[0] and left_s is not None:
                return None

    def close(self) -> list[Item]:
        """Return what nobody has taken."""
        with self._lock:
            self._is_closed = True
            left = [item for item in self._items if not isinstance(item, BaseException)]
            self._items.clear()
            self._reading.close()
            self._writing.close()
        return left
