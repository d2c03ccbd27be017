"""What each line of messages holds: how many messages of each state, and how many bytes.

    decided     enter, leave, change_state     the change becomes part of the batch, as a `StreamChange`
    written     by the store, in the same transaction as the messages that it counts
    committed   publish                        every read sees it from now on

A read sees what is committed, of all entities the same commit. A message that goes from one line to another leaves and
enters in one step of the engine, so both changes are in one batch and are published together: no read finds the
message in neither line, or in both. Nothing else changes what a read sees.

Quotas are judged by what is decided: a message counts from the moment at which it is accepted, and no longer once its
removal is decided, so that a sender does not wait for a commit to use the room that it has just freed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.engine.effects import StreamChange
from tandem.engine.message import ACTIVE, DEFERRED, BrokeredMessage

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace

__all__ = ["EntitySize", "MessageCounts", "StreamCounts"]


class MessageCounts:
    """The messages of one entity by state, as every surface reports them."""

    __slots__ = ("active", "dead_letter", "deferred", "scheduled", "transfer", "transfer_dead_letter")

    def __init__(self, main: StreamCounts, dead_letters: StreamCounts, transfer_dead_letters: StreamCounts) -> None:
        self.active = main.active
        self.deferred = main.deferred
        self.scheduled = main.scheduled
        # To whoever looks for dead letters, one that a receiver has deferred still is one.
        self.dead_letter = dead_letters.total
        self.transfer_dead_letter = transfer_dead_letters.total
        # Forwarding is one step: a message is never between two entities.
        self.transfer = 0

    @property
    def total(self) -> int:
        stored = self.active + self.deferred + self.scheduled + self.dead_letter + self.transfer_dead_letter
        return stored + self.transfer


class EntitySize:
    """The bytes of one entity. Those of a subscription are part of its topic's, too."""

    __slots__ = ("_topic", "committed_bytes", "decided_bytes")

    def __init__(self, topic: EntitySize | None) -> None:
        self._topic = topic
        self.committed_bytes = 0
        self.decided_bytes = 0

    def decide(self, by_bytes: int) -> None:
        """Count bytes that a batch which is not committed yet adds or removes."""
        self.decided_bytes += by_bytes
        if self._topic is not None:
            self._topic.decided_bytes += by_bytes

    def commit(self, by_bytes: int) -> None:
        """Publish bytes that were decided before."""
        self.committed_bytes += by_bytes
        if self._topic is not None:
            self._topic.committed_bytes += by_bytes

    def detach(self) -> None:
        """Leave the topic: its subscription is deleted, or read again from the store."""
        topic = self._topic
        if topic is not None:
            topic.committed_bytes -= self.committed_bytes
            topic.decided_bytes -= self.decided_bytes
            self._topic = None


class StreamCounts:
    """The committed counts of one line, and the only way to change them."""

    __slots__ = ("_entity_size", "_namespace", "_stream", "active", "deferred", "scheduled", "size_bytes")

    def __init__(self, namespace: Namespace, stream: int, entity_size: EntitySize) -> None:
        self._namespace = namespace
        self._stream = stream
        self._entity_size = entity_size
        self.active = 0
        self.deferred = 0
        self.scheduled = 0
        self.size_bytes = 0

    @property
    def total(self) -> int:
        return self.active + self.deferred + self.scheduled

    def restore(self, active: int, deferred: int, scheduled: int, size_bytes: int) -> None:
        """Take over what the store counts: everything is committed."""
        self.active = active
        self.deferred = deferred
        self.scheduled = scheduled
        self.add_committed_bytes(size_bytes)

    # --- deciding -------------------------------------------------------------------------------------------

    def enter(self, message: BrokeredMessage) -> None:
        """Count a message that comes to this line: a new one, or one from another line."""
        by_bytes = self._namespace.effects.stream_change(self._stream).add(message, 1)
        self._entity_size.decide(by_bytes)

    def leave(self, message: BrokeredMessage) -> None:
        """Count a message that is removed, or that goes to another line."""
        by_bytes = self._namespace.effects.stream_change(self._stream).add(message, -1)
        self._entity_size.decide(by_bytes)

    def change_state(self, message: BrokeredMessage, state: int) -> None:
        """Give a message that stays in this line another state."""
        change = self._namespace.effects.stream_change(self._stream)
        change.add(message, -1)
        message.set_state(state)
        change.add(message, 1)

    def share(self, message: BrokeredMessage, body_number: int) -> None:
        """Let a message that entered in this batch share its bytes with others. They are counted to the topic."""
        self.resize(-message.held_bytes)
        message.body_number = body_number

    def resize(self, by_bytes: int) -> None:
        """Count bytes that are kept beside the messages, such as the state of a session."""
        self._namespace.effects.stream_change(self._stream).size_bytes += by_bytes
        self._entity_size.decide(by_bytes)

    # --- committed ------------------------------------------------------------------------------------------

    def publish(self, change: StreamChange) -> None:
        """Show what a batch changed in this line: it is on disk."""
        self.active += change.active
        self.deferred += change.deferred
        self.scheduled += change.scheduled
        self.size_bytes += change.size_bytes
        self._entity_size.commit(change.size_bytes)

    def refuse(self, message: BrokeredMessage) -> None:
        """Take back a message that entered and was not written, being a duplicate. Called right after `publish`."""
        if message.state == ACTIVE:
            self.active -= 1
        elif message.state == DEFERRED:
            self.deferred -= 1
        else:
            self.scheduled -= 1
        self.add_committed_bytes(-message.held_bytes)

    def add_committed_bytes(self, by_bytes: int) -> None:
        """Count bytes that only the store could tell, and that are on disk."""
        self.size_bytes += by_bytes
        self._entity_size.commit(by_bytes)
        self._entity_size.decide(by_bytes)
