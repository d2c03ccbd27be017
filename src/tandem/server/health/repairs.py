"""Restarts the part of a broker that the ladder says: an entity, the host of a namespace, or the process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from tandem.errors import BrokerStalled, DetachForced, StoreDamaged, TandemError
from tandem.server.health.ladder import Ladder, Level, Trouble
from tandem.server.health.reporter import Reporter

if TYPE_CHECKING:
    from tandem.server.hosted_namespace import HostedNamespace

__all__ = ["HostSupervisor", "Repairs"]

logger = logging.getLogger(__name__)

# A relapse within so many times what a restart may take shows that the restart did not help.
_RELAPSE_FACTOR: Final = 10


class Repairs:
    """The restarts of one broker. `reopen` restarts a host; `on_lost` ends the process, and any thread may call it."""

    def __init__(
        self,
        restart_ms: int,
        reporter: Reporter,
        reopen: Callable[[HostedNamespace], Awaitable[None]],
        on_lost: Callable[[BrokerStalled], None],
    ) -> None:
        self._restart_ms = restart_ms
        self._reporter = reporter
        self._reopen = reopen
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._ladder = Ladder(restart_ms / 1_000 * _RELAPSE_FACTOR)
        # Entities that are being reloaded, by namespace and name, and when that should be over.
        self._reloading: dict[tuple[str, str], tuple[HostedNamespace, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # --- troubles -------------------------------------------------------------------------------------------

    def entity_failed(self, host: HostedNamespace, entity: str, error: Exception) -> None:
        """Serving an entity raised an internal error. Called in the middle of a step: what follows comes after it."""
        self._loop.call_soon(self._on_entity_failed, host, entity, error)

    def _on_entity_failed(self, host: HostedNamespace, entity: str, error: Exception) -> None:
        if (host.name, entity.lower()) in self._reloading:
            return
        is_hub = host.namespace.find_any(entity) is None
        trouble = Trouble.HUB_FAILED if is_hub else Trouble.ENTITY_FAILED
        self._act(trouble, host, entity, f"serving '{entity}' failed with {error!r}")

    def engine_failed(self, host: HostedNamespace, error: Exception) -> None:
        """Memory and store of a namespace are out of step, or the store is damaged."""
        if isinstance(error, StoreDamaged):
            self._loop.call_soon(self._act, Trouble.STORE_DAMAGED, host, "", f"stored data is damaged: {error}")
        else:
            self._loop.call_soon(self._act, Trouble.ENGINE_FAILED, host, "", f"the engine failed with {error!r}")

    def commit_stalled(self, host: HostedNamespace, for_s: float) -> None:
        self._act(Trouble.COMMIT_STALLED, host, "", f"a commit has been in progress for {for_s:,.0f} s")

    def look_for_overdue(self) -> None:
        """Restart the host of an entity that could not be reloaded in time."""
        now_s = time.monotonic()
        for (namespace, entity), (host, deadline_s) in list(self._reloading.items()):
            if now_s >= deadline_s:
                del self._reloading[namespace, entity]
                text = f"'{entity}' could not be read again from the store in {self._restart_ms:,} ms"
                self._act(Trouble.RESTART_FAILED, host, entity, text)

    # --- restarting -----------------------------------------------------------------------------------------

    def _act(self, trouble: Trouble, host: HostedNamespace, entity: str, text: str) -> None:
        if host.services.is_restarting:
            return
        now_s = time.monotonic()
        level = self._ladder.level(trouble, host.name, entity, now_s)
        if trouble is Trouble.STORE_DAMAGED and self._ladder.is_salvaged_too_often(host.name, now_s):
            level = Level.PROCESS
        if level is Level.NOTHING:
            logger.error("%s again, though the namespace '%s' was restarted: left alone", text, host.name)
        elif level is Level.PROCESS:
            self.end_process(trouble, text)
        else:
            subject = f"the entity '{entity}'" if level is Level.ENTITY else f"the host of the namespace '{host.name}'"
            logger.error("%s: %s is restarted", text, subject)
            summary = f"In the namespace '{host.name}', {text}: {subject} is restarted."
            self._reporter.write_soon(trouble.value, summary, level)
            self._reporter.note_restart(level, host.name, entity, text)
            self._ladder.record(level, host.name, entity, now_s)
            if level is Level.ENTITY:
                self._restart_entity(host, entity, now_s)
            else:
                # At once: nobody else is to find a reason to restart it.
                host.services.is_restarting = True
                # Salvaging reads the whole store: it takes as long as it takes, and nothing else would help.
                limit_s = None if trouble is Trouble.STORE_DAMAGED else self._restart_ms / 1_000
                task = self._loop.create_task(self._restart_host(host, limit_s))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _restart_entity(self, host: HostedNamespace, entity: str, now_s: float) -> None:
        key = (host.name, entity.lower())
        self._reloading[key] = (host, now_s + self._restart_ms / 1_000)

        def on_reloaded() -> None:
            self._reloading.pop(key, None)
            error = DetachForced(f"The entity '{entity}' was restarted after an internal error. Attach again.")
            for peer in list(host.services.peers):
                peer.leave(entity, error)

        host.runner.reload(host.namespace.get(entity), on_reloaded)

    async def _restart_host(self, host: HostedNamespace, limit_s: float | None) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await self._reopen(host)
        except TimeoutError:
            reason = f"it took longer than {self._restart_ms:,} ms"
        except (TandemError, OSError) as error:
            reason = str(error)
        else:
            return
        text = f"the host of the namespace '{host.name}' could not be restarted: {reason}"
        self.end_process(Trouble.RESTART_FAILED, text)

    def end_process(self, trouble: Trouble, text: str) -> None:
        """Nothing smaller helps. What was acknowledged is on disk, and what was not is not acknowledged any more."""
        where = self._reporter.write_before_the_end(trouble.value, f"The process ends, to be started again: {text}.")
        self._on_lost(BrokerStalled(f"{text}; the process ends, to be started again. {where}"))

    async def finish(self) -> None:
        """Let restarts come to their end: half of one would leave a namespace without a store."""
        await asyncio.gather(*self._tasks)


class HostSupervisor:
    """What the runner and the connections of one namespace report internal errors to."""

    def __init__(self, repairs: Repairs, host: HostedNamespace) -> None:
        self._repairs = repairs
        self._host = host

    def entity_failed(self, entity: str, error: Exception) -> None:
        self._repairs.entity_failed(self._host, entity, error)

    def engine_failed(self, error: Exception) -> None:
        self._repairs.engine_failed(self._host, error)
