"""An event loop in a thread of its own, for test doubles that blocking and asyncio tests use alike."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar

from tandem.driver.loop import new_event_loop
from tandem.errors import StateError, UsageError

__all__ = ["CALL_LIMIT_S", "LoopThread"]

Result = TypeVar("Result")

# Seconds. What is asked of a double takes milliseconds; the rest is for a machine that is busy.
CALL_LIMIT_S: Final = 60.0


class LoopThread:
    """Runs a service on its loop, from `start` to `close`, and lets other threads work there meanwhile."""

    def __init__(self, name: str, service: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Whatever `service` makes is entered before `start` returns, and left when the thread is closed."""
        self._name = name
        self._service = service
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def is_running(self) -> bool:
        return self._loop is not None and self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Return when the service is there."""
        if self._thread is not None:
            raise StateError(f"the {self._name} was started already")
        is_ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(is_ready,), name=f"tandem-{self._name}", daemon=True)
        self._thread.start()
        is_ready.result(CALL_LIMIT_S)

    def close(self) -> None:
        """Safe to call twice, and before the start."""
        if self.is_running:
            assert self._thread is not None
            assert self._loop is not None
            assert self._stopping is not None
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(CALL_LIMIT_S)

    def call(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run on the loop, and wait for what comes of it. What takes too long is cancelled: TimeoutError."""
        self.check_running()
        assert self._loop is not None
        if threading.current_thread() is self._thread:
            raise UsageError(f"the {self._name} cannot be used on its own event loop: that would wait for itself")
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result(CALL_LIMIT_S)
        except TimeoutError:
            future.cancel()
            raise

    def check_running(self) -> None:
        if not self.is_running:
            raise StateError(f"the {self._name} does not run: use it as a context manager, or start it")

    def _run(self, is_ready: Future[None]) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            try:
                runner.run(self._serve(is_ready))
            except BaseException as error:
                if is_ready.done():
                    raise
                is_ready.set_exception(error)

    async def _serve(self, is_ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        async with self._service():
            is_ready.set_result(None)
            await self._stopping.wait()
