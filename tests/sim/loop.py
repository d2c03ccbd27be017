"""The event loop under the broker's runner: callbacks run when the simulation says so, at times that it chooses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from tandem.errors import StoreFailed

__all__ = ["SimClock", "SimFuture", "SimLoop", "SimTimer"]


class SimClock:
    """The time, as the simulation sets it. It may also be set back, as a machine's clock may between two starts."""

    def __init__(self, now_ms: int) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms


class SimTimer:
    """What `call_later` returns."""

    __slots__ = ("at_ms", "callback", "is_cancelled")

    def __init__(self, at_ms: int, callback: Callable[[], object]) -> None:
        self.at_ms = at_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class SimFuture:
    """The outcome of a commit, as far as the runner looks at it."""

    __slots__ = ("_callbacks", "_error")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[SimFuture], object]] = []
        self._error: BaseException | None = None

    def add_done_callback(self, callback: Callable[[SimFuture], object]) -> None:
        self._callbacks.append(callback)

    def exception(self) -> BaseException | None:
        return self._error

    def finish(self, error: BaseException | None) -> None:
        self._error = error
        for callback in self._callbacks:
            callback(self)


class SimLoop:
    """The part of an event loop that the runner uses. Work for its executor waits until the simulation does it."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._ready: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[int, int, SimTimer]] = []
        self._timer_count = 0
        # A commit that is under way: the function, and who waits for it.
        self.work: tuple[Callable[[], object], SimFuture] | None = None

    # --- what the runner calls ------------------------------------------------------------------------------

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._ready.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> SimTimer:
        timer = SimTimer(self._clock.time_ms + round(delay_s * 1000), callback)
        self._timer_count += 1
        heappush(self._timers, (timer.at_ms, self._timer_count, timer))
        return timer

    def run_in_executor(self, _executor: object, function: Callable[[], object]) -> SimFuture:
        assert self.work is None, "two commits at once"
        future = SimFuture()
        self.work = (function, future)
        return future

    def create_future(self) -> Any:  # Any: the simulation awaits nothing, so no future of this kind is needed
        raise AssertionError("the simulation does not await")

    # --- what the simulation calls --------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        return not self._ready and self.work is None

    def run_ready(self) -> None:
        """One turn of the loop: what was ready when it began."""
        for _ in range(len(self._ready)):
            self._ready.popleft()()

    def run_due_timers(self) -> bool:
        has_run = False
        timers = self._timers
        while timers and timers[0][0] <= self._clock.time_ms:
            timer = heappop(timers)[2]
            if not timer.is_cancelled:
                has_run = True
                timer.callback()
        return has_run

    def next_timer_ms(self) -> int | None:
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
        return timers[0][0] if timers else None

    def finish_work(self) -> None:
        """The commit that is under way takes place, and its waiter is told."""
        assert self.work is not None
        function, future = self.work
        self.work = None
        error: StoreFailed | None = None
        try:
            function()
        except StoreFailed as failure:
            error = failure
        future.finish(error)
