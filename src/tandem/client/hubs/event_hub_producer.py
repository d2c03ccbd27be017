"""Send events to a hub: to a named partition, to the partition of a key, or to one that the hub chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from tandem.amqp import BATCH_FORMAT, make_batch
from tandem.client.hubs.event_data import EventData
from tandem.client.messaging.sender import SendLink
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection, close_link
from tandem.client.wire.lazy import Lazy
from tandem.client.wire.retry import Retrier
from tandem.engine.hubs.partition_key import partition_of
from tandem.errors import UsageError
from tandem.wire_names import PARTITION_KEY

__all__ = ["EventHubProducer"]


class EventHubProducer(ClosedAtExit):
    """Sends events to one hub. Events for one partition, or with one key, stay in the order in which they are sent."""

    def __init__(
        self, connection: ServiceConnection, hub: str, get_partition_ids: Callable[[], Awaitable[tuple[str, ...]]]
    ) -> None:
        self._connection = connection
        self._hub = hub
        self._get_partition_ids = get_partition_ids
        self._partition_ids: tuple[str, ...] = ()
        self._retrier: Retrier = connection.make_retrier()
        # One link for the hub itself, and one for each partition that was named.
        self._links: dict[str | None, Lazy[SendLink]] = {}

    @property
    def event_hub_name(self) -> str:
        """The hub that events are sent to."""
        return self._hub

    async def send(
        self, event: EventData, *, partition_id: str | None = None, partition_key: str | None = None
    ) -> None:
        """Send an event, and return when the hub has it on disk."""
        _check(partition_id, partition_key)
        await self._send(event.to_payload(partition_key), 0, partition_id)

    async def send_batch(
        self, events: Iterable[EventData], *, partition_id: str | None = None, partition_key: str | None = None
    ) -> None:
        """Send events in as few transfers as possible, and return when the hub has all of them on disk.

        Events that have partition keys of their own go to the partitions of these keys, in the order given within each
        partition. With `partition_id` all events go to that partition, and keep their keys.
        """
        _check(partition_id, partition_key)
        by_partition: dict[str | None, list[bytes]] = {}
        for event in events:
            target, key = partition_id, event.routing_key
            if key is not None and partition_id is None and partition_key is None:
                target = await self.partition_of(key)
            by_partition.setdefault(target, []).append(event.to_payload(partition_key))
        # All links judge the size of their events before any of them sends.
        transfers = {target: await self._split(target, payloads) for target, payloads in by_partition.items()}
        annotations: dict[str, object] | None = None if partition_key is None else {PARTITION_KEY: partition_key}
        sends = [
            asyncio.ensure_future(self._send_in_turn(portions, target, annotations))
            for target, portions in transfers.items()
        ]
        try:
            await asyncio.gather(*sends)
        finally:
            # After a failure: a caller that sends everything again must not race with what is left of this call.
            for send in sends:
                send.cancel()
            await asyncio.gather(*sends, return_exceptions=True)

    async def partition_of(self, partition_key: str) -> str:
        """Return the partition to which the hub assigns a key."""
        if not self._partition_ids:
            self._partition_ids = await self._get_partition_ids()
        return self._partition_ids[partition_of(partition_key, len(self._partition_ids))]

    async def _split(self, partition_id: str | None, payloads: list[bytes]) -> list[list[bytes]]:
        """Return the payloads of each transfer. Raise if one of them is too large."""
        link = await self._retrier.perform(self._link(partition_id).get, f"a link to '{self._hub}'")
        return link.portions(payloads)

    async def _send_in_turn(
        self, portions: list[list[bytes]], partition_id: str | None, annotations: dict[str, object] | None
    ) -> None:
        for portion in portions:
            if len(portion) == 1:
                await self._send(portion[0], 0, partition_id)
            else:
                await self._send(make_batch(portion, message_annotations=annotations), BATCH_FORMAT, partition_id)

    async def close(self) -> None:
        """Detach the links."""
        self._connection.opened.discard(self)
        for lazy in self._links.values():
            await lazy.close()
            link = lazy.current
            if link is not None:
                await close_link(link.sender)

    async def _send(self, payload: bytes, message_format: int, partition_id: str | None) -> None:
        lazy = self._link(partition_id)

        async def attempt() -> None:
            link = await lazy.get()
            await link.send(payload, message_format, None)

        await self._retrier.perform(attempt, f"a send to '{self._hub}'")

    def _link(self, partition_id: str | None) -> Lazy[SendLink]:
        link = self._links.get(partition_id)
        if link is None:
            link = self._links[partition_id] = Lazy(lambda: self._open(partition_id), lambda one: one.is_alive)
        return link

    async def _open(self, partition_id: str | None) -> SendLink:
        wire = await self._connection.wire()
        self._connection.opened.add(self)
        await wire.authorize(self._hub)
        path = self._hub if partition_id is None else f"{self._hub}/Partitions/{partition_id}"
        return SendLink(wire, await wire.client.sender(path), path)


def _check(partition_id: str | None, partition_key: str | None) -> None:
    if partition_id is not None and partition_key is not None:
        raise UsageError(
            f"partition_id is {partition_id!r} and partition_key {partition_key!r}; a key chooses its partition itself"
        )
