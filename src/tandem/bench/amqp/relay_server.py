"""The in-memory relay as a process of its own: `python -m tandem.bench.amqp.relay_server`, prints `ready PORT`."""

from __future__ import annotations

import asyncio
import signal

from tandem.driver import run
from tandem.testing import Relay

__all__: list[str] = []


async def _serve() -> None:
    relay = Relay()
    port = await relay.start()
    print("ready", port, flush=True)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await relay.close()


if __name__ == "__main__":
    run(_serve())
