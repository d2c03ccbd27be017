"""The system properties of a message: their names in rules, and what an action may do with them.

The names are those of .NET's BrokeredMessage, in any case, and beside them those of today's SDKs where they differ. The
numbers are places in the list of values that a Subject keeps. Those up to REPLY_TO_SESSION_ID are fields of the
message's properties section, and are read from it when the first one is asked for.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CODES",
    "CONTENT_TYPE",
    "CORRELATION_ID",
    "DATETIME_CODES",
    "DEAD_LETTER_SOURCE",
    "DELIVERY_COUNT",
    "ENQUEUED_SEQUENCE_NUMBER",
    "ENQUEUED_TIME",
    "EXPIRES_AT",
    "FORCE_PERSISTENCE",
    "LABEL",
    "LOCKED_UNTIL",
    "LOCK_TOKEN",
    "MESSAGE_ID",
    "NAMES",
    "PARTITION_KEY",
    "PROPERTIES_SECTION_COUNT",
    "REPLY_TO",
    "REPLY_TO_SESSION_ID",
    "SCHEDULED_ENQUEUE_TIME",
    "SEQUENCE_NUMBER",
    "SESSION_ID",
    "SETTABLE",
    "SIZE",
    "STATE",
    "SYSTEM_COUNT",
    "TIME_TO_LIVE",
    "TO",
    "VIA_PARTITION_KEY",
]

MESSAGE_ID: Final = 0
CORRELATION_ID: Final = 1
CONTENT_TYPE: Final = 2
LABEL: Final = 3
TO: Final = 4
REPLY_TO: Final = 5
SESSION_ID: Final = 6
REPLY_TO_SESSION_ID: Final = 7
TIME_TO_LIVE: Final = 8
SCHEDULED_ENQUEUE_TIME: Final = 9
PARTITION_KEY: Final = 10
VIA_PARTITION_KEY: Final = 11
ENQUEUED_TIME: Final = 12
EXPIRES_AT: Final = 13
SEQUENCE_NUMBER: Final = 14
ENQUEUED_SEQUENCE_NUMBER: Final = 15
DELIVERY_COUNT: Final = 16
DEAD_LETTER_SOURCE: Final = 17
SIZE: Final = 18
STATE: Final = 19
LOCK_TOKEN: Final = 20
LOCKED_UNTIL: Final = 21
FORCE_PERSISTENCE: Final = 22

SYSTEM_COUNT: Final = 23
PROPERTIES_SECTION_COUNT: Final = 8

# In the order of the numbers: how a rule is printed.
NAMES: Final = (
    "MessageId",
    "CorrelationId",
    "ContentType",
    "Label",
    "To",
    "ReplyTo",
    "SessionId",
    "ReplyToSessionId",
    "TimeToLive",
    "ScheduledEnqueueTimeUtc",
    "PartitionKey",
    "ViaPartitionKey",
    "EnqueuedTimeUtc",
    "ExpiresAtUtc",
    "SequenceNumber",
    "EnqueuedSequenceNumber",
    "DeliveryCount",
    "DeadLetterSource",
    "Size",
    "State",
    "LockToken",
    "LockedUntilUtc",
    "ForcePersistence",
)

# Every accepted name in lower case. Those that are written out are what today's SDKs say instead.
CODES: Final[dict[str, int]] = {
    **{name.lower(): code for code, name in enumerate(NAMES)},
    "subject": LABEL,
    "scheduledenqueuetime": SCHEDULED_ENQUEUE_TIME,
    "transactionpartitionkey": VIA_PARTITION_KEY,
    "enqueuedtime": ENQUEUED_TIME,
    "expiresat": EXPIRES_AT,
    "lockeduntil": LOCKED_UNTIL,
}

DATETIME_CODES: Final = (SCHEDULED_ENQUEUE_TIME, ENQUEUED_TIME, EXPIRES_AT, LOCKED_UNTIL)

# What an action may set, and the name under which `Changes.system` has it. All others are the broker's own.
SETTABLE: Final[dict[int, str]] = {
    MESSAGE_ID: "message_id",
    CORRELATION_ID: "correlation_id",
    CONTENT_TYPE: "content_type",
    LABEL: "label",
    TO: "to",
    REPLY_TO: "reply_to",
    SESSION_ID: "session_id",
    REPLY_TO_SESSION_ID: "reply_to_session_id",
    TIME_TO_LIVE: "time_to_live_ms",
    SCHEDULED_ENQUEUE_TIME: "scheduled_enqueue_time_ms",
    PARTITION_KEY: "partition_key",
}
