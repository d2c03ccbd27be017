"""Internal errors while one client was served, contained so that every other client still gets what is for it.

for notice in notices:
    try:
        notice.consumer.context.notify(notice)
    except Exception as error:
        failures.contain(notice.consumer.context, error)
failures.finish()
"""

from __future__ import annotations

import logging
from typing import Protocol, runtime_checkable

__all__ = ["ClientFailures"]

logger = logging.getLogger(__name__)


class _Connection(Protocol):
    def fail(self, node: object, error: Exception) -> None:
        """Drop the connection, and report the error to whoever supervises the broker."""


@runtime_checkable
class _Connected(Protocol):
    """A client that has a connection of its own: nodes behind links and their requests, but not those of HTTP."""

    @property
    def peer(self) -> _Connection: ...


class ClientFailures:
    """What failed in the loop over clients that is under way."""

    def __init__(self) -> None:
        self.is_supervised = False
        self._errors: list[Exception] = []

    def contain(self, client: object, error: Exception) -> None:
        """Drop the connection of a client that could not be served: that is how the client learns of it."""
        if not self.is_supervised:
            self._errors.append(error)
        elif isinstance(client, _Connected):
            client.peer.fail(client, error)
        else:
            logger.error("serving a client failed", exc_info=error)

    def finish(self) -> None:
        """End the loop. Without a supervisor the first error is raised, as tests and simulations want it."""
        if self._errors:
            errors, self._errors = self._errors, []
            raise errors[0]
