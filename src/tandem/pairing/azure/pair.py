"""What both drivers of the official SDK have in common: the options, the names, the states of the entities."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import random
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from tandem.client import sync
from tandem.client.entities.namespace_manager import NamespaceManager
from tandem.client.errors import (
    CertificateNotTrustedError,
    HostNotFoundError,
    MessagingCommunicationError,
    OperationTimeoutError,
)
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.settings import MessagingFactorySettings
from tandem.client.wire.token_provider import token_provider_of
from tandem.connection_string import ConnectionString, ServiceAddress
from tandem.errors import ConfigurationError, TandemError
from tandem.pairing.azure.judging import is_unanswered, judge_primary, translated
from tandem.pairing.azure.messages import SdkMessage
from tandem.pairing.backlog import backlog_queue_path, ensure_backlog_queues, list_backlog_queues
from tandem.pairing.detour import Judgement, Outcome, PairedEntity, PairedSender, Told
from tandem.pairing.events import EventDescriber, EventReporter, Listener
from tandem.pairing.failover import FailoverState
from tandem.pairing.first_contact import outage_of_unknown_host, reach, require_two_namespaces
from tandem.pairing.judging import FailoverRule
from tandem.pairing.options import (
    DEFAULT_BACKLOG_QUEUES,
    DEFAULT_FAILOVER_INTERVAL,
    DEFAULT_PING_INTERVAL,
    asynchronous,
    check_options,
    check_rule,
)
from tandem.pairing.ownership import BacklogOwner, Reached, resolve_owner
from tandem.pairing.reconciling import reconcile
from tandem.pairing.rotation import BacklogRotation

__all__ = [
    "ATTEMPT_TIMEOUT_S",
    "DEFAULT_BATCH_BYTES",
    "MIN_TIMEOUT_S",
    "PROBE_PATH",
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

# The entity that a client of the SDK opens a link to, to see whether its namespace can be reached. It does not exist.
PROBE_PATH: Final = "tandem-probe"

# Seconds between two attempts to ask a primary who it is that was away at first.
_RECONCILE_INTERVAL_S: Final = 60.0


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
    failover_rule: FailoverRule = FailoverRule.AVAILABILITY
    allow_unresolved_primary: bool = False
    listener: Listener | None = None
    secondary_namespace_manager: NamespaceManager | sync.NamespaceManager | None = None
    # Not seeded: clients that do not know each other must not all choose the same.
    choose: Callable[[int], int] = field(default=random.SystemRandom().randrange, repr=False)

    def __post_init__(self) -> None:
        check_options(self.backlog_queue_count, self.failover_interval, self.ping_primary_interval)
        self.failover_rule = check_rule(self.failover_rule)


# Any: the client of the SDK, with or without asyncio.
def _describe(client: Any) -> tuple[str, NamespaceManager | None]:
    """The address of what is given as a client or as a connection string, and who manages it if that can be told."""
    if isinstance(client, str):
        given = ConnectionString.parse(client)
        return str(given.address), NamespaceManager.from_connection_string(client)
    return f"sb://{client.fully_qualified_namespace}", None


def _sdk_factory(connection_string: str) -> MessagingFactory:
    """A factory that connects as the SDK does: it trusts the same certificates, and inside TLS uses the same port."""
    # A dependency of the SDK.
    import certifi

    given = ConnectionString.parse(connection_string)
    if not given.address.is_tls:
        return MessagingFactory.from_connection_string(connection_string)
    address = ServiceAddress(given.host, None, is_tls=True)
    trusted = ssl.create_default_context(cafile=certifi.where())
    return MessagingFactory(address, token_provider_of(given), MessagingFactorySettings(ssl_context=trusted))


class SdkReporter:
    """Writes what happens to the operations of the secondary, by a connection of its own."""

    def __init__(
        self, primary_address: str, primary_namespace: str, secondary: MessagingFactory, listener: Listener | None
    ) -> None:
        self._factory = secondary
        self._reporter = EventReporter(primary_address, primary_namespace, secondary, listener, time.time)

    @staticmethod
    async def create(
        primary_address: str, primary_namespace: str, secondary_string: str, listener: Listener | None = None
    ) -> SdkReporter:
        """On the event loop that it will work on. The listener is told the same, in sums where these are written."""
        secondary = MessagingFactory.from_connection_string(secondary_string)
        return SdkReporter(primary_address, primary_namespace, secondary, listener)

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
        self._secondary_address = secondary_address
        self.secondary_string = secondary if isinstance(secondary, str) else None
        self._primary_string = primary if isinstance(primary, str) else None
        # Known once it is set up.
        self._owner: BacklogOwner | None = None
        self._describe: EventDescriber | None = None
        self._reconciling: asyncio.Task[None] | None = None
        self._reconcile_after_s = 0.0
        found: NamespaceManager | None = asynchronous(options.secondary_namespace_manager) or manager
        if found is None:
            raise ConfigurationError(
                "secondary_namespace_manager is missing: give it in the options, or the connection string"
            )
        self.manager = found
        self.rotation = BacklogRotation(options.backlog_queue_count, options.choose)
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

    @property
    def primary_namespace(self) -> str:
        """The name of the primary in its backlog queues."""
        assert self._owner is not None, "nothing is sent before set_up"
        return self._owner.name

    def backlog_path(self, index: int) -> str:
        return backlog_queue_path(self.primary_namespace, index)

    def judge(self, error: Exception) -> Judgement:
        """A send to the primary."""
        return judge_primary(error, self.options.failover_rule)

    # --- identity -------------------------------------------------------------------------------------------

    def judge_probe(self, error: Exception) -> Reached:
        """Decide what it says of a client that it could not open a link. The namespace is reached if it answered,
        whatever it answered: without an entity to ask for, a wrong key cannot be told from one for another entity."""
        same = translated(error)
        if isinstance(same, CertificateNotTrustedError):
            raise same from error
        if isinstance(same, HostNotFoundError):
            return outage_of_unknown_host(same, allow_unresolved=self.options.allow_unresolved_primary)
        return Reached(not isinstance(same, MessagingCommunicationError | OperationTimeoutError))

    async def set_up_backlog(self, probed: Reached | None) -> None:
        """Reach both namespaces, and find or make the backlog queues. `probed` is what is known of a primary that was
        given as a client; one that was given as a connection string is asked here."""
        options = self.options
        queues = await list_backlog_queues(self.manager)
        reached = probed or await self._reach_primary()
        owner = resolve_owner(ServiceAddress.parse(self.primary_address), reached, options.primary_namespace, queues)
        if self.secondary_string is not None:
            async with _sdk_factory(self.secondary_string) as secondary:
                await require_two_namespaces(owner, self.primary_address, secondary)
        options.backlog_queue_count = await ensure_backlog_queues(
            self.manager, owner, options.backlog_queue_count, queues
        )
        self._owner = owner
        self._describe = EventDescriber(self.primary_address, owner.name, self._secondary_address, time.time)

    async def _reach_primary(self) -> Reached:
        assert self._primary_string is not None
        async with _sdk_factory(self._primary_string) as factory:
            return await reach(factory, allow_unresolved=self.options.allow_unresolved_primary)

    @property
    def is_reconciling_due(self) -> bool:
        """Whether the primary has answered, which was away at `set_up`, and can be asked who it is."""
        is_known = self._owner is None or self._owner.id is not None or self._primary_string is None
        is_running = self._reconciling is not None and not self._reconciling.done()
        return not is_known and not is_running and time.monotonic() >= self._reconcile_after_s

    async def start_reconciling(self) -> None:
        """Ask the primary who it is, in the background."""
        self._reconcile_after_s = time.monotonic() + _RECONCILE_INTERVAL_S
        self._reconciling = asyncio.create_task(self._reconcile())

    async def _reconcile(self) -> None:
        assert self._owner is not None
        # It has answered a send and is away again, or says that it is configured wrongly: sends find that out.
        with contextlib.suppress(TandemError):
            reached = await self._reach_primary()
            if reached.is_reached:
                found = resolve_owner(ServiceAddress.parse(self.primary_address), reached, None, ())
                count = self.options.backlog_queue_count
                self._owner, _ = await reconcile(self.manager, self._owner, found, count, self.tell_soon)

    async def stop_reconciling(self) -> None:
        if self._reconciling is not None:
            self._reconciling.cancel()
            await asyncio.wait([self._reconciling])

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
            assert self._describe is not None, "nothing happens before set_up"
            try:
                self.options.listener(self._describe(told))
            except Exception:
                # A mistake of the listener must not become one of the message that it is told about.
                sys.excepthook(*sys.exc_info())
        self.report(told)

    @abc.abstractmethod
    def tell_soon(self, told: Told) -> None:
        """Pass on what happened, from the event loop of `tandem.client`."""

    @abc.abstractmethod
    def report(self, told: Told) -> None:
        """Write it to the operations of the secondary, if that can be done."""

    @abc.abstractmethod
    def start_watch(self, entity: PairedEntity) -> None:
        """Follow the entity's watch in the background."""
