"""Why an entity cannot take a message that comes from another one: by forwarding, or because somebody moves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.intake import session_id_of
from tandem.engine.message import BrokeredMessage
from tandem.wire_names import DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON

if TYPE_CHECKING:
    from tandem.engine.queue import Queue

__all__ = ["NO_SESSION", "Refusal", "refusal_of"]

_FORWARDING_FAILED: Final = "ForwardingFailed"


class Refusal:
    """A reason in one word, and its description for people."""

    __slots__ = ("description", "reason")

    def __init__(self, reason: str, description: str) -> None:
        self.reason = reason
        self.description = description

    @property
    def properties(self) -> dict[str, object]:
        """The application properties of a message that becomes a dead letter for this reason."""
        return {DEAD_LETTER_REASON: self.reason, DEAD_LETTER_ERROR_DESCRIPTION: self.description}


NO_SESSION: Final = Refusal(
    "Session ID is null", "Session enabled entity doesn't allow a message whose session identifier is null."
)


def refusal_of(target: Queue | None, name: str, message: BrokeredMessage, *, needs_room: bool = True) -> Refusal | None:
    """Return why the entity of this name cannot take a message from elsewhere, or None if it can.

    If the entity requires sessions, the message gets the session id that its bytes carry: its former entity may not
    have looked for one.
    """
    if target is None or target.is_dropped:
        return Refusal(_FORWARDING_FAILED, f"The messaging entity '{name}' could not be found.")
    if not target.description.can_send:
        return Refusal(_FORWARDING_FAILED, f"Messaging entity '{name}' is currently disabled.")
    if target.description.requires_session and message.session_id is None:
        if message.stored is not None:
            message.session_id = session_id_of(message.stored.bare)
        if message.session_id is None:
            return NO_SESSION
    if needs_room and not target.has_room(message.size_bytes):
        return Refusal(
            _FORWARDING_FAILED, f"The maximum entity size has been reached or exceeded for {target.noun}: '{name}'."
        )
    return None
