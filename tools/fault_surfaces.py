"""What a client sees of each kind of fault on each surface of the broker.

docs/reference/faults.md shows this table; tests/compat/test_fault_surfaces.py compares it with what real clients see.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from tandem.fault_kinds import FaultKind

__all__ = ["DESCRIPTIONS", "EXPECTED", "MEANINGS", "Seen", "Surface"]


# What each kind does, and which settings it needs.
DESCRIPTIONS: Final[Mapping[FaultKind, tuple[str, str]]] = {
    FaultKind.REFUSE_SENDS: ("sending and scheduling fail", ""),
    FaultKind.REFUSE_RECEIVES: (
        "receivers are detached and no new one is let in; peeking, renewing and settling fail",
        "",
    ),
    FaultKind.REFUSE_MANAGEMENT: ("administration clients, the JSON API and rules over AMQP fail; messages flow", ""),
    FaultKind.REFUSE_EVERYTHING: ("connections drop, and every later request fails, `/health` included", "no entity"),
    FaultKind.TIMEOUT: (
        "nothing is answered: no acknowledgement, no response, no message; nothing is done, unless `perform` is set",
        "",
    ),
    FaultKind.STALL: ("everything is done and answered later, in order", "`delay_ms`"),
    FaultKind.THROTTLE: ("requests above a rate are refused with ServerBusy", "`rate_per_second`"),
    FaultKind.DROP_CONNECTIONS: (
        "connections end without an answer, those of HTTP requests in progress included, and so does each new one",
        "no entity",
    ),
    FaultKind.REFUSE_CONNECTIONS: ("the same for new connections only", "no entity"),
    FaultKind.DELAY_VISIBILITY: (
        "messages are accepted and on disk, and appear later",
        "`delay_ms`; not for event hubs",
    ),
    FaultKind.RESTART_ENTITY: (
        "links detach with `amqp:link:detach-forced`, and locks end; for its duration, sends and receives fail",
        "an entity; not for event hubs",
    ),
}


class Surface(enum.Enum):
    """A way in which clients use the broker."""

    SEND = "AMQP send"
    RECEIVE = "AMQP receive"
    SCHEDULE = "`$management` schedule"
    PEEK = "`$management` peek"
    RULES = "`$management` rules"
    AUTHENTICATION = "`$cbs`"
    ATOM = "Atom"
    REST_SEND = "REST send"
    REST_RECEIVE = "REST receive"
    JSON = "JSON API"
    EVENT_SEND = "hub send"
    EVENT_READ = "hub read"
    EVENT_PROPERTIES = "hub `$management`"


class Seen(enum.Enum):
    """What becomes of a request."""

    WORKS = "works"
    ERROR = "error"
    BUSY = "busy"
    SILENCE = "silence"
    LATE = "late"
    DROPPED = "dropped"
    APPEARS_LATER = "appears later"


MEANINGS: Final[Mapping[Seen, str]] = {
    Seen.WORKS: "the fault does not touch it",
    Seen.ERROR: "refused at once with the error of the fault",
    Seen.BUSY: "refused with ServerBusy above the rate",
    Seen.SILENCE: "no answer until the client gives up; over HTTP the connection ends with the fault",
    Seen.LATE: "performed and answered after the delay",
    Seen.DROPPED: "the connection ends without an answer",
    Seen.APPEARS_LATER: "acknowledged at once, and the message appears after the delay",
}

_SENDS: Final = (Surface.SEND, Surface.SCHEDULE, Surface.REST_SEND)
_RECEIVES: Final = (Surface.RECEIVE, Surface.PEEK, Surface.REST_RECEIVE)
_READS: Final = (Surface.EVENT_READ, Surface.EVENT_PROPERTIES)
_MANAGEMENT: Final = (Surface.RULES, Surface.ATOM, Surface.JSON)


def _row(seen: Seen, *surfaces: Surface) -> dict[Surface, Seen]:
    """The same on these surfaces, or on all if none is named; the others work."""
    return {surface: seen if not surfaces or surface in surfaces else Seen.WORKS for surface in Surface}


# Faults of the whole namespace with `include_authentication`, without which `$cbs` works; `restart-entity` for a while.
EXPECTED: Final[Mapping[FaultKind, Mapping[Surface, Seen]]] = {
    FaultKind.REFUSE_SENDS: _row(Seen.ERROR, *_SENDS, Surface.EVENT_SEND, Surface.AUTHENTICATION),
    FaultKind.REFUSE_RECEIVES: _row(Seen.ERROR, *_RECEIVES, *_READS, Surface.AUTHENTICATION),
    FaultKind.REFUSE_MANAGEMENT: _row(Seen.ERROR, *_MANAGEMENT, Surface.AUTHENTICATION),
    FaultKind.REFUSE_EVERYTHING: _row(Seen.ERROR),
    FaultKind.TIMEOUT: _row(Seen.SILENCE),
    FaultKind.STALL: _row(Seen.LATE),
    FaultKind.THROTTLE: _row(Seen.BUSY),
    FaultKind.DROP_CONNECTIONS: _row(Seen.DROPPED),
    FaultKind.REFUSE_CONNECTIONS: _row(Seen.DROPPED),
    FaultKind.DELAY_VISIBILITY: _row(Seen.APPEARS_LATER, *_SENDS),
    FaultKind.RESTART_ENTITY: _row(Seen.ERROR, *_SENDS, *_RECEIVES),
}
