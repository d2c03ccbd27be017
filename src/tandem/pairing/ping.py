"""The ping by which the primary is asked whether an entity takes messages again."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from tandem.client.messaging.message import BrokeredMessage
from tandem.wire_names import PING_CONTENT_TYPE

__all__ = ["PING_CONTENT_TYPE", "PING_TIME_TO_LIVE", "make_ping"]

# The broker takes a message of this type as a send, and gives it to no receiver.

# A service that does not know pings soon forgets it.
PING_TIME_TO_LIVE: Final = timedelta(seconds=1)


def make_ping() -> BrokeredMessage:
    return BrokeredMessage(b"", content_type=PING_CONTENT_TYPE, time_to_live=PING_TIME_TO_LIVE)
