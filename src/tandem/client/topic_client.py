"""A client of a topic: it sends. What is sent is received from the topic's subscriptions."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tandem.client.connection import ServiceConnection
from tandem.client.sender import MessageSender
from tandem.client.sending import SendingClient

__all__ = ["TopicClient"]


class TopicClient(SendingClient):
    """Sends to a topic."""

    def __init__(self, connection: ServiceConnection, path: str) -> None:
        super().__init__(MessageSender(connection, path))

    @property
    def path(self) -> str:
        """The path of the topic."""
        return self._sender.path

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Detach the link."""
        await self._sender.close()
