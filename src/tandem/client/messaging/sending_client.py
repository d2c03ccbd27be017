"""What clients of entities that take messages have in common."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tandem.client.messaging.message import BrokeredMessage
from tandem.client.messaging.sender import MessageSender
from tandem.client.messaging.transaction import Transaction

__all__ = ["SendingClient"]


class SendingClient:
    """Sends to one entity by a sender of its own."""

    def __init__(self, sender: MessageSender) -> None:
        self._sender = sender

    async def send(self, message: BrokeredMessage, *, transaction: Transaction | None = None) -> None:
        """Send a message, and return when the service has it on disk."""
        await self._sender.send(message, transaction=transaction)

    async def send_batch(self, messages: Iterable[BrokeredMessage], *, transaction: Transaction | None = None) -> None:
        """Send messages together: in one transfer if they fit, in as few as possible if not."""
        await self._sender.send_batch(messages, transaction=transaction)

    async def schedule(
        self, message: BrokeredMessage, enqueue_time_utc: datetime, *, transaction: Transaction | None = None
    ) -> int:
        """Send a message that appears at a time. Returns the sequence number by which it can be cancelled."""
        return await self._sender.schedule(message, enqueue_time_utc, transaction=transaction)

    async def cancel_scheduled(self, *sequence_numbers: int, transaction: Transaction | None = None) -> None:
        """Take back messages that were scheduled and have not appeared yet."""
        await self._sender.cancel_scheduled(*sequence_numbers, transaction=transaction)
