"""What kombu makes of a broker URL."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final

from kombu.exceptions import ChannelError
from kombu.transport import base

import tandem
from tandem.celery import channel as channels
from tandem.celery.broker_url import read_broker_url, shown_url
from tandem.celery.bus_connection import BusConnection
from tandem.celery.routing_keys import DIRECT, FANOUT, TOPIC
from tandem.client import (
    MessagingCommunicationError,
    MessagingEntityNotFoundError,
    MessagingError,
    OperationTimeoutError,
    ServerBusyError,
)

if TYPE_CHECKING:
    from kombu import Connection
    from kombu.asynchronous import Hub

__all__ = ["Transport"]

# Seconds. If neither kombu nor Celery says otherwise.
_CONNECT_S: Final = 5.0


class Transport(base.Transport):  # type: ignore[misc] # kombu has no types for it
    """Tandem, or a namespace of Azure Service Bus, as a broker of kombu's."""

    Channel = channels.Channel
    can_parse_url = True
    # It is AMQP, 1.0: Celery lets workers gossip and mingle over those transports only.
    driver_type = "amqp"
    driver_name = "tandem"
    # kombu connects again, and declares again, after these. An entity that was deleted is among them.
    connection_errors = (
        MessagingCommunicationError,
        OperationTimeoutError,
        ServerBusyError,
        MessagingEntityNotFoundError,
    )
    recoverable_connection_errors = connection_errors
    channel_errors = (MessagingError, ChannelError)
    # What else is refused is refused again: kombu would repeat it without a pause.
    recoverable_channel_errors: tuple[type[Exception], ...] = ()
    implements = base.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset([DIRECT, TOPIC, FANOUT]), heartbeats=False
    )

    def __init__(self, client: Connection, **options: Any) -> None:
        super().__init__(client, **options)
        self._connection_string = read_broker_url(client.hostname, client.alt or [])
        # kombu took the parts for URLs of several brokers, and would try them in turn.
        client.hostname, client.alt, client.cycle = self._connection_string, [], None

    def driver_version(self) -> str:
        return tandem.__version__

    def as_uri(self, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """Return the broker URL, as it is logged: without the key, whatever is asked for."""
        return shown_url(self._connection_string)

    @property
    def default_connection_params(self) -> dict[str, Any]:
        return {}

    # --- connections ----------------------------------------------------------------------------------------

    def establish_connection(self) -> BusConnection:
        connection = BusConnection(self.client, self._connection_string)
        try:
            connection.open(self.client.connect_timeout or _CONNECT_S)
        except BaseException:
            connection.close()
            raise
        return connection

    def close_connection(self, connection: BusConnection) -> None:
        connection.close()

    def _collect(self, connection: BusConnection | None) -> None:
        """Drop a connection that has failed, or that a fork has brought here."""
        if connection is not None:
            connection.close()

    def verify_connection(self, connection: BusConnection) -> bool:
        return not connection.is_closed and not connection.is_inherited

    def create_channel(self, connection: BusConnection) -> channels.Channel:
        return self.Channel(connection)

    # --- events ---------------------------------------------------------------------------------------------

    def drain_events(self, connection: BusConnection, timeout: float | None = None) -> None:
        """Deliver one message; socket.timeout if none came in time."""
        item = connection.handover.wait(timeout)
        if item is None:
            raise socket.timeout  # noqa: UP041 - the name that kombu's users know
        channel, delivery = item
        channel.deliver(delivery)

    def register_with_event_loop(self, connection: BusConnection, loop: Hub) -> None:
        loop.add_reader(connection.handover.fileno(), self._deliver_all, connection)
        connection.on_close = lambda: self.unregister_from_event_loop(connection, loop)

    def unregister_from_event_loop(self, connection: BusConnection, loop: Hub) -> None:
        loop.remove_reader(connection.handover.fileno())
        connection.on_close = None

    @staticmethod
    def _deliver_all(connection: BusConnection) -> None:
        while (item := connection.handover.take()) is not None:
            channel, delivery = item
            channel.deliver(delivery)
