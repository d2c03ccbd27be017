"""A syphon for programs that use the official SDK: it speaks to both namespaces itself, and changes no body."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from tandem.client.blocking import run
from tandem.client.entities.namespace_manager import NamespaceManager
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.wire.waiting import Waiting
from tandem.limits import MAX_BACKLOG_QUEUES
from tandem.pairing.azure.pair import PairedServiceBusOptions, SdkReporter
from tandem.pairing.detour import Told
from tandem.pairing.discovery import BacklogFinder, keep_watching
from tandem.pairing.options import asynchronous
from tandem.pairing.syphon import Syphon

__all__ = ["SyphonRunner"]


class SyphonRunner:
    """Brings messages from the backlog queues to the primary, beside the program: in the background of its process.

    With asyncio use it as an async context manager, without as a plain one. Without options it empties every backlog
    queue of this primary that the secondary has. Entering it raises NoBacklogQueuesError if the secondary has none:
    start it after a program was paired. Listing them needs the right Manage.
    """

    def __init__(self, primary: str, secondary: str, options: PairedServiceBusOptions | None = None) -> None:
        """Both namespaces by their connection strings; the options, if any, are those of the client."""
        self._strings = (primary, secondary)
        self._options = options
        self._syphon: Syphon | None = None
        self._reporter: SdkReporter | None = None
        self._watching: asyncio.Task[None] | None = None
        self._secondary: MessagingFactory | None = None

    @property
    def syphon(self) -> Syphon | None:
        """The syphon itself, from the start on."""
        return self._syphon

    @property
    def moved_count(self) -> int:
        """Messages that reached the primary since it was started."""
        return 0 if self._syphon is None else self._syphon.moved_count

    @property
    def dead_lettered_count(self) -> int:
        """Messages that the primary will never take: they are in the dead-letter queues of the backlog queues."""
        return 0 if self._syphon is None else self._syphon.dead_lettered_count

    @property
    def unanswered_count(self) -> int:
        """Sends and completions that were not answered: each may have brought a message twice."""
        return 0 if self._syphon is None else self._syphon.unanswered_count

    async def __aenter__(self) -> Self:
        primary, secondary = (MessagingFactory.from_connection_string(one) for one in self._strings)
        options = self._options
        given = None if options is None else options.secondary_namespace_manager
        manager = asynchronous(given) or NamespaceManager.from_connection_string(self._strings[1])
        finder = BacklogFinder(
            primary,
            secondary,
            manager,
            None if options is None else options.primary_namespace,
            MAX_BACKLOG_QUEUES if options is None else options.backlog_queue_count,
            allow_unresolved=options is not None and options.allow_unresolved_primary,
        )
        try:
            found = await finder.find()
        except BaseException:
            await secondary.close()
            raise
        self._secondary = secondary
        listener = None if options is None else options.listener
        self._reporter = await SdkReporter.create(primary.address, found.owner.name, self._strings[1], listener)
        # It makes connections of its own after the pattern of these, which stay unconnected.
        self._syphon = Syphon(primary, secondary, found.paths, self._reporter.tell_now)
        self._syphon.start()
        for name, count in found.unwatched.items():
            self._reporter.tell_now(Told("backlog-unwatched", "", {"namespace": name, "count": count}))
        self._watching = asyncio.create_task(keep_watching(finder.find_paths, self._syphon.watch, Waiting()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if self._syphon is not None:
            await self._syphon.close()
        if self._reporter is not None:
            await self._reporter.close()
        if self._secondary is not None:
            await self._secondary.close()

    def __enter__(self) -> Self:
        return run(self.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self.__aexit__(kind, error, trace))
