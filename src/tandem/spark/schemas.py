"""The columns of every table, stated once: as Spark's types, from which those of Arrow follow."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql.types import (
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = [
    "CAPTURED",
    "EVENTS",
    "EVENTS_OF_HUBS",
    "EVENTS_TO_SEND",
    "FORWARDED",
    "MESSAGES",
    "MESSAGES_TO_SEND",
    "MESSAGE_LOG",
    "MONEY",
    "OPERATIONS",
    "PAIRING_EVENTS",
    "SEALED",
    "arrow_schema",
]

_TEXTS: Final = MapType(StringType(), StringType())

# Money: ten digits before the point and eight behind it; a single operation costs less than a millionth.
MONEY: Final = DecimalType(18, 8)


def _columns(*columns: tuple[str, Any]) -> StructType:
    return StructType([StructField(name, kind, nullable=True) for name, kind in columns])


# As the connector for Event Hubs has them, in the same order.
EVENTS: Final = _columns(
    ("body", BinaryType()),
    ("partition", StringType()),
    ("offset", StringType()),
    ("sequenceNumber", LongType()),
    ("enqueuedTime", TimestampType()),
    ("publisher", StringType()),
    ("partitionKey", StringType()),
    ("properties", _TEXTS),
    ("systemProperties", _TEXTS),
)

# The same of several hubs.
EVENTS_OF_HUBS: Final = _columns(*((one.name, one.dataType) for one in EVENTS), ("hub", StringType()))

# Events that were captured: the same, and the folders that they lie in.
CAPTURED: Final = _columns(
    *((one.name, one.dataType) for one in EVENTS),
    ("hub", StringType()),
    ("date", StringType()),
    ("hour", StringType()),
)

# What can be written to a hub: the body, and at most one of partitionId and partitionKey.
EVENTS_TO_SEND: Final = _columns(
    ("body", BinaryType()),
    ("partitionId", StringType()),
    ("partitionKey", StringType()),
    ("properties", _TEXTS),
)

# What can be written to a queue or a topic: the body, and every property of a message.
MESSAGES_TO_SEND: Final = _columns(
    ("body", BinaryType()),
    ("messageId", StringType()),
    ("label", StringType()),
    ("contentType", StringType()),
    ("correlationId", StringType()),
    ("sessionId", StringType()),
    ("replyTo", StringType()),
    ("replyToSessionId", StringType()),
    ("to", StringType()),
    ("partitionKey", StringType()),
    ("timeToLiveMs", LongType()),
    ("scheduledEnqueueTime", TimestampType()),
    ("properties", _TEXTS),
)

# What is seen of a message in a queue.
MESSAGES: Final = _columns(
    ("queue", StringType()),
    ("sequenceNumber", LongType()),
    ("enqueuedTime", TimestampType()),
    ("state", StringType()),
    ("deliveryCount", IntegerType()),
    ("expiresAt", TimestampType()),
    ("deadLetterReason", StringType()),
    ("deadLetterErrorDescription", StringType()),
    ("deadLetterSource", StringType()),
    *((one.name, one.dataType) for one in MESSAGES_TO_SEND),
)

# A record of the hub of operations, partition 0: what one client did to one entity in one second.
OPERATIONS: Final = _columns(
    ("time", TimestampType()),
    ("namespace", StringType()),
    ("entity", StringType()),
    ("entity_kind", StringType()),
    ("operation", StringType()),
    ("stage", StringType()),
    ("outcome", StringType()),
    ("client", StringType()),
    ("count", LongType()),
    ("bytes", LongType()),
    ("billable_units", LongType()),
    ("latency_ms_buckets", MapType(StringType(), LongType())),
)

# A record of partition 1: what a paired client did about an entity.
PAIRING_EVENTS: Final = _columns(
    ("time", TimestampType()),
    ("event", StringType()),
    ("entity", StringType()),
    ("client", StringType()),
    ("primary", StringType()),
    ("primary_namespace", StringType()),
    ("secondary", StringType()),
    ("count", LongType()),
    ("queue", StringType()),
    ("outcome", StringType()),
    ("reason", StringType()),
)


# What the bulk syphon has done with a message of a backlog queue. `queue` and `sequenceNumber` tell it from all others.
FORWARDED: Final = _columns(
    ("queue", StringType()),
    ("sequenceNumber", LongType()),
    ("path", StringType()),
    ("messageId", StringType()),
    ("outcome", StringType()),
)

# A range of numbers of a backlog queue that one task forwards.
SEALED: Final = _columns(("queue", StringType()), ("first", LongType()), ("last", LongType()))

# A message that was sent, or received, as `arrivals` wants it.
MESSAGE_LOG: Final = _columns(
    ("entity", StringType()), ("messageId", StringType()), ("number", LongType()), ("time", TimestampType())
)


def arrow_schema(schema: StructType) -> Any:
    """What Spark wants record batches to have for a schema: exactly this."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
