"""File descriptors kept in reserve, so that being out of them is a matter of connections and never of the store.

Connections are limited to fewer than the process may have descriptors (`tandem.server.door`). Whatever takes the rest
all the same, a file that has to be opened gets one: descriptors in reserve are closed, whoever holds connections is
asked to close some, and the file is opened again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["RESERVE", "DescriptorReserve", "is_out_of_descriptors", "with_descriptors"]

Result = TypeVar("Result")

# Descriptors. A new file of the journal needs two at once, a segment that is read two, a new sealer six.
_RESERVED: Final = 16

# Seconds between two attempts of a thread to open a file while there is no descriptor at all.
_RETRY_S: Final = 0.05


def is_out_of_descriptors(error: BaseException) -> bool:
    """The process, or the whole system, has no descriptor left."""
    return isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}


class DescriptorReserve:
    """Open files that nobody uses. Any thread may call any method."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spare: list[int] = []
        # Called in any thread when descriptors ran out.
        self._on_exhausted: list[Callable[[], None]] = []

    @property
    def is_full(self) -> bool:
        return len(self._spare) >= _RESERVED or not self._on_exhausted

    def join(self, on_exhausted: Callable[[], None]) -> None:
        """Hold a reserve for a broker, which closes some connections when it is called."""
        self._on_exhausted.append(on_exhausted)
        self.refill()

    def leave(self, on_exhausted: Callable[[], None]) -> None:
        self._on_exhausted.remove(on_exhausted)
        if not self._on_exhausted:
            self.release()

    def refill(self) -> None:
        """Open as many as there should be, as far as there are any."""
        with self._lock:
            try:
                while not self.is_full:
                    self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                if not is_out_of_descriptors(error):
                    raise

    def release(self) -> bool:
        """Close all of them. False if there were none."""
        with self._lock:
            spare, self._spare = self._spare, []
        for descriptor in spare:
            os.close(descriptor)
        return bool(spare)

    def ask_for_room(self) -> None:
        for on_exhausted in list(self._on_exhausted):
            on_exhausted()


# Descriptors belong to the process.
RESERVE: Final = DescriptorReserve()


def with_descriptors(step: Callable[[], Result], reserve: DescriptorReserve = RESERVE) -> Result:
    """Take a step that opens files, again and again if need be, until there are descriptors for it.

    On an event loop there is no waiting: if the reserve is spent too, the error is raised.
    """
    while True:
        try:
            return step()
        except OSError as error:
            if not is_out_of_descriptors(error):
                raise
            is_relieved = reserve.release()
            reserve.ask_for_room()
            if not is_relieved:
                if _is_on_event_loop():
                    raise
                time.sleep(_RETRY_S)


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
