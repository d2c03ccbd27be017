"""What a drill asks of a client library, and which ones there are."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Final, Protocol, Self

from tandem.drill.account import Arrival
from tandem.drill.plan import DrillPlan, DriverName
from tandem.errors import ConfigurationError, TandemError
from tandem.pairing import FailoverState, Listener, Syphon

__all__ = ["BATCH", "RECEIVE_TIMEOUT_S", "DrillMessage", "Driver", "Inbox", "Pair", "Send", "SendFailed", "make_driver"]

# Messages and seconds of one receive.
BATCH: Final = 100
RECEIVE_TIMEOUT_S: Final = 0.5


class SendFailed(TandemError):
    """Neither namespace has said that it took the message."""


@dataclass(frozen=True)
class DrillMessage:
    """A message as every client library has it."""

    message_id: str
    body: str
    # In which order it is sent: within its lane. Both are properties of the message.
    lane: str
    number: int
    session_id: str | None = None
    time_to_live: timedelta | None = None
    scheduled_enqueue_time_utc: datetime | None = None


@dataclass(frozen=True)
class Pair:
    """Both namespaces by their connection strings, and the listener for the events of the pair."""

    primary: str
    secondary: str
    listener: Listener
    # The primary as the syphon calls it; None is the same string as above.
    primary_of_syphon: str | None = None


class Inbox(Protocol):
    """Where a driver puts what it received."""

    @property
    def is_over(self) -> bool:
        """Whether to end."""

    def take(self, arrival: Arrival) -> None:
        """Count it. It is completed afterwards."""


# Returns when one namespace or the other has the message; raises SendFailed.
Send = Callable[[DrillMessage], Awaitable[None]]


class Driver(abc.ABC):
    """A paired client with its syphon, and receivers of the primary's entities. An async context manager."""

    def __init__(self, plan: DrillPlan, pair: Pair) -> None:
        self.plan = plan
        self.pair = pair
        # Receivers that were closed while messages may have been on their way to them.
        self.closed_receivers = 0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abc.abstractmethod
    async def open(self) -> None:
        """Pair both namespaces, and start the syphon."""

    @abc.abstractmethod
    async def close(self) -> None:
        """What happened is written down when it returns."""

    @abc.abstractmethod
    async def make_sender(self, entity: str) -> Send:
        """A sender of its own to an entity, with a link that is open."""

    @abc.abstractmethod
    async def receive(self, entity: str, inbox: Inbox) -> None:
        """Receive and complete until it is over, whatever the primary does meanwhile."""

    @property
    @abc.abstractmethod
    def states(self) -> Mapping[str, FailoverState]:
        """Of each entity that was sent to."""

    @property
    @abc.abstractmethod
    def syphon(self) -> Syphon:
        """The syphon of this pair."""

    @property
    @abc.abstractmethod
    def unanswered_count(self) -> int:
        """Messages that were handed over and not answered: whether they were taken is not known."""


def make_driver(plan: DrillPlan, pair: Pair) -> Driver:
    if plan.driver is DriverName.TANDEM:
        from tandem.drill.tandem_driver import TandemDriver

        return TandemDriver(plan, pair)
    try:
        from tandem.drill.azure_driver import AzureDriver
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "azure":
            raise
        raise ConfigurationError(
            "driver is azure, which needs the official SDK: pip install azure-servicebus, or use the driver tandem"
        ) from error
    return AzureDriver(plan, pair)
