"""A link on which messages come, and the readers who wait for them.

Credit is what a reader asks for, or what is to be fetched ahead. A reader whose time is up takes its credit back by a
drain, and what still comes on the way is its own: no message is lost between "not yet" and "too late". A reader that is
cancelled cannot wait for that; what comes for it then is released, so that the next receiver gets it at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from tandem.amqp import RELEASED, IncomingDelivery, ReceiverLink
from tandem.client.settings import MessagingFactorySettings, seconds
from tandem.client.wire.retry import Retrier
from tandem.driver import Endpoint, Receiver
from tandem.errors import TandemError

__all__ = ["Inbox", "take_within"]

# Seconds. How long the service may take to answer a drain before the link counts as broken.
DRAIN_LIMIT_S: Final = 5.0


class _Reader:
    """Somebody who waits for messages, and what he was given."""

    __slots__ = ("called", "count", "is_in_line", "taken")

    def __init__(self, count: int, called: asyncio.Future[None]) -> None:
        self.count = count
        self.called = called
        self.is_in_line = True
        self.taken: list[IncomingDelivery] = []


class Inbox(Receiver):
    """The receiving end of one link."""

    def __init__(self, endpoint: Endpoint, link: ReceiverLink, credit: int) -> None:
        super().__init__(endpoint, link, credit)
        self.prefetch_count = credit
        self._buffer: deque[IncomingDelivery] = deque()
        self._line: deque[_Reader] = deque()
        # Deliveries that the readers in line ask for together.
        self._wanted = 0
        # Readers that left the line and have not returned: what still comes may be theirs.
        self._gathering = 0
        self._drain: asyncio.Future[None] | None = None

    @property
    def has_messages(self) -> bool:
        return bool(self._buffer)

    @property
    def is_usable(self) -> bool:
        """What came before the link was lost can still be read, and settled by its lock token."""
        return self.error is None or bool(self._buffer)

    def take_now(self, count: int) -> list[IncomingDelivery]:
        """What is here already."""
        taken = self._pop(count)
        if self.prefetch_count:
            self._replenish()
        return taken

    def _pop(self, count: int) -> list[IncomingDelivery]:
        buffer = self._buffer
        return [buffer.popleft() for _ in range(min(count, len(buffer)))]

    async def take(self, count: int, timeout_s: float) -> list[IncomingDelivery]:
        """Up to `count` messages: those that are here when the first one is; none if the time is up before."""
        if self._buffer and not self._line:
            return self.take_now(count)
        reader = _Reader(count, self._loop.create_future())
        try:
            await self._wait_in_line(reader, timeout_s)
            if not self.prefetch_count and self.link.credit > 0 and not self._line:
                # Nobody would read what comes for the rest of the credit.
                await self._recall()
        except asyncio.CancelledError:
            self._buffer.extendleft(reversed(reader.taken))
            raise
        else:
            reader.taken += self.take_now(count - len(reader.taken))
        finally:
            self._gathering -= 1
            self._call_readers()
            self._give_back()
        if not reader.taken and self.error is not None:
            raise self.error
        return reader.taken

    async def _wait_in_line(self, reader: _Reader, timeout_s: float) -> None:
        self._line.append(reader)
        self._wanted += reader.count
        self._replenish()
        try:
            async with asyncio.timeout(timeout_s):
                await reader.called
        except TimeoutError:
            # What came in this very moment is taken all the same.
            pass
        finally:
            if reader.is_in_line:
                self._line.remove(reader)
                self._leave_line(reader)

    def stop_waiting(self) -> None:
        """End the wait of every reader now, as if its time were up: each returns what is already on its way to it."""
        for reader in self._line:
            if not reader.called.done():
                reader.called.set_result(None)

    def _leave_line(self, reader: _Reader) -> None:
        reader.is_in_line = False
        self._wanted -= reader.count
        self._gathering += 1

    def _call_readers(self) -> None:
        """Give what is here to those in line, in their order: each gets his own, which nobody takes before he comes."""
        while self._line and (self._buffer or self.error is not None):
            reader = self._line.popleft()
            self._leave_line(reader)
            # Done already is one who was cancelled, or whose time was up, in this very turn of the loop.
            if not reader.called.done():
                reader.taken = self._pop(reader.count)
                reader.called.set_result(None)

    def _replenish(self) -> None:
        """Grant what the readers want and what is to be fetched ahead; one grant for many reads where it can be."""
        if self._drain is not None or self.error is not None or not self.link.is_attached:
            return
        room = max(self.prefetch_count, self._wanted) - len(self._buffer)
        credit = self.link.credit
        if credit < room and (self._wanted > credit or credit * 2 <= self.prefetch_count):
            self.grant(room)

    # --- taking credit back ---------------------------------------------------------------------------------

    async def _recall(self) -> None:
        """Take the credit back, and wait until what was sent for it is here."""
        self._begin_drain()
        drain = self._drain
        if drain is None:
            return
        await asyncio.wait([drain], timeout=DRAIN_LIMIT_S)
        if not drain.done():
            # The service has forgotten us. A new link is made when the next reader comes.
            self.link.detach()
            self._endpoint.flush_soon()
            self._end_drain()

    def _begin_drain(self) -> None:
        if self._drain is None and self.error is None and self.link.is_attached and self.link.credit > 0:
            self._drain = self._loop.create_future()
            self.link.grant(self.link.credit, drain=True)
            self._endpoint.flush_soon()

    def _end_drain(self) -> None:
        drain, self._drain = self._drain, None
        if drain is not None and not drain.done():
            drain.set_result(None)
            # Somebody may have come to read in the meantime.
            if self._line:
                self._replenish()

    def _give_back(self) -> None:
        """When nobody reads and nothing is to be fetched ahead, take the credit back and release what is here."""
        if self.prefetch_count or self._line or self._gathering:
            return
        self._begin_drain()
        self._release_buffered()

    def _release_buffered(self) -> None:
        """What was handed out and deleted cannot be given back: it stays for the next reader."""
        if not self._buffer:
            return
        kept = [delivery for delivery in self._buffer if delivery.is_settled]
        for delivery in self._buffer:
            if not delivery.is_settled:
                self.settle(delivery, RELEASED)
        self._buffer = deque(kept)

    # --- from the link --------------------------------------------------------------------------------------

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        self._buffer.append(delivery)
        self._call_readers()
        if not self.prefetch_count and not self._gathering:
            self._release_buffered()
        if self._drain is not None and self.link.credit == 0:
            self._end_drain()

    def on_drained(self) -> None:
        self._end_drain()

    def fail(self, error: TandemError) -> None:
        super().fail(error)
        self._end_drain()
        self._call_readers()

    async def close(self) -> None:
        """Give back what was fetched ahead, and detach."""
        self.prefetch_count = 0
        if self.error is None:
            await self._recall()
            self._release_buffered()
        await super().close()


async def take_within(
    timeout: timedelta | float | None,  # noqa: ASYNC109 - the service's own name; that it passes is no error
    max_count: int,
    settings: MessagingFactorySettings,
    retrier: Retrier,
    get_inbox: Callable[[], Awaitable[Inbox]],
    what: str,
) -> list[IncomingDelivery]:
    """Take up to `max_count` messages, none if none came in time. A link that is lost meanwhile is attached again."""
    operation_timeout_s = settings.operation_timeout.total_seconds()
    timeout_s = seconds(timeout, operation_timeout_s)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_s

    async def attempt() -> list[IncomingDelivery]:
        inbox = await get_inbox()
        return await inbox.take(max_count, max(0.0, deadline_s - loop.time()))

    return await retrier.perform(attempt, what, timeout_s + operation_timeout_s)
