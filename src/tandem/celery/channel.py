"""AMQP 0-9-1's verbs, as kombu calls them, on entities of the bus."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from amqp.protocol import queue_declare_ok_t
from kombu.exceptions import ChannelError
from kombu.message import Message
from kombu.transport.base import StdChannel

from tandem.celery.bus_connection import BusConnection
from tandem.celery.envelopes import Envelope, read_envelope, write_envelope
from tandem.celery.intake import Delivery, Intake
from tandem.celery.routing_keys import DIRECT
from tandem.celery.topology import QueueSettings
from tandem.client import (
    BrokeredMessage,
    MessageState,
    MessagingEntityNotFoundError,
    MessagingError,
    ReceiveMode,
)
from tandem.client.blocking import call_soon, run
from tandem.errors import UsageError

__all__ = ["Channel"]

logger = logging.getLogger(__name__)

_NOT_FOUND: Final = 404

# Seconds. How long the end of a consumer waits for its queue to be deleted.
_DELETE_S: Final = 3.0

# Messages that are deleted, or looked at, by one request of a purge.
_PURGED_AT_ONCE: Final = 500

# Any, in what follows: kombu hands on what its users have declared.
Callback = Callable[[Message], Any]


class Channel(StdChannel):  # type: ignore[misc] # kombu has no types for it
    """What one user of a connection declares, publishes and consumes."""

    _ids: Final = itertools.count(1)

    def __init__(self, connection: BusConnection) -> None:
        self.connection: BusConnection | None = connection
        self.channel_id = next(self._ids)
        self._bus = connection
        self._consumers: dict[str, tuple[str, bool, Callback]] = {}
        self._intake: Intake | None = None
        self.closed = False
        connection.channels.append(self)

    # --- exchanges ------------------------------------------------------------------------------------------

    def exchange_declare(self, exchange: str = "", type: str = DIRECT, passive: bool = False, **options: Any) -> None:
        topology = self._bus.topology
        if not passive:
            run(topology.declare_exchange(exchange, type or DIRECT))
        elif not run(topology.has_exchange(exchange)):
            raise _missing("exchange", exchange)

    def exchange_delete(self, exchange: str, **options: Any) -> None:
        run(self._bus.topology.delete_exchange(exchange))

    def exchange_bind(self, *arguments: Any, **options: Any) -> None:
        raise UsageError("this transport binds queues to exchanges, and not exchanges to each other")

    exchange_unbind = exchange_bind

    # --- queues ---------------------------------------------------------------------------------------------

    def prepare_queue_arguments(self, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Keep what kombu's queues have as parameters, `expires` for example, under the names of these."""
        return {**(arguments or {}), **{name: value for name, value in options.items() if value is not None}}

    def queue_declare(
        self,
        queue: str = "",
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, Any] | None = None,
        **options: Any,
    ) -> queue_declare_ok_t:
        topology = self._bus.topology
        name = queue or f"amq.gen-{uuid.uuid4()}"
        if passive:
            if not run(topology.has_queue(name)):
                raise _missing("queue", name)
            return queue_declare_ok_t(name, run(topology.count_messages(name)), 0)
        expires = _seconds(arguments, "expires")
        settings = QueueSettings(
            is_exclusive=exclusive,
            is_transient=exclusive or auto_delete or expires is not None,
            expires=expires,
            message_ttl=_seconds(arguments, "message_ttl"),
        )
        run(topology.declare_queue(name, settings))
        # Whoever wants to know how many messages are there declares it as passive: this is asked for rarely.
        return queue_declare_ok_t(name, 0, 0)

    def queue_bind(self, queue: str, exchange: str = "", routing_key: str = "", **options: Any) -> None:
        run(self._bus.topology.bind(queue, exchange, routing_key))
        for channel in self._bus.channels:
            channel._follow_binding(queue)

    def _follow_binding(self, queue: str) -> None:
        """Read what a consumer's queue was bound to after it began to consume."""
        for tag, (name, no_ack, _) in self._consumers.items():
            if name == queue:
                run(self._consume_all(tag, queue, no_ack))

    def queue_unbind(self, queue: str, exchange: str = "", routing_key: str = "", **options: Any) -> None:
        run(self._bus.topology.unbind(queue, exchange, routing_key))

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **options: Any) -> None:
        topology = self._bus.topology
        if if_empty and run(topology.count_messages(queue)):
            return
        run(topology.delete_queue(queue))

    def queue_purge(self, queue: str, **options: Any) -> int:
        """Delete all messages that nobody has locked, also those that are due later, and return how many."""
        return run(self._purge(queue))

    async def _purge(self, queue: str) -> int:
        count = 0
        for path in self._bus.topology.source_paths(queue):
            receiver = self._bus.receiver(path, ReceiveMode.RECEIVE_AND_DELETE)
            while messages := await receiver.receive_batch(_PURGED_AT_ONCE, 0):
                count += len(messages)
            await receiver.close()
        return count + await self._cancel_scheduled(self._bus.topology.queue_path(queue))

    async def _cancel_scheduled(self, path: str) -> int:
        receiver, after = self._bus.receiver(path, ReceiveMode.PEEK_LOCK), 0
        count = 0
        while messages := await receiver.peek(_PURGED_AT_ONCE, after):
            numbers = [one.sequence_number or 0 for one in messages]
            due_later = [one.sequence_number or 0 for one in messages if one.state is MessageState.SCHEDULED]
            await self._bus.cancel_scheduled(path, due_later)
            count += len(due_later)
            after = numbers[-1] + 1
        await receiver.close()
        return count

    def after_reply_message_received(self, queue: str) -> None:
        """The caller has its reply: a queue of its own is not needed any more."""
        self.queue_delete(queue)

    # --- publishing -----------------------------------------------------------------------------------------

    def prepare_message(
        self,
        body: Any,
        priority: int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, Any] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> Envelope:
        properties = {} if properties is None else properties
        # In the dictionary of the caller, so that a publish that kombu repeats is recognised as the same message.
        properties.setdefault("message_id", str(uuid.uuid4()))
        if priority is not None:
            properties.setdefault("priority", priority)
        return {
            "body": body,
            "headers": headers or {},
            "properties": properties,
            "content-type": content_type,
            "content-encoding": content_encoding,
        }

    def basic_publish(self, message: Envelope, exchange: str = "", routing_key: str = "", **options: Any) -> None:
        """Return when the broker has the message on disk."""
        sent = write_envelope(message, exchange, routing_key)
        if exchange:
            run(self._publish_to_exchange(exchange, sent))
        else:
            run(self._publish_to_queue(routing_key, sent))

    async def _publish_to_exchange(self, exchange: str, message: BrokeredMessage) -> None:
        topology = self._bus.topology
        try:
            await self._bus.send(topology.topic_path(exchange), message)
        except MessagingEntityNotFoundError:
            # As kombu is to declare it again, this connection must not believe that it is there.
            topology.forget_exchange(exchange)
            raise

    async def _publish_to_queue(self, queue: str, message: BrokeredMessage) -> None:
        topology = self._bus.topology
        path = topology.queue_path(queue)
        try:
            await self._bus.send(path, message)
        except MessagingEntityNotFoundError:
            settings = topology.forget(queue)
            if settings is None:
                # The reply to somebody who does not wait for it any more. AMQP 0-9-1 drops what it cannot route.
                logger.warning("nobody has declared the queue '%s', and there is none: the message is dropped", queue)
                return
            await topology.declare_queue(queue, settings)
            await self._bus.send(path, message)

    # --- consuming ------------------------------------------------------------------------------------------

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False) -> None:
        call_soon(self._receiving.set_prefetch_count, prefetch_count)

    def basic_consume(
        self, queue: str, no_ack: bool = False, callback: Callback | None = None, consumer_tag: str = "", **options: Any
    ) -> str:
        if callback is None:
            raise UsageError(f"the consumer of '{queue}' has no callback")
        tag = consumer_tag or str(uuid.uuid4())
        self._consumers[tag] = (queue, no_ack, callback)
        try:
            run(self._consume_all(tag, queue, no_ack))
        except BaseException:
            del self._consumers[tag]
            raise
        return tag

    async def _consume_all(self, tag: str, queue: str, no_ack: bool) -> None:
        intake = self._receiving
        known = intake.consumed_paths(tag)
        for path in self._bus.topology.source_paths(queue):
            if path not in known:
                await intake.consume(tag, path, no_ack=no_ack)

    def basic_cancel(self, consumer_tag: str, **options: Any) -> None:
        consumer = self._consumers.pop(consumer_tag, None)
        if consumer is None or self._intake is None:
            return
        run(self._intake.cancel(consumer_tag))
        if self._bus.topology.is_exclusive(consumer[0]):
            run(self._delete_if_reachable(consumer[0]))

    async def _delete_if_reachable(self, queue: str) -> None:
        """Delete a queue that nobody else uses. If that cannot be done now, the broker does it when it is idle."""
        try:
            async with asyncio.timeout(_DELETE_S):
                await self._bus.topology.delete_queue(queue)
        except (MessagingError, TimeoutError) as error:
            logger.debug("the queue '%s' is left to be deleted when it is idle: %s", queue, error)

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Message | None:
        for path in self._bus.topology.source_paths(queue):
            delivery = run(self._receiving.get(path, no_ack=no_ack))
            if delivery is not None:
                return self._message(delivery)
        return None

    def deliver(self, delivery: Delivery) -> None:
        """Hand a message to its consumer, on the thread of the program."""
        call_soon(self._receiving.note_taken)
        consumer = self._consumers.get(delivery.consumer_tag)
        if consumer is not None:
            consumer[2](self._message(delivery))
        elif delivery.tag is not None:
            # Its consumer was cancelled while it was under way.
            call_soon(self._receiving.release, delivery.tag)

    def _message(self, delivery: Delivery) -> Message:
        envelope = read_envelope(delivery.message)
        properties = envelope["properties"]
        info = {**properties.pop("delivery_info"), "consumer_tag": delivery.consumer_tag}
        return Message(
            body=envelope["body"],
            delivery_tag=delivery.tag,
            content_type=envelope["content-type"],
            content_encoding=envelope["content-encoding"],
            delivery_info=info,
            properties=properties,
            headers=envelope["headers"],
            channel=self,
        )

    def message_to_python(self, message: Message) -> Message:
        return message

    @property
    def _receiving(self) -> Intake:
        if self._intake is None:
            self._intake = Intake(self._bus, self._hand_over)
        return self._intake

    def _hand_over(self, item: Delivery | Exception) -> None:
        self._bus.handover.put(item if isinstance(item, Exception) else (self, item))

    # --- settling -------------------------------------------------------------------------------------------

    def basic_ack(self, delivery_tag: int | None, multiple: bool = False) -> None:
        if delivery_tag is not None:
            call_soon(self._receiving.complete, delivery_tag)

    def basic_reject(self, delivery_tag: int | None, requeue: bool = False) -> None:
        """Give the message back; without `requeue` it becomes a dead letter."""
        if delivery_tag is not None:
            call_soon(self._receiving.abandon if requeue else self._receiving.dead_letter, delivery_tag)

    def basic_recover(self, requeue: bool = False) -> None:
        call_soon(self._receiving.release_all)

    def flow(self, active: bool = True) -> None:
        raise UsageError("this transport has no flow: set the prefetch count, or cancel the consumer")

    def close(self) -> None:
        """Stop consuming, and give back what was not acknowledged."""
        if self.closed or self._bus.is_inherited:
            return
        self.closed = True
        for tag in list(self._consumers):
            self.basic_cancel(tag)
        if self._intake is not None:
            run(self._intake.close())
        self._bus.channels.remove(self)
        self.connection = None


def _missing(kind: str, name: str) -> ChannelError:
    return ChannelError(f"NOT_FOUND - no {kind} {name!r}", (50, 10), f"Channel.{kind}_declare", str(_NOT_FOUND))


def _seconds(arguments: dict[str, Any] | None, name: str) -> timedelta | None:
    value = (arguments or {}).get(name)
    return timedelta(seconds=value) if isinstance(value, int | float) and not isinstance(value, bool) else None
