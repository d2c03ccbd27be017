"""When the messages of one line are due: scheduled ones become active, and those whose time to live is over expire.

Messages are found on disk by their times. Memory holds only the next of each, and asks again when these are handled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.engine.message import ACTIVE, NEVER_MS, SCHEDULED, BrokeredMessage
from tandem.engine.queries import DueQuery, ExpiredQuery, NextTimesQuery
from tandem.engine.visibility import is_delayed
from tandem.limits import MAX_PAGE_MESSAGES

if TYPE_CHECKING:
    from tandem.engine.subqueue import SubQueue

__all__ = ["Timetable"]


class Timetable:
    """The times of one sub-queue."""

    __slots__ = (
        "_is_activating",
        "_is_expiring",
        "_next_due_ms",
        "_next_expiry_ms",
        "_subqueue",
        "expired_after",
        "expired_after_ms",
    )

    def __init__(self, subqueue: SubQueue) -> None:
        self._subqueue = subqueue
        self._next_due_ms = NEVER_MS
        self._next_expiry_ms = NEVER_MS
        # Where the search for expired messages goes on: those before are handled, or locked and handled when they
        # come back.
        self.expired_after_ms = 0
        self.expired_after = 0
        self._is_activating = False
        self._is_expiring = False

    def expect(self, message: BrokeredMessage) -> None:
        """Wake up in time for a message that is about to be written, or is on disk."""
        if message.state == SCHEDULED:
            if message.due_at_ms < self._next_due_ms:
                self._next_due_ms = message.due_at_ms
                self._subqueue.wake_at(message.due_at_ms)
        elif message.expires_at_ms < self._next_expiry_ms:
            self._next_expiry_ms = message.expires_at_ms
            self._subqueue.wake_at(message.expires_at_ms)

    def on_time(self, now_ms: int) -> None:
        """Handle messages that are due, and wake up for the next ones."""
        if self._next_due_ms <= now_ms and not self._is_activating:
            self._activate()
        if self._next_expiry_ms <= now_ms and not self._is_expiring:
            self._expire_due()
        if not self._is_activating:
            self._subqueue.wake_at(self._next_due_ms)
        if not self._is_expiring:
            self._subqueue.wake_at(self._next_expiry_ms)

    def ask(self) -> None:
        """Find the next times on disk."""
        subqueue = self._subqueue

        def answer(due_ms: int, expiry_ms: int) -> None:
            self._next_due_ms = due_ms
            self._next_expiry_ms = expiry_ms
            subqueue.wake_at(min(due_ms, expiry_ms))

        subqueue.namespace.effects.queries.append(
            NextTimesQuery(subqueue.stream, self.expired_after_ms, self.expired_after, answer)
        )

    def _activate(self) -> None:
        self._is_activating = True
        subqueue = self._subqueue
        namespace, queue = subqueue.namespace, subqueue.queue
        limit, needs_bytes = queue.activation_limit, queue.needs_bytes_to_activate
        namespace.effects.queries.append(
            DueQuery(subqueue.stream, namespace.now_ms, limit, needs_bytes, self._activated)
        )

    def _activated(self, messages: list[BrokeredMessage]) -> None:
        """A scheduled message joins the queue as if it were sent now, and gets a new sequence number."""
        self._is_activating = False
        subqueue = self._subqueue
        queue = subqueue.queue
        if queue.is_dropped:
            return
        namespace = subqueue.namespace
        has_delays = namespace.visibility is not None
        for message in messages:
            if not queue.prepare(message):
                break
            row = subqueue.move_out(message)
            has_waited = has_delays and is_delayed(message)
            if not has_waited:
                message.enqueued_time_ms = namespace.now_ms
            message.set_state(ACTIVE)
            queue.activate(message, row, has_waited)
        self.ask()

    def _expire_due(self) -> None:
        self._is_expiring = True
        subqueue = self._subqueue
        namespace = subqueue.namespace
        after_ms, after = self.expired_after_ms, self.expired_after
        namespace.effects.queries.append(
            ExpiredQuery(subqueue.stream, namespace.now_ms, after_ms, after, MAX_PAGE_MESSAGES, self._expired)
        )

    def _expired(self, messages: list[BrokeredMessage]) -> None:
        self._is_expiring = False
        subqueue = self._subqueue
        if subqueue.queue.is_dropped:
            return
        for message in messages:
            if message.sequence_number > subqueue.tail:
                # It expired before it was on disk. Those before it are done; its commit brings us back to this one.
                self._next_expiry_ms = NEVER_MS
                return
            self.expired_after_ms = message.expires_at_ms
            self.expired_after = message.sequence_number
            # A locked message lives on until its lock is over; then it is given back, and found expired.
            if subqueue.is_free(message):
                subqueue.drop_from_head(message)
                subqueue.expire(message)
        self.ask()
