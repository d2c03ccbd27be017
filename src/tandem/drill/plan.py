"""What a drill is to do: what is sent and by whose client, what fails, when, and for how long."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tandem.durations import duration_text
from tandem.errors import ConfigurationError
from tandem.limits import MAX_DRILL_PAIRS

__all__ = ["ENTITIES", "NEWS", "ORDERS", "PAYMENTS", "SUBSCRIPTION", "DrillPlan", "DriverName", "Fault"]

# A queue, a queue with sessions, and a topic with one subscription.
ORDERS: Final = "orders"
PAYMENTS: Final = "payments"
NEWS: Final = "news"
SUBSCRIPTION: Final = "all"
ENTITIES: Final = (ORDERS, PAYMENTS, NEWS)

_MILLISECOND: Final = timedelta(milliseconds=1)


class Fault(enum.Enum):
    """How the primary fails."""

    # SIGKILL, and a start over the same data.
    KILL = "kill"
    DROP_CONNECTIONS = "drop-connections"
    # With an error inside the service.
    REFUSE_SENDS = "refuse-sends"
    # Sends are neither done nor answered.
    TIMEOUT = "timeout"
    # Sends are done and not answered.
    NO_ANSWER = "no-answer"
    # Sends are held up, and done when the outage is over.
    STALL = "stall"
    RESTART_ENTITY = "restart-entity"
    # These two must not lead to a failover.
    UNAUTHORIZED = "unauthorized"
    SERVER_BUSY = "server-busy"


class DriverName(enum.Enum):
    """Whose client sends and receives."""

    TANDEM = "tandem"
    AZURE = "azure"


# A process and its connections are those of all entities.
_OF_THE_NAMESPACE: Final = frozenset({Fault.KILL, Fault.DROP_CONNECTIONS})
_NO_FAILOVER: Final = frozenset({Fault.UNAUTHORIZED, Fault.SERVER_BUSY})


@dataclass(frozen=True)
class DrillPlan:
    """What is to be done. Refused if it cannot be."""

    messages: int = 1_000
    rate_per_second: float = 40.0
    outage: timedelta = timedelta(seconds=20)
    failover_interval: timedelta = timedelta(seconds=2)
    ping_interval: timedelta = timedelta(seconds=1)
    # How long one send may take. An attempt that is not answered is given up after a third of it, at most 10 s.
    operation_timeout: timedelta = timedelta(minutes=5)
    backlog_queue_count: int = 10
    fault: Fault = Fault.KILL
    # What fails; None is the whole namespace.
    entity: str | None = None
    # When it does: after this part of the messages was handed to the senders.
    begins_after: float = 0.25
    driver: DriverName = DriverName.TANDEM
    has_duplicate_detection: bool = False
    # Whether the syphon reaches the primary by another spelling of its address than the senders.
    has_two_spellings: bool = False
    # Pairs that share the secondary. Each has a primary of its own, and all of them fail together.
    pairs: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.pairs <= MAX_DRILL_PAIRS:
            raise ConfigurationError(f"pairs is {self.pairs}; it must be from 1 to {MAX_DRILL_PAIRS}")
        if self.entity is None:
            return
        if self.entity not in ENTITIES:
            raise ConfigurationError(f"entity is {self.entity!r:.80}; it must be one of {', '.join(ENTITIES)}")
        if self.fault in _OF_THE_NAMESPACE:
            raise ConfigurationError(
                f"entity is {self.entity!r}, and {self.fault.value} is for the whole namespace: leave it out"
            )

    @property
    def failing_entities(self) -> tuple[str, ...]:
        """Those that cannot be sent to during the outage."""
        return ENTITIES if self.entity is None else (self.entity,)

    @property
    def diverted_entities(self) -> tuple[str, ...]:
        """Those whose messages may take the detour."""
        return () if self.fault in _NO_FAILOVER else self.failing_entities

    @property
    def refuses_sends(self) -> bool:
        """Whether senders are told that a message was not taken, and must not be helped."""
        return self.fault is Fault.UNAUTHORIZED

    def arguments(self) -> list[str]:
        """Those of `tandem drill` for the same again."""
        times = {
            "--outage": self.outage,
            "--failover-interval": self.failover_interval,
            "--ping-interval": self.ping_interval,
            "--operation-timeout": self.operation_timeout,
        }
        arguments = ["--messages", str(self.messages), "--rate", f"{self.rate_per_second:g}"]
        for option, time in times.items():
            arguments += [option, duration_text(time // _MILLISECOND)]
        arguments += ["--backlog-queues", str(self.backlog_queue_count), "--fault", self.fault.value]
        if self.entity is not None:
            arguments += ["--entity", self.entity]
        arguments += ["--begins-after", f"{self.begins_after:g}", "--driver", self.driver.value]
        arguments += ["--pairs", str(self.pairs)]
        switches = {
            "--duplicate-detection": self.has_duplicate_detection,
            "--two-spellings": self.has_two_spellings,
        }
        return arguments + [switch for switch, is_on in switches.items() if is_on]
