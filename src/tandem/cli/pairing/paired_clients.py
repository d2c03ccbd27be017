"""Which paired clients are still there, as far as their events tell, for `tandem pair status`.

A client that was closed says so. A client whose entity has failed over reports a ping in every interval: if none came
for some intervals, the client is gone. A client without trouble reports nothing, and its silence says nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from tandem.durations import duration_text

__all__ = ["age_text", "last_heard_text", "note_client", "presence"]

# Seconds. What an event without the interval stands for: that of the options, if nothing else was chosen.
_USUAL_PING_INTERVAL_S: Final = 60.0

# Intervals. One ping may be late, and one report may be lost.
_MISSED_PINGS: Final = 3

_AWAY: Final = ("failing", "failed-over")


def note_client(one: dict[str, Any], event: dict[str, Any]) -> None:
    """Remember when a client was heard of last, and what it said about itself. Events come in their order."""
    one["last_heard"] = event.get("time")
    one["is_closed"] = one.get("is_closed", False) or event.get("event") == "closed"
    interval_s = event.get("ping_interval_s")
    if isinstance(interval_s, int | float):
        one["ping_interval_s"] = interval_s


def presence(one: dict[str, Any], now: datetime) -> str:
    """Return `closed`, `gone`, or `open` for a client that may still be there."""
    if one["is_closed"]:
        return "closed"
    age_s = _age_s(one["last_heard"], now)
    silence_s = _MISSED_PINGS * (one["ping_interval_s"] or _USUAL_PING_INTERVAL_S)
    is_silent = age_s is not None and age_s > silence_s
    return "gone" if is_silent and one["state"] in _AWAY else "open"


def last_heard_text(one: dict[str, Any], now: datetime) -> str:
    """Say when a client was heard of last, and whether it is known to be gone."""
    age, found = age_text(one["last_heard"], now), presence(one, now)
    return age if found == "open" else f"{found}, {age}"


def age_text(time: object, now: datetime) -> str:
    """Return the age of an event in its largest unit: `3h ago`; nothing for a time that cannot be read."""
    age_s = _age_s(time, now)
    if age_s is None:
        return ""
    unit_s = next((unit for unit in (86_400, 3_600, 60) if age_s >= unit), 1)
    return f"{duration_text(int(age_s) // unit_s * unit_s * 1_000)} ago"


def _age_s(time: object, now: datetime) -> float | None:
    try:
        moment = datetime.fromisoformat(str(time))
        # The clock of a client may be ahead of ours.
        return max(0.0, (now - moment).total_seconds())
    except (TypeError, ValueError):
        return None
