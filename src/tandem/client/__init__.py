"""The client library: the service's own names in Python, over AMQP, against Tandem and against the cloud service.

    async with MessagingFactory.from_connection_string(connection_string) as factory:
        orders = factory.create_queue_client("orders")
        await orders.send(BrokeredMessage("a table, four chairs", label="order"))
        message = await orders.receive(timeout=5)
        await message.complete()

`tandem.client.sync` has the same names for programs without asyncio.
"""

from typing import TYPE_CHECKING

from tandem.client.entities.entity import NEVER, ConsumerGroupDescription, RuleDescription
from tandem.client.entities.generated import (
    EventHubDescription,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from tandem.client.entities.namespace_manager import NamespaceManager
from tandem.client.errors import (
    CertificateNotTrustedError,
    HostNotFoundError,
    InvalidOperationError,
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingCommunicationError,
    MessagingEntityAlreadyExistsError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    MessagingError,
    OperationTimeoutError,
    QuotaExceededError,
    ReceiverDisconnectedError,
    ServerBusyError,
    SessionCannotBeLockedError,
    SessionLockLostError,
    TransactionError,
    UnauthorizedAccessError,
)
from tandem.client.hubs.broker_store import BrokerCheckpointStore
from tandem.client.hubs.checkpoint_store import Checkpoint, CheckpointStore, Ownership, Stream
from tandem.client.hubs.event_data import EventData
from tandem.client.hubs.event_hub_client import (
    DEFAULT_CONSUMER_GROUP,
    EventHubClient,
    EventHubProperties,
    PartitionProperties,
)
from tandem.client.hubs.event_hub_consumer import EventHubConsumer
from tandem.client.hubs.event_hub_producer import EventHubProducer
from tandem.client.hubs.event_position import EventPosition
from tandem.client.hubs.event_processor import (
    CloseReason,
    EventHandler,
    EventProcessor,
    EventProcessorSettings,
    PartitionContext,
)
from tandem.client.hubs.file_store import FileCheckpointStore
from tandem.client.hubs.sqlite_store import SqliteCheckpointStore
from tandem.client.messaging.message import BrokeredMessage, MessageState
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.messaging.queue_client import QueueClient
from tandem.client.messaging.receiver import MessageReceiver, ReceiveMode
from tandem.client.messaging.sender import MessageSender
from tandem.client.messaging.session import MessageSession
from tandem.client.messaging.subscription_client import SubscriptionClient
from tandem.client.messaging.topic_client import TopicClient
from tandem.client.messaging.transaction import Transaction
from tandem.client.service_bus_environment import ServiceBusEnvironment
from tandem.client.settings import MessagingFactorySettings
from tandem.client.wire.retry import NoRetry, RetryPolicy
from tandem.client.wire.token_provider import Token, TokenProvider
from tandem.client.wire.waiting import Waiting
from tandem.entity_settings import EntityStatus
from tandem.namespace_identity import NamespaceIdentity
from tandem.rules import CorrelationFilter, FalseFilter, SqlFilter, TrueFilter
from tandem.rules import SqlAction as SqlRuleAction

if TYPE_CHECKING:
    from tandem.pairing import PairedNamespaceOptions, SendAvailabilityPairedNamespaceOptions
else:
    from tandem.client import pairing_names

    __getattr__ = pairing_names.load_pairing_name

__all__ = [
    "DEFAULT_CONSUMER_GROUP",
    "NEVER",
    "BrokerCheckpointStore",
    "BrokeredMessage",
    "CertificateNotTrustedError",
    "Checkpoint",
    "CheckpointStore",
    "CloseReason",
    "ConsumerGroupDescription",
    "CorrelationFilter",
    "EntityStatus",
    "EventData",
    "EventHandler",
    "EventHubClient",
    "EventHubConsumer",
    "EventHubDescription",
    "EventHubProducer",
    "EventHubProperties",
    "EventPosition",
    "EventProcessor",
    "EventProcessorSettings",
    "FalseFilter",
    "FileCheckpointStore",
    "HostNotFoundError",
    "InvalidOperationError",
    "MessageLockLostError",
    "MessageNotFoundError",
    "MessageReceiver",
    "MessageSender",
    "MessageSession",
    "MessageSizeExceededError",
    "MessageState",
    "MessagingCommunicationError",
    "MessagingEntityAlreadyExistsError",
    "MessagingEntityDisabledError",
    "MessagingEntityNotFoundError",
    "MessagingError",
    "MessagingFactory",
    "MessagingFactorySettings",
    "NamespaceIdentity",
    "NamespaceManager",
    "NoRetry",
    "OperationTimeoutError",
    "Ownership",
    "PairedNamespaceOptions",
    "PartitionContext",
    "PartitionProperties",
    "QueueClient",
    "QueueDescription",
    "QuotaExceededError",
    "ReceiveMode",
    "ReceiverDisconnectedError",
    "RetryPolicy",
    "RuleDescription",
    "SendAvailabilityPairedNamespaceOptions",
    "ServerBusyError",
    "ServiceBusEnvironment",
    "SessionCannotBeLockedError",
    "SessionLockLostError",
    "SqlFilter",
    "SqlRuleAction",
    "SqliteCheckpointStore",
    "Stream",
    "SubscriptionClient",
    "SubscriptionDescription",
    "Token",
    "TokenProvider",
    "TopicClient",
    "TopicDescription",
    "Transaction",
    "TransactionError",
    "TrueFilter",
    "UnauthorizedAccessError",
    "Waiting",
]
