"""The state machines of AMQP as tables: connection, session, link and SASL.

A table maps (state, input) to the next state; what is not in a table is not allowed. Inputs are named from our side:
`SEND_…` for what we write, `RECEIVE_…` for what arrives. `tests/spec/test_states.py` sweeps every pair, and
`tools/generate_docs.py` draws the tables into `docs/reference/state-machines.md`.
"""

from __future__ import annotations

import enum
from typing import Final

__all__ = [
    "CONNECTION_TABLE",
    "LINK_TABLE",
    "SASL_CLIENT_TABLE",
    "SASL_SERVER_TABLE",
    "SESSION_TABLE",
    "ConnectionInput",
    "ConnectionState",
    "LinkInput",
    "LinkState",
    "SaslInput",
    "SaslState",
    "SessionInput",
    "SessionState",
]


class ConnectionState(enum.Enum):
    """AMQP 1.0 part 2.4.6."""

    START = "START"
    HDR_RCVD = "HDR_RCVD"
    HDR_SENT = "HDR_SENT"
    HDR_EXCH = "HDR_EXCH"
    OPEN_PIPE = "OPEN_PIPE"
    OC_PIPE = "OC_PIPE"
    OPEN_RCVD = "OPEN_RCVD"
    OPEN_SENT = "OPEN_SENT"
    CLOSE_PIPE = "CLOSE_PIPE"
    OPENED = "OPENED"
    CLOSE_RCVD = "CLOSE_RCVD"
    CLOSE_SENT = "CLOSE_SENT"
    DISCARDING = "DISCARDING"
    END = "END"


class ConnectionInput(enum.Enum):
    SEND_HEADER = "send header"
    RECEIVE_HEADER = "receive header"
    SEND_OPEN = "send open"
    RECEIVE_OPEN = "receive open"
    SEND_CLOSE = "send close"
    SEND_CLOSE_ERROR = "send close with error"
    RECEIVE_CLOSE = "receive close"
    RECEIVE_FRAME = "receive any other frame"


class SessionState(enum.Enum):
    """AMQP 1.0 part 2.5.5."""

    UNMAPPED = "UNMAPPED"
    BEGIN_SENT = "BEGIN_SENT"
    BEGIN_RCVD = "BEGIN_RCVD"
    MAPPED = "MAPPED"
    END_SENT = "END_SENT"
    END_RCVD = "END_RCVD"
    DISCARDING = "DISCARDING"


class SessionInput(enum.Enum):
    SEND_BEGIN = "send begin"
    RECEIVE_BEGIN = "receive begin"
    SEND_END = "send end"
    SEND_END_ERROR = "send end with error"
    RECEIVE_END = "receive end"
    RECEIVE_FRAME = "receive any other frame"


class LinkState(enum.Enum):
    """AMQP 1.0 part 2.6.3 to 2.6.6 (the specification draws no diagram for links; these names follow its sessions)."""

    DETACHED = "DETACHED"
    ATTACH_SENT = "ATTACH_SENT"
    ATTACH_RCVD = "ATTACH_RCVD"
    ATTACHED = "ATTACHED"
    DETACH_SENT = "DETACH_SENT"
    DETACH_RCVD = "DETACH_RCVD"


class LinkInput(enum.Enum):
    SEND_ATTACH = "send attach"
    RECEIVE_ATTACH = "receive attach"
    SEND_DETACH = "send detach"
    RECEIVE_DETACH = "receive detach"
    RECEIVE_FRAME = "receive transfer or flow"


