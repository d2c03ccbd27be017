"""A client of a queue: it sends and receives."""

from __future__ import annotations

from tandem.client.messaging.receiver import ReceiveMode
from tandem.client.messaging.receiving_client import ReceivingClient
from tandem.client.messaging.sender import MessageSender
from tandem.client.messaging.sending_client import SendingClient
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection

__all__ = ["QueueClient"]


class QueueClient(SendingClient, ReceivingClient, ClosedAtExit):
    """Sends to a queue and receives from it."""

    def __init__(
        self, connection: ServiceConnection, path: str, receive_mode: ReceiveMode, prefetch_count: int
    ) -> None:
        SendingClient.__init__(self, MessageSender(connection, path))
        ReceivingClient.__init__(self, connection, path, receive_mode, prefetch_count)

    @property
    def path(self) -> str:
        """The path of the queue."""
        return self._sender.path

    async def close(self) -> None:
        """Give back what was fetched ahead, and detach both links."""
        await self._sender.close()
        await self._receiver.close()
