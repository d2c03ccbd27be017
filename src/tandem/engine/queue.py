"""One queue: its description, its three sub-queues, what may be sent to it, and where a message goes on to.

Topics and subscriptions are queues too (`topic`, `subscription`): a topic is one that passes on what it takes, a
subscription is one that nobody sends to.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from tandem.addresses import SubQueue as SubQueueKind
from tandem.amqp.batch import BATCH_FORMAT
from tandem.auth.keys import AuthorizationRule
from tandem.engine.description import QueueDescription
from tandem.engine.effects import ForgetDuplicates, PutQueue
from tandem.engine.intake import (
    Draft,
    check_size,
    message_id_of,
    partition_of,
    read_transfer,
    schedule,
    scheduled_time_of,
)
from tandem.engine.message import ACTIVE, NEVER_MS, SCHEDULED, SEQUENCE_BITS, SEQUENCE_MASK, BrokeredMessage
from tandem.engine.refusal import refusal_of
from tandem.engine.session_key import session_key
from tandem.engine.stream_counts import EntitySize, MessageCounts
from tandem.engine.subqueue import SubQueue
from tandem.errors import DecodeError, EntityDisabled, MessageSizeExceeded, QuotaExceeded, Scope
from tandem.limits import MAX_HOPS, MAX_PAGE_MESSAGES, PARTITION_COUNT
from tandem.wire_names import DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace
    from tandem.engine.topic import Topic

__all__ = ["STREAMS_PER_QUEUE", "Queue"]

# The queue, its dead-letter queue and its transfer dead-letter queue; the fourth is spare.
STREAMS_PER_QUEUE: Final = 4

# Milliseconds. How often message ids that are past the duplicate window are forgotten, while there are any: what came
# in during this time, one window ago, is deleted at once.
_FORGET_INTERVAL_MS: Final = 5_000

_TOO_MANY_HOPS: Final = {
    DEAD_LETTER_REASON: "MaxTransferHopCountExceeded",
    DEAD_LETTER_ERROR_DESCRIPTION: (
        "The maximum number of allowed hops when forwarding between queues has been exceeded. "
        f"This value is set to {MAX_HOPS}."
    ),
}


class Queue:
    """One entity of a namespace."""

    __slots__ = (
        "_last_id_at_ms",
        "_next_partition",
        "accessed_at_ms",
        "created_at_ms",
        "dead_letter_queue",
        "description",
        "forget_at_ms",
        "has_owner",
        "is_dropped",
        "main",
        "namespace",
        "next_sequence_number",
        "number",
        "ping_count",
        "size",
        "topic",
        "transfer_dead_letter_queue",
        "updated_at_ms",
    )

    def __init__(
        self,
        namespace: Namespace,
        number: int,
        description: QueueDescription,
        created_at_ms: int,
        topic: Topic | None = None,
    ) -> None:
        self.namespace = namespace
        self.number = number
        self.description = description
        self.created_at_ms = created_at_ms
        self.updated_at_ms = created_at_ms
        self.accessed_at_ms = created_at_ms
        self.next_sequence_number = 1
        self.ping_count = 0
        self.is_dropped = False
        # The connection that made it for as long as it lasts is still there.
        self.has_owner = False
        # Whose subscription this is.
        self.topic = topic
        self.size: EntitySize = EntitySize(None if topic is None else topic.size)
        self.forget_at_ms = NEVER_MS
        self._next_partition = 0
        stream = number * STREAMS_PER_QUEUE
        name = description.name
        self.main = SubQueue(self, SubQueueKind.NONE, stream, name, description.requires_session)
        self.dead_letter_queue = SubQueue(self, SubQueueKind.DEAD_LETTER, stream + 1, f"{name}/$DeadLetterQueue", False)
        self.transfer_dead_letter_queue = SubQueue(
            self, SubQueueKind.TRANSFER_DEAD_LETTER, stream + 2, f"{name}/$Transfer/$DeadLetterQueue", False
        )
        # There may be some from before the start.
        self._last_id_at_ms = namespace.now_ms
        self._forget_later()

    @property
    def name(self) -> str:
        return self.description.name

    @property
    def size_bytes(self) -> int:
        """The bytes of the last commit, as they are reported; of a topic, with those of its subscriptions."""
        return self.size.committed_bytes

    @property
    def message_counts(self) -> MessageCounts:
        """The messages of the last commit, as they are reported."""
        main, dead_letters, transfer_dead_letters = self.subqueues()
        return MessageCounts(main.counts, dead_letters.counts, transfer_dead_letters.counts)

    @property
    def noun(self) -> str:
        """What the service calls it in its messages."""
        return self.description.kind.capitalize()

    @property
    def authorization_rules(self) -> list[AuthorizationRule]:
        """Who else than the rules of the namespace may use it."""
        return self.description.authorization_rules or []

    def subqueue(self, kind: SubQueueKind) -> SubQueue:
        if kind is SubQueueKind.NONE:
            return self.main
        return self.dead_letter_queue if kind is SubQueueKind.DEAD_LETTER else self.transfer_dead_letter_queue

    def subqueues(self) -> tuple[SubQueue, SubQueue, SubQueue]:
        return self.main, self.dead_letter_queue, self.transfer_dead_letter_queue

    # --- sending --------------------------------------------------------------------------------------------

    def send(self, payload: bytes, message_format: int) -> list[BrokeredMessage]:
        """Take the messages of one transfer, all or none. They are on disk when the batch is."""
        drafts = self.read(payload, message_format)
        return self.take(drafts)

    @property
    def max_message_size_bytes(self) -> int:
        """The entity's own limit, or that of the tier if the entity was created in another one."""
        own, most = self.description.max_message_size_in_kilobytes, self.namespace.limits.max_message_size_in_kilobytes
        return min(own, most) << 10

    @property
    def max_batch_size_bytes(self) -> int:
        """The largest transfer of several messages that a sender is told of."""
        return min(self.max_message_size_bytes, self.namespace.limits.max_batch_size_in_kilobytes << 10)

    def disabled(self, scope: Scope = Scope.LINK) -> EntityDisabled:
        return EntityDisabled(f"Messaging entity '{self.name}' is currently disabled.", scope)

    def read(self, payload: bytes, message_format: int) -> list[Draft]:
        """Judge the messages of a transfer without taking them."""
        if not self.description.can_send:
            raise self.disabled(Scope.DELIVERY)
        namespace = self.namespace
        if message_format == BATCH_FORMAT:
            check_size(len(payload), namespace.limits.max_batch_size_in_kilobytes << 10)
        limit = self.max_message_size_bytes
        drafts = read_transfer(payload, message_format, self.description, limit, namespace.now_ms, namespace.nonces)
        size_bytes = 0
        for draft in drafts:
            size_bytes += draft.message.size_bytes
        self.check_room(size_bytes)
        return drafts

    def has_room(self, size_bytes: int) -> bool:
        """Return whether the entity may hold so many bytes more, with all that is decided so far."""
        return self.size.decided_bytes + size_bytes <= self.description.max_size_bytes

    def check_room(self, size_bytes: int) -> None:
        if not self.has_room(size_bytes):
            raise QuotaExceeded(
                f"The maximum entity size has been reached or exceeded for {self.noun}: '{self.name}'. Size of entity "
                f"in bytes: {self.size.decided_bytes}, max entity size in bytes: {self.description.max_size_bytes}."
            )
        if self.namespace.is_disk_full:
            raise QuotaExceeded(
                f"The disk of the broker is full: {size_bytes} bytes for {self.noun} '{self.name}' cannot be stored. "
                "Messages can still be received, which makes room."
            )

    def check_state_size(self, size_bytes: int) -> None:
        """The state of a session is at most as large as a message, and as the tier permits."""
        limit = min(self.max_message_size_bytes, self.namespace.limits.max_session_state_in_kilobytes << 10)
        if size_bytes > limit:
            raise MessageSizeExceeded(
                f"The session state has {size_bytes} bytes, which exceeds the limit of {limit} bytes.", Scope.DELIVERY
            )
        self.check_room(size_bytes)

    def take(self, drafts: list[Draft]) -> list[BrokeredMessage]:
        """Messages that were read and judged."""
        self.accessed_at_ms = self.namespace.now_ms
        messages: list[BrokeredMessage] = []
        for draft in drafts:
            message = draft.message
            if draft.is_ping:
                self.ping_count += 1
                continue
            if draft.duplicate_key is not None:
                window_ms = self.description.duplicate_detection_history_time_window_ms
                message.duplicate_keys = [(self.number, draft.duplicate_key, window_ms)]
                self._expect_to_forget()
            if self.description.enable_partitioning:
                message.partition = self._partition(draft.partition_key)
            if draft.destination is not None:
                self._transfer(message, draft.destination)
            else:
                self.place(message, -1, None)
            messages.append(message)
        return messages

    def reserve_sequence_numbers(self, drafts: list[Draft]) -> None:
        """For scheduled messages whose numbers have to be known before they are taken."""
        for draft in drafts:
            if draft.message.state == SCHEDULED and not draft.is_ping:
                draft.message.sequence_number = self.take_number()

    def _transfer(self, message: BrokeredMessage, destination: str) -> None:
        """Send by way of this queue: what cannot arrive ends in the transfer dead-letter queue."""
        target = self.namespace.find(destination)
        refusal = refusal_of(target, destination, message)
        number = self.take_number()
        if target is None or refusal is not None:
            message.sequence_number = number
            self._bury(self.transfer_dead_letter_queue, message, -1, None if refusal is None else refusal.properties)
            return
        message.enqueue_sequence_number = number
        target.adopt(message)
        target.place(message, -1, None)

    def _partition(self, key: str | None) -> int:
        if key is not None:
            return partition_of(key)
        self._next_partition = (self._next_partition + 1) % PARTITION_COUNT
        return self._next_partition

    # --- where a message goes -------------------------------------------------------------------------------

    def place(self, message: BrokeredMessage, row: int, properties: dict[str, object] | None) -> None:
        """Put a message into this queue, or where this queue forwards to. `row` is where it was, -1 if it is new."""
        visibility = self.namespace.visibility
        if visibility is not None and message.state == ACTIVE:
            visibility.hold(self, message)
        self._route(message, row, properties)

    def _route(self, message: BrokeredMessage, row: int, properties: dict[str, object] | None) -> None:
        # Where it comes to, nobody has tried it yet.
        message.delivery_count = 0
        forward_to = self.description.forward_to
        if forward_to is not None and message.state != SCHEDULED:
            self._forward(message, forward_to, row, properties)
        else:
            self._enter(message, row, properties)

    def _forward(
        self, message: BrokeredMessage, forward_to: str, row: int, properties: dict[str, object] | None
    ) -> None:
        """On to where this queue forwards to, which may forward it again; or into the dead-letter queue here."""
        if message.hop_count >= MAX_HOPS:
            self.place_dead(message, row, {**(properties or {}), **_TOO_MANY_HOPS})
            return
        target = self.namespace.find(forward_to)
        refusal = refusal_of(target, forward_to, message)
        if target is None or refusal is not None:
            self.place_dead(message, row, {**(properties or {}), **(refusal.properties if refusal else {})})
            return
        message.hop_count += 1
        number = self.take_number()
        if not message.enqueue_sequence_number:
            message.enqueue_sequence_number = number
        target.adopt(message)
        target.place(message, row, properties)

    def _enter(self, message: BrokeredMessage, row: int, properties: dict[str, object] | None) -> None:
        """Into this very queue."""
        if not (message.state == SCHEDULED and message.sequence_number):
            message.sequence_number = self.take_number()
        message.stream = self.main.stream
        if message.state != SCHEDULED:
            message.enqueued_time_ms = self.namespace.now_ms
        self._limit_time_to_live(message)
        self.main.timetable.expect(message)
        self._write(self.main, message, row, properties)

    # --- scheduled messages ---------------------------------------------------------------------------------

    @property
    def activation_limit(self) -> int:
        """How many scheduled messages that are due are looked at together."""
        return MAX_PAGE_MESSAGES

    @property
    def needs_bytes_to_activate(self) -> bool:
        """Where it is forwarded to, a message may be judged by its properties; and these say who scheduled it."""
        return self.description.forward_to is not None or self.namespace.visibility is not None

    def prepare(self, message: BrokeredMessage) -> bool:
        """Work towards activating a message that is due. False if there is more to do, in another turn."""
        return True

    def activate(self, message: BrokeredMessage, row: int, is_delayed: bool) -> None:
        """The time of a scheduled message has come. One whose visibility was delayed has waited in this queue."""
        if is_delayed:
            self._route(message, row, None)
        else:
            self.place(message, row, None)

    def adopt(self, message: BrokeredMessage) -> None:
        """A message was forwarded here: what its former queue made of its session and partition does not count."""
        description = self.description
        if not description.requires_session:
            message.session_id = None
        message.partition = 0
        if description.enable_partitioning:
            message.partition = self._partition(None if message.session_id is None else session_key(message.session_id))
        stored = message.stored
        if stored is None:
            return
        due_at_ms = scheduled_time_of(stored.message_annotations)
        if due_at_ms > self.namespace.now_ms:
            # An action gave it a time that is still to come: from here on it counts.
            schedule(message, due_at_ms)
            message.sequence_number = 0
        if description.requires_duplicate_detection:
            message_id = message_id_of(stored.bare)
            keys = message.duplicate_keys or []
            # A message that comes back to a queue on its way is not a duplicate of itself.
            is_back = any(number == self.number for number, _, _ in keys)
            if message_id is not None and not is_back:
                window_ms = description.duplicate_detection_history_time_window_ms
                message.duplicate_keys = [*keys, (self.number, message_id, window_ms)]
                self._expect_to_forget()

    def place_dead(self, message: BrokeredMessage, row: int, properties: dict[str, object]) -> None:
        """A message that came to this queue and cannot go on."""
        message.sequence_number = self.take_number()
        self._bury(self.dead_letter_queue, message, row, properties)

    def _bury(
        self, graveyard: SubQueue, message: BrokeredMessage, row: int, properties: dict[str, object] | None
    ) -> None:
        """Into a dead-letter queue instead of the place where it was to go. It may not be on disk yet, as one that was
        scheduled and came due at once: it is available with the commit."""
        message.enqueued_time_ms = self.namespace.now_ms
        _make_dead(graveyard, message)
        graveyard.pending.add(message.sequence_number)
        self._write(graveyard, message, row, properties)

    def _write(
        self, subqueue: SubQueue, message: BrokeredMessage, row: int, properties: dict[str, object] | None
    ) -> None:
        effects = self.namespace.effects
        if row >= 0:
            message.stored = None
            body_number = message.body_number
            if body_number and row >> SEQUENCE_BITS >> 2 != self.number:
                # It leaves the topic that its bytes are counted to, and takes them along.
                message.body_number = 0
                effects.release(body_number)
            else:
                body_number = 0
            subqueue.counts.enter(message)
            subqueue.record_move(row, message, properties, body_number)
            effects.moved.append(message)
            return
        stored = message.stored
        if properties and stored is not None:
            # Properties that cannot be read cannot be added to. The message is kept as it was sent.
            with contextlib.suppress(DecodeError):
                message.stored = stored.modified(properties)
        effects.appended.append(message)
        subqueue.counts.enter(message)

    def take_number(self) -> int:
        number = self.next_sequence_number
        if number > SEQUENCE_MASK:
            raise QuotaExceeded(
                f"Queue '{self.name}' has used its {SEQUENCE_MASK} sequence numbers. Delete it and make it anew."
            )
        self.next_sequence_number = number + 1
        change = self.namespace.effects.stream_change(self.main.stream)
        change.next_sequence_number = number + 1
        change.accessed_at_ms = self.accessed_at_ms
        return number

    def _limit_time_to_live(self, message: BrokeredMessage) -> None:
        """The message lives as long as it says, or as the queue says, whichever is shorter."""
        limit_ms = message.time_to_live_ms
        default_ms = self.description.default_message_time_to_live_ms
        if default_ms is not None and default_ms < limit_ms:
            limit_ms = default_ms
        start_ms = message.due_at_ms if message.state == SCHEDULED else message.enqueued_time_ms
        message.expires_at_ms = NEVER_MS if limit_ms >= NEVER_MS else start_ms + limit_ms

    def dead_letter(self, source: SubQueue, message: BrokeredMessage, properties: dict[str, object]) -> None:
        """A message of this queue is dead. Its reason is in the properties."""
        row = source.move_out(message)
        # They are at hand for some dead letters and not for others, and must not make a difference.
        message.stored = None
        forward_to = self.description.forward_dead_lettered_messages_to
        if forward_to is not None:
            target = self.namespace.find(forward_to)
            can_go = message.hop_count < MAX_HOPS and refusal_of(target, forward_to, message) is None
            if target is not None and can_go:
                message.hop_count += 1
                message.dead_letter_source = self.description.dead_letter_source
                message.enqueue_sequence_number = message.enqueue_sequence_number or message.sequence_number
                message.enqueued_time_ms = self.namespace.now_ms
                message.set_state(ACTIVE)
                target.adopt(message)
                target.place(message, row, properties)
                return
        _make_dead(self.dead_letter_queue, message)
        self.dead_letter_queue.counts.enter(message)
        self.dead_letter_queue.record_move(row, message, properties)
        self.dead_letter_queue.put_in_line(message)

    def forward_backlog(self) -> None:
        """Messages that were here before forwarding was switched on go the way of all others."""
        outlet = self.main.outlet
        head = outlet.head
        while True:
            message = head.first()
            if message is None:
                break
            outlet.take(message)
            if message.expires_at_ms <= self.namespace.now_ms:
                self.main.expire(message)
            else:
                message.enqueued_time_ms = self.namespace.now_ms
                self._route(message, self.main.move_out(message), None)
        if not head.is_complete and not head.is_loading and self.main.active_count > len(outlet.locks.held):
            outlet.load(MAX_PAGE_MESSAGES)

    # --- upkeep ---------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Somebody uses the queue: it is not idle."""
        self.accessed_at_ms = self.namespace.now_ms

    def update(self, description: QueueDescription) -> None:
        if description.authorization_rules is None:
            description.authorization_rules = self.description.authorization_rules
        self.description = description
        self.updated_at_ms = self.namespace.now_ms
        self.record()
        if not description.can_receive:
            for subqueue in self.subqueues():
                subqueue.close_all_consumers(self.disabled())
        if description.forward_to is not None and self.main.sessions is not None:
            self.main.free_sessions()
        self._forget_later()
        self.watch_idle()
        self.namespace.pump_soon(self.main)

    def watch_idle(self) -> None:
        if self.description.auto_delete_on_idle_ms is not None:
            self.main.wake_at(self.namespace.now_ms + self.description.auto_delete_on_idle_ms)

    def record(self) -> None:
        self.namespace.effects.changes.append(
            PutQueue(
                self.number,
                self.description.kind,
                self.description.stored_fields(),
                self.created_at_ms,
                self.updated_at_ms,
            )
        )

    def on_time(self, now_ms: int) -> bool:
        """Forget message ids that are too old to be duplicated; and the whole queue, if nobody needs it: then False."""
        if self.forget_at_ms <= now_ms:
            before_ms = now_ms - self.description.duplicate_detection_history_time_window_ms
            self.namespace.effects.changes.append(ForgetDuplicates(self.number, before_ms))
            self.forget_at_ms = NEVER_MS
            if before_ms < self._last_id_at_ms:
                self._forget_later()
        # Something nearer may have woken us.
        self.main.wake_at(self.forget_at_ms)
        idle_ms = self.description.auto_delete_on_idle_ms
        if idle_ms is not None:
            if self.is_in_use:
                self.touch()
            deleted_at_ms = self.idle_since_ms + idle_ms
            if deleted_at_ms <= now_ms:
                self.namespace.delete(self)
                return False
            self.main.wake_at(deleted_at_ms)
        return True

    @property
    def idle_since_ms(self) -> int:
        """When somebody used it last."""
        return self.accessed_at_ms

    @property
    def is_in_use(self) -> bool:
        """Somebody receives, or will: a queue with an owner, receivers or scheduled messages is not idle."""
        return self.has_owner or self.main.scheduled_count > 0 or any(one.consumers for one in self.subqueues())

    def restore_ids(self, last_id_at_ms: int) -> None:
        """Message ids are remembered from before the start; after the clock was set back, from later than now."""
        self._last_id_at_ms = max(self._last_id_at_ms, last_id_at_ms)

    def _expect_to_forget(self) -> None:
        """A message id will be remembered."""
        self._last_id_at_ms = max(self._last_id_at_ms, self.namespace.now_ms)
        if self.forget_at_ms == NEVER_MS:
            self._forget_later()

    def _forget_later(self) -> None:
        if self.description.requires_duplicate_detection:
            self.forget_at_ms = self.namespace.now_ms + _FORGET_INTERVAL_MS
            self.main.wake_at(self.forget_at_ms)


def _make_dead(graveyard: SubQueue, message: BrokeredMessage) -> None:
    """In a dead-letter queue messages have no session and do not expire."""
    message.stream = graveyard.stream
    message.session_id = None
    message.expires_at_ms = NEVER_MS
    message.set_state(ACTIVE)