class SaslState(enum.Enum):
    """AMQP 1.0 part 5.3.2, for mechanisms of one step."""

    START = "START"
    HEADER_SENT = "HEADER_SENT"
    AWAITING_MECHANISMS = "AWAITING_MECHANISMS"
    AWAITING_INIT = "AWAITING_INIT"
    AWAITING_DECISION = "AWAITING_DECISION"
    AWAITING_OUTCOME = "AWAITING_OUTCOME"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class SaslInput(enum.Enum):
    SEND_HEADER = "send SASL header"
    RECEIVE_HEADER = "receive SASL header"
    RECEIVE_MECHANISMS = "receive sasl-mechanisms"
    RECEIVE_INIT = "receive sasl-init"
    SUCCEED = "sasl-outcome ok"
    FAIL = "sasl-outcome not ok"


_C = ConnectionState
_CI = ConnectionInput

# DISCARDING is entered from the states in which an open was sent and no close: a malformed frame may come at any time,
# and the peer's own open, close and whatever it had under way must then be swallowed without comment. A close is the
# last frame: from CLOSE_SENT no second one is written, whatever comes.
CONNECTION_TABLE: Final[dict[tuple[ConnectionState, ConnectionInput], ConnectionState]] = {
    (_C.START, _CI.RECEIVE_HEADER): _C.HDR_RCVD,
    (_C.START, _CI.SEND_HEADER): _C.HDR_SENT,
    (_C.HDR_RCVD, _CI.SEND_HEADER): _C.HDR_EXCH,
    (_C.HDR_SENT, _CI.RECEIVE_HEADER): _C.HDR_EXCH,
    (_C.HDR_SENT, _CI.SEND_OPEN): _C.OPEN_PIPE,
    (_C.HDR_EXCH, _CI.RECEIVE_OPEN): _C.OPEN_RCVD,
    (_C.HDR_EXCH, _CI.SEND_OPEN): _C.OPEN_SENT,
    (_C.OPEN_PIPE, _CI.RECEIVE_HEADER): _C.OPEN_SENT,
    (_C.OPEN_PIPE, _CI.SEND_CLOSE): _C.OC_PIPE,
    (_C.OC_PIPE, _CI.RECEIVE_HEADER): _C.CLOSE_PIPE,
    (_C.OPEN_RCVD, _CI.SEND_OPEN): _C.OPENED,
    (_C.OPEN_SENT, _CI.RECEIVE_OPEN): _C.OPENED,
    (_C.OPEN_SENT, _CI.SEND_CLOSE): _C.CLOSE_PIPE,
    (_C.OPEN_SENT, _CI.SEND_CLOSE_ERROR): _C.DISCARDING,
    (_C.CLOSE_PIPE, _CI.RECEIVE_OPEN): _C.CLOSE_SENT,
    (_C.OPENED, _CI.RECEIVE_FRAME): _C.OPENED,
    (_C.OPENED, _CI.RECEIVE_CLOSE): _C.CLOSE_RCVD,
    (_C.OPENED, _CI.SEND_CLOSE): _C.CLOSE_SENT,
    (_C.OPENED, _CI.SEND_CLOSE_ERROR): _C.DISCARDING,
    (_C.CLOSE_RCVD, _CI.SEND_CLOSE): _C.END,
    (_C.CLOSE_SENT, _CI.RECEIVE_FRAME): _C.CLOSE_SENT,
    (_C.CLOSE_SENT, _CI.RECEIVE_CLOSE): _C.END,
    (_C.DISCARDING, _CI.RECEIVE_OPEN): _C.DISCARDING,
    (_C.DISCARDING, _CI.RECEIVE_FRAME): _C.DISCARDING,
    (_C.DISCARDING, _CI.RECEIVE_CLOSE): _C.END,
}

_S = SessionState
_SI = SessionInput

