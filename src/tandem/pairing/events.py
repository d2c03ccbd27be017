"""What happens to a pair, told to the application and written to the event hub `$operations` of the secondary.

    failing                  sends to an entity fail; the failover interval has begun
    failed-over              its messages go to the backlog from now on
    ping                     the primary was asked; `outcome` says what came of it
    restored                 its messages go to the primary again
    diverted                 `count` messages went to the backlog queue `queue`
    syphoned                 `count` messages came from the backlog queue `queue` into their entity
    backlog-queue-removed    the backlog queue `queue` is out of rotation, for `reason`
    closed                   the client was closed; no entity is named. Only a client that reported something says so

Every event names the pair: `primary` and `secondary` are addresses as this program spells them, and `primary_namespace`
is the name in the backlog queues, which is the same for all programs that divert to these queues or empty them.

Writing is best effort: sends never wait for it, and what does not fit is left out. The bulk syphon has time, and writes
its events with `write_events`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from tandem.client.errors import MessagingError
from tandem.client.messaging.message import BrokeredMessage
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.limits import MAX_WAITING_PAIRING_EVENTS
from tandem.pairing.detour import Told

__all__ = [
    "CLIENTS_PARTITION",
    "OPERATIONS_HUB",
    "EventDescriber",
    "EventReporter",
    "Listener",
    "PairingEvent",
    "write_events",
]

OPERATIONS_HUB: Final = "$operations"

# The partition in which what clients tell is kept; the broker's own records are in the other one.
CLIENTS_PARTITION: Final = "1"

# Told of everything, on the event loop; it must return soon.
Listener = Callable[["PairingEvent"], None]
PairingEvent = dict[str, object]

# Events that are written at once.
_MAX_PER_BATCH: Final = 100

# Seconds. Counts of messages are summed up for as long as this before they are told.
_INTERVAL_S: Final = 1.0
_WRITE_TIMEOUT_S: Final = 5.0
# Seconds. What is under way has as long when a pair is closed.
_CLOSE_GRACE_S: Final = 1.0

# Events that come by the thousand, and are told as sums.
_SUMMED: Final = frozenset({"diverted", "syphoned"})


class EventDescriber:
    """Makes an event of what happened: who tells it, and of which pair."""

    def __init__(self, primary: str, primary_namespace: str, secondary: str, utc_now_s: Callable[[], float]) -> None:
        self._utc_now_s = utc_now_s
        # Which program, on which machine, and which of its factories.
        client = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._teller = {
            "client": client,
            "primary": primary,
            "primary_namespace": primary_namespace,
            "secondary": secondary,
        }

    def __call__(self, told: Told) -> PairingEvent:
        time = datetime.fromtimestamp(self._utc_now_s(), UTC).isoformat(timespec="milliseconds")
        return {
            "kind": "pairing",
            "time": time.replace("+00:00", "Z"),
            "event": told.event,
            "entity": told.entity,
            **self._teller,
            **told.details,
        }


class EventReporter:
    """Takes what happens, and passes it on. It must be called from the event loop."""

    def __init__(
        self,
        primary: str,
        primary_namespace: str,
        secondary: MessagingFactory,
        listener: Listener | None,
        utc_now_s: Callable[[], float],
    ) -> None:
        self._describe = EventDescriber(primary, primary_namespace, secondary.address, utc_now_s)
        # A connection of its own: whichever factory of a pair is closed first, what is left can be told.
        self._factory = secondary.with_settings(secondary.settings)
        self._listener = listener
        # Counts of messages by event, entity and the details that tell one backlog queue from another.
        self._sums: dict[tuple[str, str, tuple[tuple[str, object], ...]], int] = {}
        self._waiting: deque[PairingEvent] = deque(maxlen=MAX_WAITING_PAIRING_EVENTS)
        self._writer: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._sender = self._factory.create_direct_sender(OPERATIONS_HUB)
        # A secondary that has no such hub, or no right for us, is not asked again.
        self._is_written = True

    def tell(self, told: Told) -> None:
        if self._closing.is_set():
            return
        count = told.details.get("count")
        if told.event in _SUMMED and isinstance(count, int):
            details = tuple(item for item in told.details.items() if item[0] != "count")
            key = (told.event, told.entity, details)
            self._sums[key] = self._sums.get(key, 0) + count
        else:
            self._emit(self._describe(told))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_all())

    def _emit(self, event: PairingEvent) -> None:
        self._waiting.append(event)
        if self._listener is None:
            return
        try:
            self._listener(event)
        except Exception as error:
            # A mistake of the listener must not become one of the message that it is told about.
            context = {"message": "the listener of a pair of namespaces failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _emit_sums(self) -> None:
        sums, self._sums = self._sums, {}
        for (event, entity, details), count in sums.items():
            self._emit(self._describe(Told(event, entity, {"count": count, **dict(details)})))

    async def _write_all(self) -> None:
        """Until there is nothing left. What could not be written is left out: the next may fare better."""
        while self._sums or self._waiting:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_INTERVAL_S):
                    await self._closing.wait()
            self._emit_sums()
            while self._waiting:
                portion = [self._waiting.popleft() for _ in range(min(_MAX_PER_BATCH, len(self._waiting)))]
                await self._write(portion)

    async def _write(self, events: list[PairingEvent]) -> None:
        if not self._is_written:
            return
        payloads = [_message_of(event).to_payload() for event in events]
        try:
            while payloads:
                payloads = payloads[await self._sender.send_some(payloads, _WRITE_TIMEOUT_S) :]
        except MessagingError as error:
            self._is_written = error.is_transient

    async def close(self) -> None:
        """Say that the client is closed, and write what is known, if that takes no longer than a moment."""
        if self._writer is not None:
            # Somebody may know of this client. Of others nobody does, and they need no connection to say goodbye.
            self._emit_sums()
            self.tell(Told("closed", ""))
        self._closing.set()
        writer = self._writer
        if writer is not None and not writer.done():
            await asyncio.wait([writer], timeout=_CLOSE_GRACE_S)
            writer.cancel()
            await asyncio.wait([writer])
        await self._factory.close()


async def write_events(secondary: MessagingFactory, events: Sequence[PairingEvent]) -> bool:
    """Write events, and return when the secondary has them.

    Returns False if the secondary keeps no operations, or takes none with this key. Raises the error of a secondary
    that cannot be reached in the time that the factory's settings allow.
    """
    sender = secondary.create_message_sender(OPERATIONS_HUB)
    try:
        for first in range(0, len(events), _MAX_PER_BATCH):
            await sender.send_batch([_message_of(event) for event in events[first : first + _MAX_PER_BATCH]])
    except MessagingError as error:
        if error.is_transient:
            raise
        return False
    finally:
        await sender.close()
    return True


def _message_of(event: PairingEvent) -> BrokeredMessage:
    return BrokeredMessage(json.dumps(event), content_type="application/json")
