"""Reading one partition of an event hub, from a position on."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from tandem.amqp import Source
from tandem.amqp.types import Described, Symbol
from tandem.client.errors import ReceiverDisconnectedError, messaging_error
from tandem.client.hubs.event_data import EventData
from tandem.client.hubs.event_position import EventPosition
from tandem.client.wire.checks import require_whole_number
from tandem.client.wire.closed_at_exit import ClosedAtExit
from tandem.client.wire.connection import ServiceConnection, close_link
from tandem.client.wire.inbox import Inbox, take_within
from tandem.client.wire.lazy import Lazy
from tandem.client.wire.retry import Retrier
from tandem.errors import UsageError
from tandem.wire_names import RECEIVER_EPOCH, SELECTOR_FILTER

__all__ = ["DEFAULT_PREFETCH_COUNT", "EventHubConsumer"]

# Events. What comes ahead of the reader; as the official SDKs have it.
DEFAULT_PREFETCH_COUNT: Final = 300

_SELECTOR: Final = Symbol(SELECTOR_FILTER)
_EPOCH: Final = Symbol(RECEIVER_EPOCH)


class EventHubConsumer(ClosedAtExit):
    """Reads a partition in order, and goes on where it was when the connection was lost.

    Reading takes nothing away: others, and the same program another time, read the same events. With an `owner_level`
    it is the only one of its consumer group: it ends those with the same or a lower level, which learn of it by
    ReceiverDisconnectedError, and is ended by one with a higher one.
    """

    def __init__(
        self,
        connection: ServiceConnection,
        hub: str,
        consumer_group: str,
        partition_id: str,
        position: EventPosition,
        owner_level: int | None,
        prefetch_count: int,
    ) -> None:
        require_whole_number("prefetch_count", prefetch_count)
        if prefetch_count < 1:
            raise UsageError(f"prefetch_count is {prefetch_count}; a stream needs at least 1")
        self._connection = connection
        self._hub = hub
        self._group = consumer_group
        self._partition_id = partition_id
        self._position = position
        self._owner_level = owner_level
        self._prefetch_count = prefetch_count
        self._retrier: Retrier = connection.make_retrier()
        self._inbox = Lazy(self._open, lambda inbox: inbox.is_usable)
        self._last: Inbox | None = None

    @property
    def partition_id(self) -> str:
        """The partition that is read."""
        return self._partition_id

    @property
    def position(self) -> EventPosition:
        """Where it would go on."""
        return self._position

    async def receive(
        self,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - the service's own name; that it passes is no error
    ) -> EventData | None:
        """The next event; None when none came in this time."""
        events = await self.receive_batch(1, timeout)
        return events[0] if events else None

    async def receive_batch(
        self,
        max_count: int,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - as above
    ) -> list[EventData]:
        """Up to `max_count` events: those that are there when the first one is. None when none came in time."""
        return [EventData.from_payload(payload) for payload in await self.receive_payloads(max_count, timeout)]

    async def receive_payloads(
        self,
        max_count: int,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - as above
    ) -> list[bytes]:
        """The same as the bytes of AMQP that came, for programs that decode them by themselves."""
        require_whole_number("max_count", max_count)
        if max_count < 1:
            raise UsageError(f"max_count is {max_count}; it must be at least 1")
        what = f"reading partition {self._partition_id} of '{self._hub}'"
        deliveries = await take_within(
            timeout, max_count, self._connection.settings, self._retrier, self._get_inbox, what
        )
        if deliveries:
            last = EventData.from_payload(deliveries[-1].payload).sequence_number
            if last is not None:
                self._position = EventPosition.from_sequence_number(last)
        return [delivery.payload for delivery in deliveries]

    async def close(self) -> None:
        """Detach the link."""
        self._connection.opened.discard(self)
        await self._inbox.close()
        inbox = self._inbox.current
        if inbox is not None:
            await close_link(inbox)

    async def _get_inbox(self) -> Inbox:
        """A link that was lost comes back, one that another consumer took does not: the two would take turns."""
        last = self._last
        if last is not None and not last.is_usable:
            error = messaging_error(last.error) if last.error is not None else None
            if isinstance(error, ReceiverDisconnectedError):
                raise error
        self._last = await self._inbox.get()
        return self._last

    async def _open(self) -> Inbox:
        wire = await self._connection.wire()
        self._connection.opened.add(self)
        await wire.authorize(self._hub)
        path = f"{self._hub}/ConsumerGroups/{self._group}/Partitions/{self._partition_id}"
        source = Source(path, filter={_SELECTOR: Described(_SELECTOR, self._position.expression)})
        properties: dict[object, object] | None = None
        if self._owner_level is not None:
            properties = {_EPOCH: self._owner_level}
        inbox = await wire.client.receiver_of(
            Inbox, source, credit=self._prefetch_count, is_settled=True, properties=properties
        )
        inbox.grant(self._prefetch_count)
        return inbox