SESSION_TABLE: Final[dict[tuple[SessionState, SessionInput], SessionState]] = {
    (_S.UNMAPPED, _SI.SEND_BEGIN): _S.BEGIN_SENT,
    (_S.UNMAPPED, _SI.RECEIVE_BEGIN): _S.BEGIN_RCVD,
    (_S.BEGIN_SENT, _SI.RECEIVE_BEGIN): _S.MAPPED,
    (_S.BEGIN_RCVD, _SI.SEND_BEGIN): _S.MAPPED,
    (_S.MAPPED, _SI.RECEIVE_FRAME): _S.MAPPED,
    (_S.MAPPED, _SI.SEND_END): _S.END_SENT,
    (_S.MAPPED, _SI.SEND_END_ERROR): _S.DISCARDING,
    (_S.MAPPED, _SI.RECEIVE_END): _S.END_RCVD,
    (_S.END_SENT, _SI.RECEIVE_FRAME): _S.END_SENT,
    (_S.END_SENT, _SI.RECEIVE_END): _S.UNMAPPED,
    (_S.END_RCVD, _SI.SEND_END): _S.UNMAPPED,
    (_S.DISCARDING, _SI.RECEIVE_FRAME): _S.DISCARDING,
    (_S.DISCARDING, _SI.RECEIVE_END): _S.UNMAPPED,
}

_L = LinkState
_LI = LinkInput

# A peer may write flows and transfers right behind its attach, before it has seen ours: both are taken in
# ATTACH_RCVD. Giving up on an attach (SEND_DETACH in ATTACH_SENT) still has the peer's attach to come.
LINK_TABLE: Final[dict[tuple[LinkState, LinkInput], LinkState]] = {
    (_L.DETACHED, _LI.SEND_ATTACH): _L.ATTACH_SENT,
    (_L.DETACHED, _LI.RECEIVE_ATTACH): _L.ATTACH_RCVD,
    (_L.ATTACH_SENT, _LI.RECEIVE_ATTACH): _L.ATTACHED,
    (_L.ATTACH_SENT, _LI.SEND_DETACH): _L.DETACH_SENT,
    (_L.ATTACH_RCVD, _LI.SEND_ATTACH): _L.ATTACHED,
    (_L.ATTACH_RCVD, _LI.RECEIVE_FRAME): _L.ATTACH_RCVD,
    (_L.ATTACHED, _LI.RECEIVE_FRAME): _L.ATTACHED,
    (_L.ATTACHED, _LI.SEND_DETACH): _L.DETACH_SENT,
    (_L.ATTACHED, _LI.RECEIVE_DETACH): _L.DETACH_RCVD,
    (_L.DETACH_SENT, _LI.RECEIVE_ATTACH): _L.DETACH_SENT,
    (_L.DETACH_SENT, _LI.RECEIVE_FRAME): _L.DETACH_SENT,
    (_L.DETACH_SENT, _LI.RECEIVE_DETACH): _L.DETACHED,
    (_L.DETACH_RCVD, _LI.SEND_DETACH): _L.DETACHED,
}

_A = SaslState
_AI = SaslInput

SASL_SERVER_TABLE: Final[dict[tuple[SaslState, SaslInput], SaslState]] = {
    (_A.START, _AI.RECEIVE_HEADER): _A.AWAITING_INIT,
    (_A.AWAITING_INIT, _AI.RECEIVE_INIT): _A.AWAITING_DECISION,
    (_A.AWAITING_DECISION, _AI.SUCCEED): _A.SUCCEEDED,
    (_A.AWAITING_DECISION, _AI.FAIL): _A.FAILED,
}

SASL_CLIENT_TABLE: Final[dict[tuple[SaslState, SaslInput], SaslState]] = {
    (_A.START, _AI.SEND_HEADER): _A.HEADER_SENT,
    (_A.HEADER_SENT, _AI.RECEIVE_HEADER): _A.AWAITING_MECHANISMS,
    (_A.AWAITING_MECHANISMS, _AI.RECEIVE_MECHANISMS): _A.AWAITING_OUTCOME,
    (_A.AWAITING_MECHANISMS, _AI.FAIL): _A.FAILED,
    (_A.AWAITING_OUTCOME, _AI.SUCCEED): _A.SUCCEEDED,
    (_A.AWAITING_OUTCOME, _AI.FAIL): _A.FAILED,
}
