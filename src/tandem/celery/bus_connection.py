"""One connection of kombu's: the senders, the entities and the channels that share it."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tandem.celery.handover import Handover
from tandem.celery.intake import Delivery
from tandem.celery.topology import Topology, TopologyOptions, duration_option
from tandem.client import (
    BrokeredMessage,
    MessageReceiver,
    MessageSender,
    MessagingEntityNotFoundError,
    MessagingFactory,
    MessagingFactorySettings,
    NamespaceManager,
    NoRetry,
    OperationTimeoutError,
    ReceiveMode,
    RetryPolicy,
)
from tandem.client.blocking import run
from tandem.errors import UsageError

if TYPE_CHECKING:
    from kombu import Connection

    from tandem.celery.channel import Channel

__all__ = ["BusConnection"]

logger = logging.getLogger(__name__)

# Links for sending that are kept open. Results go to a queue of each caller: the one unused longest is closed.
_MAX_SENDERS: Final = 100

# Seconds. How long a close waits for the broker.
_CLOSE_S: Final = 5.0

# A publish, a declaration or an acknowledgement tries for this long to reach the broker. Then it is left to kombu and
# Celery, which have retry policies of their own. Attempts follow each other closely: the event loop of a worker waits
# for a publish.
_OPERATION_TIMEOUT: Final = timedelta(seconds=10)
_RETRY_POLICY: Final = RetryPolicy(max_attempts=1_000, max_backoff_s=0.5)

_USER_AGENT: Final = "tandem-celery"


class BusConnection:
    """What kombu calls a connection. Its methods wait; they are called by the thread of the program."""

    def __init__(self, client: Connection, connection_string: str) -> None:
        # kombu looks for the connection of a channel's connection under this name.
        self.client: Connection | None = client
        options = dict(client.transport_options or {})
        settings = MessagingFactorySettings(
            operation_timeout=duration_option(options, "operation_timeout", _OPERATION_TIMEOUT),
            retry_policy=_RETRY_POLICY,
            ssl_context=_tls_context(client.ssl),
            user_agent=_USER_AGENT,
        )
        self._factory = MessagingFactory.from_connection_string(connection_string, settings)
        manager = NamespaceManager.from_connection_string(connection_string, settings)
        self.topology = Topology(manager, TopologyOptions.read(options))
        self.handover: Handover[tuple[Channel, Delivery]] = Handover()
        self.channels: list[Channel] = []
        self._senders: OrderedDict[str, MessageSender] = OrderedDict()
        self._process_id = os.getpid()
        self.is_closed = False
        # Called before the descriptor of the handover is closed.
        self.on_close: Callable[[], None] | None = None

    def open(self, timeout_s: float) -> None:
        """Connect and prove the key. What keeps the broker from being reached is raised."""

        async def identify() -> None:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._factory.identify(NoRetry())
            except TimeoutError:
                raise OperationTimeoutError(f"{self._factory.address} did not answer within {timeout_s:g} s") from None

        run(identify())

    @property
    def is_inherited(self) -> bool:
        """Whether a fork has brought it here: it belongs to the parent, whose threads and sockets it uses."""
        return self._process_id != os.getpid()

    # --- for the event loop of the client library -----------------------------------------------------------

    def receiver(self, path: str, receive_mode: ReceiveMode) -> MessageReceiver:
        return self._factory.create_message_receiver(path, receive_mode, prefetch_count=0)

    async def lock_duration_s(self, path: str) -> float:
        return await self.topology.lock_duration_s(path)

    async def send(self, path: str, message: BrokeredMessage) -> None:
        """Return when the broker has the message on disk."""
        sender = await self._sender(path)
        try:
            await sender.send(message)
        except MessagingEntityNotFoundError:
            self._senders.pop(path, None)
            await sender.close()
            raise

    async def cancel_scheduled(self, path: str, sequence_numbers: Sequence[int]) -> None:
        await (await self._sender(path)).cancel_scheduled(*sequence_numbers)

    async def _sender(self, path: str) -> MessageSender:
        sender = self._senders.get(path)
        if sender is None:
            sender = self._senders[path] = self._factory.create_message_sender(path)
            if len(self._senders) > _MAX_SENDERS:
                await self._senders.popitem(last=False)[1].close()
        self._senders.move_to_end(path)
        return sender

    # --- closing --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give back what the channels hold, and close the connection. A broker that is gone does not hold this up."""
        if self.is_closed or self.is_inherited:
            return
        self.is_closed = True
        for channel in list(self.channels):
            channel.close()
        if self.on_close is not None:
            self.on_close()
        self.handover.close()
        run(self._close_factory())

    async def _close_factory(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._factory.close()
        except TimeoutError:
            logger.debug("%s did not say goodbye within %g s", self._factory.address, _CLOSE_S)


def _tls_context(wanted: Any) -> ssl.SSLContext | None:
    """Return the context that `broker_use_ssl` describes; None for the system's own certificates."""
    if not isinstance(wanted, dict):
        return None
    unknown = sorted(set(wanted) - {"ca_certs"})
    if unknown:
        raise UsageError(
            f"broker_use_ssl has {', '.join(unknown)}; this transport takes ca_certs, a file with the certificates to "
            "trust. Whether TLS is used is for the connection string to say."
        )
    return ssl.create_default_context(cafile=wanted.get("ca_certs"))
