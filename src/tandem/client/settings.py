"""What can be chosen about a `MessagingFactory`, with what most programs want as the default."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import timedelta

from tandem.client.wire.checks import require_seconds, require_timedelta, require_whole_number
from tandem.client.wire.retry import RetryPolicy
from tandem.client.wire.waiting import Waiting
from tandem.errors import UsageError
from tandem.limits import MAX_PREFETCH_COUNT

__all__ = ["MessagingFactorySettings", "seconds"]


@dataclass(frozen=True)
class MessagingFactorySettings:
    """Of one factory, and of all that is made by it.

    `operation_timeout` bounds each call with all its attempts. `prefetch_count` lets that many messages come to a
    receiver before they are asked for. `ssl_context` replaces the default one, which trusts what the system trusts.
    `user_agent` is what the service is told about the program.
    """

    operation_timeout: timedelta = timedelta(seconds=60)
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    prefetch_count: int = 0
    ssl_context: ssl.SSLContext | None = None
    user_agent: str = "tandem-client"
    waiting: Waiting = field(default_factory=Waiting)

    def __post_init__(self) -> None:
        require_timedelta("operation_timeout", self.operation_timeout)
        if self.operation_timeout <= timedelta(0):
            raise UsageError(f"operation_timeout is {self.operation_timeout}; it must be longer than 0")
        require_whole_number("prefetch_count", self.prefetch_count)
        if not 0 <= self.prefetch_count <= MAX_PREFETCH_COUNT:
            raise UsageError(f"prefetch_count is {self.prefetch_count}; it must be from 0 to {MAX_PREFETCH_COUNT:,}")


def seconds(timeout: timedelta | float | None, default_s: float) -> float:
    """A time as callers may give it: a timedelta, seconds, or None for the default."""
    if timeout is None:
        return default_s
    if isinstance(timeout, timedelta):
        timeout_s = timeout.total_seconds()
    else:
        require_seconds("timeout", timeout)
        timeout_s = float(timeout)
    if timeout_s < 0:
        raise UsageError(f"timeout is {timeout!r}; it must not be negative")
    return timeout_s
