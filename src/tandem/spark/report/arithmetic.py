"""What the documents of the service say that a pair of namespaces costs, beside what the brokers metered.

The documents count four charges for each message that takes the detour, pings while an entity is unavailable, and the
long polls of the syphon: 15 minutes each, so that 10 backlog queues make 40 in an hour, 960 in a day and 28,800 in 30
days. Each operation is charged by its size, in units of 64 KB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tandem.cost.estimate import Workload
from tandem.spark.report.names import is_backlog_queue
from tandem.spark.report.results import Results, Row

__all__ = ["Charge", "Charges", "StandingCost", "backlog_queue_count", "charges", "per_million", "standing_costs"]

_OK: Final = "ok"
_MILLION: Final = 1_000_000
_HOUR_S: Final = 3_600
_PERIODS: Final = {"an hour": _HOUR_S, "a day": 24 * _HOUR_S, "30 days": 30 * 24 * _HOUR_S}


@dataclass(frozen=True)
class Charge:
    """One kind of operation: how the documents count it, and what was metered."""

    name: str
    arithmetic: str
    expected: int
    metered: int
    units: int
    cost: Decimal


@dataclass(frozen=True)
class Charges:
    """Every charge of a pair."""

    detour: Sequence[Charge]
    upkeep: Sequence[Charge]


@dataclass(frozen=True)
class StandingCost:
    """The empty polls of an idle pair in some time, and what they cost if that is known."""

    period: str
    polls: int
    cost: Decimal | None


def per_million(cost: Decimal, units: int) -> Decimal | None:
    """Return what a million units cost at the rate of these."""
    return cost / units * _MILLION if units else None


def charges(results: Results, observed_s: float) -> Charges | None:
    """Return the charges of a pair, or None where nothing says that there is one."""
    queues = backlog_queue_count(results.costs)
    diverted, syphoned, asked = (
        sum(int(row[name]) for row in results.outages) for name in ("diverted", "syphoned", "pings")
    )
    if not queues and not results.outages:
        return None
    each = f"1 × {diverted:,} diverted"
    back = f"1 × {syphoned:,} syphoned"
    polls = Workload(duration_s=max(1, round(observed_s)), backlog_queues=queues).empty_polls
    received = _metered(results.costs, ("receive",), "direct")
    detour = [
        _charge("Send to the backlog", each, diverted, _metered(results.costs, ("send",), "backlog")),
        _charge("Receive from the backlog", each, diverted, _metered(results.costs, ("receive",), "syphon")),
        # A message whose scheduled time has not come is metered as such.
        _charge("Send to the primary", back, syphoned, _metered(results.costs, ("send", "schedule"), "syphon")),
        # The application receives these among all others: their part of the cost is what the documents say.
        _part("Receive from the primary", back, syphoned, received),
    ]
    hours = f"{observed_s / _HOUR_S:.3g} h"
    upkeep = [
        _charge(
            "Pings",
            f"{asked:,} sent, 1 per interval, entity and client",
            asked,
            _metered(results.costs, ("ping",), None),
        ),
        _charge(
            "Empty long polls",
            f"{queues} queues × 4 an hour × {hours} = {polls:,}",
            polls,
            _metered(results.costs, ("empty-receive",), "syphon"),
        ),
    ]
    return Charges(detour, upkeep)


def standing_costs(results: Results) -> list[StandingCost]:
    """Return what the pair costs while nothing happens, in an hour, a day and 30 days."""
    queues = backlog_queue_count(results.costs)
    if not queues:
        return []
    _, units, cost = _metered(results.costs, ("empty-receive",), "syphon")
    found: list[StandingCost] = []
    for period, duration_s in _PERIODS.items():
        polls = Workload(duration_s=duration_s, backlog_queues=queues).empty_polls
        found.append(StandingCost(period, polls, cost / units * polls if units else None))
    return found


def backlog_queue_count(costs: Iterable[Row]) -> int:
    return len({(row["namespace"], row["entity"]) for row in costs if is_backlog_queue(row["entity"])})


_Metered = tuple[int, int, Decimal]


def _metered(costs: Iterable[Row], operations: Sequence[str], stage: str | None) -> _Metered:
    """Operations that succeeded, their units and their cost."""
    rows = [
        row
        for row in costs
        if row["operation"] in operations and stage in {None, row["stage"]} and row.get("outcome", _OK) == _OK
    ]
    cost = sum((row["cost"] for row in rows), Decimal(0))
    return sum(row["operations"] for row in rows), sum(row["units"] for row in rows), cost


def _charge(name: str, arithmetic: str, expected: int, metered: _Metered) -> Charge:
    return Charge(name, arithmetic, expected, *metered)


def _part(name: str, arithmetic: str, expected: int, metered: _Metered) -> Charge:
    """The share of these messages in what was metered for all of them."""
    count, units, cost = metered
    if count <= expected:
        return Charge(name, arithmetic, expected, count, units, cost)
    share = Decimal(expected) / count
    return Charge(name, f"{arithmetic}, of {count:,} in all", expected, expected, round(units * share), cost * share)
