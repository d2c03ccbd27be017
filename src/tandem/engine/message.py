"""A message as a queue keeps it, and the table of what may become of it.

                     +--- abandon, release, lock expires ---+
                     v                                      |
    (schedule) -> ACTIVE ------------- lock -----------> locked --- complete ---> gone
        |            ^                                    |   |
     SCHEDULED --due-+        receive by sequence number  |   +--- dead-letter, or delivered too often --> ACTIVE in
        |                  +------------------------------+                                the dead-letter queue
     cancel -> gone        |   abandon                    |
                       DEFERRED <---------- defer --------+

A lock is not part of the state that is on disk: after a restart every lock is gone, as if it had been released.
"""

from __future__ import annotations

from typing import Final

from tandem.amqp.sections import NO_ENTRIES, Entries, locate
from tandem.amqp.stored import Stored
from tandem.amqp.types import Int, Short, Timestamp
from tandem.wire_names import DEAD_LETTER_SOURCE, ENQUEUE_SEQUENCE_NUMBER, LOCKED_UNTIL, MESSAGE_STATE, PARTITION_ID

__all__ = [
    "ACTIVE",
    "DEFERRED",
    "NEVER_MS",
    "PARTITION_SHIFT",
    "SCHEDULED",
    "SEQUENCE_BITS",
    "SEQUENCE_MASK",
    "Admission",
    "BrokeredMessage",
    "SharedBody",
    "row_of",
]

_STATE_KEY: Final = MESSAGE_STATE.encode()

# The values of x-opt-message-state.
ACTIVE: Final = 0
DEFERRED: Final = 1
SCHEDULED: Final = 2

# Later than any time that can be asked for (the SDKs' largest is the end of the year 9999), and still a 64-bit integer.
NEVER_MS: Final = 1 << 61

# A message's row is its stream in the upper 19 bits and its sequence number in the lower 44: one integer as key, in
# the order in which a stream is read. 2^44 messages are 16 years of 35,000 messages a second in one queue; 2^19
# streams are the four of each of 131,072 entities.
SEQUENCE_BITS: Final = 44
SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1

# The sequence numbers of a partitioned queue carry the partition in their upper 16 bits.
PARTITION_SHIFT: Final = 48


def row_of(stream: int, sequence_number: int) -> int:
    return stream << SEQUENCE_BITS | sequence_number


class Admission:
    """The question whether a message was seen before: asked once, however many subscriptions get a copy.

    `keys` are as those of a message: queue number, key and window of each duplicate detection on its way.
    """

    __slots__ = ("at_ms", "keys")

    def __init__(self, keys: list[tuple[int, str, int]], at_ms: int) -> None:
        self.keys = keys
        self.at_ms = at_ms


class SharedBody:
    """The bytes of a published message, kept once for all subscriptions that hold it, and counted to its topic.

    `front_bytes` is how much of the bare message lies before the body: properties and application properties, which
    an action may change for one of the copies.
    """

    __slots__ = ("front_bytes", "number", "size_bytes", "stored", "stream")

    def __init__(self, number: int, stream: int, size_bytes: int, stored: Stored) -> None:
        self.number = number
        self.stream = stream
        self.size_bytes = size_bytes
        self.stored = stored
        self.front_bytes = locate(stored.bare).body_start()


