"""Public test doubles: parts of Tandem made for tests of programs that use it."""

from tandem.testing.broker import Broker, BrokerFailed
from tandem.testing.relay import Relay, RelayQueue

__all__ = ["Broker", "BrokerFailed", "Relay", "RelayQueue"]
