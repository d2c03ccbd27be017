"""What can be chosen about a pair of namespaces."""

from __future__ import annotations

import abc
import random
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tandem.client.entities.namespace_manager import NamespaceManager
from tandem.client.messaging.interception import SendInterceptor
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.wire.checks import require_timedelta, require_whole_number
from tandem.errors import ConfigurationError
from tandem.limits import MAX_BACKLOG_QUEUES, MAX_PAIRING_INTERVAL_S
from tandem.pairing.events import Listener
from tandem.pairing.judging import FailoverRule

if TYPE_CHECKING:
    from tandem.client import sync
    from tandem.pairing.send_availability import SendAvailabilityPairedNamespace

__all__ = [
    "PairedNamespaceOptions",
    "SendAvailabilityPairedNamespaceOptions",
    "asynchronous",
    "check_options",
    "check_rule",
]

DEFAULT_BACKLOG_QUEUES: Final = 10
DEFAULT_FAILOVER_INTERVAL: Final = timedelta(seconds=10)
DEFAULT_PING_INTERVAL: Final = timedelta(minutes=1)

_MAX_INTERVAL: Final = timedelta(seconds=MAX_PAIRING_INTERVAL_S)


class PairedNamespaceOptions(abc.ABC):
    """The other namespace of a pair: who may manage it, and what sends to it and receives from it.

    Pairing itself works with `asynchronous_manager` and `asynchronous_factory`, whichever kind was given.
    """

    def __init__(
        self,
        secondary_namespace_manager: NamespaceManager | sync.NamespaceManager,
        messaging_factory: MessagingFactory | sync.MessagingFactory,
    ) -> None:
        self._given = (secondary_namespace_manager, messaging_factory)
        self.asynchronous_manager: NamespaceManager = asynchronous(secondary_namespace_manager)
        self.asynchronous_factory: MessagingFactory = asynchronous(messaging_factory)
        if self.asynchronous_manager.address != self.asynchronous_factory.address:
            raise ConfigurationError(
                f"secondary_namespace_manager is for {self.asynchronous_manager.address} and messaging_factory "
                f"for {self.asynchronous_factory.address}; both must be for the secondary namespace"
            )

    # Any, here and below: of `tandem.client` or of `tandem.client.sync`, as it was given.
    @property
    def secondary_namespace_manager(self) -> Any:
        """Manages the secondary namespace: its token needs the right Manage."""
        return self._given[0]

    @property
    def messaging_factory(self) -> Any:
        """Sends to the secondary namespace and receives from it."""
        return self._given[1]

    @abc.abstractmethod
    async def pair(self, factory: MessagingFactory) -> SendInterceptor:
        """Set everything up for this primary, as `MessagingFactory.pair_namespace` asks for it."""


class SendAvailabilityPairedNamespaceOptions(PairedNamespaceOptions):
    """Sends go on while the primary cannot be sent to.

    `backlog_queue_count`: queues on the secondary that take messages in the meantime; afterwards, how many were found
    or made. `failover_interval`: how long an entity may take no message before its messages take the detour; zero means
    from the first failure on. `enable_syphon`: whether this process brings messages from the backlog to the primary;
    at least one process must. `ping_primary_interval`: how often an entity is asked whether it is back.

    `primary_namespace` replaces the primary's own name in the names of the backlog queues. `failover_rule` decides
    which errors start the failover interval. `allow_unresolved_primary` permits a primary whose host name does not
    exist when the namespaces are paired. `listener` is called with each event. `choose` draws a number below its
    argument: which backlog queue is used.
    """

    def __init__(
        self,
        secondary_namespace_manager: NamespaceManager | sync.NamespaceManager,
        messaging_factory: MessagingFactory | sync.MessagingFactory,
        backlog_queue_count: int = DEFAULT_BACKLOG_QUEUES,
        failover_interval: timedelta = DEFAULT_FAILOVER_INTERVAL,
        enable_syphon: bool = False,
        ping_primary_interval: timedelta = DEFAULT_PING_INTERVAL,
        *,
        primary_namespace: str | None = None,
        failover_rule: FailoverRule = FailoverRule.AVAILABILITY,
        allow_unresolved_primary: bool = False,
        listener: Listener | None = None,
        choose: Callable[[int], int] | None = None,
    ) -> None:
        super().__init__(secondary_namespace_manager, messaging_factory)
        check_options(backlog_queue_count, failover_interval, ping_primary_interval)
        self.backlog_queue_count = backlog_queue_count
        self.failover_interval = failover_interval
        self.enable_syphon = enable_syphon
        self.ping_primary_interval = ping_primary_interval
        self.primary_namespace = primary_namespace
        self.failover_rule = check_rule(failover_rule)
        self.allow_unresolved_primary = allow_unresolved_primary
        self.listener = listener
        # Not seeded: clients that do not know each other must not all choose the same.
        self.choose = choose or random.SystemRandom().randrange
        # What was set up: it knows the state of each entity.
        self.paired_namespace: SendAvailabilityPairedNamespace | None = None

    async def pair(self, factory: MessagingFactory) -> SendInterceptor:
        # Here, because what is made needs the options.
        from tandem.pairing.send_availability import SendAvailabilityPairedNamespace

        self.paired_namespace = await SendAvailabilityPairedNamespace.create(factory, self)
        return self.paired_namespace


def check_options(backlog_queue_count: int, failover_interval: timedelta, ping_primary_interval: timedelta) -> None:
    """Refuse invalid options by name, value and limit."""
    require_whole_number("backlog_queue_count", backlog_queue_count, ConfigurationError)
    require_timedelta("failover_interval", failover_interval, ConfigurationError)
    require_timedelta("ping_primary_interval", ping_primary_interval, ConfigurationError)
    if not 1 <= backlog_queue_count <= MAX_BACKLOG_QUEUES:
        raise ConfigurationError(
            f"backlog_queue_count is {backlog_queue_count}; it must be from 1 to {MAX_BACKLOG_QUEUES:,}, and with 1 "
            "there is no other queue to try when that one fails"
        )
    if not timedelta(0) <= failover_interval <= _MAX_INTERVAL:
        raise ConfigurationError(
            f"failover_interval is {failover_interval}; it must be from 0 (at the first failure) to {_MAX_INTERVAL}"
        )
    if not timedelta(0) < ping_primary_interval <= _MAX_INTERVAL:
        raise ConfigurationError(
            f"ping_primary_interval is {ping_primary_interval}; it must be longer than 0, and at most {_MAX_INTERVAL}"
        )


def check_rule(failover_rule: object) -> FailoverRule:
    """Return the rule; its value as text is taken too, as a configuration file has it."""
    try:
        return FailoverRule(failover_rule)
    except ValueError:
        known = ", ".join(f"'{rule.value}'" for rule in FailoverRule)
        raise ConfigurationError(
            f"failover_rule is {failover_rule!r:.80}; it must be a FailoverRule: {known}"
        ) from None


# Any: an object of `tandem.client`, or its twin of `tandem.client.sync`.
def asynchronous(thing: Any) -> Any:
    """Return the object that a twin of `tandem.client.sync` holds, and whose calls run on the twin's event loop."""
    return getattr(thing, "_twin", thing)
