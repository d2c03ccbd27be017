"""When an operation is tried again, and for how long a busy service is left alone."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta

import pytest

from tandem.client import (
    BrokeredMessage,
    MessagingCommunicationError,
    MessagingEntityNotFoundError,
    MessagingFactory,
    MessagingFactorySettings,
    NoRetry,
    OperationTimeoutError,
    RetryPolicy,
    ServerBusyError,
)
from tandem.client.wire.retry import SERVER_BUSY_WAIT_S, Retrier
from tandem.errors import ServerBusy, UsageError
from tandem.testing import Bus
from tests.client.network import StillTime
from tests.markers import mission

LOST = MessagingCommunicationError("lost")


class Flaky:
    """An operation that raises some errors before it succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = iter(errors)
        self.attempts_made = 0

    async def __call__(self) -> str:
        self.attempts_made += 1
        for error in self._errors:
            raise error
        return "done"


def retrier(time: StillTime, policy: RetryPolicy | None = None, timeout_s: float = 60) -> Retrier:
    return Retrier(policy or RetryPolicy(random=lambda: 1.0), time, timeout_s)


def test_each_wait_is_twice_as_long_up_to_the_longest() -> None:
    policy = RetryPolicy(max_attempts=20, min_backoff_s=0.5, max_backoff_s=5, random=lambda: 1.0)
    assert [policy.delay_s(attempt, LOST) for attempt in range(1, 7)] == [0.5, 1, 2, 4, 5, 5]
    assert policy.delay_s(20, LOST) is None


def test_a_wait_is_spread_so_that_clients_do_not_come_back_together() -> None:
    policy = RetryPolicy(min_backoff_s=1, random=lambda: 0.0)
    assert policy.delay_s(1, LOST) == 0.5


def test_an_error_that_does_not_pass_is_not_tried_again() -> None:
    assert RetryPolicy().delay_s(1, MessagingEntityNotFoundError("no")) is None
    assert NoRetry().delay_s(1, LOST) is None


@pytest.mark.parametrize(
    "fields", [{"max_attempts": 0}, {"min_backoff_s": -1.0}, {"min_backoff_s": 2.0, "max_backoff_s": 1.0}]
)
def test_a_policy_that_cannot_be_is_refused(fields: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(fields))):
        RetryPolicy(**fields)  # type: ignore[arg-type] # integers and floats by name


@mission("M15")
async def test_a_transient_error_is_bridged() -> None:
    time = StillTime()
    operation = Flaky(LOST, LOST)
    assert await retrier(time).perform(operation, "it") == "done"
    assert operation.attempts_made == 3
    assert time.slept_s == [0.1, 0.2]


async def test_the_last_error_is_raised_when_the_attempts_are_used_up() -> None:
    operation = Flaky(*itertools.repeat(LOST, 99))
    with pytest.raises(MessagingCommunicationError):
        await retrier(StillTime(), RetryPolicy(max_attempts=3)).perform(operation, "it")
    assert operation.attempts_made == 3


async def test_no_attempt_is_made_after_the_time_of_the_operation() -> None:
    time = StillTime()
    operation = Flaky(*itertools.repeat(LOST, 99))
    policy = RetryPolicy(max_attempts=99, min_backoff_s=1, max_backoff_s=1, random=lambda: 1.0)
    with pytest.raises(MessagingCommunicationError):
        await retrier(time, policy, timeout_s=5).perform(operation, "it")
    assert operation.attempts_made == 5


async def test_a_system_time_out_of_a_connect_is_no_time_out_of_the_operation() -> None:
    with pytest.raises(MessagingCommunicationError, match="cannot be reached"):
        await retrier(StillTime(), NoRetry()).perform(Flaky(TimeoutError(110, "Connection timed out")), "it")


@mission("M13")
async def test_a_busy_service_is_left_alone_for_ten_seconds_by_that_sender_only() -> None:
    time = StillTime()
    busy, other = retrier(time), retrier(time)
    operation = Flaky(ServerBusyError("busy"))
    assert await busy.perform(operation, "it") == "done"
    assert sum(time.slept_s) == pytest.approx(SERVER_BUSY_WAIT_S)
    slept = len(time.slept_s)
    assert await other.perform(Flaky(), "it") == "done"
    assert len(time.slept_s) == slept


@mission("M13")
async def test_a_send_that_follows_waits_too_even_if_nothing_is_tried_again() -> None:
    time = StillTime()
    one = retrier(time, NoRetry())
    with pytest.raises(ServerBusyError):
        await one.perform(Flaky(ServerBusyError("busy")), "it")
    assert time.slept_s == []
    assert await one.perform(Flaky(), "it") == "done"
    assert time.slept_s == [SERVER_BUSY_WAIT_S]


@mission("M13")
async def test_who_cannot_wait_that_long_is_told_at_once() -> None:
    time = StillTime()
    one = retrier(time, NoRetry(), timeout_s=5)
    with pytest.raises(ServerBusyError):
        await one.perform(Flaky(ServerBusyError("busy")), "it")
    operation = Flaky()
    with pytest.raises(ServerBusyError, match=r"10\.0 s more"):
        await one.perform(operation, "it")
    assert operation.attempts_made == 0


async def test_an_operation_that_takes_too_long_is_a_time_out() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(OperationTimeoutError, match=r"it took longer than 0\.01 s"):
        await retrier(StillTime(), timeout_s=0.01).perform(never, "it")


@mission("M13", "M17")
async def test_a_throttled_queue_is_served_after_ten_seconds_and_the_other_queue_at_once(bus: Bus, name: str) -> None:
    other = f"{name}-other"
    bus.create_queue(name)
    bus.create_queue(other)
    time = StillTime()
    settings = MessagingFactorySettings(waiting=time, operation_timeout=timedelta(seconds=30))
    async with MessagingFactory.from_connection_string(bus.connection_string, settings) as factory:
        busy = factory.create_queue_client(name)
        await busy.send(BrokeredMessage("before"))
        outage = bus.break_sends(name, ServerBusy)
        time.slept_s.clear()
        with pytest.raises(ServerBusyError) as caught:
            await busy.send(BrokeredMessage("during"))
        assert caught.value.is_transient
        assert sum(time.slept_s) >= SERVER_BUSY_WAIT_S
        slept = len(time.slept_s)
        await factory.create_queue_client(other).send(BrokeredMessage("elsewhere"))
        assert len(time.slept_s) == slept
        outage.restore()
        await busy.send(BrokeredMessage("after"))
    assert [message.body for message in bus.messages(name)] == [b"before", b"after"]
