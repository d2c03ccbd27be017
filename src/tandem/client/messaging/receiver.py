"""Receiving from a queue, a subscription or a dead-letter queue."""

from __future__ import annotations

import asyncio
import enum
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, cast

from tandem.amqp import ACCEPTED, RELEASED, AmqpError, DeliveryState, IncomingDelivery, Modified, Rejected, Source
from tandem.amqp.types import Symbol
from tandem.client.errors import MessagingCommunicationError, MessagingError, OperationTimeoutError, messaging_error
from tandem.client.messaging.management import ManagementNode
from tandem.client.messaging.message import BrokeredMessage, Settlement
from tandem.client.messaging.sender import check_outcome
from tandem.client.messaging.transaction import Transaction
from tandem.client.wire.checks import require_whole_number
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection, close_link
from tandem.client.wire.inbox import Inbox, take_within
from tandem.client.wire.lazy import Lazy
from tandem.errors import TandemError, UsageError
from tandem.limits import MAX_PREFETCH_COUNT, MAX_RECEIVE_BATCH_MESSAGES
from tandem.wire_names import DEAD_LETTER_CONDITION

__all__ = ["MessageReceiver", "ReceiveMode"]

# What the service calls the error of a message that its receiver dead-letters.

# Sessions. What is asked for at once; the SDKs ask for as many.
_SESSIONS_PER_PAGE: Final = 100


class ReceiveMode(enum.Enum):
    """Whether a message is held for its receiver until it is completed, or gone when it is handed out."""

    PEEK_LOCK = "peek-lock"
    RECEIVE_AND_DELETE = "receive-and-delete"


