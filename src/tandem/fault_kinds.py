"""The kinds of faults that a broker can be told to have, and the error that each answers with.

The broker, its JSON API, the command line, the test doubles and the drill all take names and defaults from here. The
module imports little, so that a short command can.
"""

from __future__ import annotations

import enum
from typing import Final

from tandem.errors import (
    ConnectionForced,
    DetachForced,
    EntityDisabled,
    InternalError,
    InvalidToken,
    MessageLockLost,
    MessageSizeExceeded,
    NotAllowed,
    NotFound,
    OperationTimeout,
    ProtocolError,
    QuotaExceeded,
    ServerBusy,
    SessionLockLost,
    UnauthorizedAccess,
)

__all__ = ["DEFAULT_ERRORS", "ERRORS", "MOMENTARY_KINDS", "NAMESPACE_KINDS", "FaultKind", "name_of_error"]


class FaultKind(enum.Enum):
    """What goes wrong."""

    REFUSE_SENDS = "refuse-sends"
    REFUSE_RECEIVES = "refuse-receives"
    REFUSE_MANAGEMENT = "refuse-management"
    REFUSE_EVERYTHING = "refuse-everything"
    TIMEOUT = "timeout"
    STALL = "stall"
    THROTTLE = "throttle"
    DROP_CONNECTIONS = "drop-connections"
    REFUSE_CONNECTIONS = "refuse-connections"
    DELAY_VISIBILITY = "delay-visibility"
    RESTART_ENTITY = "restart-entity"


# The errors that a fault can answer with, by the names that people give them.
ERRORS: Final[dict[str, type[ProtocolError]]] = {
    "server-busy": ServerBusy,
    "internal-error": InternalError,
    "timeout": OperationTimeout,
    "not-found": NotFound,
    "unauthorized": UnauthorizedAccess,
    "invalid-token": InvalidToken,
    "quota-exceeded": QuotaExceeded,
    "entity-disabled": EntityDisabled,
    "not-allowed": NotAllowed,
    "message-size-exceeded": MessageSizeExceeded,
    "message-lock-lost": MessageLockLost,
    "session-lock-lost": SessionLockLost,
    "detach-forced": DetachForced,
    "connection-forced": ConnectionForced,
}

# The kinds that answer with an error of the caller's choice, and the error if none is chosen.
#
# A refusal is an error inside the service: it shows what an outage does to a client, and a paired client fails over.
# For ServerBusy it would not: clients wait and retry. `throttle` always answers with that.
#
# While an entity restarts, requests time out, which a client's retry policy bridges.
DEFAULT_ERRORS: Final[dict[FaultKind, type[ProtocolError]]] = {
    FaultKind.REFUSE_SENDS: InternalError,
    FaultKind.REFUSE_RECEIVES: InternalError,
    FaultKind.REFUSE_MANAGEMENT: InternalError,
    FaultKind.REFUSE_EVERYTHING: InternalError,
    FaultKind.RESTART_ENTITY: OperationTimeout,
}

# Connections are made to the namespace, not to an entity.
NAMESPACE_KINDS: Final = frozenset(
    {FaultKind.REFUSE_EVERYTHING, FaultKind.DROP_CONNECTIONS, FaultKind.REFUSE_CONNECTIONS}
)

# Without a duration these happen once and are over; the others last until they are cleared.
MOMENTARY_KINDS: Final = frozenset({FaultKind.RESTART_ENTITY})


def name_of_error(error: type[ProtocolError]) -> str | None:
    """Return the name by which people choose an error; None for one that only Python code can choose."""
    return next((name for name, known in ERRORS.items() if known is error), None)
