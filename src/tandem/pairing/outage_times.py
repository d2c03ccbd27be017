"""The times of an outage, defined once: the drill, the availability job and its report show these and no others.

    failing ──── detect ────▶ failed over ──── restore ────▶ restored ──── drain ────▶ last message syphoned

Clients of an entity notice an outage one by one. It is detected by the first of them and over with the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

__all__ = ["OUTAGE_TIMES", "OutageTimes", "outage_times"]

# In print, and beside the figures of reports. `tandem.spark.transforms.availability` computes the same for tables.
OUTAGE_TIMES: Final = {
    "seconds_to_detect": "from the first failed send to the failover",
    "seconds_to_restore": "from the failover until every client has returned",
    "seconds_to_drain": "from the last client's return to an empty backlog",
}


class OutageTimes(NamedTuple):
    """Seconds. None stands for something that did not happen."""

    seconds_to_detect: float | None = None
    seconds_to_restore: float | None = None
    seconds_to_drain: float | None = None


def outage_times(events: Iterable[tuple[float, Mapping[str, object]]]) -> OutageTimes:
    """Return the times of the one outage of one entity, from its events and their moments in seconds."""
    in_order = sorted(events, key=lambda one: one[0])
    began: list[float] = []
    failed_over: list[float] = []
    restored: list[float | None] = []
    for client in {event.get("client") for _, event in in_order if event["event"] == "failed-over"}:
        own = [(at_s, str(event["event"])) for at_s, event in in_order if event.get("client") == client]
        first_s = next(at_s for at_s, name in own if name == "failed-over")
        # Without a failover interval there is no failing.
        began.append(max((at_s for at_s, name in own if name == "failing" and at_s <= first_s), default=first_s))
        failed_over.append(first_s)
        restored.append(max((at_s for at_s, name in own if name == "restored"), default=None))
    if not failed_over:
        return OutageTimes()
    failed_over_s = min(failed_over)
    returns = [at_s for at_s in restored if at_s is not None]
    restored_s = max(returns) if len(returns) == len(restored) else None
    return OutageTimes(
        _between(min(began), failed_over_s),
        _between(failed_over_s, restored_s),
        _between(restored_s, _drained_s(in_order)),
    )


def _drained_s(events: Iterable[tuple[float, Mapping[str, object]]]) -> float | None:
    """Return when the last message came from the backlog; None while some are still in it."""
    left = 0
    last_s: float | None = None
    for at_s, event in events:
        count = event.get("count")
        if isinstance(count, int) and event["event"] in {"diverted", "syphoned"}:
            left += count if event["event"] == "diverted" else -count
            last_s = at_s if event["event"] == "syphoned" else last_s
    return last_s if left <= 0 else None


def _between(start_s: float | None, end_s: float | None) -> float | None:
    return None if start_s is None or end_s is None else round(max(0.0, end_s - start_s), 3)
