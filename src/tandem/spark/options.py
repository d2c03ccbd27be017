"""The options of the format `eventhubs`, read and judged once, on the driver.

The names are those of the connector for Event Hubs, with and without `eventhubs.` in front; the names of Kafka's
connector are taken as well. Nothing here knows Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar, cast

from tandem.spark.connection import CONNECTION_OPTIONS, given_connection_string, parse
from tandem.spark.given_options import GivenOptions, Option, OptionError
from tandem.spark.hub_choice import HubChoice
from tandem.spark.positions import (
    EARLIEST,
    LATEST,
    BadPosition,
    NamedPartition,
    Position,
    PositionChoice,
    event_hubs_position,
    event_hubs_positions,
    kafka_assignment,
    kafka_offsets,
    kafka_timestamp,
    kafka_timestamps,
)

__all__ = ["AMQP", "ARROW", "KNOWN_OPTIONS", "LISTING_HINT", "EventHubsOptions", "Transport", "means_several_hubs"]

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

# For a key that cannot list the hubs of a namespace.
LISTING_HINT: Final = "To find hubs by eventHubsPattern needs the right Manage; with eventHubs they are named."

_PREFIXES: Final = ("eventhubs.",)

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
        ("eventHubName", "name", "path", "topic"),
    ),
    Option(
        "eventHubs",
        "Several hubs, separated by commas. The table has a further column `hub`.",
        ("subscribe",),
    ),
    Option(
        "eventHubsPattern",
        "A regular expression: every hub whose whole name matches. Needs the right Manage. The table has a further "
        "column `hub`; a hub that appears while a stream runs is read from its oldest event on.",
        ("subscribePattern",),
    ),
    Option("consumerGroup", "The group that is read as, over AMQP; `$Default`. Bulk reads need none."),
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
    Option(
        "partitions",
        'Which partitions to read: `0,3`, or JSON of Kafka, `{"orders": [0, 3]}`, which may name the hubs as well.',
        ("assign",),
    ),
    Option(
        "maxEventsPerTrigger",
        "Events in one batch of a stream, shared out by backlog; all there are if left out.",
        ("maxOffsetsPerTrigger",),
    ),
    Option(
        "maxBytesPerTrigger", "Bytes in one batch of a stream, as far as the mean size of events tells; `arrow` only."
    ),
    Option("minPartitions", "At least so many tasks: long ranges are split."),
    Option(
        "filterPushdown",
        "`true`: read only the partitions, numbers and times that the filters of a query leave. Of a batch; needs "
        "`spark.sql.python.filterPushdown.enabled`, and one `load()` for each query; `false`.",
    ),
    Option("failOnDataLoss", "Whether a query fails when events it has not read are gone; `true`."),
    Option("operationTimeout", "How long to try to reach the service before the query fails; `5m`."),
    Option("prefetchCount", f"Events that come ahead of a reader over AMQP; {DEFAULT_PREFETCH_COUNT:,}."),
    *(
        Option(name, f"Refused: {refusal}.", refusal=refusal)
        for name, refusal in (
            (
                "kafka.group.id",
                "how far a query has read is in Spark's checkpoint, and nothing is committed to a group",
            ),
            ("groupIdPrefix", "how far a query has read is in Spark's checkpoint, and nothing is committed to a group"),
            ("kafka.bootstrap.servers", "give the namespace by connectionString"),
        )
    ),
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
    hubs: HubChoice
    consumer_group: str
    transport: Transport
    starting: PositionChoice
    ending: PositionChoice
    max_events_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_partitions: int
    pushes_filters: bool
    fails_on_data_loss: bool
    operation_timeout_s: float
    prefetch_count: int

    @staticmethod
    def parse(
        given: Mapping[str, str], *, is_stream: bool = False, environment: Mapping[str, str] | None = None
    ) -> EventHubsOptions:
        options = GivenOptions(FORMAT, KNOWN_OPTIONS, given, _PREFIXES)
        connection_string = given_connection_string(options, environment)
        parts = parse(connection_string)
        hubs = _hubs(options, parts.entity_path)
        if is_stream:
            options.refuse((*_ENDING, *_ENDING_EACH), "a stream has no end; it is for batch reads")
            options.refuse(("filterPushdown",), "Spark pushes no filters to streams; it is for batch reads")
        else:
            options.refuse(_PER_TRIGGER, "it is for streams; a batch reads all up to its end")
        transport = _transport(options, parts.address.host)
        if transport == AMQP:
            options.refuse(("maxBytesPerTrigger",), "sizes are not told over AMQP; use maxEventsPerTrigger")
        return EventHubsOptions(
            connection_string=connection_string,
            hubs=hubs,
            consumer_group=options.text("consumerGroup") or DEFAULT_CONSUMER_GROUP,
            transport=transport,
            starting=_choice(options, hubs, _STARTING, _STARTING_EACH, LATEST if is_stream else EARLIEST),
            ending=_choice(options, hubs, _ENDING, _ENDING_EACH, LATEST),
            max_events_per_trigger=options.number("maxEventsPerTrigger", 1),
            max_bytes_per_trigger=options.number("maxBytesPerTrigger", 1),
            min_partitions=options.number("minPartitions", 1) or 1,
            pushes_filters=options.is_true("filterPushdown", False),
            fails_on_data_loss=options.is_true("failOnDataLoss", True),
            operation_timeout_s=options.seconds("operationTimeout", DEFAULT_OPERATION_TIMEOUT_S),
            prefetch_count=options.number("prefetchCount", 1) or DEFAULT_PREFETCH_COUNT,
        )

    @property
    def event_hub(self) -> str:
        """The only hub: of a table that is written."""
        if self.hubs.is_plural or len(self.hubs.names) != 1:
            raise OptionError(f"eventhubs: a table is written to one hub: give eventHub instead of {self.hubs}")
        return self.hubs.names[0]


_WAYS_TO_NAME: Final = ("eventHub", "eventHubs", "eventHubsPattern")


def means_several_hubs(given: Mapping[str, str]) -> bool:
    """Return whether rows say which hub they come from.

    Nothing is refused here: Spark asks for the columns before it says what a table is for, and for a table of SQL it
    adds properties of its own.
    """
    spellings = {spelling.lower().removeprefix("eventhubs."): value for spelling, value in given.items()}
    plural = {"eventhubs", "subscribe", "eventhubspattern", "subscribepattern"}
    if not plural.isdisjoint(spellings):
        return True
    if "eventhub" in spellings:
        return False
    try:
        return len({one.hub for one in kafka_assignment(spellings.get("assign", "{}"))}) > 1
    except BadPosition:
        return False


def _hubs(options: GivenOptions, entity_path: str | None) -> HubChoice:
    partitions = _partitions(options)
    way = options.at_most_one(*_WAYS_TO_NAME)
    given = "" if way is None else options.text(way) or ""
    if way is not None and entity_path is not None and given.lower() != entity_path.lower():
        raise options.wrong(way, f"the connection string is for {entity_path!r:.80} only")
    if way == "eventHubsPattern":
        return HubChoice(pattern=_pattern(options, given), is_plural=True, partitions=partitions)
    if way is not None:
        names = [given] if way == "eventHub" else [name.strip() for name in given.split(",")]
        if not all(names) or len({name.lower() for name in names}) != len(names):
            raise options.wrong(way, "write each hub once, as orders,invoices")
    else:
        # As Kafka assigns partitions: by topic.
        assigned = dict.fromkeys(one.hub for one in partitions or () if one.hub is not None)
        names = [entity_path] if entity_path is not None else list(assigned)
    if not names:
        raise OptionError("eventhubs: eventHub is missing: give it, or a connection string with EntityPath")
    chosen = HubChoice(tuple(names), None, way == "eventHubs" or len(names) > 1, partitions)
    _check_names(options, "partitions", chosen, partitions or ())
    return chosen


def _pattern(options: GivenOptions, given: str) -> str:
    try:
        re.compile(given)
    except re.error as error:
        raise options.wrong("eventHubsPattern", f"it is not a regular expression: {error}") from None
    return given


def _check_names(options: GivenOptions, name: str, hubs: HubChoice, partitions: Iterable[NamedPartition]) -> None:
    """Refuse what is said of a hub that is not read."""
    for one in partitions:
        if one.hub is not None and not hubs.includes(one.hub):
            raise options.wrong(name, f"it names the hub {one.hub!r:.80}; what is read is {hubs}")


def _transport(options: GivenOptions, host: str) -> Transport:
    likely = AMQP if host.lower().endswith(_CLOUD_SUFFIXES) else ARROW
    return cast("Transport", options.choice("transport", (ARROW, AMQP), likely))


def _partitions(options: GivenOptions) -> tuple[NamedPartition, ...] | None:
    text = options.text("partitions")
    if text is None:
        return None
    if text.startswith("{"):
        return tuple(_read(options, "partitions", kafka_assignment))
    texts = [one.strip() for one in text.split(",")]
    if not all(one.isascii() and one.isdigit() for one in texts):
        raise options.wrong("partitions", 'write it as 0,3 or as {"HUB": [0, 3]}')
    return tuple(NamedPartition(str(int(one))) for one in texts)


def _choice(
    options: GivenOptions, hubs: HubChoice, for_all: tuple[str, ...], for_each: tuple[str, ...], default: Position
) -> PositionChoice:
    position, position_offsets, timestamp = for_all
    positions, _, timestamps = for_each
    chosen = default
    by_partition: Mapping[NamedPartition, Position] = {}
    way = options.at_most_one(*for_all)
    if way == position:
        chosen = _read(options, way, event_hubs_position)
    elif way == timestamp:
        chosen = _read(options, way, kafka_timestamp)
    elif way == position_offsets:
        found = _read(options, way, kafka_offsets)
        chosen, by_partition = (found, {}) if isinstance(found, Position) else (default, found)
    each = options.at_most_one(positions, timestamps)
    if each is not None and by_partition:
        options.at_most_one(each, position_offsets)
    if each == positions:
        by_partition = _read(options, each, event_hubs_positions)
    elif each == timestamps:
        by_partition = _read(options, each, kafka_timestamps)
    if by_partition:
        _check_names(options, each or position_offsets, hubs, by_partition)
    return PositionChoice(chosen, by_partition)


def _read(options: GivenOptions, name: str, read: Callable[[str], Read]) -> Read:
    text = options.text(name)
    assert text is not None
    try:
        return read(text)
    except BadPosition as error:
        raise options.wrong(name, str(error)) from None
