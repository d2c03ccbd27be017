"""Sending to a queue, a topic or an event hub: one link, on which any number of sends may be under way at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, cast

from tandem.amqp import (
    BATCH_FORMAT,
    Accepted,
    DeliveryState,
    Modified,
    Rejected,
    Released,
    TransactionalState,
    make_batch,
)
from tandem.amqp.types import Symbol
from tandem.client.errors import (
    MessageSizeExceededError,
    MessagingCommunicationError,
    MessagingError,
    error_of_condition,
)
from tandem.client.messaging.interception import SendInterceptor
from tandem.client.messaging.management import ManagementNode
from tandem.client.messaging.message import BrokeredMessage
from tandem.client.messaging.transaction import Transaction
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection, Wire, close_link
from tandem.client.wire.lazy import Lazy
from tandem.client.wire.retry import NoRetry
from tandem.driver import Sender
from tandem.limits import MAX_MESSAGES_PER_SENT_BATCH
from tandem.wire_names import MAX_MESSAGE_BATCH_SIZE, TRANSFER_DESTINATION

__all__ = ["MessageSender", "SendLink", "check_outcome"]

# Bytes. What the envelope of a batch adds to a message: a descriptor, a constructor and a size.
_ENVELOPE_BYTES_PER_MESSAGE: Final = 8

# Bytes. The annotations and properties of the envelope itself.
_ENVELOPE_BYTES: Final = 256

# Bytes. What the smallest tier of the service takes, where a link does not say.
_DEFAULT_MAX_MESSAGE_SIZE_BYTES: Final = 262_144


class SendLink:
    """A link to an entity, and the connection it is on."""

    def __init__(
        self, wire: Wire, sender: Sender, path: str, note_unanswered: Callable[[], None] | None = None
    ) -> None:
        self.wire = wire
        self.sender = sender
        self._path = path
        self._note_unanswered = note_unanswered
        attach = sender.link.attach
        announced = None if attach is None else attach.max_message_size
        self.max_message_size_bytes: int = announced or _DEFAULT_MAX_MESSAGE_SIZE_BYTES
        batch = None if attach is None else (attach.properties or {}).get(MAX_MESSAGE_BATCH_SIZE)
        is_stated = isinstance(batch, int) and batch > 0
        self.max_batch_size_bytes: int = cast("int", batch) if is_stated else self.max_message_size_bytes

    @property
    def is_alive(self) -> bool:
        return self.sender.error is None

    async def send(self, payload: bytes, message_format: int, transaction: Transaction | None) -> None:
        """Send, and return when the service has taken it."""
        if message_format == BATCH_FORMAT:
            self._check_size(payload, self.max_batch_size_bytes, "batch")
        else:
            self._check_size(payload, self.max_message_size_bytes, "message")
        state = None if transaction is None else await transaction.state(self.wire)
        try:
            outcome = await self.sender.send(payload, message_format=message_format, state=state)
        except BaseException:
            # The link was lost or the time is over: whether the service has it will never be known.
            if self._note_unanswered is not None:
                self._note_unanswered()
            raise
        check_outcome(outcome)

    def portions(self, payloads: Sequence[bytes], max_batch_bytes: int | None = None) -> list[list[bytes]]:
        """Split messages into as few transfers as their order and the limits allow.

        Refuses all of them if one is too large: that is found before the first transfer, not after some of them.
        """
        for payload in payloads:
            self._check_size(payload, self.max_message_size_bytes, "message")
        limit = self.max_batch_size_bytes
        return split_by_size(payloads, limit if max_batch_bytes is None else min(limit, max_batch_bytes))

    def _check_size(self, payload: bytes, limit_bytes: int, noun: str) -> None:
        if len(payload) > limit_bytes:
            raise MessageSizeExceededError(
                f"the {noun} has {len(payload):,} bytes as it is sent; '{self._path}' takes at most {limit_bytes:,}"
            )


def check_outcome(outcome: DeliveryState | None) -> None:
    """Raise what the service says against a message that was sent."""
    if isinstance(outcome, TransactionalState):
        outcome = outcome.outcome
    if outcome is None or isinstance(outcome, Accepted):
        return
    if isinstance(outcome, Rejected) and outcome.error is not None:
        raise error_of_condition(outcome.error.condition, outcome.error.description or "the message was rejected")
    if isinstance(outcome, Released | Modified):
        raise MessagingCommunicationError("the service gave the message back without taking it")
    raise MessagingError(f"the service answered the message with {outcome!r:.200}")


class MessageSender(ClosedAtExit):
    """Sends to one entity. Sends that are under way together share one link, and arrive in the order of their calls."""

    def __init__(
        self, connection: ServiceConnection, path: str, via: str | None = None, *, is_direct: bool = False
    ) -> None:
        """What is direct goes to its entity also if the namespace is one of a pair."""
        self._is_direct = is_direct
        self._connection = connection
        self._path = path
        self._via = via
        self._retrier = connection.make_retrier()
        self._link = Lazy(self._open, lambda link: link.is_alive)
        self._node = ManagementNode(connection, via or path, self._retrier)
        # Told of each transfer that was handed over and not answered. For the inside of this library.
        self.on_unanswered: Callable[[], None] | None = None

    @property
    def path(self) -> str:
        """The entity that messages are sent to."""
        return self._path

    async def open(self) -> None:
        """Attach the link now and not with the first send: what is wrong with the entity or the rights is raised."""
        await self._retrier.perform(self._link.get, f"a link to '{self._path}'")

    async def send(self, message: BrokeredMessage, *, transaction: Transaction | None = None) -> None:
        """Send a message, and return when the service has it on disk.

        After a lost connection it is sent again, so that it may arrive twice: with the same message id, by which an
        entity with duplicate detection knows it.
        """
        payload = message.to_payload()
        interceptor = self._interceptor(transaction)
        if interceptor is None:
            await self._send(payload, 0, transaction)
        else:
            await interceptor.send(self, [payload])

    async def send_batch(self, messages: Iterable[BrokeredMessage], *, transaction: Transaction | None = None) -> None:
        """Send messages together: in one transfer if they fit, in as few as possible if not.

        The messages of one transfer are taken all or none. If one of the messages is too large for the entity, none is
        sent.
        """
        payloads = [message.to_payload() for message in messages]
        if not payloads:
            return
        interceptor = self._interceptor(transaction)
        if interceptor is not None:
            await interceptor.send(self, payloads)
            return
        link = await self._retrier.perform(self._link.get, f"a link to '{self._path}'")
        for portion in link.portions(payloads):
            await self._send(*_transfer(portion), transaction)

    async def schedule(
        self,
        message: BrokeredMessage,
        enqueue_time_utc: datetime,
        *,
        transaction: Transaction | None = None,
    ) -> int:
        """Send a message that appears at a time. Returns the sequence number by which it can be cancelled."""
        return (await self.schedule_batch([message], enqueue_time_utc, transaction=transaction))[0]

    async def schedule_batch(
        self,
        messages: Iterable[BrokeredMessage],
        enqueue_time_utc: datetime,
        *,
        transaction: Transaction | None = None,
    ) -> list[int]:
        """Schedule several messages in one request. Returns their sequence numbers in the same order."""
        scheduled = list(messages)
        for message in scheduled:
            message.scheduled_enqueue_time_utc = enqueue_time_utc
        if not scheduled:
            return []
        interceptor = self._interceptor(transaction)
        if interceptor is None:
            return await self._node.schedule(scheduled, transaction)
        return await interceptor.schedule(self, scheduled)

    async def cancel_scheduled(self, *sequence_numbers: int, transaction: Transaction | None = None) -> None:
        """Take back messages that were scheduled and have not appeared yet."""
        if sequence_numbers:
            await self._node.cancel_scheduled(sequence_numbers, transaction)

    async def close(self) -> None:
        """Detach the link. The factory and its other senders and receivers go on."""
        self._connection.opened.discard(self)
        await self._link.close()
        link = self._link.current
        if link is not None:
            await close_link(link.sender)

    def _interceptor(self, transaction: Transaction | None) -> SendInterceptor | None:
        """A transaction is of one namespace: what is sent in one, or by way of an entity for one, stays there."""
        if self._is_direct:
            return None
        self._connection.has_sent = True
        return None if transaction is not None or self._via is not None else self._connection.interceptor

    async def send_some(self, payloads: Sequence[bytes], timeout_s: float, max_batch_bytes: int | None = None) -> int:
        """Try once, whatever the retry policy says, to send the first of these messages: as many as one transfer holds.
        Returns how many; none is sent if one of them, the first or a later one, is too large. For the inside of this
        library."""

        async def attempt() -> int:
            link = await self._link.get()
            portion = link.portions(payloads, max_batch_bytes)[0]
            await link.send(*_transfer(portion), None)
            return len(portion)

        return await self._connection.make_retrier(NoRetry()).perform(attempt, f"a send to '{self._path}'", timeout_s)

    async def schedule_once(self, messages: Sequence[BrokeredMessage], timeout_s: float) -> list[int]:
        """As `send_some`, of messages that appear later; all of them in one request. For the inside of this library."""
        node = ManagementNode(self._connection, self._path, self._connection.make_retrier(NoRetry(), timeout_s))
        return await node.schedule(messages, None)

    async def _send(self, payload: bytes, message_format: int, transaction: Transaction | None) -> None:
        async def attempt() -> None:
            link = await self._link.get()
            await link.send(payload, message_format, transaction)

        await self._retrier.perform(attempt, f"a send to '{self._path}'")

    def _note_unanswered(self) -> None:
        if self.on_unanswered is not None:
            self.on_unanswered()

    async def _open(self) -> SendLink:
        wire = await self._connection.wire()
        self._connection.opened.add(self)
        await wire.authorize(self._path)
        if self._via is None:
            return SendLink(wire, await wire.client.sender(self._path), self._path, self._note_unanswered)
        await wire.authorize(self._via)
        properties: dict[object, object] = {Symbol(TRANSFER_DESTINATION): self._path}
        sender = await wire.client.sender(self._via, properties=properties)
        return SendLink(wire, sender, self._via, self._note_unanswered)


def _transfer(portion: list[bytes]) -> tuple[bytes, int]:
    """Return the payload and the format of a transfer that carries these messages."""
    return (portion[0], 0) if len(portion) == 1 else (make_batch(portion), BATCH_FORMAT)


def split_by_size(payloads: Sequence[bytes], max_bytes: int) -> list[list[bytes]]:
    """Messages in as few batches as their order and the limit allow. One that is too large alone stays alone."""
    portions: list[list[bytes]] = []
    size = 0
    for payload in payloads:
        needed = len(payload) + _ENVELOPE_BYTES_PER_MESSAGE
        if not portions or size + needed > max_bytes or len(portions[-1]) >= MAX_MESSAGES_PER_SENT_BATCH:
            portions.append([])
            size = _ENVELOPE_BYTES
        portions[-1].append(payload)
        size += needed
    return portions
