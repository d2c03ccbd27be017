"""What clients of entities that give messages have in common."""

from __future__ import annotations

from datetime import timedelta

from tandem.client.messaging.message import BrokeredMessage
from tandem.client.messaging.receiver import MessageReceiver, ReceiveMode
from tandem.client.messaging.session import MessageSession
from tandem.client.wire.connection import ServiceConnection

__all__ = ["ReceivingClient"]


class ReceivingClient:
    """Receives from one entity by a receiver of its own, or by sessions."""

    def __init__(
        self, connection: ServiceConnection, path: str, receive_mode: ReceiveMode, prefetch_count: int
    ) -> None:
        self._session_of = (connection, path, receive_mode, prefetch_count)
        self._receiver = MessageReceiver(connection, path, receive_mode, prefetch_count)

    @property
    def receive_mode(self) -> ReceiveMode:
        """Whether messages are held until they are completed."""
        return self._receiver.receive_mode

    async def receive(
        self,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - the service's own name; that it passes is no error
    ) -> BrokeredMessage | None:
        """The next message; None when none came in this time (in seconds, or the factory's operation_timeout)."""
        return await self._receiver.receive(timeout)

    async def receive_batch(
        self,
        max_count: int,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - the service's own name; that it passes is no error
    ) -> list[BrokeredMessage]:
        """Up to `max_count` messages: those that are there when the first one is. None when none came in time."""
        return await self._receiver.receive_batch(max_count, timeout)

    async def peek(self, max_count: int = 1, from_sequence_number: int | None = None) -> list[BrokeredMessage]:
        """Look at messages without locking them. Each call goes on where the last one ended."""
        return await self._receiver.peek(max_count, from_sequence_number)

    async def receive_deferred(self, *sequence_numbers: int) -> list[BrokeredMessage]:
        """Messages that were deferred, by their sequence numbers. If one of them is not there, none is received."""
        return await self._receiver.receive_deferred(*sequence_numbers)

    async def accept_session(
        self,
        session_id: str | None = None,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - as above
    ) -> MessageSession:
        """Lock a session for yourself: the one named, or the next that has messages. OperationTimeoutError if none."""
        session = MessageSession(*self._session_of)
        await session.accept(session_id, timeout)
        return session

    async def session_ids(self) -> list[str]:
        """The sessions that have messages or state."""
        return await self._receiver.session_ids()
