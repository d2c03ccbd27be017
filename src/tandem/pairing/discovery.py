"""Finding the backlog queues that a syphon empties, at its start and again while it runs.

Another program may start in the middle of an outage, make backlog queues under a provisional name, and mark them as
this primary's when the primary answers: a syphon that runs for months must find them without a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tandem.client.entities.namespace_manager import NamespaceManager
from tandem.client.errors import MessagingEntityNotFoundError, UnauthorizedAccessError
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.wire.waiting import Waiting
from tandem.errors import ConfigurationError, TandemError
from tandem.pairing.backlog import backlog_queue_path, list_backlog_queues
from tandem.pairing.first_contact import identify_primary
from tandem.pairing.ownership import BacklogOwner, BacklogQueue, message_counts

__all__ = ["LOOK_INTERVAL_S", "BacklogFinder", "FoundBacklog", "NoBacklogQueuesError", "keep_watching"]

# Seconds between two looks at the queues of the secondary. Listing them is not a charged operation.
LOOK_INTERVAL_S: Final = 300.0


class NoBacklogQueuesError(ConfigurationError):
    """The secondary has no backlog queues of this primary, so a syphon would wait for nothing."""


@dataclass(frozen=True)
class FoundBacklog:
    """The primary as its secondary knows it, and the paths of its backlog queues."""

    owner: BacklogOwner
    paths: tuple[str, ...]
    # Names of further backlog queues of the primary, which a chosen name leaves out, with their numbers of messages.
    unwatched: dict[str, int] = field(default_factory=dict)


class BacklogFinder:
    """Finds the backlog queues of one primary. Without the right Manage on the secondary it goes by names alone."""

    def __init__(
        self,
        primary: MessagingFactory,
        secondary: MessagingFactory,
        manager: NamespaceManager,
        name: str | None,
        count: int,
        *,
        allow_unresolved: bool = False,
    ) -> None:
        self._primary = primary
        self._secondary = secondary
        self._manager = manager
        self._name = name
        self._count = count
        self._allow_unresolved = allow_unresolved

    async def find(self) -> FoundBacklog:
        """Return the backlog queues that exist. NoBacklogQueuesError if there are none, ForeignBacklogError if those of
        that name belong to another primary."""
        try:
            queues = await list_backlog_queues(self._manager)
        except UnauthorizedAccessError:
            return await self._find_by_name()
        owner = await self._identify(queues)
        owner.require_own(queues, self._secondary.address)
        paths = tuple(queue.description.path for queue in owner.select(queues, self._count))
        if not paths:
            raise NoBacklogQueuesError(self._none_text(owner, queues))
        return FoundBacklog(owner, paths, owner.unwatched(queues))

    async def find_paths(self) -> tuple[str, ...]:
        """Return the paths of the backlog queues that exist."""
        return (await self.find()).paths

    async def _identify(self, queues: Sequence[BacklogQueue]) -> BacklogOwner:
        return await identify_primary(self._primary, self._name, queues, allow_unresolved=self._allow_unresolved)

    async def _find_by_name(self) -> FoundBacklog:
        owner = await self._identify(())
        wanted = [backlog_queue_path(owner.name, index) for index in range(self._count)]
        exist = await asyncio.gather(*(self._exists(path) for path in wanted))
        paths = tuple(path for path, does_exist in zip(wanted, exist, strict=True) if does_exist)
        if not paths:
            raise NoBacklogQueuesError(
                f"{self._none_text(owner, ())} The key has no right Manage there, so that other names cannot be listed."
            )
        return FoundBacklog(owner, paths)

    async def _exists(self, path: str) -> bool:
        receiver = self._secondary.create_message_receiver(path)
        try:
            await receiver.peek()
        except MessagingEntityNotFoundError:
            return False
        finally:
            await receiver.close()
        return True

    def _none_text(self, owner: BacklogOwner, queues: Sequence[BacklogQueue]) -> str:
        text = f"{self._secondary.address} has no backlog queues of '{owner.name}'"
        if owner.id is None:
            text += f", and {self._primary.address} cannot be reached to ask for its name"
        others = message_counts(queues)
        if not others:
            return f"{text}: nothing was paired yet. Pair a program with both namespaces first."
        listed = ", ".join(f"'{name}' ({count:,} messages)" for name, count in others.items())
        return (
            f"{text}. It has those of {listed}: if one of these is this primary, name it with primary_namespace "
            "(--primary-namespace on the command line)."
        )


async def keep_watching(
    find: Callable[[], Awaitable[Iterable[str]]], watch: Callable[[Iterable[str]], None], waiting: Waiting
) -> None:
    """Look for further backlog queues until cancelled, and let the syphon watch them too."""
    while True:
        await waiting.sleep(LOOK_INTERVAL_S)
        # One of the namespaces is away, or the queues are gone: the next look may fare better.
        with contextlib.suppress(TandemError):
            watch(await find())
