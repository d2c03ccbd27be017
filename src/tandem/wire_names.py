"""Names that stand on the wire and that AMQP itself does not define: those of the service and of Tandem.

Each name is written here once. Conditions of errors are beside their classes in `tandem.errors`; names that the AMQP
specification gives are in `tandem.amqp`. `tests/modules/test_wire_names.py` finds a name that is spelled out elsewhere.
"""

from __future__ import annotations

from typing import Final

# --- nodes ----------------------------------------------------------------------------------------------------------

CBS_NODE: Final = "$cbs"
MANAGEMENT_NODE: Final = "$management"

# --- message annotations --------------------------------------------------------------------------------------------

DEAD_LETTER_SOURCE: Final = "x-opt-deadletter-source"
DELIVERY_TIME: Final = "x-opt-delivery-time"
ENQUEUED_TIME: Final = "x-opt-enqueued-time"
ENQUEUE_SEQUENCE_NUMBER: Final = "x-opt-enqueue-sequence-number"
LOCKED_UNTIL: Final = "x-opt-locked-until"
MESSAGE_STATE: Final = "x-opt-message-state"
OFFSET: Final = "x-opt-offset"
PARTITION_ID: Final = "x-opt-partition-id"
PARTITION_KEY: Final = "x-opt-partition-key"
PUBLISHER: Final = "x-opt-publisher"
SCHEDULED_ENQUEUE_TIME: Final = "x-opt-scheduled-enqueue-time"
SEQUENCE_NUMBER: Final = "x-opt-sequence-number"
SEQUENCE_NUMBER_EPOCH: Final = "x-opt-sequence-number-epoch"
VIA_PARTITION_KEY: Final = "x-opt-via-partition-key"

# A delivery annotation.
LOCK_TOKEN: Final = "x-opt-lock-token"  # noqa: S105 - the name of an annotation, not a secret

# What the selector of a reader of events puts before the name of an annotation.
SELECTED_ANNOTATION: Final = "amqp.annotation."
# Some SDKs call the time of an event this there.
ENQUEUED_TIME_UTC: Final = "x-opt-enqueuedtimeutc"

# --- application properties of dead letters -------------------------------------------------------------------------

DEAD_LETTER_REASON: Final = "DeadLetterReason"
DEAD_LETTER_ERROR_DESCRIPTION: Final = "DeadLetterErrorDescription"

# The condition with which a receiver rejects a message so that it becomes a dead letter.
DEAD_LETTER_CONDITION: Final = "com.microsoft:dead-letter"

# --- properties and filters of links --------------------------------------------------------------------------------

IDEMPOTENT_PRODUCER: Final = "com.microsoft:idempotent-producer"
LOCKED_UNTIL_UTC: Final = "com.microsoft:locked-until-utc"
MAX_MESSAGE_BATCH_SIZE: Final = "com.microsoft:max-message-batch-size"
NO_LOCAL_FILTER: Final = "apache.org:no-local-filter:list"
NO_LOCAL_FILTER_CODE: Final = 0x0000_468C_0000_0003
PRODUCER_EPOCH: Final = "com.microsoft:producer-epoch"
PRODUCER_ID: Final = "com.microsoft:producer-id"
PRODUCER_SEQUENCE_NUMBER: Final = "com.microsoft:producer-sequence-number"
RECEIVER_EPOCH: Final = "com.microsoft:epoch"
RECEIVER_NAME: Final = "com.microsoft:receiver-name"
RECEIVER_RUNTIME_METRIC: Final = "com.microsoft:enable-receiver-runtime-metric"
SELECTOR_FILTER: Final = "apache.org:selector-filter:string"
SELECTOR_FILTER_CODE: Final = 0x0000_468C_0000_0004
SESSION_FILTER: Final = "com.microsoft:session-filter"
TIMEOUT: Final = "com.microsoft:timeout"
TRANSFER_DESTINATION: Final = "com.microsoft:transfer-destination-address"

# --- capabilities that clients of JMS ask for -----------------------------------------------------------------------

DELAYED_DELIVERY: Final = "DELAYED_DELIVERY"
SHARED_SUBSCRIPTIONS: Final = "SHARED-SUBS"

# --- requests to management nodes -----------------------------------------------------------------------------------

OPERATION_PREFIX: Final = "com.microsoft:"
TRACKING_ID: Final = "com.microsoft:tracking-id"
TYPE_EVENT_HUB: Final = "com.microsoft:eventhub"
TYPE_PARTITION: Final = "com.microsoft:partition"

# --- types of .NET that AMQP does not have --------------------------------------------------------------------------

DATETIME_OFFSET: Final = "com.microsoft:datetime-offset"
TIMESPAN: Final = "com.microsoft:timespan"
URI: Final = "com.microsoft:uri"

# .NET counts time in ticks of 100 ns, and dates from the first moment of the year 1.
TICKS_PER_MS: Final = 10_000
TICKS_PER_SECOND: Final = 10_000_000
TICKS_OF_1970: Final = 621_355_968_000_000_000


def ticks_of(at_ms: int) -> int:
    """Return milliseconds since 1970 as a date of .NET."""
    return TICKS_OF_1970 + at_ms * TICKS_PER_MS


# --- HTTP -----------------------------------------------------------------------------------------------------------

# The path of everything in the JSON API begins with this.
JSON_API: Final = "/$api/v1"
BROKER_PROPERTIES_HEADER: Final = "BrokerProperties"
FIRST_SEQUENCE_NUMBER_HEADER: Final = "Tandem-First-Sequence-Number"

# --- paired namespaces ----------------------------------------------------------------------------------------------

# The content type of an empty message with which a paired client asks whether an entity can be sent to.
PING_CONTENT_TYPE: Final = "application/vnd.ms-servicebus-ping"
# The user agent of a syphon contains this, whatever client library the syphon uses: brokers count its operations apart.
SYPHON_USER_AGENT: Final = "tandem-syphon"
