"""A topic: a queue that passes on what it takes, to every subscription whose rules select it.

    sent        copies into subscriptions, in the batch of the send: all of them are on disk, or none
    scheduled   waits in the topic's own stream until it is due, and is copied then
    costly      one whose rules take long waits there too, due at once, and is copied when they are evaluated; so does
                one that comes when a turn has made enough copies; what is sent after it waits behind it
    forwarded   from another entity: waits there too, and is due at once. So forwarding stays one move, whatever
                number of copies comes of it

A copy is a message of its own, with its own number, lock and life. Its bytes are those of all copies: from two on they
are kept once, as a `SharedBody`, and counted to the topic.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from tandem import wire_names
from tandem.engine.description import QueueDescription
from tandem.engine.intake import usable_session_id
from tandem.engine.message import SCHEDULED, Admission, BrokeredMessage, SharedBody
from tandem.engine.queue import Queue
from tandem.engine.refusal import NO_SESSION
from tandem.engine.rule import subject_of
from tandem.engine.selector import Selecting, Selection, Selector
from tandem.engine.topic_description import TopicDescription
from tandem.limits import MAX_PAGE_MESSAGES
from tandem.rules import RuleEvaluationError, Subject

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace
    from tandem.engine.subscription import Subscription

__all__ = ["Topic"]

_FILTER_ERROR: Final = "FilterEvaluationException"

# Units of work, as `RULE_WORK_PER_TURN` has them: a copy, with what it takes to write and to publish it.
_COPY_WORK: Final = 10_000


class Topic(Queue):
    """One entity that is sent to, and its subscriptions."""

    __slots__ = ("_last_waiting", "_selecting", "selector", "subscriptions")

    def __init__(self, namespace: Namespace, number: int, description: QueueDescription, created_at_ms: int) -> None:
        # By name in lower case.
        self.subscriptions: dict[str, Subscription] = {}
        self.selector = Selector()
        # The first message that waits and whose rules are evaluated in part, and the number of the last that waits
        # because its rules take long; 0 if none does.
        self._selecting: Selecting | None = None
        self._last_waiting = 0
        super().__init__(namespace, number, description, created_at_ms)

    @property
    def topic_description(self) -> TopicDescription:
        description = self.description
        assert isinstance(description, TopicDescription)
        return description

    @property
    def is_in_use(self) -> bool:
        """A topic is idle when all its subscriptions are, too."""
        return self.main.scheduled_count > 0 or any(one.is_in_use for one in self.subscriptions.values())

    @property
    def idle_since_ms(self) -> int:
        return max([self.accessed_at_ms, *[one.accessed_at_ms for one in self.subscriptions.values()]])

    # --- where a message goes -------------------------------------------------------------------------------

    def place(self, message: BrokeredMessage, row: int, properties: dict[str, object] | None) -> None:
        message.delivery_count = 0
        if message.state == SCHEDULED:
            self._enter(message, row, properties)
        elif row < 0 and not message.hop_count:
            self._take_or_queue(message)
        else:
            # From another entity: it takes its turn among the scheduled ones, as one that is due.
            self._queue_up(message, row, properties)

    def _take_or_queue(self, message: BrokeredMessage) -> None:
        """A message that was sent here: copy it at once, unless its rules take long, others wait already, or this turn
        has made enough copies."""
        selecting: Selecting | None = None
        if not self._last_waiting and self.namespace.rule_work_left > 0:
            selecting = self._begin(message)
            if self._go_on(selecting):
                self._publish(message, selecting)
                return
        self._queue_up(message, -1, None)
        self._last_waiting = message.sequence_number
        if selecting is not None:
            selecting.scheduled_number = message.sequence_number
            self._selecting = selecting

    def _queue_up(self, message: BrokeredMessage, row: int, properties: dict[str, object] | None) -> None:
        message.set_state(SCHEDULED, self.namespace.now_ms)
        message.sequence_number = 0
        self._enter(message, row, properties)

    @property
    def activation_limit(self) -> int:
        """Few enough that their copies are no more than one page."""
        return max(1, MAX_PAGE_MESSAGES // max(1, len(self.subscriptions)))

    @property
    def needs_bytes_to_activate(self) -> bool:
        return True

    def prepare(self, message: BrokeredMessage) -> bool:
        if self.namespace.rule_work_left <= 0:
            return False
        selecting = self._selecting
        if selecting is None or selecting.scheduled_number != message.sequence_number:
            # Judged as what it will be, and left as what it is: it may have to wait for another turn.
            kept = message.sequence_number, message.enqueue_sequence_number, message.due_at_ms
            message.due_at_ms = 0
            selecting = self._selecting = self._begin(message)
            message.sequence_number, message.enqueue_sequence_number, message.due_at_ms = kept
            selecting.scheduled_number = message.sequence_number
        return self._go_on(selecting)

    def activate(self, message: BrokeredMessage, row: int, is_delayed: bool) -> None:
        selecting, self._selecting = self._selecting, None
        assert selecting is not None, "it is prepared first"
        if message.sequence_number == self._last_waiting:
            self._last_waiting = 0
        self.namespace.effects.removed.append(row)
        self._publish(message, selecting)

    # --- publishing -----------------------------------------------------------------------------------------

    def _begin(self, message: BrokeredMessage) -> Selecting:
        """Begin to evaluate the rules for a message, as it will be when it is copied."""
        number = self.take_number()
        message.sequence_number = number
        message.stream = self.main.stream
        came_at_ms = message.enqueued_time_ms
        message.enqueued_time_ms = self.namespace.now_ms
        if not message.enqueue_sequence_number:
            message.enqueue_sequence_number = number
        default_ms = self.description.default_message_time_to_live_ms
        if default_ms is not None and default_ms < message.time_to_live_ms:
            message.time_to_live_ms = default_ms
        stored = message.stored
        assert stored is not None
        selecting = Selecting(subject_of(message, self._new_id), stored, number)
        # Each subscription sets the time of its copy; until then it says since when a delayed copy has waited.
        message.enqueued_time_ms = came_at_ms
        return selecting

    def _go_on(self, selecting: Selecting) -> bool:
        """Evaluate rules for as long as this turn allows. True if that is done."""
        namespace = self.namespace
        namespace.rule_work_left = self.selector.go_on(selecting, namespace.rule_work_left)
        return selecting.is_done

    def _publish(self, message: BrokeredMessage, selecting: Selecting) -> None:
        number = message.sequence_number = selecting.sequence_number
        if not message.enqueue_sequence_number:
            message.enqueue_sequence_number = number
        admission = self._admission(message)
        copies: list[BrokeredMessage] = []
        for subscription, selection in selecting.found.items():
            self._copy(message, selecting.subject, subscription, selection, admission, copies)
        if len(copies) > 1:
            self._share(message, copies)

    def _admission(self, message: BrokeredMessage) -> Admission | None:
        """Duplicates are judged by the topic, also of a message that no subscription wants."""
        keys = message.duplicate_keys
        if not keys:
            return None
        admission = Admission(keys, self.namespace.now_ms)
        self.namespace.effects.admissions.append(admission)
        return admission

    def _new_id(self) -> uuid.UUID:
        nonces = self.namespace.nonces
        return uuid.UUID(bytes=nonces.next() + nonces.next(), version=4)

    def _copy(
        self,
        message: BrokeredMessage,
        subject: Subject,
        subscription: Subscription,
        selection: Selection,
        admission: Admission | None,
        copies: list[BrokeredMessage],
    ) -> None:
        """One copy for the rules without an action, one for each rule with one, one for what went wrong."""
        if selection.is_plain:
            copy = message.copy()
            copy.admission = admission
            self._enlist(copy, subject, subscription, copies)
        for acted in selection.acted:
            copy = message.copy()
            copy.admission = admission
            copy.stored = acted.stored
            copy.size_bytes += acted.added_bytes
            if acted.time_to_live_ms is not None:
                copy.time_to_live_ms = acted.time_to_live_ms
            self._enlist(copy, None, subscription, copies)
        errors = selection.errors
        if errors and subscription.subscription_description.dead_lettering_on_filter_evaluation_exceptions:
            copy = message.copy()
            copy.admission = admission
            reason: dict[str, object] = {
                wire_names.DEAD_LETTER_REASON: _FILTER_ERROR,
                wire_names.DEAD_LETTER_ERROR_DESCRIPTION: str(errors[0]),
            }
            subscription.place_dead(copy, -1, reason)
            self.namespace.rule_work_left -= _COPY_WORK
            copies.append(copy)

    def _enlist(
        self, copy: BrokeredMessage, subject: Subject | None, subscription: Subscription, copies: list[BrokeredMessage]
    ) -> None:
        """Place a copy. `subject` is what rules see of it; None if an action has changed that."""
        self.namespace.rule_work_left -= _COPY_WORK
        if subscription.description.requires_session:
            copy.session_id = _session_id(subject_of(copy) if subject is None else subject)
            if copy.session_id is None:
                subscription.place_dead(copy, -1, NO_SESSION.properties)
                copies.append(copy)
                return
        subscription.place(copy, -1, None)
        if copy.stream >> 2 == subscription.number:
            # Those that were forwarded are not the topic's any more.
            copies.append(copy)

    def _share(self, message: BrokeredMessage, copies: list[BrokeredMessage]) -> None:
        stored = message.stored
        assert stored is not None
        namespace = self.namespace
        number = namespace.take_body_number()
        namespace.effects.bodies[number] = SharedBody(number, self.main.stream, message.size_bytes, stored)
        for copy in copies:
            namespace.subqueue_of_stream(copy.stream).counts.share(copy, number)
        # The store counts the body if at least one copy is no duplicate. Until then it needs room all the same.
        self.size.decide(message.size_bytes)
        namespace.effects.published.append((self.number, message.size_bytes))


def _session_id(subject: Subject) -> str | None:
    try:
        return usable_session_id(subject.system("sessionid"))
    except RuleEvaluationError:
        # Its properties are no AMQP. Whoever sent it, to a queue that forwards, is not there to be told.
        return None
