"""When an operation that failed is tried again: policies, and the loop that follows one.

    RetryPolicy      waits longer after each attempt, each time a little more or less, up to a number of attempts
    NoRetry          never

Whatever the policy says, ServerBusy closes the gate of a sender or receiver for ten seconds: nothing is asked of that
entity through it before. Each has a gate of its own, so that the others go on.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tandem.client.errors import MessagingError, OperationTimeoutError, ServerBusyError, messaging_error
from tandem.client.wire.checks import require_seconds, require_whole_number
from tandem.client.wire.waiting import Waiting
from tandem.errors import TandemError, UsageError

__all__ = ["SERVER_BUSY_WAIT_S", "NoRetry", "Retrier", "RetryPolicy"]

# Seconds. What the service asks of its clients after ServerBusy.
SERVER_BUSY_WAIT_S: Final = 10.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential back-off. The first wait is about `min_backoff_s`, each further one twice as long."""

    max_attempts: int = 8
    min_backoff_s: float = 0.1
    max_backoff_s: float = 30.0
    # Clients that failed together must not come back together.
    random: Callable[[], float] = field(default=random.random, repr=False)

    def __post_init__(self) -> None:
        require_whole_number("max_attempts", self.max_attempts)
        require_seconds("min_backoff_s", self.min_backoff_s)
        require_seconds("max_backoff_s", self.max_backoff_s)
        if self.max_attempts < 1:
            raise UsageError(f"max_attempts is {self.max_attempts}; it must be at least 1")
        if not 0 <= self.min_backoff_s <= self.max_backoff_s:
            raise UsageError(
                f"min_backoff_s is {self.min_backoff_s} and max_backoff_s {self.max_backoff_s}; "
                "neither may be negative, and the first must not be the larger"
            )

    def delay_s(self, attempts_made: int, error: MessagingError) -> float | None:
        """How long to wait before the next attempt, or None to give up."""
        if not error.is_transient or attempts_made >= self.max_attempts:
            return None
        # The exponent is bounded: 2.0 ** 1024 is an error, and 2.0 ** 32 is long enough.
        longest_s = min(self.max_backoff_s, self.min_backoff_s * 2.0 ** min(attempts_made - 1, 32))
        return longest_s * (0.5 + self.random() / 2)


@dataclass(frozen=True)
class NoRetry(RetryPolicy):
    """Every error is raised at once."""

    max_attempts: int = 1


class Retrier:
    """Runs operations of one sender or receiver: attempt by attempt, within a time, behind its gate."""

    def __init__(self, policy: RetryPolicy, waiting: Waiting, operation_timeout_s: float) -> None:
        self._policy = policy
        self._waiting = waiting
        self._operation_timeout_s = operation_timeout_s
        self._busy_until_s = 0.0

    async def perform(
        self, attempt: Callable[[], Awaitable[Result]], what: str, timeout_s: float | None = None
    ) -> Result:
        """The result of the first attempt that succeeds; the last error if none does."""
        waiting = self._waiting
        timeout_s = self._operation_timeout_s if timeout_s is None else timeout_s
        deadline_s = waiting.now_s() + timeout_s
        attempts_made = 0
        while True:
            if self._busy_until_s:
                await self._wait_until_open(deadline_s, what)
            attempts_made += 1
            time = asyncio.timeout(deadline_s - waiting.now_s())
            try:
                async with time:
                    return await attempt()
            except (TandemError, OSError) as raised:
                # The system's own TimeoutError, of a connect that nobody answered, is a way not to be reached.
                if time.expired():
                    raise OperationTimeoutError(f"{what} took longer than {timeout_s:g} s") from None
                delay_s = self._judge(raised, attempts_made, deadline_s)
            await waiting.sleep(delay_s)

    def _judge(self, raised: TandemError | OSError, attempts_made: int, deadline_s: float) -> float:
        """How long to wait before the next attempt. If there is to be none, the error is raised."""
        error = messaging_error(raised)
        if not isinstance(error, MessagingError):
            raise raised
        now_s = self._waiting.now_s()
        if isinstance(error, ServerBusyError):
            self._busy_until_s = now_s + SERVER_BUSY_WAIT_S
        delay_s = self._policy.delay_s(attempts_made, error)
        if delay_s is not None and now_s + delay_s < deadline_s:
            return delay_s
        if error is raised:
            raise error
        raise error from raised

    async def _wait_until_open(self, deadline_s: float, what: str) -> None:
        now_s = self._waiting.now_s()
        if self._busy_until_s >= deadline_s:
            raise ServerBusyError(
                f"{what}: the service was busy, and wants to be left alone for {self._busy_until_s - now_s:.1f} s more"
            )
        if self._busy_until_s > now_s:
            await self._waiting.sleep(self._busy_until_s - now_s)
