"""Something that is made when it is first needed, once for all who need it, and again when it has died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from tandem.client.errors import MessagingCommunicationError

__all__ = ["Lazy"]

Thing = TypeVar("Thing")


class Lazy(Generic[Thing]):
    """A connection or a link that comes back.

    It is made in a task of its own, so that a caller who is cancelled takes nothing away from the others.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Thing]], is_alive: Callable[[Thing], bool]) -> None:
        self._make = make
        self._is_alive = is_alive
        self._task: asyncio.Task[Thing] | None = None
        self._thing: Thing | None = None

    @property
    def current(self) -> Thing | None:
        """What there is now, if it is alive."""
        thing = self._thing
        return thing if thing is not None and self._is_alive(thing) else None

    async def get(self) -> Thing:
        thing = self._thing
        if thing is not None and self._is_alive(thing):
            return thing
        task = self._task
        if task is None:
            task = self._task = asyncio.create_task(self._run())
            task.add_done_callback(self._on_done)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                # Not the caller was cancelled, but what it waits for.
                raise MessagingCommunicationError("it was closed while it was being opened") from None
            raise

    async def _run(self) -> Thing:
        self._thing = None
        self._thing = await self._make()
        return self._thing

    def _on_done(self, task: asyncio.Task[Thing]) -> None:
        self._task = None
        if not task.cancelled():
            # Its callers may all be gone; that is no reason for a warning.
            task.exception()

    async def close(self) -> None:
        """Stop making it. What is there already is the caller's to close."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
