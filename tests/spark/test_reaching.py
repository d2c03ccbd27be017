"""Trying again while the broker is away."""

from __future__ import annotations

import pytest

from tandem.client.errors import MessagingCommunicationError, UnauthorizedAccessError
from tandem.errors import RemoteError
from tandem.spark.offsets import DataLoss
from tandem.spark.reaching import Retrying, ServiceUnreachable


class Time:
    """That only passes by waiting."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> float:
        return self.now_s

    def sleep(self, delay_s: float) -> None:
        self.now_s += delay_s


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("no"),
        RemoteError("com.microsoft:server-busy", "busy"),
        RemoteError("http:503", "restarting"),
        MessagingCommunicationError("lost"),
        EOFError("cut"),
    ],
)
def test_a_broker_that_comes_back_in_time_is_all_that_is_noticed(error: Exception) -> None:
    time = Time()
    attempts = 0

    def attempt() -> str:
        nonlocal attempts
        attempts += 1
        if attempts <= 5:
            raise error
        return "done"

    assert Retrying("reading", "http://bus", 30.0, now=time.now, sleep=time.sleep).perform(attempt) == "done"
    assert attempts == 6
    assert 1.0 < time.now_s < 10.0


@pytest.mark.parametrize(
    "error", [UnauthorizedAccessError("no"), DataLoss("gone"), RemoteError("amqp:not-found", "no such hub")]
)
def test_what_will_not_get_better_is_raised_at_once(error: Exception) -> None:
    time = Time()

    def attempt() -> None:
        raise error

    with pytest.raises(type(error)):
        Retrying("reading", "http://bus", 30.0, now=time.now, sleep=time.sleep).perform(attempt)
    assert time.now_s == 0.0


def test_a_broker_that_stays_away_ends_the_query_with_the_reason() -> None:
    time = Time()

    def attempt() -> None:
        raise ConnectionRefusedError("nobody there")

    with pytest.raises(ServiceUnreachable, match=r"tried for 30 s .* nobody there"):
        Retrying("reading", "http://bus", 30.0, now=time.now, sleep=time.sleep).perform(attempt)
    assert 20.0 < time.now_s <= 30.0


def test_progress_begins_the_time_anew() -> None:
    time = Time()
    retrying = Retrying("reading", "http://bus", 30.0, now=time.now, sleep=time.sleep)
    for _ in range(10):
        time.now_s += 29.0
        retrying.pause(EOFError())
        retrying.progressed()
    assert time.now_s > 290.0