class BrokeredMessage:
    """One message. `stored` are its bytes, None while they are only on disk."""

    __slots__ = (
        "admission",
        "body_number",
        "dead_letter_source",
        "delivery_count",
        "due_at_ms",
        "duplicate_keys",
        "enqueue_sequence_number",
        "enqueued_time_ms",
        "expires_at_ms",
        "hop_count",
        "partition",
        "sequence_number",
        "session_id",
        "size_bytes",
        "state",
        "stored",
        "stream",
        "time_to_live_ms",
    )

    def __init__(
        self,
        stream: int,
        sequence_number: int,
        state: int,
        delivery_count: int,
        enqueued_time_ms: int,
        expires_at_ms: int,
        due_at_ms: int,
        time_to_live_ms: int,
        session_id: str | None,
        size_bytes: int,
        enqueue_sequence_number: int,
        hop_count: int,
        partition: int,
        dead_letter_source: str | None,
        stored: Stored | None,
    ) -> None:
        self.stream = stream
        self.sequence_number = sequence_number
        self.state = state
        self.delivery_count = delivery_count
        self.enqueued_time_ms = enqueued_time_ms
        self.expires_at_ms = expires_at_ms
        self.due_at_ms = due_at_ms
        self.time_to_live_ms = time_to_live_ms
        self.session_id = session_id
        self.size_bytes = size_bytes
        self.enqueue_sequence_number = enqueue_sequence_number
        self.hop_count = hop_count
        self.partition = partition
        self.dead_letter_source = dead_letter_source
        self.stored = stored
        # Queue number, key and window of each duplicate detection that the message has to pass on its way in.
        self.duplicate_keys: list[tuple[int, str, int]] | None = None
        # A copy of a published message comes in only if its topic admits it.
        self.admission: Admission | None = None
        # Which shared body its bytes are part of; 0 if they are its own.
        self.body_number = 0

    def set_state(self, state: int, due_at_ms: int = 0) -> None:
        """Change the state. Only a scheduled message has a time at which it is due, so both change together."""
        self.state = state
        self.due_at_ms = due_at_ms

    @property
    def row(self) -> int:
        return self.stream << SEQUENCE_BITS | self.sequence_number

    @property
    def held_bytes(self) -> int:
        """What it adds to the size of its queue. A shared body is counted to its topic, once."""
        return 0 if self.body_number else self.size_bytes

    def copy(self) -> BrokeredMessage:
        """The same message for one more subscription."""
        return BrokeredMessage(
            self.stream,
            self.sequence_number,
            self.state,
            self.delivery_count,
            self.enqueued_time_ms,
            self.expires_at_ms,
            self.due_at_ms,
            self.time_to_live_ms,
            self.session_id,
            self.size_bytes,
            self.enqueue_sequence_number,
            self.hop_count,
            self.partition,
            self.dead_letter_source,
            self.stored,
        )

    @property
    def visible_sequence_number(self) -> int:
        """What clients see: with the partition, if the queue has any."""
        return self.partition << PARTITION_SHIFT | self.sequence_number

    def further_annotations(self, stored: Stored) -> Entries:
        """The broker's annotations beyond those that every message has."""
        if not (self.enqueue_sequence_number or self.state or self.partition or self.dead_letter_source):
            return NO_ENTRIES
        pairs: dict[str, object] = {}
        if self.enqueue_sequence_number:
            pairs[ENQUEUE_SEQUENCE_NUMBER] = self.enqueue_sequence_number
        if self.state and _STATE_KEY not in stored.message_annotations.encoded:
            pairs[MESSAGE_STATE] = Int(self.state)
        if self.partition:
            pairs[PARTITION_ID] = Short(self.partition)
        if self.dead_letter_source:
            pairs[DEAD_LETTER_SOURCE] = self.dead_letter_source
        return Entries.with_symbol_keys(pairs)

    def as_delivered(self, stored: Stored) -> Stored:
        """The parts of the message with what its entity changes: a time to live that is longer than the entity's, and
        the state of a message that was scheduled, if it has another one now."""
        if self.state == DEFERRED and _STATE_KEY in stored.message_annotations.encoded:
            stored = stored.with_annotations({MESSAGE_STATE: None})
        if self.expires_at_ms < NEVER_MS:
            start_ms = self.due_at_ms if self.state == SCHEDULED else self.enqueued_time_ms
            time_to_live_ms = self.expires_at_ms - start_ms
            if time_to_live_ms < self.time_to_live_ms:
                return stored.with_lifetime(start_ms, time_to_live_ms)
        return stored

    def locked_prefix(self, stored: Stored, locked_until_ms: int, lock_token: bytes) -> bytes:
        """The bytes before the bare message for a receiver that has it locked; `stored` is `as_delivered`."""
        return stored.locked_prefix(
            self.delivery_count,
            self.visible_sequence_number,
            self.enqueued_time_ms,
            locked_until_ms,
            lock_token,
            self.further_annotations(stored),
        )

    def locked_payload(self, locked_until_ms: int, lock_token: bytes) -> bytes:
        """The message as it goes to a receiver that has it locked."""
        stored = self.stored
        assert stored is not None
        stored = self.as_delivered(stored)
        return self.locked_prefix(stored, locked_until_ms, lock_token) + stored.bare

    def handed_out_payload(self) -> bytes:
        """Return the message as it is delivered to a receiver that has it deleted at once."""
        stored = self.stored
        assert stored is not None
        stored = self.as_delivered(stored)
        prefix = stored.handed_out_prefix(
            self.delivery_count, self.visible_sequence_number, self.enqueued_time_ms, self.further_annotations(stored)
        )
        return prefix + stored.bare

    def unlocked_payload(self, locked_until_ms: int = 0) -> bytes:
        """Return the message as it is browsed, or received by its number and deleted; with the end of a lock unless
        that is 0."""
        stored = self.stored
        assert stored is not None
        stored = self.as_delivered(stored)
        further = self.further_annotations(stored)
        if locked_until_ms:
            further = Entries.with_symbol_keys({LOCKED_UNTIL: Timestamp(locked_until_ms)}).followed_by(further)
        prefix = stored.unlocked_prefix(
            self.delivery_count, self.visible_sequence_number, self.enqueued_time_ms, further
        )
        return prefix + stored.bare