class MessageReceiver(ClosedAtExit):
    """Receives from one entity.

    In the mode PEEK_LOCK each message is locked for this receiver until it is settled or its lock ends. In the mode
    RECEIVE_AND_DELETE it is gone from the entity when it is handed out; one that was fetched ahead and not read is lost
    when the receiver is closed.
    """

    def __init__(
        self, connection: ServiceConnection, path: str, receive_mode: ReceiveMode, prefetch_count: int
    ) -> None:
        require_whole_number("prefetch_count", prefetch_count)
        if not 0 <= prefetch_count <= MAX_PREFETCH_COUNT:
            raise UsageError(f"prefetch_count is {prefetch_count}; it must be from 0 to {MAX_PREFETCH_COUNT:,}")
        self._connection = connection
        self._path = path
        self._mode = receive_mode
        self._prefetch_count = prefetch_count
        self._retrier = connection.make_retrier()
        self._inbox = Lazy(self._open, lambda inbox: inbox.is_usable)
        self._node = ManagementNode(connection, path, self._retrier)
        self._next_peek = 0

    @property
    def path(self) -> str:
        """The entity that messages are received from."""
        return self._path

    @property
    def receive_mode(self) -> ReceiveMode:
        """Whether messages are held until they are completed."""
        return self._mode

    # --- receiving ------------------------------------------------------------------------------------------

    async def receive(
        self,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - the service's own name; that it passes is no error
    ) -> BrokeredMessage | None:
        """The next message; None when none came in this time (in seconds, or the factory's operation_timeout)."""
        messages = await self.receive_batch(1, timeout)
        return messages[0] if messages else None

    async def receive_batch(
        self,
        max_count: int,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - the service's own name; that it passes is no error
    ) -> list[BrokeredMessage]:
        """Up to `max_count` messages: those that are there when the first one is. None when none came in time."""
        require_whole_number("max_count", max_count)
        if not 1 <= max_count <= MAX_RECEIVE_BATCH_MESSAGES:
            raise UsageError(f"max_count is {max_count}; it must be from 1 to {MAX_RECEIVE_BATCH_MESSAGES:,}")
        inbox = self._inbox.current
        if inbox is not None and inbox.has_messages:
            return [self._message(delivery) for delivery in inbox.take_now(max_count)]
        what = f"a receive from '{self._path}'"
        deliveries = await take_within(
            timeout, max_count, self._connection.settings, self._retrier, self._get_inbox, what
        )
        return [self._message(delivery) for delivery in deliveries]

    async def attach(self) -> None:
        """Attach the link if there is none, without asking for a message. For the inside of this library."""
        await self._retrier.perform(self._get_inbox, f"a link to '{self._path}'")

    def stop_waiting(self) -> bool:
        """End every receive that waits, as if its time were up. Returns false if there is no link to wait on.

        For the inside of this library.
        """
        inbox = self._inbox.current
        if inbox is None:
            return False
        inbox.stop_waiting()
        return True

    async def peek(self, max_count: int = 1, from_sequence_number: int | None = None) -> list[BrokeredMessage]:
        """Look at messages without locking them, also at deferred and scheduled ones.

        Without `from_sequence_number` each call goes on where the last one ended.
        """
        start = self._next_peek if from_sequence_number is None else from_sequence_number
        messages = await self._node.peek(start, max_count, self._session_id)
        last = messages[-1].sequence_number if messages else None
        if last is not None:
            self._next_peek = last + 1
        return messages

    async def receive_deferred(self, *sequence_numbers: int) -> list[BrokeredMessage]:
        """Messages that were deferred, by their sequence numbers. If one of them is not there, none is received."""
        if not sequence_numbers:
            return []
        is_locking = self._mode is ReceiveMode.PEEK_LOCK
        received: list[BrokeredMessage] = []
        for token, payload in await self._node.receive_deferred(sequence_numbers, is_locking, self._session_id):
            message = BrokeredMessage.from_payload(payload, self if is_locking else None)
            message.hold(None, token)
            received.append(message)
        return received

    async def session_ids(self) -> list[str]:
        """The sessions of the entity that have messages or state."""
        found: list[str] = []
        while page := await self._node.session_ids(len(found), _SESSIONS_PER_PAGE):
            found += page
        return found

    async def close(self) -> None:
        """Give back what was fetched ahead, and detach the link."""
        self._connection.opened.discard(self)
        await self._inbox.close()
        inbox = self._inbox.current
        if inbox is not None:
            await close_link(inbox)

    def _message(self, delivery: IncomingDelivery) -> BrokeredMessage:
        if delivery.is_settled:
            return BrokeredMessage.from_payload(delivery.payload)
        message = BrokeredMessage.from_payload(delivery.payload, self)
        tag = delivery.delivery_tag
        message.hold(delivery, uuid.UUID(bytes_le=tag) if len(tag) == 16 else None)
        return message

    # --- the link -------------------------------------------------------------------------------------------

    @property
    def _session_id(self) -> str | None:
        return None

    async def _get_inbox(self) -> Inbox:
        return await self._inbox.get()

    async def _open(self) -> Inbox:
        return await self._attach(Source(self._path), None)

    async def _attach(self, source: Source, properties: dict[object, object] | None) -> Inbox:
        wire = await self._connection.wire()
        self._connection.opened.add(self)
        await wire.authorize(self._path)
        is_deleting = self._mode is ReceiveMode.RECEIVE_AND_DELETE
        inbox = await wire.client.receiver_of(
            Inbox,
            source,
            credit=self._prefetch_count,
            is_second=not is_deleting,
            is_settled=is_deleting,
            properties=properties,
        )
        if self._prefetch_count:
            inbox.grant(self._prefetch_count)
        return inbox

    # --- settling -------------------------------------------------------------------------------------------

    async def settle(
        self,
        message: BrokeredMessage,
        settlement: Settlement,
        properties: Mapping[str, object] | None,
        transaction: Transaction | None,
    ) -> None:
        """Tell the service what becomes of a message that is locked here. For the inside of this library."""
        delivery = message.take_delivery()
        if isinstance(delivery, IncomingDelivery):
            try:
                await self._settle_on_link(delivery, settlement, properties, transaction)
            except MessagingCommunicationError:
                # The lock outlives the link: it may still be settled by its token, if it was not settled already.
                await self._settle_by_token(message, settlement, properties, transaction)
        else:
            await self._settle_by_token(message, settlement, properties, transaction)

    async def _settle_on_link(
        self,
        delivery: IncomingDelivery,
        settlement: Settlement,
        properties: Mapping[str, object] | None,
        transaction: Transaction | None,
    ) -> None:
        inbox = cast("Inbox", delivery.link.context)
        outcome = _outcome(settlement, properties)
        if transaction is not None:
            outcome = await transaction.state(await self._connection.wire(), outcome)
        timeout_s = self._connection.settings.operation_timeout.total_seconds()
        try:
            async with asyncio.timeout(timeout_s):
                answer = await inbox.confirm(delivery, outcome)
        except TimeoutError:
            raise OperationTimeoutError(
                f"settling a message of '{self._path}' took longer than {timeout_s:g} s"
            ) from None
        except TandemError as error:
            found = messaging_error(error)
            raise found if isinstance(found, MessagingError) else error from error
        if isinstance(answer, Rejected) and answer.error is not None:
            check_outcome(answer)

    async def _settle_by_token(
        self,
        message: BrokeredMessage,
        settlement: Settlement,
        properties: Mapping[str, object] | None,
        transaction: Transaction | None,
    ) -> None:
        await self._node.settle(_token(message), settlement, properties, transaction, self._session_id)

    def release(self, message: BrokeredMessage) -> None:
        """Give a message back as if it had not been received: unlike `abandon`, this leaves its delivery count alone.

        A message whose link is lost stays locked until its lock ends. For the inside of this library.
        """
        delivery = message.take_delivery()
        if not isinstance(delivery, IncomingDelivery):
            return
        inbox = cast("Inbox", delivery.link.context)
        if inbox.error is None:
            inbox.settle(delivery, RELEASED)

    async def renew_lock(self, message: BrokeredMessage) -> datetime:
        """Hold a message for another lock duration; the same as its own `renew_lock`."""
        return await self._node.renew_lock(_token(message))


def _token(message: BrokeredMessage) -> uuid.UUID:
    if message.lock_token is None:
        raise UsageError("the message has no lock token: it was settled already, or never locked")
    return message.lock_token


def _outcome(settlement: Settlement, properties: Mapping[str, object] | None) -> DeliveryState:
    """How an outcome is said on a link."""
    changes: dict[object, object] | None = None
    if properties:
        changes = {Symbol(name): value for name, value in properties.items()}
    if settlement is Settlement.COMPLETE:
        return ACCEPTED
    if settlement is Settlement.DEAD_LETTER:
        return Rejected(AmqpError(DEAD_LETTER_CONDITION, None, changes))
    return Modified(
        delivery_failed=settlement is Settlement.ABANDON,
        undeliverable_here=settlement is Settlement.DEFER,
        message_annotations=changes,
    )
