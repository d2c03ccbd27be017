"""Where a pair of namespaces takes hold of a factory. `tandem.pairing` implements both sides of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tandem.client.messaging.message import BrokeredMessage

if TYPE_CHECKING:
    from tandem.client.messaging.messaging_factory import MessagingFactory
    from tandem.client.messaging.sender import MessageSender

__all__ = ["Pairing", "SendInterceptor"]


class SendInterceptor(Protocol):
    """Decides where the messages of a factory's senders go."""

    async def send(self, sender: MessageSender, payloads: Sequence[bytes]) -> None:
        """Send messages that are encoded, in their order."""

    async def schedule(self, sender: MessageSender, messages: Sequence[BrokeredMessage]) -> list[int]:
        """Send messages that have a time at which they appear, and return their sequence numbers."""

    async def close(self) -> None:
        """The factory is being closed."""


class Pairing(Protocol):
    """What is known about the other namespace, and how the two work together."""

    async def pair(self, factory: MessagingFactory) -> SendInterceptor:
        """Set everything up for this primary. What cannot be set up is raised."""
