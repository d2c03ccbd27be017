"""The figures of a drill, as they are printed and saved as JSON. Times are seconds; zero is when the outage began."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, Final

from tandem.drill.account import Account, Ending, expectations, violations
from tandem.drill.chronicle import Chronicle
from tandem.drill.formula import Operations
from tandem.drill.plan import DrillPlan
from tandem.pairing.outage_times import OUTAGE_TIMES, outage_times

__all__ = ["MEANINGS", "combine_figures", "make_figures"]

# What each figure means, in print and on the page. A row fits into 80 columns.
MEANINGS: Final = {
    "sent": "messages acknowledged by either namespace",
    "received": "sent messages received from the primary",
    "lost": "sent messages never received",
    "duplicates": "extra copies received",
    "unanswered": "sends without an answer: upper bound on duplicates",
    "out_of_order": "received behind a later message of the same sender",
    "diverted": "sent to the secondary during the outage",
    "syphoned": "moved from the secondary to the primary",
    "redelivered": "delivered again: the completion did not arrive",
    "refused": "failed sends",
    "pings": "pings to the primary during the outage",
    "backlog_receives": "receives from the backlog, as metered",
    "extra_receives": "receives beyond one for each message in the backlog",
    "empty_polls": "polls of the backlog without a message, as metered",
    "peeks": "peeks at the backlog, as metered",
    **OUTAGE_TIMES,
    "return_seconds": "from the primary's return until all entities are back",
    "outage_seconds": "from the start of the outage to the primary's return",
}

_SUMMED: Final = (
    "sent",
    "received",
    "lost",
    "duplicates",
    "unanswered",
    "out_of_order",
    "diverted",
    "syphoned",
    "redelivered",
    "refused",
    "pings",
)
_TIMES: Final = (*OUTAGE_TIMES, "return_seconds", "outage_seconds")

# Seconds. Curves have a point for each of these in which something happened.
_STEP_S: Final = 0.1

# Events that are moments; the others are sums.
_MOMENTS: Final = frozenset({"failing", "failed-over", "ping", "restored", "backlog-queue-removed"})


# Any: the figures are what is printed as JSON.
def make_figures(plan: DrillPlan, account: Account, chronicle: Chronicle, ending: Ending) -> dict[str, Any]:
    """The figures of one pair."""
    return {
        "sent": len(account.sent),
        "received": len(account.sent.keys() & account.received.keys()),
        "lost": len(account.missing),
        "duplicates": account.duplicates,
        "unanswered": ending.unanswered,
        "out_of_order": account.out_of_order,
        "diverted": chronicle.total("diverted"),
        "syphoned": chronicle.total("syphoned"),
        "redelivered": account.redelivered,
        "refused": account.refused,
        "pings": len(chronicle.of("ping")),
        **_outage_times(chronicle),
        "return_seconds": _between(chronicle.returned_s, chronicle.last_s("restored")),
        "outage_seconds": _between(chronicle.began_s, chronicle.returned_s),
        "fault": plan.fault.value,
        "entity": plan.entity,
        "driver": plan.driver.value,
        "duplicate_detection": plan.has_duplicate_detection,
        "command": shlex.join(["tandem", "drill", *plan.arguments()]),
        "expected": expectations(plan),
        "violations": violations(plan, account, ending),
        **_course(account, chronicle),
    }


# Any: as above.
def combine_figures(each: list[dict[str, Any]], metered: Operations, broken: list[str]) -> dict[str, Any]:
    """The figures of all pairs of a drill: sums, the longest times, and the course of the first pair."""
    combined = dict(each[0])
    for name in _SUMMED:
        combined[name] = sum(figures[name] for figures in each)
    for name in _TIMES:
        combined[name] = max((figures[name] for figures in each if figures[name] is not None), default=None)
    combined |= {
        "backlog_receives": metered.backlog_receives,
        "extra_receives": metered.extra_receives,
        "empty_polls": metered.empty_polls,
        "peeks": metered.peeks,
    }
    violations = each[0]["violations"]
    if len(each) > 1:
        violations = [
            f"pair {number}: {one}" for number, figures in enumerate(each, 1) for one in figures["violations"]
        ]
    combined["violations"] = violations + broken
    return combined


def _course(account: Account, chronicle: Chronicle) -> dict[str, Any]:
    """What happened when: all that a picture of it needs."""
    began_s = chronicle.began_s

    def since(at_s: float) -> float:
        return round(at_s - began_s, 3)

    timeline = [
        {"seconds": since(at_s), "event": event["event"], "entity": event["entity"], "outcome": event.get("outcome")}
        for at_s, event in chronicle.events
        if event["event"] in _MOMENTS
    ]
    states = [
        {"seconds": since(at_s), "entity": entity, "state": state.value} for at_s, entity, state in chronicle.changes
    ]
    arrivals = {
        "sent": [(at_s, 1) for at_s in account.sent.values()],
        "diverted": chronicle.counts("diverted"),
        "syphoned": chronicle.counts("syphoned"),
        "received": [(at_s, 1) for at_s in account.received_s],
    }
    return {
        "started_seconds": since(chronicle.started_s),
        "ended_seconds": since(chronicle.ended_s),
        "timeline": timeline,
        "states": states,
        "curves": {name: _curve(counts, began_s) for name, counts in arrivals.items()},
    }


def _outage_times(chronicle: Chronicle) -> dict[str, float | None]:
    """The longest time of any entity, for each of the times of an outage."""
    each = [
        outage_times(one for one in chronicle.events if one[1]["entity"] == entity) for entity in chronicle.failed_over
    ]
    return {
        name: max((value for times in each if (value := getattr(times, name)) is not None), default=None)
        for name in OUTAGE_TIMES
    }


def _between(start_s: float, end_s: float | None) -> float | None:
    """Seconds, or None for what did not happen."""
    return None if end_s is None else round(max(0.0, end_s - start_s), 3)


def _curve(counts: Iterable[tuple[float, int]], origin_s: float) -> list[list[float]]:
    """How many there were in all, at the end of each step."""
    steps: dict[int, int] = {}
    for at_s, count in counts:
        step = int((at_s - origin_s) // _STEP_S) + 1
        steps[step] = steps.get(step, 0) + count
    total = 0
    curve: list[list[float]] = []
    for step in sorted(steps):
        total += steps[step]
        curve.append([round(step * _STEP_S, 1), total])
    return curve
