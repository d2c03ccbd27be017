"""A client of a topic: it sends. What is sent is received from the topic's subscriptions."""

from __future__ import annotations

from tandem.client.messaging.sender import MessageSender
from tandem.client.messaging.sending_client import SendingClient
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection

__all__ = ["TopicClient"]


class TopicClient(SendingClient, ClosedAtExit):
    """Sends to a topic."""

    def __init__(self, connection: ServiceConnection, path: str) -> None:
        super().__init__(MessageSender(connection, path))

    @property
    def path(self) -> str:
        """The path of the topic."""
        return self._sender.path

    async def close(self) -> None:
        """Detach the link."""
        await self._sender.close()
