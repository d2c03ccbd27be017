"""What a paired client does beside the calls of its program: in tasks with asyncio, and in threads without.

`aio` is written for `TaskBackground`; `blocking` is generated from it, for `ThreadBackground`. All that differs between
the two clients is here.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from tandem.client import blocking
from tandem.errors import StateError
from tandem.pairing.azure.pair import SdkReporter
from tandem.pairing.detour import Told

__all__ = ["TaskBackground", "ThreadBackground"]

# Seconds after which a task that was cancelled and goes on is cancelled again.
_CANCEL_INTERVAL_S: Final = 0.5

Result = TypeVar("Result")


class TaskBackground:
    """Tasks on the event loop of the program."""

    def __init__(self, primary_address: str) -> None:
        self.lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        task = asyncio.create_task(work(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)

    async def run(self, operation: Coroutine[Any, Any, Result]) -> Result:
        """Run an operation of `tandem.client`."""
        return await operation

    def report(self, reporter: SdkReporter, told: Told) -> None:
        reporter.tell_now(told)

    def pass_on(self, tell: Callable[[Told], None], told: Told) -> None:
        """Tell the program something from the event loop of `tandem.client`."""
        tell(told)

    async def close(self) -> None:
        """Cancel what runs, and wait until it has ended.

        The SDK can lose a cancellation: `asyncio.wait_for`, until Python 3.12, forgets one that comes in the moment in
        which its result does. A ping would then go on for as long as its entity is away.
        """
        while tasks := list(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CANCEL_INTERVAL_S)


class _StoppedError(StateError):
    """The client was closed while something slept."""


class ThreadBackground:
    """Threads of the process. `tandem.client` has one of its own."""

    def __init__(self, primary_address: str) -> None:
        self.lock = threading.Lock()
        self._primary_address = primary_address
        self._is_closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()

    def start(self, work: Callable[[], None], name: str) -> None:
        def end_when_closed() -> None:
            with contextlib.suppress(_StoppedError):
                work()

        thread = threading.Thread(target=end_when_closed, name=name, daemon=True)
        # `close` joins the threads that it finds: each has started by then, and none starts later.
        with self._starting:
            if not self._is_closed.is_set():
                thread.start()
                self._threads.append(thread)

    def sleep(self, delay_s: float) -> None:
        if self._is_closed.wait(delay_s):
            raise _StoppedError(f"the paired client for {self._primary_address} was closed; make a new one")

    def run(self, operation: Coroutine[Any, Any, Result]) -> Result:
        """Run an operation of `tandem.client` on its own thread."""
        return blocking.run(operation)

    def report(self, reporter: SdkReporter, told: Told) -> None:
        blocking.run(reporter.tell(told))

    def pass_on(self, tell: Callable[[Told], None], told: Told) -> None:
        # A listener is called from the threads of the program only, and may wait.
        threading.Thread(target=tell, args=(told,), name=told.event, daemon=True).start()

    def close(self) -> None:
        """Wake what sleeps, and wait until it has ended."""
        with self._starting:
            self._is_closed.set()
        for thread in self._threads:
            thread.join()
