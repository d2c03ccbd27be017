"""Public test doubles: parts of Tandem made for tests of programs that use it."""

from tandem.testing.relay import Relay, RelayQueue

__all__ = ["Relay", "RelayQueue"]
