"""One event hub: what it says about itself, and what sends to it and reads from it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tandem.amqp.types import Array, Timestamp
from tandem.client.errors import MessagingError
from tandem.client.hubs.event_hub_consumer import DEFAULT_PREFETCH_COUNT, EventHubConsumer
from tandem.client.hubs.event_hub_producer import EventHubProducer
from tandem.client.hubs.event_position import EventPosition
from tandem.client.settings import MessagingFactorySettings
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection
from tandem.client.wire.requests import Answer
from tandem.client.wire.token_provider import TokenProvider, token_provider_of
from tandem.connection_string import ConnectionString, ServiceAddress
from tandem.errors import ConfigurationError
from tandem.wire_names import TYPE_EVENT_HUB, TYPE_PARTITION

__all__ = ["DEFAULT_CONSUMER_GROUP", "EventHubClient", "EventHubProperties", "PartitionProperties"]

DEFAULT_CONSUMER_GROUP: Final = "$Default"


@dataclass(frozen=True)
class EventHubProperties:
    """What a hub says about itself."""

    name: str
    created_at: datetime
    partition_ids: tuple[str, ...]


@dataclass(frozen=True)
class PartitionProperties:
    """What a partition holds at the moment."""

    partition_id: str
    beginning_sequence_number: int
    last_enqueued_sequence_number: int
    last_enqueued_offset: str
    last_enqueued_time_utc: datetime | None
    is_empty: bool


class EventHubClient(ClosedAtExit):
    """A hub. Use it as an async context manager, or close it: that closes all that it made."""

    def __init__(
        self,
        address: ServiceAddress,
        token_provider: TokenProvider,
        event_hub_name: str,
        settings: MessagingFactorySettings | None = None,
    ) -> None:
        self._hub = event_hub_name
        self._connection = ServiceConnection(
            address, token_provider, settings or MessagingFactorySettings(), "event hub client"
        )
        self._retrier = self._connection.make_retrier()

    @classmethod
    def create(
        cls,
        address: str,
        token_provider: TokenProvider,
        event_hub_name: str,
        settings: MessagingFactorySettings | None = None,
    ) -> EventHubClient:
        """For a hub of the namespace at an address: `sb://host[:port]`, or `amqp://host[:port]` without TLS."""
        return cls(ServiceAddress.parse(address), token_provider, event_hub_name, settings)

    @classmethod
    def from_connection_string(
        cls,
        connection_string: str,
        event_hub_name: str | None = None,
        settings: MessagingFactorySettings | None = None,
    ) -> EventHubClient:
        """For a hub by its name, or the one that the connection string names as EntityPath."""
        given = ConnectionString.parse(connection_string)
        name = event_hub_name or given.entity_path
        if name is None:
            raise ConfigurationError("event_hub_name is missing: give it, or a connection string with EntityPath")
        return cls(given.address, token_provider_of(given), name, settings)

    @property
    def event_hub_name(self) -> str:
        """The name of the hub."""
        return self._hub

    @property
    def address(self) -> str:
        """Where the namespace is."""
        return str(self._connection.address)

    @property
    def settings(self) -> MessagingFactorySettings:
        """What was chosen for this client."""
        return self._connection.settings

    def create_producer(self) -> EventHubProducer:
        """Return a producer, which sends events to the hub."""

        async def get_partition_ids() -> tuple[str, ...]:
            return (await self.get_properties()).partition_ids

        return EventHubProducer(self._connection, self._hub, get_partition_ids)

    def create_consumer(
        self,
        consumer_group: str,
        partition_id: str,
        position: EventPosition | None = None,
        *,
        owner_level: int | None = None,
        prefetch_count: int = DEFAULT_PREFETCH_COUNT,
    ) -> EventHubConsumer:
        """Reads a partition, from the oldest event on or from a position."""
        start = position or EventPosition.earliest()
        return EventHubConsumer(
            self._connection, self._hub, consumer_group, partition_id, start, owner_level, prefetch_count
        )

    async def get_properties(self) -> EventHubProperties:
        """The name, the age and the partitions of the hub."""
        body = (await self._read(TYPE_EVENT_HUB, {})).body
        ids = body.get("partition_ids")
        partition_ids = tuple(str(one) for one in ids) if isinstance(ids, Array | list) else ()
        created = body.get("created_at")
        if not isinstance(created, Timestamp):
            raise MessagingError(f"the hub says {created!r:.80} of its age")
        return EventHubProperties(str(body.get("name")), created.to_datetime(), partition_ids)

    async def get_partition_properties(self, partition_id: str) -> PartitionProperties:
        """What a partition holds at the moment."""
        body = (await self._read(TYPE_PARTITION, {"partition": partition_id})).body
        is_empty = bool(body.get("is_partition_empty"))
        moment = body.get("last_enqueued_time_utc")
        return PartitionProperties(
            partition_id,
            _number(body, "begin_sequence_number"),
            _number(body, "last_enqueued_sequence_number"),
            str(body.get("last_enqueued_offset")),
            moment.to_datetime() if isinstance(moment, Timestamp) and not is_empty else None,
            is_empty,
        )

    async def close(self) -> None:
        """Close everything that was made, and the connection."""
        await self._connection.close()

    async def _read(self, kind: str, more: dict[str, object]) -> Answer:
        async def attempt() -> Answer:
            wire = await self._connection.wire()
            node = await wire.hub_management(self._hub)
            token = await wire.token(self._hub)
            properties = {"operation": "READ", "type": kind, "name": self._hub, "security_token": token.text, **more}
            return await node.request(properties, None)

        return await self._retrier.perform(attempt, f"reading about '{self._hub}'")


def _number(body: dict[str, object], field: str) -> int:
    value = body.get(field)
    if not isinstance(value, int):
        raise MessagingError(f"the hub says {value!r:.80} where {field} should be a number")
    return int(value)
