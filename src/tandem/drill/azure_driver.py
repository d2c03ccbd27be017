"""A drill by the official SDK, with asyncio: `PairedServiceBusClient` sends, the SDK's own receivers receive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Final

from azure.core.exceptions import AzureError
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

from tandem.drill.account import Arrival
from tandem.drill.drivers import BATCH, RECEIVE_TIMEOUT_S, DrillMessage, Driver, Inbox, Pair, Send, SendFailed
from tandem.drill.plan import NEWS, PAYMENTS, SUBSCRIPTION, DrillPlan
from tandem.errors import TandemError
from tandem.pairing import FailoverState, Syphon
from tandem.pairing.azure import PairedServiceBusOptions, SyphonRunner
from tandem.pairing.azure.aio import PairedServiceBusClient

__all__ = ["AzureDriver"]

# What the SDK raises when a broker is away, or says no.
_ERRORS: Final = (AzureError, OSError, TandemError)

# Seconds. How long a receiver waits for a session, and for the next message of the one that it has; and how long before
# it attaches again.
_SESSION_TIMEOUT_S: Final = 2.0
_NEXT_TIMEOUT_S: Final = 0.1
_PAUSE_S: Final = 0.1


class AzureDriver(Driver):
    """With a `SyphonRunner` beside it."""

    def __init__(self, plan: DrillPlan, pair: Pair) -> None:
        super().__init__(plan, pair)
        # Lost connections are what a drill is about: the SDK's words on each would hide what it says itself.
        logging.getLogger("azure").setLevel(logging.CRITICAL)
        options = PairedServiceBusOptions(
            plan.backlog_queue_count,
            plan.failover_interval,
            plan.ping_interval,
            listener=pair.listener,
        )
        self._client = PairedServiceBusClient(pair.primary, pair.secondary, options)
        self._runner = SyphonRunner(pair.primary_of_syphon or pair.primary, pair.secondary, options)
        # Those who receive have a client of their own, as another program would.
        self._receiving = ServiceBusClient.from_connection_string(pair.primary, retry_total=0)

    async def open(self) -> None:
        await self._client.set_up()
        await self._runner.__aenter__()

    async def close(self) -> None:
        await self._runner.__aexit__(None, None, None)
        await self._client.close()
        await self._receiving.close()

    async def make_sender(self, entity: str) -> Send:
        make = self._client.get_topic_sender if entity == NEWS else self._client.get_queue_sender
        sender = make(entity)
        # The SDK asks the entity how large a batch may be, and so opens the link.
        await sender.create_message_batch()
        # A sender of the SDK does one thing at a time.
        is_free = asyncio.Lock()
        timeout_s = self.plan.operation_timeout.total_seconds()

        async def send(message: DrillMessage) -> None:
            async with is_free:
                try:
                    await sender.send_messages(_sdk_message(message), timeout=timeout_s)
                except _ERRORS as error:
                    raise SendFailed(str(error)) from error

        return send

    async def receive(self, entity: str, inbox: Inbox) -> None:
        while not inbox.is_over:
            with contextlib.suppress(*_ERRORS):
                async with self._receiver(entity) as receiver:
                    # The SDK leaves its credit with the broker when a receive ends without a message.
                    self.closed_receivers += 1
                    await _receive(receiver, inbox, is_session=entity == PAYMENTS)
                    continue
            await asyncio.sleep(_PAUSE_S)

    def _receiver(self, entity: str) -> ServiceBusReceiver:
        if entity == NEWS:
            return self._receiving.get_subscription_receiver(entity, SUBSCRIPTION)
        if entity == PAYMENTS:
            return self._receiving.get_queue_receiver(
                entity, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=_SESSION_TIMEOUT_S
            )
        return self._receiving.get_queue_receiver(entity)

    @property
    def states(self) -> Mapping[str, FailoverState]:
        return self._client.states

    @property
    def syphon(self) -> Syphon:
        assert self._runner.syphon is not None, "the driver was not opened"
        return self._runner.syphon

    @property
    def unanswered_count(self) -> int:
        return self._client.unanswered_count + self._runner.unanswered_count


async def _receive(receiver: ServiceBusReceiver, inbox: Inbox, is_session: bool) -> None:
    """Until it is over, or a session has no more."""
    timeout_s = _NEXT_TIMEOUT_S if is_session else RECEIVE_TIMEOUT_S
    while not inbox.is_over:
        messages = await receiver.receive_messages(BATCH, timeout_s)
        if is_session and not messages:
            return
        for message in messages:
            # Any: what the SDK received it has as bytes, whatever its types say.
            properties: Mapping[Any, Any] = message.application_properties or {}
            lane, number = properties[b"lane"].decode(), int(properties[b"number"])
            inbox.take(Arrival(str(message.message_id), message.sequence_number or 0, lane, number))
        for message in messages:
            await receiver.complete_message(message)


def _sdk_message(message: DrillMessage) -> ServiceBusMessage:
    return ServiceBusMessage(
        message.body,
        message_id=message.message_id,
        session_id=message.session_id,
        time_to_live=message.time_to_live,
        scheduled_enqueue_time_utc=message.scheduled_enqueue_time_utc,
        application_properties={"lane": message.lane, "number": message.number},
    )
