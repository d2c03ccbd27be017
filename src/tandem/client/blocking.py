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

__all__ = ["call_soon", "mapped", "optional", "run"]

Result = TypeVar("Result")
Given = TypeVar("Given")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
# Loops of the parent, in a process that was forked. Their threads are not here, and their sockets and handles belong to
# the parent: nothing of them may be closed here, not even by the garbage collector.
_inherited: list[asyncio.AbstractEventLoop] = []


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


def call_soon(call: Callable[..., object], *arguments: object) -> None:
    """Call a function on the loop's thread, and do not wait for it."""
    _running_loop().call_soon_threadsafe(call, *arguments)


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603 - one loop for the process is what this module is
    with _lock:
        if _loop is None:
            _loop = new_event_loop()
            threading.Thread(target=_loop.run_forever, name="tandem.client.sync", daemon=True).start()
        return _loop


def _start_anew() -> None:
    """A thread does not survive a fork: the child makes its own. Another thread may have held the lock."""
    global _lock, _loop  # noqa: PLW0603 - as above
    _lock = threading.Lock()
    if _loop is not None:
        _inherited.append(_loop)
        _loop = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)


def optional(convert: Callable[[Given], Result], value: Given | None) -> Result | None:
    """What may be missing, converted if it is there."""
    return None if value is None else convert(value)


def mapped(convert: Callable[[Given], Result], values: Iterable[Given]) -> list[Result]:
    return [convert(value) for value in values]
