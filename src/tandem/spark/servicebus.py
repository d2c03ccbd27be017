"""The format `servicebus`: writing to queues and topics, and looking at what lies in a queue.

    orders.write.format("servicebus").option("entity", "orders").mode("append").save()
    spark.read.format("servicebus").option("queue", "orders/$DeadLetterQueue").load()

Reading takes nothing from the queue: it can be repeated, and two queries do not disturb each other. There is no
streaming read on purpose: Spark says that a batch is done only when the next one begins, and of the last one never, so
that settling messages by it would lose or repeat them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from tandem.client import BrokeredMessage, MessagingFactory, blocking
from tandem.spark.amqp_transport import patient_settings
from tandem.spark.browsing import SealedRange, browse, seal, split
from tandem.spark.columns import check_projection, rows_of
from tandem.spark.connection import CONNECTION_OPTIONS, given_connection_string, parse
from tandem.spark.given_options import GivenOptions, Option, OptionError
from tandem.spark.messages import message_of, messages_batch
from tandem.spark.options import DEFAULT_OPERATION_TIMEOUT_S
from tandem.spark.refused_stream import RefusedStreamReader
from tandem.spark.schemas import MESSAGES, MESSAGES_TO_SEND
from tandem.spark.writers import BatchWriter, Sent, StreamWriter

__all__ = ["KNOWN_OPTIONS", "ServiceBusDataSource", "ServiceBusOptions"]

FORMAT: Final = "servicebus"

KNOWN_OPTIONS: Final = (
    *CONNECTION_OPTIONS,
    Option(
        "entity",
        "The queue or topic; to be read, also `TOPIC/Subscriptions/NAME`, with `/$DeadLetterQueue` behind it.",
        ("queue", "topic", "path", "entityPath"),
    ),
    Option("fromSequenceNumber", "Of reading: the first message to look at."),
    Option("toSequenceNumber", "Of reading: the last message to look at; the last there is if left out."),
    Option("minPartitions", "Of reading: so many tasks; 1."),
    Option("operationTimeout", "How long to try to reach the service before the query fails; `5m`."),
)


@dataclass(frozen=True)
class ServiceBusOptions:
    """What a reader or a writer needs to know."""

    connection_string: str = field(repr=False)
    entity: str
    from_sequence_number: int
    to_sequence_number: int | None
    min_partitions: int
    operation_timeout_s: float

    @staticmethod
    def parse(given: Mapping[str, str]) -> ServiceBusOptions:
        options = GivenOptions(FORMAT, KNOWN_OPTIONS, given, ("servicebus.",))
        connection_string = given_connection_string(options)
        entity = options.text("entity") or parse(connection_string).entity_path
        if entity is None:
            raise OptionError("servicebus: entity is missing: name a queue or a topic")
        return ServiceBusOptions(
            connection_string,
            entity,
            options.number("fromSequenceNumber", 0) or 0,
            options.number("toSequenceNumber", 0),
            options.number("minPartitions", 1) or 1,
            options.seconds("operationTimeout", DEFAULT_OPERATION_TIMEOUT_S),
        )

    def factory(self) -> MessagingFactory:
        return MessagingFactory.from_connection_string(
            self.connection_string, patient_settings(self.operation_timeout_s)
        )


class ServiceBusDataSource(DataSource):
    """What Spark finds under the name `servicebus`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return MESSAGES

    def reader(self, schema: StructType) -> DataSourceReader:
        return _QueueReader(ServiceBusOptions.parse(dict(self.options)), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's own name
        return RefusedStreamReader(
            OptionError(
                "servicebus: a queue cannot be read as a stream, since messages would be lost or come twice; read it "
                "in batches and purge it afterwards, or forward it to an event hub and read that"
            )
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(EntityTarget(ServiceBusOptions.parse(dict(self.options))), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - as above
        return StreamWriter(EntityTarget(ServiceBusOptions.parse(dict(self.options))), schema)


# --- reading --------------------------------------------------------------------------------------------------------


class _SealedPartition(InputPartition):
    def __init__(self, wanted: SealedRange) -> None:
        super().__init__(wanted)
        self.wanted = wanted


class _QueueReader(DataSourceReader):
    """What is in a queue when the query is planned."""

    def __init__(self, options: ServiceBusOptions, schema: StructType) -> None:
        check_projection(FORMAT, schema, MESSAGES)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        sealed = blocking.run(self._seal())
        if sealed is None:
            return []
        return [_SealedPartition(one) for one in split(sealed, self._options.min_partitions)]

    async def _seal(self) -> SealedRange | None:
        options = self._options
        async with options.factory() as factory:
            receiver = factory.create_message_receiver(options.entity)
            return await seal(receiver, options.entity, options.from_sequence_number, options.to_sequence_number)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, _SealedPartition):
            # Where there is nothing to read, Spark makes a task of its own, and gives it nothing.
            return
        factory = self._options.factory()
        try:
            pages = browse(factory.create_message_receiver(self._options.entity), partition.wanted)
            while (page := blocking.run(_next(pages))) is not None:
                yield messages_batch(page, self._options.entity, self._schema)
        finally:
            blocking.run(factory.close())


async def _next(pages: AsyncIterator[list[BrokeredMessage]]) -> list[BrokeredMessage] | None:
    return await anext(pages, None)


# --- writing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EntityTarget:
    """A queue or a topic. With duplicate detection it knows rows again that have a message id of their own."""

    format: ClassVar[str] = FORMAT
    nouns: ClassVar[str] = "messages"
    columns: ClassVar[StructType] = MESSAGES_TO_SEND

    options: ServiceBusOptions

    def send(self, batches: Iterator[Any]) -> Sent:
        factory = self.options.factory()
        count = 0
        try:
            sender = factory.create_message_sender(self.options.entity)
            for batch in batches:
                blocking.run(sender.send_batch([message_of(row) for row in rows_of(batch)]))
                count += batch.num_rows
        finally:
            blocking.run(factory.close())
        return Sent(count)
