"""Idle time-outs (AMQP 1.0 part 2.4.5) as deadlines: this library has no clock, the driver says what time it is."""

from __future__ import annotations

__all__ = ["IdleTimeouts"]


class IdleTimeouts:
    """When to give up on a silent peer, and when to break our own silence."""

    __slots__ = ("drop_after_ms", "heard_at_ms", "heartbeat_every_ms", "spoke_at_ms")

    def __init__(self, advertised_ms: int) -> None:
        # We advertise half of what we tolerate, as the specification advises, so that a heartbeat may be late.
        self.drop_after_ms = advertised_ms * 2
        self.heartbeat_every_ms = 0
        self.heard_at_ms = 0
        self.spoke_at_ms = 0

    def on_peer_timeout(self, peer_timeout_ms: int) -> None:
        """The peer gives up after this long; speaking at half of it leaves room for a slow network."""
        self.heartbeat_every_ms = peer_timeout_ms // 2

    def next_deadline_ms(self) -> int | None:
        """When `Connection.tick` should be called next; None if never."""
        deadlines: list[int] = []
        if self.drop_after_ms:
            deadlines.append(self.heard_at_ms + self.drop_after_ms)
        if self.heartbeat_every_ms:
            deadlines.append(self.spoke_at_ms + self.heartbeat_every_ms)
        return min(deadlines) if deadlines else None

    def is_peer_gone(self, now_ms: int) -> bool:
        return self.drop_after_ms > 0 and now_ms - self.heard_at_ms >= self.drop_after_ms

    def is_heartbeat_due(self, now_ms: int) -> bool:
        return self.heartbeat_every_ms > 0 and now_ms - self.spoke_at_ms >= self.heartbeat_every_ms
