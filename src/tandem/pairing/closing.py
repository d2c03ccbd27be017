"""Two factories that end together where a syphon is at work between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from tandem.client.errors import MessagingError
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.wire.waiting import Waiting

__all__ = ["PARTNER_GRACE_S", "end_together"]

# Seconds. How long one factory may live on after the other was closed or faulted.
PARTNER_GRACE_S: Final = 5.0


async def end_together(
    primary: MessagingFactory,
    secondary: MessagingFactory,
    waiting: Waiting,
    end_syphon: Callable[[], Awaitable[None]],
) -> None:
    """Wait until one of them ends. The syphon ends with it; the other one is faulted unless it is closed soon."""
    ends = {asyncio.create_task(one.wait_closed()): one for one in (primary, secondary)}
    try:
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        await end_syphon()
        if len(done) == 1:
            await _wait_for_partner(ends, done.pop(), waiting)
    finally:
        for end in ends:
            end.cancel()


async def _wait_for_partner(
    ends: dict[asyncio.Task[None], MessagingFactory], ended: asyncio.Task[None], waiting: Waiting
) -> None:
    other = next(end for end in ends if end is not ended)
    grace = asyncio.create_task(waiting.sleep(PARTNER_GRACE_S))
    try:
        await asyncio.wait([other, grace], return_when=asyncio.FIRST_COMPLETED)
    finally:
        grace.cancel()
    if other.done():
        return
    how = "faulted" if ends[ended].is_faulted else "closed"
    await ends[other].fault(
        MessagingError(
            f"its partner {ends[ended].address} was {how}, and a syphon ran between the two: close both factories of a "
            f"pair within {PARTNER_GRACE_S:g} seconds, and make both anew"
        )
    )
