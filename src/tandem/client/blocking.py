"""The event loop behind `tandem.client.sync`: one thread for the whole process, in which every operation runs.

A thread that calls an operation hands it over and waits. So a connection, with its heartbeats, its renewals of tokens
and its prefetching, goes on while the program does something else, which it could not if the program's own thread had
to drive it. The thread is a daemon: it does not keep the program alive.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from tandem.driver.loop import new_event_loop
from tandem.errors import UsageError

__all__ = ["mapped", "optional", "run"]

Result = TypeVar("Result")
Given = TypeVar("Given")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_process_id = 0


def run(operation: Coroutine[Any, Any, Result]) -> Result:
    """Run an operation on the loop's thread, and wait for its result."""
    loop = _running_loop()
    if asyncio._get_running_loop() is loop:
        operation.close()
        raise UsageError(
            "a blocking call on the thread of the event loop would wait for itself; use tandem.client there"
        )
    future = asyncio.run_coroutine_threadsafe(operation, loop)
    try:
        return future.result()
    except BaseException:
        # Ctrl-C interrupts the wait only: what nobody waits for any more must stop too.
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _process_id  # noqa: PLW0603 - one loop for the process is what this module is
    with _lock:
        # A thread does not survive a fork: the child makes its own.
        if _loop is None or _process_id != os.getpid():
            _loop = new_event_loop()
            _process_id = os.getpid()
            threading.Thread(target=_loop.run_forever, name="tandem.client.sync", daemon=True).start()
        return _loop


def optional(convert: Callable[[Given], Result], value: Given | None) -> Result | None:
    """What may be missing, converted if it is there."""
    return None if value is None else convert(value)


def mapped(convert: Callable[[Given], Result], values: Iterable[Given]) -> list[Result]:
    return [convert(value) for value in values]
