"""Dispositions waiting to be written, merged into ranges: a thousand settlements in a row become one frame."""

from __future__ import annotations

from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.hot_paths import disposition_frame
from tandem.amqp.windows import add

__all__ = ["DispositionBatch"]


class DispositionBatch:
    """The open range of one role on one session. Equal states are recognised by identity, which is free."""

    __slots__ = ("channel", "first", "is_empty", "is_settled", "last", "role", "state")

    def __init__(self, channel: int, role: bool) -> None:
        self.channel = channel
        self.role = role
        self.is_empty = True
        self.first = 0
        self.last = 0
        self.is_settled = False
        self.state: DeliveryState | None = None

    def add(self, delivery_id: int, state: DeliveryState | None, is_settled: bool, output: list[bytes]) -> None:
        """Extend the range, or write it out and start a new one."""
        if not self.is_empty:
            if state is self.state and is_settled is self.is_settled and delivery_id == add(self.last, 1):
                self.last = delivery_id
                return
            self.flush(output)
        self.is_empty = False
        self.first = delivery_id
        self.last = delivery_id
        self.state = state
        self.is_settled = is_settled

    def flush(self, output: list[bytes]) -> None:
        if not self.is_empty:
            self.is_empty = True
            output.append(
                disposition_frame(self.channel, self.role, self.first, self.last, self.is_settled, self.state)
            )
