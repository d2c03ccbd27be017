"""What a drill may cost: the operations that both brokers metered, compared with the formula.

For each message that takes the detour four charges: send to the backlog, receive from it, send to the primary, receive
from that. A message in hand when the syphon noticed the outage may be received once more, with one settlement, if its
lock ended before the primary returned. Pings, empty polls and peeks are as many as clients and syphons made. The
formula stands in docs/explain/paired-namespaces.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tandem.drill.drivers import BATCH as RECEIVE_BATCH
from tandem.drill.metered import Metered
from tandem.drill.plan import ENTITIES, DrillPlan, Fault
from tandem.pairing.backlog import backlog_queue_description
from tandem.pairing.syphon import BATCH, LOCK_RESERVE_S

__all__ = ["Made", "Operations", "overcharges"]

_SETTLEMENTS: Final = ("abandon", "renew", "defer")
# A message that its sender scheduled is metered as such if its time has not come when the syphon restores it.
_SENDS: Final = ("send", "schedule")

# Faults that end the connections or the links of receivers.
_DISCONNECTING: Final = frozenset({Fault.KILL, Fault.DROP_CONNECTIONS, Fault.RESTART_ENTITY})


@dataclass(frozen=True)
class Made:
    """What clients and syphons of all pairs know of their own operations."""

    diverted: int
    moved: int
    # What the application received from the primaries, with each redelivery and each copy.
    delivered: int
    # Receivers that were closed while messages may have been on their way to them.
    closed_receivers: int
    # Sends that were not answered: the brokers may or may not have counted them.
    unanswered: int
    pings_answered: int
    pings_unanswered: int
    empty_polls: int
    peeks: int
    # Seconds from the start of the outage to an empty backlog.
    seconds_to_empty: float


@dataclass(frozen=True)
class Operations:
    """What the brokers metered: the secondary, and the primaries of all pairs together."""

    backlog_sends: int
    backlog_receives: int
    backlog_settlements: int
    syphon_sends: int
    # Without those that the application gave back: the official SDK does so with what comes between two receives.
    primary_receives: int
    pings: int
    empty_polls: int
    peeks: int

    @classmethod
    def of(cls, secondary: Metered, primaries: Iterable[Metered]) -> Operations:
        at_primaries = list(primaries)
        return cls(
            secondary.count("send", "backlog"),
            secondary.count("receive", "syphon"),
            sum(secondary.count(settlement, "syphon") for settlement in _SETTLEMENTS),
            sum(primary.count(sent, "syphon") for primary in at_primaries for sent in _SENDS),
            sum(primary.count("receive", "direct") - primary.count("abandon", "direct") for primary in at_primaries),
            sum(primary.count("ping") for primary in at_primaries),
            secondary.count("empty-receive", "syphon"),
            secondary.count("peek", "syphon"),
        )

    @property
    def extra_receives(self) -> int:
        """Beyond one for each message in the backlog."""
        return max(0, self.backlog_receives - self.backlog_sends)


def overcharges(plan: DrillPlan, made: Made, metered: Operations) -> list[str]:
    """What was metered beyond the formula, or short of it, as sentences."""
    in_flight = _most_received_twice(plan, made)
    bounds = {
        "sends to the backlog": (metered.backlog_sends, made.diverted, made.diverted + made.unanswered),
        "receives from the backlog": (
            metered.backlog_receives,
            metered.backlog_sends,
            metered.backlog_sends + in_flight + made.unanswered,
        ),
        "settlements in the backlog that give a message back": (metered.backlog_settlements, 0, in_flight),
        "sends of the syphon to the primary": (metered.syphon_sends, made.moved, made.moved + made.unanswered),
        "receives from the primary": (metered.primary_receives, *_deliveries(plan, made)),
        "pings": (metered.pings, made.pings_answered, made.pings_answered + made.pings_unanswered),
        "empty polls": (metered.empty_polls, made.empty_polls, made.empty_polls),
        "peeks": (metered.peeks, made.peeks, made.peeks),
    }
    return [
        f"{count:,} {what} were metered, and the formula says {_range_text(least, most)}"
        for what, (count, least, most) in bounds.items()
        if not least <= count <= most
    ]


def _most_received_twice(plan: DrillPlan, made: Made) -> int:
    """Messages that may be in hand when their locks end. In an outage shorter than a lock there is none."""
    lock_s = backlog_queue_description("").lock_duration.total_seconds() - LOCK_RESERVE_S
    return 0 if made.seconds_to_empty < lock_s else BATCH * plan.backlog_queue_count * plan.pairs


def _deliveries(plan: DrillPlan, made: Made) -> tuple[int, int]:
    """Return the least and the most receives from the primary.

    Messages on their way when a connection was lost or a receiver was closed were metered and did not arrive. What a
    broker metered in the second before it was killed is not on record.
    """
    least = 0 if plan.fault is Fault.KILL else made.delivered
    lost_links = len(ENTITIES) * plan.pairs if plan.fault in _DISCONNECTING else 0
    return least, made.delivered + RECEIVE_BATCH * (lost_links + made.closed_receivers)


def _range_text(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
