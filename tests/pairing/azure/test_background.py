"""What a paired client of the official SDK does beside the calls of its program, and how it ends."""

from __future__ import annotations

import asyncio

from tandem.pairing.azure.background import TaskBackground


async def test_a_ping_that_loses_its_cancellation_in_the_sdk_ends_with_the_client() -> None:
    background = TaskBackground("sb://localhost")
    under_way = asyncio.Event()
    lost_count = 0

    async def ping() -> None:
        nonlocal lost_count
        while True:
            try:
                under_way.set()
                await background.sleep(3_600)
            except asyncio.CancelledError:
                # As `asyncio.wait_for` does, until Python 3.12, when a result comes in the same moment.
                lost_count += 1
                if lost_count > 1:
                    raise

    background.start(ping, "ping orders")
    await under_way.wait()
    async with asyncio.timeout(60):
        await background.close()
    assert lost_count == 2
