"""The first contact with both namespaces of a pair: what is set up wrongly is raised, an outage is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from tandem.client.errors import (
    HostNotFoundError,
    MessagingCommunicationError,
    MessagingEntityNotFoundError,
    MessagingError,
    OperationTimeoutError,
    ServerBusyError,
    UnauthorizedAccessError,
)
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.wire.retry import RetryPolicy
from tandem.client.wire.waiting import Waiting
from tandem.connection_string import ServiceAddress
from tandem.errors import ConfigurationError
from tandem.pairing.ownership import BacklogOwner, BacklogQueue, Reached, resolve_owner

__all__ = ["identify_primary", "outage_of_unknown_host", "reach", "require_two_namespaces"]

# Enough for a connection that is lost by chance. A primary that is away must not keep a program from starting.
_POLICY: Final = RetryPolicy(max_attempts=3, max_backoff_s=1.0)
_TIMEOUT: Final = timedelta(seconds=10)

# The namespace did not answer, or answered that it cannot right now.
_OUTAGES: Final = (MessagingCommunicationError, OperationTimeoutError)


async def reach(factory: MessagingFactory, *, allow_unresolved: bool = False) -> Reached:
    """Connect to a primary and prove the key to it. An outage is a result; a host that does not exist (unless
    `allow_unresolved`), a certificate that is not trusted and a wrong key are raised."""
    settings = factory.settings
    timeout = min(_TIMEOUT, settings.operation_timeout)
    # A connection of its own, within a time of its own: the factory stays as it is.
    probe = factory.with_settings(
        dataclasses.replace(settings, operation_timeout=timeout, retry_policy=_POLICY, waiting=Waiting())
    )
    try:
        return Reached(True, await probe.identify())
    except HostNotFoundError as error:
        return outage_of_unknown_host(error, allow_unresolved=allow_unresolved)
    except UnauthorizedAccessError as error:
        error.add_note("A key of one entity only needs EntityPath= in the connection string.")
        raise
    except (MessagingEntityNotFoundError, ServerBusyError):
        # It knows the key, and answers. Whoever sends to the entity learns the rest.
        return Reached(True, probe.last_identity)
    except _OUTAGES:
        # It may have said who it is before it fell silent.
        return Reached(False, probe.last_identity)
    except MessagingError as error:
        # An error inside the service: part of an outage. What else it refuses is for people to correct.
        if error.is_transient:
            return Reached(False, probe.last_identity)
        raise
    finally:
        await probe.close()


def outage_of_unknown_host(error: HostNotFoundError, *, allow_unresolved: bool) -> Reached:
    """Return that a primary whose host does not exist is away; raise the error unless that is permitted."""
    if allow_unresolved:
        return Reached(False)
    raise HostNotFoundError(
        f"{error.description}. Correct the address of the primary; if the name exists and cannot be resolved right "
        "now, pair with allow_unresolved_primary=True"
    ) from error


async def identify_primary(
    primary: MessagingFactory, name: str | None, queues: Sequence[BacklogQueue], *, allow_unresolved: bool = False
) -> BacklogOwner:
    """Find out who the primary of a factory is, for a secondary with these backlog queues."""
    reached = await reach(primary, allow_unresolved=allow_unresolved)
    return resolve_owner(ServiceAddress.parse(primary.address), reached, name, queues)


async def require_two_namespaces(owner: BacklogOwner, primary: str, secondary: MessagingFactory) -> None:
    """Raise ConfigurationError if the secondary is the primary. The brokers decide it where they report who they are,
    and the addresses where they do not."""
    address = ServiceAddress.parse(secondary.address)
    other = resolve_owner(address, Reached(True, await secondary.identify()), None, ())
    if other.id == owner.id or primary == secondary.address:
        raise ConfigurationError(
            f"both namespaces of the pair are one: {primary} and {secondary.address} lead to '{other.name}' with the "
            f"id {other.id}; the secondary must be another"
        )
