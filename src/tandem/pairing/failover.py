"""When sends to an entity leave the primary namespace, and when they return: a state machine for each entity.

It knows no clock and no network: it is told what happened and when, and answers with effects. `TRANSITIONS` is the
whole of it; a test sweeps every pair of state and input, and `docs/reference/state-machines.md` shows it drawn.
"""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["TRANSITIONS", "EntityFailover", "FailoverEffect", "FailoverInput", "FailoverState"]


class FailoverState(enum.Enum):
    """Where the messages of one entity go."""

    # To the primary.
    HEALTHY = "healthy"
    # To the primary, which has taken none since a moment that is remembered.
    FAILING = "failing"
    # To a backlog queue of the secondary.
    FAILED_OVER = "failed-over"


class FailoverInput(enum.Enum):
    """What can happen to an entity."""

    SEND_SUCCEEDED = "send succeeded"
    # A timeout, or an error that says the entity cannot take messages: the only input that leads away from the primary.
    SEND_FAILED = "send failed"
    # No right, no such entity, a message that is too large: the same would happen anywhere, and it is for people to
    # mend.
    SEND_REFUSED = "send refused"
    SERVER_BUSY = "server busy"
    INTERVAL_OVER = "failover interval over"
    PING_SUCCEEDED = "ping succeeded"
    PING_FAILED = "ping failed"


class FailoverEffect(enum.Enum):
    """What the driver has to do about it: `PairedEntity` performs each."""

    WATCH = "report the failure, and watch the entity: wait for the end of the interval, then ping until one succeeds"
    DIVERT = "report that messages go to a backlog queue from now on"
    RETURN = "report that messages go to the primary again"


_S = FailoverState
_I = FailoverInput
_E = FailoverEffect

# Each pair, also those that only a race can bring about: a timer that fires in the moment it is stopped, a send that
# was under way when its entity failed over. A late success of such a send is no return: what was sent since lies
# elsewhere, and the ping decides for all senders at once.
TRANSITIONS: Final[dict[tuple[FailoverState, FailoverInput], tuple[FailoverState, tuple[FailoverEffect, ...]]]] = {
    (_S.HEALTHY, _I.SEND_SUCCEEDED): (_S.HEALTHY, ()),
    (_S.HEALTHY, _I.SEND_FAILED): (_S.FAILING, (_E.WATCH,)),
    (_S.HEALTHY, _I.SEND_REFUSED): (_S.HEALTHY, ()),
    (_S.HEALTHY, _I.SERVER_BUSY): (_S.HEALTHY, ()),
    (_S.HEALTHY, _I.INTERVAL_OVER): (_S.HEALTHY, ()),
    (_S.HEALTHY, _I.PING_SUCCEEDED): (_S.HEALTHY, ()),
    (_S.HEALTHY, _I.PING_FAILED): (_S.HEALTHY, ()),
    (_S.FAILING, _I.SEND_SUCCEEDED): (_S.HEALTHY, ()),
    (_S.FAILING, _I.SEND_FAILED): (_S.FAILING, ()),
    (_S.FAILING, _I.SEND_REFUSED): (_S.FAILING, ()),
    (_S.FAILING, _I.SERVER_BUSY): (_S.FAILING, ()),
    (_S.FAILING, _I.INTERVAL_OVER): (_S.FAILED_OVER, (_E.DIVERT,)),
    (_S.FAILING, _I.PING_SUCCEEDED): (_S.FAILING, ()),
    (_S.FAILING, _I.PING_FAILED): (_S.FAILING, ()),
    (_S.FAILED_OVER, _I.SEND_SUCCEEDED): (_S.FAILED_OVER, ()),
    (_S.FAILED_OVER, _I.SEND_FAILED): (_S.FAILED_OVER, ()),
    (_S.FAILED_OVER, _I.SEND_REFUSED): (_S.FAILED_OVER, ()),
    (_S.FAILED_OVER, _I.SERVER_BUSY): (_S.FAILED_OVER, ()),
    (_S.FAILED_OVER, _I.INTERVAL_OVER): (_S.FAILED_OVER, ()),
    (_S.FAILED_OVER, _I.PING_SUCCEEDED): (_S.HEALTHY, (_E.RETURN,)),
    (_S.FAILED_OVER, _I.PING_FAILED): (_S.FAILED_OVER, ()),
}


class EntityFailover:
    """The state of one entity."""

    __slots__ = ("_failover_interval_s", "failing_since_s", "state")

    def __init__(self, failover_interval_s: float) -> None:
        self._failover_interval_s = failover_interval_s
        self.state = FailoverState.HEALTHY
        # When the first of the failures came that no success has followed.
        self.failing_since_s: float | None = None

    @property
    def due_at_s(self) -> float | None:
        """When the entity fails over unless a send succeeds before; None unless it is failing."""
        if self.state is not FailoverState.FAILING or self.failing_since_s is None:
            return None
        return self.failing_since_s + self._failover_interval_s

    def apply(self, happened: FailoverInput, now_s: float) -> tuple[FailoverEffect, ...]:
        """Tell what happened. An interval that is over with it, or that is no time at all, is noticed here."""
        effects = self._step(happened, now_s)
        return effects + self.pass_time(now_s)

    def pass_time(self, now_s: float) -> tuple[FailoverEffect, ...]:
        """Tell how late it is."""
        due_at_s = self.due_at_s
        if due_at_s is None or now_s < due_at_s:
            return ()
        return self._step(FailoverInput.INTERVAL_OVER, now_s)

    def _step(self, happened: FailoverInput, now_s: float) -> tuple[FailoverEffect, ...]:
        before = self.state
        self.state, effects = TRANSITIONS[before, happened]
        if self.state is FailoverState.HEALTHY:
            self.failing_since_s = None
        elif before is FailoverState.HEALTHY:
            self.failing_since_s = now_s
        return effects
