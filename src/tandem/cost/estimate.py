"""An estimate of what a pair of namespaces costs, counted by hand, without a broker and without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tandem.cost.tariff import Tariff
from tandem.engine.metering import billable_units
from tandem.errors import ConfigurationError

__all__ = ["CostLine", "Workload", "estimate"]

# Seconds. Thirty days.
_MONTH_S: Final = 30 * 86_400

# Names that stand for any, so that rates for certain entities or namespaces do not apply.
_PRIMARY: Final = "primary"
_SECONDARY: Final = "secondary"
_BACKLOG_QUEUE: Final = "primary/x-servicebus-transfer/0"


@dataclass(frozen=True)
class Workload:
    """A time, and what happens in it. The usual figures are those of the mission."""

    duration_s: int = _MONTH_S
    backlog_queues: int = 10
    long_poll_s: int = 900
    outage_s: int = 0
    entities: int = 1
    clients: int = 1
    ping_interval_s: int = 60
    diverted_messages: int = 0
    message_bytes: int = 1_024
    syphons: int = 1

    def __post_init__(self) -> None:
        for name in ("backlog_queues", "outage_s", "entities", "clients", "diverted_messages", "message_bytes"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must not be negative")
        for name in ("duration_s", "long_poll_s", "ping_interval_s", "syphons"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; it must be more than 0")

    @property
    def empty_polls(self) -> int:
        """Receives without a message: each syphon always polls every backlog queue."""
        return self.duration_s * self.backlog_queues * self.syphons // self.long_poll_s

    @property
    def pings(self) -> int:
        """Each client pings each unavailable entity once in every interval."""
        return self.outage_s // self.ping_interval_s * self.entities * self.clients


@dataclass(frozen=True)
class CostLine:
    """One kind of operation. Its cost includes that of its bandwidth."""

    operation: str
    stage: str
    why: str
    operations: int
    units: int
    size_bytes: int
    bandwidth_cost: Decimal
    cost: Decimal


def estimate(workload: Workload, tariff: Tariff) -> list[CostLine]:
    """Price the empty long polls and pings of the time, and four operations for each message that takes the detour.

    Which of several syphons moves a message does not change what that costs.
    """
    polls, pings = workload.empty_polls, workload.pings
    diverted, size_bytes = workload.diverted_messages, workload.message_bytes
    lines = [
        _line(tariff, _SECONDARY, _BACKLOG_QUEUE, "empty-receive", "syphon", "long polls of the syphons", polls, 0),
        _line(tariff, _PRIMARY, _PRIMARY, "ping", "direct", "is the primary back?", pings, 0),
    ]
    for place, entity, operation, stage, why in (
        (_SECONDARY, _BACKLOG_QUEUE, "send", "backlog", "to the backlog queue"),
        (_SECONDARY, _BACKLOG_QUEUE, "receive", "syphon", "from the backlog queue"),
        (_PRIMARY, _PRIMARY, "send", "syphon", "to the entity"),
        (_PRIMARY, _PRIMARY, "receive", "direct", "by the application"),
    ):
        lines.append(_line(tariff, place, entity, operation, stage, why, diverted, size_bytes))
    return lines


def _line(
    tariff: Tariff, namespace: str, entity: str, operation: str, stage: str, why: str, count: int, size_bytes_each: int
) -> CostLine:
    units, size_bytes = count * billable_units(size_bytes_each), count * size_bytes_each
    bandwidth_cost = size_bytes * tariff.price_of_byte(namespace, entity, operation, stage)
    cost = units * tariff.price_of(namespace, entity, operation, stage) + bandwidth_cost
    return CostLine(operation, stage, why, count, units, size_bytes, bandwidth_cost, cost)
