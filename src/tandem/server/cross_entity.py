"""Sessions of AMQP whose transactions may span entities, as the SDKs announce it.

A coordinator that is attached before the other links of its session is the announcement; one on a session of its own is
none. In the service, such transactions send by way of the first entity of the session. It is not possible to receive by
way of another entity, and so the session receives from the first one only.
"""

from __future__ import annotations

from typing import Final

from tandem.amqp import Session
from tandem.engine.queue import Queue
from tandem.errors import NotAllowed, Scope

__all__ = ["CrossEntitySessions"]

# The service's words: .NET raises them as InvalidOperationException.
_SPANS_ENTITIES: Final = "Local transactions cannot span multiple top-level entities such as queue or topic."


class CrossEntitySessions:
    """The sessions of one connection on which a coordinator was attached, and the first entity of each since then."""

    def __init__(self) -> None:
        self._first: dict[Session, Queue | None] = {}

    def announce(self, session: Session) -> None:
        """A coordinator is attached."""
        self._first.setdefault(session, None)

    def forget(self, session: Session) -> None:
        """The session is over."""
        self._first.pop(session, None)

    def join(self, session: Session, queue: Queue) -> None:
        """A link to this entity is attached. The first one counts."""
        if session in self._first and self._first[session] is None:
            self._first[session] = _top_level(queue)

    def check_receiver(self, session: Session, queue: Queue) -> None:
        """Raise if the session cannot receive from this entity."""
        if self.via(session, queue) is not None:
            raise NotAllowed(_SPANS_ENTITIES, Scope.LINK)

    def via(self, session: Session, queue: Queue) -> Queue | None:
        """Return the entity by way of which transactions of a session send to this one, if that is another one."""
        first = self._first.get(session)
        return None if first is None or first.name.lower() == _top_level(queue).name.lower() else first


def _top_level(queue: Queue) -> Queue:
    """The topic of a subscription; a queue or a topic itself."""
    return queue if queue.topic is None else queue.topic
