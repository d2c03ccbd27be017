"""Which condition and which status is which error, and whether it passes."""

from __future__ import annotations

import inspect
import ssl

import pytest

from tandem import errors as broker_errors
from tandem.client import errors
from tandem.client.errors import (
    HostNotFoundError,
    InvalidOperationError,
    MessagingCommunicationError,
    MessagingEntityNotFoundError,
    MessagingError,
    OperationTimeoutError,
    QuotaExceededError,
    ReceiverDisconnectedError,
    ServerBusyError,
    UnauthorizedAccessError,
    error_of_condition,
    error_of_http_status,
    messaging_error,
)
from tandem.errors import NotFound, ProtocolError, RemoteError, StoreError, UsageError
from tests.markers import mission

TRANSIENT = {MessagingCommunicationError, HostNotFoundError, OperationTimeoutError, ServerBusyError}
KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, MessagingError)]
BROKER_ERRORS = [
    kind
    for _, kind in inspect.getmembers(broker_errors, inspect.isclass)
    if issubclass(kind, ProtocolError) and kind is not ProtocolError
]
# A broker closes the connection of an idle peer with the condition of a full queue: to a client, the queue is full.
# What breaks a connection is worth another one to a client, whatever it is to the broker.
JUDGED_DIFFERENTLY = {broker_errors.IdleTimeoutExpired.condition}


@mission("M17")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_error_knows_whether_it_passes(kind: type[MessagingError]) -> None:
    assert kind("why").is_transient == (kind in TRANSIENT)
    assert str(kind("why")) == f"why ({kind.default_condition})"


@mission("M17")
@pytest.mark.parametrize("kind", BROKER_ERRORS, ids=lambda kind: kind.__name__)
def test_what_passes_for_the_broker_passes_for_the_client(kind: type[ProtocolError]) -> None:
    error = error_of_condition(kind.condition, "why")
    assert error.condition == kind.condition
    assert error.description == "why"
    if kind.condition not in JUDGED_DIFFERENTLY and not isinstance(error, MessagingCommunicationError):
        assert error.is_transient == kind.is_transient


@pytest.mark.parametrize(
    "condition, kind",
    [
        ("amqp:connection:forced", MessagingCommunicationError),
        ("amqp:link:detach-forced", MessagingCommunicationError),
        ("amqp:not-found", MessagingEntityNotFoundError),
        ("com.microsoft:auth-failed", UnauthorizedAccessError),
        ("com.microsoft:server-busy", ServerBusyError),
        ("amqp:resource-limit-exceeded", QuotaExceededError),
        ("amqp:link:stolen", ReceiverDisconnectedError),
        ("com.microsoft:argument-out-of-range", InvalidOperationError),
    ],
)
def test_a_condition_is_an_error(condition: str, kind: type[MessagingError]) -> None:
    assert type(error_of_condition(condition, "why")) is kind


def test_what_nobody_knows_is_a_messaging_error_and_a_bug_of_the_service_passes() -> None:
    assert type(error_of_condition("vendor:strange", "why")) is MessagingError
    assert not error_of_condition("vendor:strange", "why").is_transient
    assert error_of_condition("amqp:internal-error", "why").is_transient


@pytest.mark.parametrize(
    "status, kind, is_transient",
    [
        (400, InvalidOperationError, False),
        (401, UnauthorizedAccessError, False),
        (403, QuotaExceededError, False),
        (404, MessagingEntityNotFoundError, False),
        (429, ServerBusyError, True),
        (500, MessagingError, True),
        (503, ServerBusyError, True),
        (418, MessagingError, False),
    ],
)
def test_a_status_is_an_error(status: int, kind: type[MessagingError], is_transient: bool) -> None:
    error = error_of_http_status(status, "why")
    assert type(error) is kind
    assert error.is_transient is is_transient


def test_what_lower_layers_raise_is_told_in_the_words_of_the_client() -> None:
    assert isinstance(messaging_error(RemoteError("amqp:not-found", "why")), MessagingEntityNotFoundError)
    assert isinstance(messaging_error(NotFound("why")), MessagingEntityNotFoundError)
    assert isinstance(messaging_error(ConnectionResetError()), MessagingCommunicationError)
    assert isinstance(messaging_error(ssl.SSLError()), MessagingCommunicationError)
    assert isinstance(messaging_error(StoreError("why")), MessagingError)
    for mistake in (UsageError("why"), KeyError("why"), ServerBusyError("why")):
        assert messaging_error(mistake) is mistake
