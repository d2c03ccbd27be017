"""A drill by Tandem's own client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from tandem.client import (
    BrokeredMessage,
    MessagingError,
    MessagingFactory,
    MessagingFactorySettings,
    NamespaceManager,
    QueueClient,
    RetryPolicy,
)
from tandem.drill.account import Arrival
from tandem.drill.drivers import BATCH, RECEIVE_TIMEOUT_S, DrillMessage, Driver, Inbox, Pair, Send, SendFailed
from tandem.drill.plan import NEWS, PAYMENTS, SUBSCRIPTION, DrillPlan
from tandem.errors import TandemError
from tandem.pairing import (
    FailoverState,
    SendAvailabilityPairedNamespace,
    SendAvailabilityPairedNamespaceOptions,
    Syphon,
)

__all__ = ["TandemDriver"]

# Those who receive live through the outage.
_PATIENT: Final = MessagingFactorySettings(retry_policy=RetryPolicy(max_attempts=1_000, max_backoff_s=0.5))

# Seconds. How long a receiver waits for a session, and for the next message of the one that it has.
_SESSION_TIMEOUT_S: Final = 2.0
_NEXT_TIMEOUT_S: Final = 0.1


class TandemDriver(Driver):
    """`MessagingFactory.pair_namespace`. The factory that sends has the syphon, too, unless that calls the primary by
    another name: then it is the syphon of a second factory, as of another program."""

    def __init__(self, plan: DrillPlan, pair: Pair) -> None:
        super().__init__(plan, pair)
        settings = MessagingFactorySettings(operation_timeout=plan.operation_timeout)
        self._primary = MessagingFactory.from_connection_string(pair.primary, settings)
        self._secondary = MessagingFactory.from_connection_string(pair.secondary)
        # Those who receive have a factory of their own, as another program would.
        self._receiving = MessagingFactory.from_connection_string(pair.primary, _PATIENT)
        self._factories = [self._primary, self._secondary, self._receiving]
        self._options = self._pairing_options(self._secondary, enable_syphon=pair.primary_of_syphon is None)
        self._syphon_options = self._options

    def _pairing_options(
        self, secondary: MessagingFactory, *, enable_syphon: bool
    ) -> SendAvailabilityPairedNamespaceOptions:
        return SendAvailabilityPairedNamespaceOptions(
            NamespaceManager.from_connection_string(self.pair.secondary),
            secondary,
            self.plan.backlog_queue_count,
            self.plan.failover_interval,
            enable_syphon=enable_syphon,
            ping_primary_interval=self.plan.ping_interval,
            listener=self.pair.listener,
        )

    async def open(self) -> None:
        await self._primary.pair_namespace(self._options)
        if self.pair.primary_of_syphon is not None:
            primary = MessagingFactory.from_connection_string(self.pair.primary_of_syphon)
            secondary = MessagingFactory.from_connection_string(self.pair.secondary)
            self._factories += [primary, secondary]
            self._syphon_options = self._pairing_options(secondary, enable_syphon=True)
            await primary.pair_namespace(self._syphon_options)

    async def close(self) -> None:
        await asyncio.gather(*(factory.close() for factory in self._factories))

    async def make_sender(self, entity: str) -> Send:
        sender = self._primary.create_message_sender(entity)
        await sender.open()

        async def send(message: DrillMessage) -> None:
            try:
                await sender.send(_brokered(message))
            except TandemError as error:
                raise SendFailed(str(error)) from error

        return send

    async def receive(self, entity: str, inbox: Inbox) -> None:
        if entity == PAYMENTS:
            await self._receive_sessions(self._receiving.create_queue_client(entity), inbox)
            return
        if entity == NEWS:
            receive = self._receiving.create_subscription_client(entity, SUBSCRIPTION).receive_batch
        else:
            receive = self._receiving.create_queue_client(entity).receive_batch
        while not inbox.is_over:
            with contextlib.suppress(MessagingError):
                await _take(inbox, await receive(BATCH, RECEIVE_TIMEOUT_S))

    async def _receive_sessions(self, client: QueueClient, inbox: Inbox) -> None:
        while not inbox.is_over:
            with contextlib.suppress(MessagingError):
                session = await client.accept_session(None, _SESSION_TIMEOUT_S)
                try:
                    while messages := await session.receive_batch(BATCH, _NEXT_TIMEOUT_S):
                        await _take(inbox, messages)
                finally:
                    await session.close()

    @property
    def states(self) -> Mapping[str, FailoverState]:
        return _paired(self._options).states

    @property
    def unanswered_count(self) -> int:
        # Both are the same unless the syphon has a factory of its own.
        return sum(_paired(options).unanswered_count for options in {self._options, self._syphon_options})

    @property
    def syphon(self) -> Syphon:
        syphon = _paired(self._syphon_options).syphon
        assert syphon is not None
        return syphon


def _paired(options: SendAvailabilityPairedNamespaceOptions) -> SendAvailabilityPairedNamespace:
    assert options.paired_namespace is not None, "the driver was not opened"
    return options.paired_namespace


def _brokered(message: DrillMessage) -> BrokeredMessage:
    return BrokeredMessage(
        message.body,
        message_id=message.message_id,
        session_id=message.session_id,
        time_to_live=message.time_to_live,
        scheduled_enqueue_time_utc=message.scheduled_enqueue_time_utc,
        properties={"lane": message.lane, "number": message.number},
    )


async def _take(inbox: Inbox, messages: list[BrokeredMessage]) -> None:
    for message in messages:
        lane, number = message.properties["lane"], message.properties["number"]
        assert isinstance(number, int)
        inbox.take(Arrival(str(message.message_id), message.sequence_number or 0, str(lane), number))
    await asyncio.gather(*(message.complete() for message in messages))
