"""Attaches to queues and hubs: what they ask for in their properties, and what is answered in ours."""

from __future__ import annotations

from typing import Final

from tandem import wire_names
from tandem.amqp import LinkAttached
from tandem.amqp.types import Symbol, UInt, ULong
from tandem.errors import ArgumentError, Scope

__all__ = ["SETTLED", "number_property", "sending_properties", "text_property"]

# snd-settle-mode: the sender settles what it sends.
SETTLED: Final = 1

# Milliseconds. The timeout that the service announces.
_SERVICE_TIMEOUT_MS: Final = 65_000


def sending_properties(max_batch_bytes: int) -> dict[object, object]:
    """Return what a client is told that attaches to send."""
    return {
        Symbol(wire_names.TIMEOUT): UInt(_SERVICE_TIMEOUT_MS),
        Symbol(wire_names.MAX_MESSAGE_BATCH_SIZE): ULong(max_batch_bytes),
    }


def text_property(event: LinkAttached, name: str) -> str | None:
    value = (event.attach.properties or {}).get(name)
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    raise ArgumentError(f"attach.properties.{name} must be a string, got {value!r:.80}", Scope.LINK)


def number_property(event: LinkAttached, name: str, default: int) -> int:
    value = (event.attach.properties or {}).get(name)
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise ArgumentError(f"attach.properties.{name} must be a number of milliseconds, got {value!r:.80}", Scope.LINK)
