"""Sending to an event hub: to a partition, by a key, or wherever the hub likes."""

from __future__ import annotations

from collections.abc import Iterable

from tandem.amqp import BATCH_FORMAT, make_batch
from tandem.client.hubs.event_data import EventData
from tandem.client.messaging.sender import SendLink
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection, close_link
from tandem.client.wire.lazy import Lazy
from tandem.client.wire.retry import Retrier
from tandem.errors import UsageError
from tandem.wire_names import PARTITION_KEY

__all__ = ["EventHubProducer"]


class EventHubProducer(ClosedAtExit):
    """Sends events to one hub. Those for one partition, or with one key, are kept in the order of their sends."""

    def __init__(self, connection: ServiceConnection, hub: str) -> None:
        self._connection = connection
        self._hub = hub
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
        """Send events together, in as few transfers as possible. Those of one transfer go to one partition."""
        _check(partition_id, partition_key)
        payloads = [event.to_payload(partition_key) for event in events]
        if not payloads:
            return
        link = await self._retrier.perform(self._link(partition_id).get, f"a link to '{self._hub}'")
        annotations = None if partition_key is None else {PARTITION_KEY: partition_key}
        for portion in link.portions(payloads):
            if len(portion) == 1:
                await self._send(portion[0], 0, partition_id)
            else:
                batch = make_batch(portion, message_annotations=annotations)
                await self._send(batch, BATCH_FORMAT, partition_id)

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
