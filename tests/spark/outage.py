"""A primary that is killed under a paired client and comes back, with the times at which that happened."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from tandem.client import BrokeredMessage, MessagingFactory, NamespaceManager
from tandem.pairing import PairingEvent, SendAvailabilityPairedNamespaceOptions
from tandem.testing import Broker
from tests.patience import until

__all__ = ["ENTITY", "FAILOVER_S", "PING_S", "Outage", "have_outage"]

ENTITY: Final = "orders"
FAILOVER_S: Final = 1.0
PING_S: Final = 0.5


@dataclass
class Outage:
    """When the script killed the primary and started it again, by the time of day, and what the client told of it."""

    killed_at_s: float = 0.0
    returned_at_s: float = 0.0
    events: list[PairingEvent] = field(default_factory=list)

    def count(self, name: str) -> int:
        """How many messages the events of this name are about; of those without a number, how many there are."""
        counts = [event.get("count", 1) for event in self.events if event["event"] == name]
        return sum(count for count in counts if isinstance(count, int))

    def first_s(self, name: str) -> float:
        """When an event of this name was told first, by the client's own account."""
        told = next(str(event["time"]) for event in self.events if event["event"] == name)
        return datetime.fromisoformat(told).timestamp()


async def have_outage(folder: Path) -> Outage:
    """It leaves the data directories of both brokers, as `primary` and `secondary`."""
    outage = Outage()
    with Broker(folder / "primary") as primary, Broker(folder / "secondary") as secondary:
        primary.create_queue(ENTITY)
        manager = NamespaceManager.from_connection_string(secondary.connection_string)
        async with (
            MessagingFactory.from_connection_string(primary.connection_string) as factory,
            MessagingFactory.from_connection_string(secondary.connection_string) as other,
        ):
            options = SendAvailabilityPairedNamespaceOptions(
                manager,
                other,
                2,
                timedelta(seconds=FAILOVER_S),
                enable_syphon=True,
                ping_primary_interval=timedelta(seconds=PING_S),
                listener=outage.events.append,
            )
            await factory.pair_namespace(options)
            await _drive(factory, primary, outage)
            # The one that writes what is told is closed with the pair; sums are told within a second.
            await asyncio.gather(factory.close(), other.close())
    return outage


async def _drive(factory: MessagingFactory, primary: Broker, outage: Outage) -> None:
    sender = factory.create_message_sender(ENTITY)
    is_sending = True

    async def send() -> None:
        number = 0
        while is_sending:
            await sender.send(BrokeredMessage(str(number), message_id=str(number)))
            number += 1
            await asyncio.sleep(0.02)

    sending = asyncio.create_task(send())
    await asyncio.sleep(0.5)
    outage.killed_at_s = time.time()
    await asyncio.to_thread(primary.kill)
    await until(lambda: outage.count("diverted") >= 10, "messages take the detour")
    outage.returned_at_s = time.time()
    await asyncio.to_thread(primary.start)
    await until(lambda: outage.count("restored") == 1, "the entity is back")
    is_sending = False
    await sending
    await until(lambda: outage.count("syphoned") >= outage.count("diverted"), "the backlog is drained")
