"""The broker over AMQP, by the client library: what a command chooses for it, and what its errors mean."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

from tandem.cli.shared.broker import advised, broker_of
from tandem.client import (
    EventHubClient,
    MessagingEntityNotFoundError,
    MessagingError,
    MessagingFactory,
    MessagingFactorySettings,
    NoRetry,
)
from tandem.client.wire.token_provider import token_provider_of
from tandem.connection_string import ConnectionString, ServiceAddress
from tandem.errors import InvalidToken, RemoteError
from tandem.management.http_client import BrokerUnreachable, failure_text

__all__ = ["connected", "connected_hub"]


@contextlib.asynccontextmanager
async def connected(connection_string: str | None, path: str) -> AsyncIterator[MessagingFactory]:
    """Yield what sends to and receives from an entity. An error becomes a message that also says what to do next."""
    given = broker_of(connection_string)
    with _explained(given, "entity", path):
        async with MessagingFactory(given.address, token_provider_of(given), _settings()) as factory:
            yield factory


@contextlib.asynccontextmanager
async def connected_hub(connection_string: str | None, hub: str) -> AsyncIterator[EventHubClient]:
    """As `connected`, for an event hub."""
    given = broker_of(connection_string)
    with _explained(given, "hub", hub):
        async with EventHubClient(given.address, token_provider_of(given), hub, _settings()) as client:
            yield client


def _settings() -> MessagingFactorySettings:
    """A command fails at once: somebody waits for it, and can run it again."""
    return MessagingFactorySettings(retry_policy=NoRetry())


@contextlib.contextmanager
def _explained(given: ConnectionString, noun: str, path: str) -> Iterator[None]:
    where = ServiceAddress(given.host, given.address.amqp_port, is_tls=True)
    with advised(noun):
        try:
            yield
        except MessagingError as error:
            if isinstance(error.__cause__, OSError):
                raise BrokerUnreachable(f"no broker answers at {where}: {failure_text(error.__cause__)}") from error
            if isinstance(error, MessagingEntityNotFoundError) and given.address.audience(path) in error.description:
                # Asked for a token, the service names its audience instead of the entity, and a page of its own.
                raise RemoteError(error.condition, f"The messaging entity '{path}' could not be found.") from error
            if error.condition == InvalidToken.condition:
                reason = f"the broker at {where} refused the rule, its key or its signature."
                raise RemoteError(error.condition, reason) from error
            raise
