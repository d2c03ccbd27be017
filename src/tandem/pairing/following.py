"""Carries out the courses of `tandem.pairing.detour`: with asyncio, and without."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tandem.pairing.detour import Course, Outcome, Step

__all__ = ["follow", "follow_blocking"]


async def follow(course: Course, perform: Callable[[Step], Awaitable[Outcome]]) -> None:
    """Do step after step until the course ends."""
    try:
        step = next(course)
        while True:
            step = course.send(await perform(step))
    except StopIteration:
        return


def follow_blocking(course: Course, perform: Callable[[Step], Outcome]) -> None:
    """The same in a thread."""
    try:
        step = next(course)
        while True:
            step = course.send(perform(step))
    except StopIteration:
        return
