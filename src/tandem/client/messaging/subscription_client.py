"""A client of a subscription: it receives what its rules select of what is sent to the topic."""

from __future__ import annotations

from tandem.addresses import subscription_path
from tandem.client.messaging.receiver import ReceiveMode
from tandem.client.messaging.receiving_client import ReceivingClient
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection

__all__ = ["SubscriptionClient"]


class SubscriptionClient(ReceivingClient, ClosedAtExit):
    """Receives from a subscription, which behaves as a queue does."""

    def __init__(
        self, connection: ServiceConnection, topic: str, name: str, receive_mode: ReceiveMode, prefetch_count: int
    ) -> None:
        super().__init__(connection, subscription_path(topic, name), receive_mode, prefetch_count)
        self._topic = topic
        self._name = name

    @property
    def topic_path(self) -> str:
        """The path of the topic."""
        return self._topic

    @property
    def name(self) -> str:
        """The name of the subscription."""
        return self._name

    async def close(self) -> None:
        """Give back what was fetched ahead, and detach the link."""
        await self._receiver.close()
