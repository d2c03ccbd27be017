"""A client of a queue: it sends and receives."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tandem.client.connection import ServiceConnection
from tandem.client.receiver import ReceiveMode
from tandem.client.receiving import ReceivingClient
from tandem.client.sender import MessageSender
from tandem.client.sending import SendingClient

__all__ = ["QueueClient"]


class QueueClient(SendingClient, ReceivingClient):
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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back what was fetched ahead, and detach both links."""
        await self._sender.close()
        await self._receiver.close()
