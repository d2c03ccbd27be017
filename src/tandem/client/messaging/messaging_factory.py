"""What makes clients, senders and receivers, which share one connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tandem.client.errors import MessagingError
from tandem.client.messaging.interception import Pairing
from tandem.client.messaging.message import BrokeredMessage
from tandem.client.messaging.queue_client import QueueClient
from tandem.client.messaging.receiver import MessageReceiver, ReceiveMode
from tandem.client.messaging.sender import MessageSender
from tandem.client.messaging.subscription_client import SubscriptionClient
from tandem.client.messaging.topic_client import TopicClient
from tandem.client.messaging.transaction import Transaction
from tandem.client.settings import MessagingFactorySettings
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection
from tandem.client.wire.retry import NoRetry, RetryPolicy
from tandem.client.wire.token_provider import TokenProvider, token_provider_of
from tandem.connection_string import ConnectionString, ServiceAddress
from tandem.errors import StateError
from tandem.namespace_identity import NamespaceIdentity

__all__ = ["MessagingFactory"]


class _Unpaired:
    """While a factory is being paired, nobody knows yet where its messages go."""

    async def send(self, sender: MessageSender, payloads: Sequence[bytes]) -> None:
        raise StateError(f"nothing may be sent to '{sender.path}' before pair_namespace has returned: await it first")

    async def schedule(self, sender: MessageSender, messages: Sequence[BrokeredMessage]) -> list[int]:
        await self.send(sender, ())
        return []

    async def close(self) -> None:
        pass


_UNPAIRED: Final = _Unpaired()


class MessagingFactory(ClosedAtExit):
    """Makes what sends and receives. Nothing is connected before something is sent or received.

    Use it as an async context manager, or close it: that closes all that it made.
    """

    def __init__(
        self, address: ServiceAddress, token_provider: TokenProvider, settings: MessagingFactorySettings | None = None
    ) -> None:
        self._settings = settings or MessagingFactorySettings()
        self._connection = ServiceConnection(address, token_provider, self._settings)

    @classmethod
    def create(
        cls, address: str, token_provider: TokenProvider, settings: MessagingFactorySettings | None = None
    ) -> MessagingFactory:
        """For the namespace at an address: `sb://host[:port]`, or `amqp://host[:port]` without TLS."""
        return cls(ServiceAddress.parse(address), token_provider, settings)

    @classmethod
    def from_connection_string(
        cls, connection_string: str, settings: MessagingFactorySettings | None = None
    ) -> MessagingFactory:
        """For the namespace and with the key that a connection string names."""
        given = ConnectionString.parse(connection_string)
        return cls(given.address, token_provider_of(given), settings)

    @property
    def address(self) -> str:
        """Where the namespace is."""
        return str(self._connection.address)

    @property
    def settings(self) -> MessagingFactorySettings:
        """What was chosen for this factory."""
        return self._settings

    async def identify(self, retry_policy: RetryPolicy | None = None) -> NamespaceIdentity | None:
        """Connect, prove the key or token, and return the identity that the namespace reports; None if it reports none.

        What keeps the factory from sending later is raised here: a host that cannot be reached, a certificate that is
        not trusted, a wrong key.
        """
        connection = self._connection

        async def attempt() -> NamespaceIdentity | None:
            wire = await connection.wire()
            await wire.authorize(connection.token_provider.entity_path)
            return connection.identity

        return await connection.make_retrier(retry_policy).perform(attempt, f"a connection to {self.address}")

    @property
    def last_identity(self) -> NamespaceIdentity | None:
        """The identity that the namespace reported last, if it was reached. For the inside of this library."""
        return self._connection.identity

    def call_when_connected(self, call: Callable[[NamespaceIdentity | None], None]) -> None:
        """Call this with the identity of the namespace whenever it was reached. For the inside of this library."""
        self._connection.on_connected = call

    async def pair_namespace(self, options: Pairing) -> None:
        """Make this namespace the primary of a pair: what cannot be sent to it takes the detour by the secondary.

        When it returns everything is set up. Nothing may be sent before. The options come from `tandem.pairing`.
        """
        connection = self._connection
        if connection.has_sent or connection.interceptor is not None:
            raise StateError("a namespace is paired once, and before anything is sent: make a new factory for it")
        connection.interceptor = _UNPAIRED
        try:
            connection.interceptor = await options.pair(self)
        except BaseException:
            connection.interceptor = None
            raise

    @property
    def is_faulted(self) -> bool:
        """Whether it was ended by `fault`."""
        return self._connection.is_faulted

    async def fault(self, error: MessagingError) -> None:
        """End it because of an error: all that is asked of it, and of what it made, raises this error from now on."""
        if not self.is_closed:
            self._connection.fault(error)
            await self._connection.close()

    def require_open(self) -> None:
        """Raise why it is of no more use, if it was closed or faulted. For the inside of this library."""
        self._connection.require_open()

    async def connect(self) -> None:
        """Connect if there is no live connection, in one attempt. For the inside of this library."""
        retrier = self._connection.make_retrier(NoRetry())
        await retrier.perform(self._connection.wire, f"a connection to {self.address}")

    def name_role(self, role: str) -> None:
        """Say which namespace of a pair this factory is for; errors name it. For the inside of this library."""
        self._connection.role = role

    async def wait_closed(self) -> None:
        """Until it is closed, or faulted."""
        await self._connection.ended.wait()

    def with_settings(self, settings: MessagingFactorySettings) -> MessagingFactory:
        """Another factory for the same namespace with the same rights. It has a connection of its own."""
        return MessagingFactory(self._connection.address, self._connection.token_provider, settings)

    def create_direct_sender(self, path: str) -> MessageSender:
        """Sends to an entity of this namespace even if that is one of a pair. For the inside of this library."""
        return MessageSender(self._connection, path, is_direct=True)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed: what it made is of no more use then."""
        return self._connection.is_closed

    def create_queue_client(
        self, path: str, receive_mode: ReceiveMode = ReceiveMode.PEEK_LOCK, *, prefetch_count: int | None = None
    ) -> QueueClient:
        """A client that sends to a queue and receives from it."""
        return QueueClient(self._connection, path, receive_mode, self._prefetch(prefetch_count))

    def create_topic_client(self, path: str) -> TopicClient:
        """A client that sends to a topic."""
        return TopicClient(self._connection, path)

    def create_subscription_client(
        self,
        topic: str,
        name: str,
        receive_mode: ReceiveMode = ReceiveMode.PEEK_LOCK,
        *,
        prefetch_count: int | None = None,
    ) -> SubscriptionClient:
        """A client that receives from a subscription of a topic."""
        return SubscriptionClient(self._connection, topic, name, receive_mode, self._prefetch(prefetch_count))

    def create_message_sender(self, path: str, via: str | None = None) -> MessageSender:
        """Sends to a queue or a topic. With `via` a message goes through that entity, as transactions need it."""
        return MessageSender(self._connection, path, via)

    def create_message_receiver(
        self, path: str, receive_mode: ReceiveMode = ReceiveMode.PEEK_LOCK, *, prefetch_count: int | None = None
    ) -> MessageReceiver:
        """Receives from the path of a queue, of a subscription, or of a dead-letter queue."""
        return MessageReceiver(self._connection, path, receive_mode, self._prefetch(prefetch_count))

    def transaction(self) -> Transaction:
        """Sends and settlements that happen together or not at all: an async context manager."""
        return Transaction(self._connection)

    async def close(self) -> None:
        """Close everything that was made, and the connection."""
        await self._connection.close()

    def _prefetch(self, prefetch_count: int | None) -> int:
        return self._settings.prefetch_count if prefetch_count is None else prefetch_count
