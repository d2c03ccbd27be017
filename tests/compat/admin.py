"""The official administration client, once as it is and once in its asynchronous form, for one and the same test."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any, Final

# The order counts: the asynchronous package fails if it is the first to be imported.
from azure.servicebus.management import AuthorizationRule, ServiceBusAdministrationClient

from azure.servicebus.aio.management import (  # isort: skip
    ServiceBusAdministrationClient as AsyncServiceBusAdministrationClient,
)

from tandem.testing import Broker
from tests.compat.sdk import ROOT_KEY, ROOT_RULE

SYNC, AIO = "sync", "aio"
KINDS: Final = (SYNC, AIO)


def admin_connection_string(broker: Broker, key: str = ROOT_KEY, rule: str = ROOT_RULE) -> str:
    """TLS wants a name: an address is nothing that a client may ask for."""
    endpoint = f"Endpoint=sb://localhost:{broker.http_port}"
    return f"{endpoint};SharedAccessKeyName={rule};SharedAccessKey={key};UseDevelopmentEmulator=true"


class Admin:
    """A client of the management API. The asynchronous one is driven from here, so that both are called alike."""

    def __init__(self, broker: Broker, kind: str, key: str = ROOT_KEY, rule: str = ROOT_RULE) -> None:
        self._loop = asyncio.new_event_loop()
        options: Any = {"connection_verify": str(broker.ca_path), "retry_total": 0}
        address = admin_connection_string(broker, key, rule)
        self._client: Any = (
            ServiceBusAdministrationClient.from_connection_string(address, **options)
            if kind == SYNC
            else AsyncServiceBusAdministrationClient.from_connection_string(address, **options)
        )

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *error: object) -> None:
        closing = self._client.close()
        if closing is not None:
            self._loop.run_until_complete(closing)
        self._loop.close()

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._client, operation)

        def call(*arguments: Any, **options: Any) -> Any:
            answer = method(*arguments, **options)
            if isinstance(answer, AsyncIterator):
                return self._loop.run_until_complete(_collect(answer))
            if asyncio.iscoroutine(answer):
                return self._loop.run_until_complete(answer)
            return list(answer) if operation.startswith("list_") else answer

        return call


async def _collect(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def new_name(what: str) -> str:
    """One broker serves many tests."""
    return f"{what}-{uuid.uuid4().hex[:12]}"


def shared_access_rule(name: str, rights: list[Any], primary_key: str, secondary_key: str) -> AuthorizationRule:
    """A rule of an entity, in the words of the SDK."""
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=rights,
        key_name=name,
        primary_key=primary_key,
        secondary_key=secondary_key,
    )
