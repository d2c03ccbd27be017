"""Errors as the cloud service words them: support tools look for the suffix."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from tandem.amqp import AmqpError
from tandem.errors import ProtocolError

__all__ = ["Tracker"]


class Tracker:
    """Signs errors with who said it, about what, and when."""

    def __init__(self, host: str) -> None:
        self.host = host

    def text(self, description: str, entity: str) -> str:
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{description} TrackingId:{uuid.uuid4()}_G0, SystemTracker:{self.host}:{entity}, Timestamp:{moment}"

    def sign(self, error: ProtocolError, entity: str) -> AmqpError:
        return AmqpError(error.condition, self.text(error.description, entity))
