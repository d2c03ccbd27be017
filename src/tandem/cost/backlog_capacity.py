"""How long an outage the backlog queues of a pair absorb, and how many of them an outage needs.

A message takes its own bytes of a backlog queue and those that rewriting adds. A sender whose queue is full goes on
with another one, so that the room of all queues counts. Rates are decimal, so that no message is lost to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Final

from tandem.errors import ConfigurationError
from tandem.limits import MAX_MESSAGE_SIZE_BYTES

__all__ = ["BACKLOG_QUEUE_MEGABYTES", "DETOUR_BYTES", "BacklogCapacity"]

# Megabytes of 1,048,576 bytes. What a backlog queue of a pair is created with: 5 GB.
BACKLOG_QUEUE_MEGABYTES: Final = 5_120
_MEGABYTE: Final = 1_048_576

# Bytes. What rewriting adds to most messages: the path of the entity (a name of 9 bytes, a value of about 40), the time
# to live (15 and 16), the name of the session's property (14), and a type code and a length for each of them.
DETOUR_BYTES: Final = 128


@dataclass(frozen=True)
class BacklogCapacity:
    """The room of some backlog queues for messages of one size that come at one rate."""

    # Of each queue: its maximum size, less what it holds already.
    free_bytes: Sequence[int]
    message_bytes: int
    messages_per_second: Decimal

    def __post_init__(self) -> None:
        if not 0 <= self.message_bytes <= MAX_MESSAGE_SIZE_BYTES:
            raise ConfigurationError(
                f"message_bytes is {self.message_bytes}; it must be from 0 to {MAX_MESSAGE_SIZE_BYTES:,}"
            )
        if not self.messages_per_second.is_finite() or self.messages_per_second <= 0:
            raise ConfigurationError(f"messages_per_second is {self.messages_per_second}; it must be more than 0")

    @classmethod
    def of_new_queues(cls, count: int, message_bytes: int, messages_per_second: Decimal) -> BacklogCapacity:
        """Return the capacity of queues as pairing creates them."""
        return cls([BACKLOG_QUEUE_MEGABYTES * _MEGABYTE] * count, message_bytes, messages_per_second)

    @property
    def messages(self) -> int:
        """How many messages fit into all of the queues."""
        return sum(self._messages_in(free) for free in self.free_bytes)

    @property
    def outage_s(self) -> int:
        """The longest outage, in whole seconds, during which every message finds room."""
        return int(self.messages // self.messages_per_second)

    def messages_of(self, outage_s: int) -> int:
        """How many messages an outage brings; a message that has begun counts."""
        return int((self.messages_per_second * outage_s).to_integral_value(ROUND_CEILING))

    def queues_for(self, outage_s: int) -> int:
        """How many backlog queues an outage needs: those that exist first, then new ones of the usual size."""
        missing = self.messages_of(outage_s)
        for needed, free in enumerate(self.free_bytes):
            if missing <= 0:
                return needed
            missing -= self._messages_in(free)
        each = self._messages_in(BACKLOG_QUEUE_MEGABYTES * _MEGABYTE)
        return len(self.free_bytes) + max(0, -(-missing // each))

    def _messages_in(self, free_bytes: int) -> int:
        return max(0, free_bytes) // (self.message_bytes + DETOUR_BYTES)
