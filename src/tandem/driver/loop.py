"""The event loop: uvloop where it is installed, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["new_event_loop", "run"]

Result = TypeVar("Result")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's loop, or asyncio's where uvloop does not exist, such as on Windows."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end, as `asyncio.run` does, on the fastest loop at hand."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
