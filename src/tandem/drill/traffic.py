"""What is sent in a drill, at a steady rate, and what is received."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from tandem.drill.account import OWN_PREFIX, Account, Arrival
from tandem.drill.drivers import DrillMessage, Driver, Send, SendFailed
from tandem.drill.plan import ENTITIES, ORDERS, PAYMENTS, DrillPlan

__all__ = ["Traffic", "make_message"]

# One entity after the other gets a message; within it one of the senders after the other.
_SENDERS_PER_ENTITY: Final = 2
_LANES: Final = len(ENTITIES) * _SENDERS_PER_ENTITY
_SESSIONS: Final = 4

# Of the messages to the first queue, each tenth appears a moment later, and each tenth has an hour to live.
_SCHEDULE_EVERY: Final = 10
_SCHEDULE_AFTER: Final = timedelta(milliseconds=500)
_TIME_TO_LIVE: Final = timedelta(hours=1)

# Seconds. How long receivers may take to notice that it is over.
_FAREWELL_S: Final = 10.0


def make_message(index: int, now: datetime, prefix: str = OWN_PREFIX) -> DrillMessage:
    """The message with this number. Order is promised within a lane, and with sessions within each of these."""
    entity, sender = ENTITIES[index % len(ENTITIES)], index // len(ENTITIES) % _SENDERS_PER_ENTITY
    number, lane = index // _LANES, f"{entity}/{sender}"
    session_id, time_to_live, scheduled_at = None, None, None
    if entity == PAYMENTS:
        session_id = f"session-{number % _SESSIONS}"
        lane = f"{lane}/{session_id}"
    elif entity == ORDERS and number % _SCHEDULE_EVERY == 1:
        scheduled_at = now + _SCHEDULE_AFTER
        lane = f"{lane}/scheduled"
    elif entity == ORDERS and number % _SCHEDULE_EVERY == 2:
        time_to_live = _TIME_TO_LIVE
    return DrillMessage(f"{prefix}{index}", f"message {index}", lane, number, session_id, time_to_live, scheduled_at)


class Traffic:
    """The senders and receivers of one drill."""

    def __init__(self, plan: DrillPlan, driver: Driver, account: Account, say: Callable[[str], None]) -> None:
        self._plan = plan
        self._driver = driver
        self._account = account
        self._say = say
        self._senders: list[Send] = []
        self._receivers: list[asyncio.Task[None]] = []
        # Set when it is time for the outage.
        self.is_under_way = asyncio.Event()
        self._is_over = False

    async def open_senders(self) -> None:
        """One for each lane, so that the first message takes no longer than the others."""
        makes = (self._driver.make_sender(ENTITIES[lane % len(ENTITIES)]) for lane in range(_LANES))
        self._senders = await asyncio.gather(*makes)

    async def send_all(self) -> None:
        """At a steady rate, whatever becomes of the messages before."""
        plan = self._plan
        sends: set[asyncio.Task[None]] = set()
        started_s = time.monotonic()
        for index in range(plan.messages):
            sender = self._senders[index % _LANES]
            sends.add(
                asyncio.create_task(self._send(sender, make_message(index, datetime.now(UTC), self._account.prefix)))
            )
            if index >= plan.messages * plan.begins_after:
                self.is_under_way.set()
            await asyncio.sleep(max(0.0, started_s + index / plan.rate_per_second - time.monotonic()))
        await asyncio.gather(*sends)

    async def _send(self, send: Send, message: DrillMessage) -> None:
        try:
            await send(message)
        except SendFailed as error:
            self._account.note_refused(str(error))
            self._say(f"a send failed: {error}")
        else:
            self._account.note_sent(message.message_id, time.monotonic())

    # --- receiving ------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether receivers are to end."""
        return self._is_over

    def take(self, arrival: Arrival) -> None:
        """Something was received."""
        self._account.note_received(arrival, time.monotonic())

    def start_receivers(self) -> None:
        for entity in ENTITIES:
            self._receivers.append(asyncio.create_task(self._driver.receive(entity, self)))

    async def stop_receivers(self) -> None:
        self._is_over = True
        done, late = await asyncio.wait(self._receivers, timeout=_FAREWELL_S)
        for one in late:
            one.cancel()
        for one in done:
            # A receiver that gave up has a reason to tell.
            one.result()
