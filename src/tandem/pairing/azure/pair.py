"""What both drivers of the official SDK have in common: the options, the names, the states of the entities."""

from __future__ import annotations

import abc
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from tandem.client import sync
from tandem.client.messaging_factory import MessagingFactory
from tandem.client.namespace_manager import NamespaceManager
from tandem.client.service_address import parse_connection_string
from tandem.errors import ConfigurationError
from tandem.pairing.azure.judging import is_unanswered
from tandem.pairing.azure.messages import SdkMessage
from tandem.pairing.backlog import backlog_queue_path, primary_namespace_name
from tandem.pairing.detour import Outcome, PairedEntity, PairedSender, Told
from tandem.pairing.events import EventDescriber, EventReporter, Listener
from tandem.pairing.failover import FailoverState
from tandem.pairing.options import (
    DEFAULT_BACKLOG_QUEUES,
    DEFAULT_FAILOVER_INTERVAL,
    DEFAULT_PING_INTERVAL,
    asynchronous,
    check_options,
)
from tandem.pairing.rotation import BacklogRotation

__all__ = [
    "ATTEMPT_TIMEOUT_S",
    "DEFAULT_BATCH_BYTES",
    "MIN_TIMEOUT_S",
    "RETRIES",
    "PairedServiceBusOptions",
    "SdkPair",
    "SdkReporter",
]

# Seconds. How long a call of a sender may take if its caller does not say.
OPERATION_TIMEOUT_S: Final = 60.0

# Seconds. How long a backlog queue may take.
ATTEMPT_TIMEOUT_S: Final = 10.0

# Seconds. The SDK takes no timeout of zero.
MIN_TIMEOUT_S: Final = 0.001

# Of the SDK's own, for clients that are made here: attempts are counted and repeated by the pair.
RETRIES: Final = 0

# Bytes. What a batch may have until its entity could be asked: what the smallest tier of the service takes.
DEFAULT_BATCH_BYTES: Final = 262_144


@dataclass
class PairedServiceBusOptions:
    """As `SendAvailabilityPairedNamespaceOptions`, whose documentation says what each is.

    `secondary_namespace_manager` makes the backlog queues; it is needed if the secondary is not given as a connection
    string.
    """

    backlog_queue_count: int = DEFAULT_BACKLOG_QUEUES
    failover_interval: timedelta = DEFAULT_FAILOVER_INTERVAL
    ping_primary_interval: timedelta = DEFAULT_PING_INTERVAL
    primary_namespace: str | None = None
    listener: Listener | None = None
    secondary_namespace_manager: NamespaceManager | sync.NamespaceManager | None = None
    # Not seeded: clients that do not know each other must not all choose the same.
    choose: Callable[[int], int] = field(default=random.SystemRandom().randrange, repr=False)

    def __post_init__(self) -> None:
        check_options(self.backlog_queue_count, self.failover_interval, self.ping_primary_interval)


# Any: the client of the SDK, with or without asyncio.
def _describe(client: Any) -> tuple[str, NamespaceManager | None]:
    """The address of what is given as a client or as a connection string, and who manages it if that can be told."""
    if isinstance(client, str):
        parts = parse_connection_string(client)
        return str(parts.address), NamespaceManager(parts.address, parts.token_provider)
    return f"sb://{client.fully_qualified_namespace}", None


class SdkReporter:
    """Writes what happens to the operations of the secondary, by a connection of its own."""

    def __init__(self, primary_address: str, secondary: MessagingFactory, listener: Listener | None) -> None:
        self._factory = secondary
        self._reporter = EventReporter(primary_address, secondary, listener, time.time)

    @staticmethod
    async def create(primary_address: str, secondary_string: str, listener: Listener | None = None) -> SdkReporter:
        """On the event loop that it will work on. The listener is told the same, in sums where these are written."""
        return SdkReporter(primary_address, MessagingFactory.from_connection_string(secondary_string), listener)

    async def tell(self, told: Told) -> None:
        self.tell_now(told)

    def tell_now(self, told: Told) -> None:
        """From the event loop."""
        self._reporter.tell(told)

    async def close(self) -> None:
        await self._reporter.close()
        await self._factory.close()


class SdkPair(abc.ABC):
    """The entities of a primary, and the backlog queues of its secondary."""

    def __init__(self, primary: Any, secondary: Any, options: PairedServiceBusOptions) -> None:
        primary_address, _ = _describe(primary)
        secondary_address, manager = _describe(secondary)
        if primary_address == secondary_address:
            raise ConfigurationError(
                f"both namespaces of the pair are {primary_address}; the secondary must be another"
            )
        self.options = options
        self.primary_address = primary_address
        self.secondary_string = secondary if isinstance(secondary, str) else None
        self.primary_namespace = options.primary_namespace or primary_namespace_name(primary_address)
        found: NamespaceManager | None = asynchronous(options.secondary_namespace_manager) or manager
        if found is None:
            raise ConfigurationError(
                "secondary_namespace_manager is missing: give it in the options, or the connection string"
            )
        self.manager = found
        self.rotation = BacklogRotation(options.backlog_queue_count, options.choose)
        self._describe = EventDescriber(primary_address, secondary_address, time.time)
        self._entities: dict[str, PairedEntity] = {}
        # Sends to either namespace that were not answered: whether they were taken is not known.
        self.unanswered_count = 0
        self._noting = threading.Lock()

    @property
    def states(self) -> dict[str, FailoverState]:
        """The state of each entity that was sent to, by its path."""
        return {entity.path: entity.state for entity in self._entities.values()}

    def note(self, outcome: Outcome) -> Outcome:
        """What came of a send."""
        if outcome.error is not None and is_unanswered(outcome.error):
            with self._noting:
                self.unanswered_count += 1
        return outcome

    def backlog_path(self, index: int) -> str:
        return backlog_queue_path(self.primary_namespace, index)

    def sender(self, path: str) -> PairedSender[SdkMessage]:
        entity = self._entities.setdefault(path.lower(), self._make_entity(path))
        return PairedSender(entity, self.rotation, OPERATION_TIMEOUT_S, time.monotonic, self.tell)

    def _make_entity(self, path: str) -> PairedEntity:
        options = self.options
        return PairedEntity(
            path,
            options.failover_interval.total_seconds(),
            options.ping_primary_interval.total_seconds(),
            time.monotonic,
            self.tell,
            self.start_watch,
        )

    def tell(self, told: Told) -> None:
        """Pass on what happened: to the listener, and to whoever writes it down."""
        if self.options.listener is not None:
            try:
                self.options.listener(self._describe(told))
            except Exception:
                # A mistake of the listener must not become one of the message that it is told about.
                sys.excepthook(*sys.exc_info())
        self.report(told)

    @abc.abstractmethod
    def report(self, told: Told) -> None:
        """Write it to the operations of the secondary, if that can be done."""

    @abc.abstractmethod
    def start_watch(self, entity: PairedEntity) -> None:
        """Follow the entity's watch in the background."""
