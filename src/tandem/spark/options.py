"""The options of the format `eventhubs`, read and judged once, on the driver.

The names are those of the connector for Event Hubs, with and without `eventhubs.` in front; the names of Kafka's
connector are taken as well. Nothing here knows Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar, cast

from tandem.spark.connection import CONNECTION_OPTIONS, given_connection_string, parse
from tandem.spark.given_options import GivenOptions, Option, OptionError
from tandem.spark.positions import (
    EARLIEST,
    LATEST,
    BadPosition,
    Position,
    PositionChoice,
    event_hubs_position,
    event_hubs_positions,
    kafka_offsets,
    kafka_timestamp,
    kafka_timestamps,
)

__all__ = ["AMQP", "ARROW", "KNOWN_OPTIONS", "EventHubsOptions", "Transport"]

FORMAT: Final = "eventhubs"

Transport = Literal["arrow", "amqp"]
ARROW: Final = "arrow"
AMQP: Final = "amqp"

DEFAULT_CONSUMER_GROUP: Final = "$Default"

# Seconds. How long a query waits for a broker that does not answer: longer than a failover and a restart take.
DEFAULT_OPERATION_TIMEOUT_S: Final = 300.0

# Events. What comes ahead of a reader over AMQP.
DEFAULT_PREFETCH_COUNT: Final = 2_000

# Hosts of the cloud service, which has no bulk reads.
_CLOUD_SUFFIXES: Final = (
    ".servicebus.windows.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.usgovcloudapi.net",
    ".servicebus.cloudapi.de",
)

_STARTING: Final = ("startingPosition", "startingOffsets", "startingTimestamp")
_STARTING_EACH: Final = ("startingPositions", "startingOffsets", "startingOffsetsByTimestamp")
_ENDING: Final = ("endingPosition", "endingOffsets", "endingTimestamp")
_ENDING_EACH: Final = ("endingPositions", "endingOffsets", "endingOffsetsByTimestamp")
_PER_TRIGGER: Final = ("maxEventsPerTrigger", "maxBytesPerTrigger")

KNOWN_OPTIONS: Final = (
    *CONNECTION_OPTIONS,
    Option(
        "eventHub",
        "The hub; the connection string's EntityPath if it is left out.",
        ("eventHubName", "name", "path", "subscribe", "topic"),
    ),
    Option("consumerGroup", "The group that is read as, over AMQP; `$Default`.", ("kafka.group.id",)),
    Option("transport", "`arrow`: bulk reads of Tandem. `amqp`: any service. Left out: what the host suggests."),
    Option("startingPosition", "Where to begin, as JSON of Event Hubs, or `earliest` or `latest`."),
    Option("startingPositions", "The same for single partitions; all others as startingPosition says."),
    Option("startingOffsets", "`earliest`, `latest`, or JSON of Kafka: sequence numbers by hub and partition."),
    Option("startingTimestamp", "Milliseconds since 1970 in UTC: the first event of this time or later."),
    Option("startingOffsetsByTimestamp", "The same for single partitions."),
    Option("endingPosition", "Where a batch read stops; the end as it is now if left out."),
    Option("endingPositions", "The same for single partitions."),
    Option("endingOffsets", "As startingOffsets; the event of the number itself is not read."),
    Option("endingTimestamp", "Milliseconds since 1970 in UTC: events before it are read."),
    Option("endingOffsetsByTimestamp", "The same for single partitions."),
    Option("partitions", 'Which partitions to read: `0,3`, or JSON of Kafka, `{"orders": [0, 3]}`.', ("assign",)),
    Option(
        "maxEventsPerTrigger",
        "Events in one batch of a stream, shared out by backlog; all there are if left out.",
        ("maxOffsetsPerTrigger",),
    ),
    Option(
        "maxBytesPerTrigger", "Bytes in one batch of a stream, as far as the mean size of events tells; `arrow` only."
    ),
    Option("minPartitions", "At least so many tasks: long ranges are split."),
    Option("failOnDataLoss", "Whether a query fails when events it has not read are gone; `true`."),
    Option("operationTimeout", "How long to try to reach the service before the query fails; `5m`."),
    Option("prefetchCount", f"Events that come ahead of a reader over AMQP; {DEFAULT_PREFETCH_COUNT:,}."),
    *(
        Option(name, "Taken for the sake of programs that set it; it has no meaning here.", is_ignored=True)
        for name in (
            "receiverTimeout",
            "threadPoolSize",
            "useExclusiveReceiver",
            "dynamicPartitionDiscovery",
            "slowPartitionAdjustment",
            "maxAcceptableBatchReceiveTime",
            "partitionPreferredLocationStrategy",
        )
    ),
)

Read = TypeVar("Read")


@dataclass(frozen=True)
class EventHubsOptions:
    """What a reader or a writer needs to know."""

    connection_string: str = field(repr=False)
    event_hub: str
    consumer_group: str
    transport: Transport
    starting: PositionChoice
    ending: PositionChoice
    partitions: tuple[str, ...] | None
    max_events_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_partitions: int
    fails_on_data_loss: bool
    operation_timeout_s: float
    prefetch_count: int

    @staticmethod
    def parse(
        given: Mapping[str, str], *, is_stream: bool = False, environment: Mapping[str, str] | None = None
    ) -> EventHubsOptions:
        options = GivenOptions(FORMAT, KNOWN_OPTIONS, given, ("eventhubs.",))
        connection_string = given_connection_string(options, environment)
        parts = parse(connection_string)
        hub = _hub(options, parts.entity_path)
        if is_stream:
            options.refuse((*_ENDING, *_ENDING_EACH), "a stream has no end; it is for batch reads")
        else:
            options.refuse(_PER_TRIGGER, "it is for streams; a batch reads all up to its end")
        transport = _transport(options, parts.address.host)
        if transport == AMQP:
            options.refuse(("maxBytesPerTrigger",), "sizes are not told over AMQP; use maxEventsPerTrigger")
        return EventHubsOptions(
            connection_string=connection_string,
            event_hub=hub,
            consumer_group=options.text("consumerGroup") or DEFAULT_CONSUMER_GROUP,
            transport=transport,
            starting=_choice(options, hub, _STARTING, _STARTING_EACH, LATEST if is_stream else EARLIEST),
            ending=_choice(options, hub, _ENDING, _ENDING_EACH, LATEST),
            partitions=_partitions(options, hub),
            max_events_per_trigger=options.number("maxEventsPerTrigger", 1),
            max_bytes_per_trigger=options.number("maxBytesPerTrigger", 1),
            min_partitions=options.number("minPartitions", 1) or 1,
            fails_on_data_loss=options.is_true("failOnDataLoss", True),
            operation_timeout_s=options.seconds("operationTimeout", DEFAULT_OPERATION_TIMEOUT_S),
            prefetch_count=options.number("prefetchCount", 1) or DEFAULT_PREFETCH_COUNT,
        )


def _hub(options: GivenOptions, entity_path: str | None) -> str:
    named = options.text("eventHub")
    if named is None and entity_path is None:
        raise OptionError("eventhubs: eventHub is missing: give it, or a connection string with EntityPath")
    if named is not None and entity_path is not None and named.lower() != entity_path.lower():
        raise options.wrong("eventHub", f"the connection string is for {entity_path!r:.80} only")
    hub = named or entity_path
    assert hub is not None
    return hub


def _transport(options: GivenOptions, host: str) -> Transport:
    likely = AMQP if host.lower().endswith(_CLOUD_SUFFIXES) else ARROW
    return cast("Transport", options.choice("transport", (ARROW, AMQP), likely))


def _partitions(options: GivenOptions, hub: str) -> tuple[str, ...] | None:
    text = options.text("partitions")
    if text is None:
        return None
    if text.startswith("{"):
        try:
            listed = {str(name).lower(): numbers for name, numbers in json.loads(text).items()}.get(hub.lower())
        except ValueError:
            raise options.wrong("partitions", "it is no JSON") from None
        texts = [str(one) for one in listed] if isinstance(listed, list) else []
    else:
        texts = [one.strip() for one in text.split(",")]
    if not texts or not all(one.isascii() and one.isdigit() for one in texts):
        raise options.wrong("partitions", f'write it as 0,3 or as {{"{hub}": [0, 3]}}')
    return tuple(sorted({str(int(one)) for one in texts}, key=int))


def _choice(
    options: GivenOptions, hub: str, for_all: tuple[str, ...], for_each: tuple[str, ...], default: Position
) -> PositionChoice:
    position, position_offsets, timestamp = for_all
    positions, _, timestamps = for_each
    chosen = default
    by_partition: Mapping[str, Position] = {}
    way = options.at_most_one(*for_all)
    if way == position:
        chosen = _read(options, way, event_hubs_position)
    elif way == timestamp:
        chosen = _read(options, way, kafka_timestamp)
    elif way == position_offsets:
        found = _read(options, way, lambda text: kafka_offsets(text, hub))
        chosen, by_partition = (found, {}) if isinstance(found, Position) else (default, found)
    each = options.at_most_one(positions, timestamps)
    if each is not None and by_partition:
        options.at_most_one(each, position_offsets)
    if each == positions:
        by_partition = _read(options, each, lambda text: event_hubs_positions(text, hub))
    elif each == timestamps:
        by_partition = _read(options, each, lambda text: kafka_timestamps(text, hub))
    return PositionChoice(chosen, by_partition)


def _read(options: GivenOptions, name: str, read: Callable[[str], Read]) -> Read:
    text = options.text(name)
    assert text is not None
    try:
        return read(text)
    except BadPosition as error:
        raise options.wrong(name, str(error)) from None
