"""Public test doubles: parts of Tandem made for tests of programs that use it.

bus       a broker inside the test's own process, with a clock to move and faults to set; the pytest plugin's
broker    a broker as a child process, to be killed and started again
json_api  the JSON API of a broker, as methods that manage its entities
chaos     a TCP proxy that delays, stalls, splits, cuts and resets
relay     queues in memory behind an AMQP port, for tests of AMQP clients
disk      a disk that fails on purpose
memory_store, memory_log  a store in memory, for tests of the engine without a disk
plugin    what pytest loads, in every project that has Tandem installed: so nothing is imported here before it is used
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tandem.testing.broker import Broker, BrokerFailed
    from tandem.testing.bus import Bus
    from tandem.testing.bus_message import BusMessage
    from tandem.testing.chaos import ChaosProxy
    from tandem.testing.relay import Relay, RelayQueue

__all__ = ["Broker", "BrokerFailed", "Bus", "BusMessage", "ChaosProxy", "Relay", "RelayQueue"]

_MODULES: Final = {
    "Broker": "broker",
    "BrokerFailed": "broker",
    "Bus": "bus",
    "BusMessage": "bus_message",
    "ChaosProxy": "chaos",
    "Relay": "relay",
    "RelayQueue": "relay",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
