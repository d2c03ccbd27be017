"""How the primary of a drill fails, and how it comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tandem.drill.plan import ENTITIES, DrillPlan, Fault
from tandem.testing import Broker

__all__ = ["Outage", "outage_of"]

# Milliseconds. The longest that the broker allows: the drill ends the fault.
_STALL_MS: Final = 900_000
_RESTART_MS: Final = 604_800_000

# The body of a request to set each fault. An error is named only where the drill needs another than a client meets by
# default. Any: the settings of a fault in the JSON API.
_FAULTS: Final[dict[Fault, dict[str, Any]]] = {
    Fault.DROP_CONNECTIONS: {"kind": "drop-connections"},
    Fault.REFUSE_SENDS: {"kind": "refuse-sends"},
    Fault.TIMEOUT: {"kind": "timeout", "operations": ["sends"]},
    Fault.NO_ANSWER: {"kind": "timeout", "operations": ["sends"], "perform": True},
    Fault.STALL: {"kind": "stall", "operations": ["sends"], "delay_ms": _STALL_MS},
    Fault.RESTART_ENTITY: {"kind": "restart-entity", "duration_ms": _RESTART_MS},
    Fault.UNAUTHORIZED: {"kind": "refuse-sends", "error": "unauthorized"},
    Fault.SERVER_BUSY: {"kind": "refuse-sends", "error": "server-busy"},
}


@dataclass(frozen=True)
class Outage:
    """Both calls take a moment, and return when it has happened."""

    begin: Callable[[Broker], None]
    end: Callable[[Broker], None]


def outage_of(plan: DrillPlan) -> Outage:
    if plan.fault is Fault.KILL:
        return Outage(Broker.kill, Broker.start)
    settings = _FAULTS[plan.fault]
    # The serving of each entity restarts on its own; all else can be said of the whole namespace.
    is_each = plan.entity is None and plan.fault is Fault.RESTART_ENTITY
    entities = ENTITIES if is_each else (plan.entity,)

    def begin(broker: Broker) -> None:
        for entity in entities:
            broker.management.inject_fault({**settings, "entity": entity})

    def end(broker: Broker) -> None:
        broker.management.clear_faults()

    return Outage(begin, end)
