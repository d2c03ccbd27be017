"""Outcomes that receivers give messages: what each does, and what it is counted as."""

from __future__ import annotations

from collections.abc import Callable

from tandem import wire_names
from tandem.amqp import ACCEPTED, Modified, Rejected
from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.encode import encode
from tandem.engine.lock_table import Lock
from tandem.engine.subqueue import SubQueue
from tandem.errors import ArgumentError, EncodeError
from tandem.limits import DECODED_BYTES_PER_BYTE, MAX_PROPERTIES_TO_MODIFY_BYTES

__all__ = ["checked_properties", "held_bytes_of_outcome", "operation_of", "settlement_of"]


def settlement_of(state: DeliveryState | None, subqueue: SubQueue) -> Callable[[Lock], None]:
    """Return what an outcome does to a message. Whatever can be wrong with the outcome is raised here, before anything
    is done: a transaction must not stop half way."""
    if state is ACCEPTED:
        return subqueue.complete
    if isinstance(state, Modified):
        properties = checked_properties(state.message_annotations)
        if state.undeliverable_here:
            return lambda lock: subqueue.defer(lock, properties)
        return lambda lock: subqueue.abandon(lock, properties)
    if isinstance(state, Rejected):
        subqueue.check_can_dead_letter()
        info = checked_properties(None if state.error is None else state.error.info) or {}
        reason = info.pop(wire_names.DEAD_LETTER_REASON, None)
        description = info.pop(wire_names.DEAD_LETTER_ERROR_DESCRIPTION, None)
        return lambda lock: subqueue.dead_letter(lock, reason, description, info)
    return subqueue.release


def held_bytes_of_outcome(outcome: DeliveryState | None) -> int:
    """Return what an outcome holds in memory while its transaction is open."""
    if isinstance(outcome, Modified | Rejected):
        return len(outcome.encoded()) * DECODED_BYTES_PER_BYTE
    return 0


def operation_of(state: DeliveryState | None) -> str:
    """Return what an outcome is counted as."""
    if state is ACCEPTED:
        return "complete"
    if isinstance(state, Modified):
        return "defer" if state.undeliverable_here else "abandon"
    if isinstance(state, Rejected):
        return "dead-letter"
    return "abandon"


def checked_properties(changes: object) -> dict[str, object] | None:
    """Return the properties to modify, which become application properties of the message."""
    if not changes:
        return None
    if not isinstance(changes, dict):
        raise ArgumentError(f"properties to modify must be a map, got {changes!r:.80}")
    properties = {str(key): value for key, value in changes.items()}
    try:
        size_bytes = len(encode(properties))
    except EncodeError as error:
        raise ArgumentError(f"the properties to modify cannot be stored: {error}") from None
    if size_bytes > MAX_PROPERTIES_TO_MODIFY_BYTES:
        raise ArgumentError(
            f"the properties to modify take {size_bytes} bytes; at most {MAX_PROPERTIES_TO_MODIFY_BYTES} are allowed"
        )
    return properties
