"""A relay on an event loop in a thread of its own, for clients that block the thread they are in."""

from __future__ import annotations

import asyncio
import threading

from tandem.driver import run
from tandem.testing import Relay

PASSWORD = "guest"


class RelayThread:
    """Started and stopped by `with`; its port is free and its queues are empty."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: run(self._serve()))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self.port = 0

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        relay = Relay(password=PASSWORD)
        self.port = await relay.start()
        self._ready.set()
        await self._stopped.wait()
        await relay.close()

    def __enter__(self) -> RelayThread:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *reason: object) -> None:
        assert self._loop is not None
        assert self._stopped is not None
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
