"""The broker over AMQP: a connection with the key of a connection string, and what a link's errors mean."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import uuid
from collections.abc import AsyncIterator
from typing import Final

from tandem.amqp import Settings
from tandem.cli.entities import advised, broker_of
from tandem.connection_string import DEFAULT_PORT
from tandem.driver import Client
from tandem.errors import RemoteError, UnauthorizedAccess
from tandem.hosts import bracketed, dialled_host
from tandem.management.http_client import BrokerUnreachable, failure_text

__all__ = ["connected"]

# AMQP inside TLS, as the standard has it.
_TLS_PORT: Final = 5671

# Seconds. To connect, and to prove who we are.
_CONNECT_TIMEOUT_S: Final = 30.0


@contextlib.asynccontextmanager
async def connected(connection_string: str | None, noun: str = "entity") -> AsyncIterator[Client]:
    """In the clear for the connection string of an emulator, inside TLS for any other.

    What goes wrong becomes a message that also says what to do next: `noun` is what it is about.
    """
    with advised(noun):
        client = await _connect(connection_string)
        # When an error is on its way, there is nobody to say goodbye to.
        try:
            yield client
        finally:
            await client.close()


async def _connect(connection_string: str | None) -> Client:
    given = broker_of(connection_string)
    settings = Settings(
        f"tandem-{uuid.uuid4().hex}", hostname=given.host, user=given.rule_name, password=given.key, idle_timeout_ms=0
    )
    # The system's certificates, or those of SSL_CERT_FILE.
    tls = None if given.is_emulator else ssl.create_default_context()
    port = given.port or (DEFAULT_PORT if given.is_emulator else _TLS_PORT)
    where = f"sb://{bracketed(given.host)}:{port}"
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            return await Client.connect(dialled_host(given.host), port, settings, tls)
    except TimeoutError as error:
        raise BrokerUnreachable(f"no broker answers at {where} within {_CONNECT_TIMEOUT_S:.0f} s") from error
    except OSError as error:
        raise BrokerUnreachable(f"no broker answers at {where}: {failure_text(error)}") from error
    except UnauthorizedAccess as error:
        raise RemoteError("com.microsoft:auth-failed", f"the broker at {where} refused the rule or its key.") from error
