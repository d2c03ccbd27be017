"""What can be made to fail, and the errors to fail with."""

from __future__ import annotations

import enum
from typing import Final

from tandem.auth import Right
from tandem.auth.keys import ALL_RIGHTS
from tandem.errors import (
    ConnectionForced,
    DetachForced,
    EntityDisabled,
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

__all__ = ["ERRORS", "NAMESPACE_KINDS", "REFUSING_KINDS", "FaultKind", "default_rights"]


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


# Which operations meet a fault, by the right that they need; of the others each can be chosen.
_RIGHTS: Final = {
    FaultKind.REFUSE_SENDS: Right.SEND,
    FaultKind.REFUSE_RECEIVES: Right.LISTEN,
    FaultKind.REFUSE_MANAGEMENT: Right.MANAGE,
    FaultKind.DELAY_VISIBILITY: Right.SEND,
    FaultKind.RESTART_ENTITY: Right.SEND | Right.LISTEN,
}

# These answer with an error.
REFUSING_KINDS: Final = frozenset(
    {
        FaultKind.REFUSE_SENDS,
        FaultKind.REFUSE_RECEIVES,
        FaultKind.REFUSE_MANAGEMENT,
        FaultKind.REFUSE_EVERYTHING,
        FaultKind.RESTART_ENTITY,
    }
)

# A connection is one to the namespace.
NAMESPACE_KINDS: Final = frozenset(
    {FaultKind.REFUSE_EVERYTHING, FaultKind.DROP_CONNECTIONS, FaultKind.REFUSE_CONNECTIONS}
)

# The errors that a fault can answer with, by the names that people give them.
ERRORS: Final[dict[str, type[ProtocolError]]] = {
    "server-busy": ServerBusy,
    "internal-error": ProtocolError,
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


def default_rights(kind: FaultKind) -> Right:
    return _RIGHTS.get(kind, ALL_RIGHTS)
