"""Short forms of what the tests do with the official Event Hubs SDK. It is used as published: nothing is replaced."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final, Self

from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient, PartitionContext, TransportType
from azure.eventhub import aio as eventhub_aio

from tests.compat.sdk import Address, Bus
from tests.patience import wait_until

START: Final = "-1"
LATEST: Final = "@latest"
# Seconds. How often the SDK looks after the balance of its consumers; and how long its thread stays when they are gone.
BALANCING_INTERVAL_S: Final = 0.3


class Hub:
    """An event hub that one test has for itself."""

    def __init__(self, bus: Bus, name: str, address: Address | None = None) -> None:
        """Clients reach it at the address, or where the bus is."""
        self.broker = bus.broker
        self.name = name
        self._address, self._options = address or bus.address
        if "transport_type" in self._options:
            # Each of the two SDKs has an enumeration of its own.
            transport = TransportType[self._options["transport_type"].name]
            self._options = {**self._options, "transport_type": transport}

    def producer(self, **options: Any) -> EventHubProducerClient:
        return EventHubProducerClient.from_connection_string(
            self._address, eventhub_name=self.name, **{**self._options, **options}
        )

    def consumer(self, group: str = "$Default", **options: Any) -> EventHubConsumerClient:
        return EventHubConsumerClient.from_connection_string(
            self._address, group, eventhub_name=self.name, **self._consumer_options(options)
        )

    def producer_aio(self, **options: Any) -> eventhub_aio.EventHubProducerClient:
        return eventhub_aio.EventHubProducerClient.from_connection_string(
            self._address, eventhub_name=self.name, **{**self._options, **options}
        )

    def consumer_aio(self, group: str = "$Default", **options: Any) -> eventhub_aio.EventHubConsumerClient:
        return eventhub_aio.EventHubConsumerClient.from_connection_string(
            self._address, group, eventhub_name=self.name, **self._consumer_options(options)
        )

    def _consumer_options(self, options: dict[str, Any]) -> dict[str, Any]:
        # The SDK reads all partitions of a client in one thread and waits this long at each. With more than its own
        # default, a link that it opens beside others takes longer than the broker waits for a token.
        own = {key: value for key, value in self._options.items() if key != "socket_timeout"}
        return {"load_balancing_interval": BALANCING_INTERVAL_S, **own, **options}

    def send(self, *texts: str, **options: Any) -> None:
        """All of them in one batch. `partition_id` and `partition_key` say where."""
        with self.producer() as producer:
            producer.send_batch([EventData(text) for text in texts], **options)

    def read(self, count: int, position: Any = START, *, partition_id: str = "0", **options: Any) -> list[EventData]:
        """The first events from a position on."""
        with Reading(self, position, partition_id=partition_id, **options) as reading:
            return reading.wait_for(count)

    def await_receivers(self, count: int, partition_id: str = "0") -> None:
        """Until so many links read the partition: the SDK does not say when one of its own is there."""
        wait_until(lambda: self.place(partition_id)["receiver_count"] == count, f"{count} receivers")

    def place(self, partition_id: str = "0") -> dict[str, Any]:
        """What the broker says about a partition."""
        return next(one for one in self.broker.partitions(self.name) if one["partition"] == partition_id)


class Reading:
    """A consumer in a thread of its own, and what it got: a context manager, closed on the way out."""

    def __init__(
        self, hub: Hub, position: Any = START, *, group: str = "$Default", client: Any = None, **options: Any
    ) -> None:
        """`client` are options of the client, the others of its `receive_batch`."""
        self._client = hub.consumer(group, **(client or {}))
        self._options = {"starting_position": position, **options}
        self._thread = threading.Thread(target=self._receive)
        self.events: list[tuple[str, EventData]] = []
        self.errors: list[Exception] = []
        self.opened: set[str] = set()
        self.closed: list[str] = []
        self.on_events: Callable[[PartitionContext, list[EventData]], None] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()
        self._thread.join()

    def _receive(self) -> None:
        self._client.receive_batch(
            on_event_batch=self._on_events,
            on_error=self._on_error,
            on_partition_initialize=self._on_open,
            on_partition_close=self._on_close,
            **self._options,
        )

    def _on_events(self, context: PartitionContext, events: list[EventData]) -> None:
        self.events += [(context.partition_id, event) for event in events]
        if self.on_events is not None:
            self.on_events(context, events)

    def _on_error(self, context: PartitionContext | None, error: Exception) -> None:
        self.errors.append(error)

    def _on_open(self, context: PartitionContext) -> None:
        self.opened.add(context.partition_id)

    def _on_close(self, context: PartitionContext, reason: Any) -> None:
        self.opened.discard(context.partition_id)
        self.closed.append(context.partition_id)

    @property
    def texts(self) -> list[str]:
        return [event.body_as_str() for _, event in self.events]

    def wait_for(self, count: int) -> list[EventData]:
        wait_until(
            lambda: len(self.events) >= count or bool(self.errors), f"{count} events", lambda: str(self.texts)[:500]
        )
        assert not self.errors, self.errors
        return [event for _, event in self.events]

    def wait_for_error(self) -> Exception:
        wait_until(lambda: bool(self.errors), "an error")
        return self.errors[0]


def new_hub(bus: Bus, **fields: Any) -> Hub:
    """With one partition, unless said otherwise. Its name is unique: one broker serves many tests."""
    name = f"hub-{uuid.uuid4().hex[:12]}"
    bus.broker.create_hub(name, **{"partition_count": 1, **fields})
    return Hub(bus, name)


def texts(events: Sequence[EventData]) -> list[str]:
    return [event.body_as_str() for event in events]
