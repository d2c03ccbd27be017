"""Messages go from one entity to another, or from a dead-letter queue back to where they came from.

Each goes in one step: in the batch in which it leaves one line it enters the other, so that at any moment, and after
any crash, it is in exactly one of them. Where it comes to, it is as if it were sent now: with another number, its time
to live from the beginning, and no deliveries. Duplicate detection there has no say: it may know the message already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.browsing import SCANNED_ROWS, MessageState, line_of
from tandem.engine.intake import message_id_of
from tandem.engine.message import ACTIVE, SCHEDULED, BrokeredMessage
from tandem.engine.portion import Mention, Portion
from tandem.engine.queries import ScanQuery
from tandem.engine.refusal import refusal_of
from tandem.engine.rule import subject_of
from tandem.errors import ArgumentOutOfRange, QuotaExceeded
from tandem.limits import MAX_MENTIONS
from tandem.rules import REMOVED, Changes, RuleEvaluationError, SqlFilter, apply_changes
from tandem.wire_names import DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON

if TYPE_CHECKING:
    from tandem.engine.queue import Queue
    from tandem.engine.subqueue import SubQueue

__all__ = ["REMOVED_PROPERTIES", "Relocation"]

# Application properties that say why a message is dead: one that is sent again is not.
REMOVED_PROPERTIES: Final = (DEAD_LETTER_REASON, DEAD_LETTER_ERROR_DESCRIPTION)

# Messages, and bytes. What is moved in one step: each is read and written whole.
_PORTION_MESSAGES: Final = 200
_PORTION_BYTES: Final = 1_048_576


class Relocation:
    """Which messages of a queue go where.

    Without a target, dead letters go back to the queue, and others to the entity whose dead letters they were before
    they were forwarded here. A resubmitted message loses what says that it was dead.
    """

    __slots__ = ("_is_dry_run", "_is_resubmission", "_queue", "_state", "_target", "condition")

    def __init__(
        self,
        queue: Queue,
        state: MessageState,
        target: Queue | None,
        condition: SqlFilter | None,
        is_resubmission: bool,
        is_dry_run: bool,
    ) -> None:
        self._queue = queue
        self._state = state
        self._target = target
        self.condition = condition
        self._is_resubmission = is_resubmission
        self._is_dry_run = is_dry_run

    def step(self, after: int, up_to: int, limit: int, asker: object) -> None:
        """At most `limit` messages with numbers in (after, up_to]. Answered with a Portion."""
        if limit < 1:
            raise ArgumentOutOfRange(f"limit is {limit}; it must be at least 1")
        queue = self._queue
        source, number = line_of(queue, self._state)
        last = min(up_to, source.tail)

        def answer(messages: list[BrokeredMessage], seen_up_to: int) -> None:
            if source.is_gone(asker):
                return
            portion = Portion(seen_up_to if seen_up_to < last else up_to)
            for message in messages:
                self._consider(source, message, portion)
                if portion.done_count >= limit:
                    portion.up_to = message.sequence_number
                    break
            queue.namespace.effects.reply(asker, portion)

        queue.touch()
        queue.namespace.effects.queries.append(
            ScanQuery(source.stream, number, after, last, _PORTION_MESSAGES, _PORTION_BYTES, SCANNED_ROWS, True, answer)
        )

    def _consider(self, source: SubQueue, message: BrokeredMessage, portion: Portion) -> None:
        target = self._destination(message)
        if target is None or not source.is_free(message) or not self._is_selected(message):
            portion.skipped_count += 1
            return
        moved = message.copy()
        reason = self._refusal(target, moved)
        stored = message.stored
        assert stored is not None
        if (portion.done_count if reason is None else portion.failed_count) < MAX_MENTIONS:
            portion.mentions.append(
                Mention(message.visible_sequence_number, message_id_of(stored.bare), target.name, reason)
            )
        if reason is not None:
            portion.failed_count += 1
            return
        portion.done_count += 1
        if not self._is_dry_run:
            self._move(source, message, moved, target)

    def _destination(self, message: BrokeredMessage) -> Queue | None:
        if self._target is not None:
            return self._target
        if self._state is MessageState.DEAD_LETTERED:
            return self._queue
        name = message.dead_letter_source
        origin = None if name is None else self._queue.namespace.find_any(name)
        return None if origin is self._queue else origin

    def _is_selected(self, message: BrokeredMessage) -> bool:
        """A filter that cannot be evaluated on a message does not select it."""
        condition = self.condition
        if condition is None:
            return True
        try:
            return condition.matches(subject_of(message))
        except RuleEvaluationError:
            return False

    def _refusal(self, target: Queue, message: BrokeredMessage) -> str | None:
        """Return why the target cannot take the message, or None if it can."""
        refusal = refusal_of(target, target.name, message, needs_room=False)
        if refusal is not None:
            return refusal.description
        if target is self._queue and not target.namespace.is_disk_full:
            # It takes no more room than before.
            return None
        # What a subscription can hold is what its topic takes.
        limit_bytes = (target if target.topic is None else target.topic).max_message_size_bytes
        if message.size_bytes > limit_bytes:
            return f"The message has {message.size_bytes} bytes; '{target.name}' takes at most {limit_bytes}."
        try:
            target.check_room(message.size_bytes)
        except QuotaExceeded as error:
            return str(error)
        return None

    def _move(self, source: SubQueue, message: BrokeredMessage, moved: BrokeredMessage, target: Queue) -> None:
        stored = message.stored
        assert stored is not None
        if self._is_resubmission:
            # Its size stays: what dead-lettering wrote into it was never counted.
            moved.dead_letter_source = None
            moved.stored = stored.with_bare(_without_reasons(stored.bare))
        if target is not self._queue:
            moved.enqueue_sequence_number = message.enqueue_sequence_number or message.sequence_number
        if moved.state != SCHEDULED:
            # A deferred one is known by a number that it has not any more.
            moved.set_state(ACTIVE)
            moved.enqueued_time_ms = target.namespace.now_ms
        moved.sequence_number = 0
        moved.hop_count = 0
        source.drop_from_head(message)
        source.remove(message)
        target.adopt(moved)
        moved.duplicate_keys = None
        target.touch()
        target.place(moved, -1, None)


def _without_reasons(bare: bytes) -> bytes:
    changes = Changes()
    for name in REMOVED_PROPERTIES:
        changes.user[name] = REMOVED
    try:
        return apply_changes(bare, changes)
    except RuleEvaluationError:
        # Properties that cannot be read are not read to their receiver either.
        return bare
