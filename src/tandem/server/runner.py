"""Run the engine on the event loop: write its effects, commit them, then release the replies.

    turn      a connection's input becomes commands     begin() ... finish()
    flush     effects of all turns since the last       written; COMMIT runs in a thread
    release   the commit is durable                     messages become visible, replies are sent
    reload    an entity's memory is not to be trusted   read again from the store, between two commits

While one commit is in progress, later turns collect the next batch, so one fsync serves every connection.
`_release` is the only place that sends an acknowledgement.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol, TypeVar, cast

from tandem.clock import Clock
from tandem.engine.effects import Effects, HandedOut, Notice
from tandem.engine.hubs.receiver import EventDelivery
from tandem.engine.lock_table import Lock, by_consumer
from tandem.engine.message import NEVER_MS
from tandem.engine.namespace import Namespace
from tandem.engine.queries import Query
from tandem.engine.queue import Queue
from tandem.errors import ServerBusy, StateError, StoreDamaged, StoreFailed
from tandem.server.client_failures import ClientFailures
from tandem.server.commit_watch import CommitWatch
from tandem.server.maintenance import Maintenance
from tandem.server.restoring import restore_entities
from tandem.server.sweeping import Sweeping
from tandem.store.base import Store

__all__ = ["Asker", "Receiver", "Runner", "Supervisor"]

logger = logging.getLogger(__name__)

# Queries that are answered in one flush. What is left after that many waits for the next one, so that
# acknowledgements are not held up for long.
_MAX_QUERIES: Final = 64

# Milliseconds. The same in time: some of them read a thousand messages.
_MAX_QUERIES_MS: Final = 5

# Milliseconds. How often to look whether the disk has room.
_ROOM_INTERVAL_MS: Final = 250

# Milliseconds. A timer is never set further ahead: it costs little to look, and a heap of far timers costs memory.
_MAX_SLEEP_MS: Final = 60_000

# Commits in a row before an entity is read again from the store. One is enough unless other entities forward to it.
_MAX_RELOAD_COMMITS: Final = 1_000

Result = TypeVar("Result")


class Asker(Protocol):
    """Whoever waits for the outcome of a command."""

    def release(self, answer: object) -> None:
        """It is on disk."""


class Receiver(Protocol):
    """What stands behind a consumer."""

    def deliver(self, locks: list[Lock]) -> None:
        """Messages, locked for this receiver."""

    def hand_out(self, message: HandedOut) -> None:
        """A message, for good."""

    def notify(self, notice: Notice) -> None:
        """Something it has to know."""


class Reader(Protocol):
    """What stands behind a receiver of events."""

    def deliver_events(self, delivery: EventDelivery) -> None:
        """Events, or something it has to know."""


class Alarm(Protocol):
    """Somebody with times of their own."""

    def next_deadline_ms(self) -> int:
        """When to be woken."""

    def on_time(self, now_ms: int) -> None:
        """It may be that time."""


class Supervisor(Protocol):
    """Restarts what has failed. Without one, an internal error ends the process."""

    def entity_failed(self, entity: str, error: Exception) -> None:
        """Serving one entity raised an internal error. It may be asked to be reloaded; the others are served on."""

    def engine_failed(self, error: Exception) -> None:
        """Memory and store are out of step, or the store cannot be read: nothing more is acknowledged."""


class _CommitFailed(StoreFailed):
    """The disk may have lost what it was given: no restart inside this process can be trusted."""


class Runner:
    """One namespace and its store on the event loop."""

    def __init__(
        self, namespace: Namespace, store: Store, clock: Clock, on_failure: Callable[[StoreFailed], None]
    ) -> None:
        self.namespace = namespace
        self._store = store
        self._clock = clock
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(1, "commit")
        self._batch: list[Effects] = []
        self._duplicates: set[int] = set()
        self._shared_bytes: dict[int, int] = {}
        self._queries: deque[Query] = deque()
        self.is_committing = False
        self._is_flush_scheduled = False
        self.is_failed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER_MS
        self._room_known_until_ms = 0
        self.sweeping = Sweeping(self, store)
        self._maintenance = Maintenance(self, store.events)
        self._quiet: asyncio.Future[None] | None = None
        # Entities to read again from the store, and what to do then.
        self._to_reload: dict[Queue, Callable[[], None]] = {}
        # Coroutines that wait for an answer.
        self._waiting: set[_Waiting] = set()
        self._supervisor: Supervisor | None = None
        self._client_failures = ClientFailures()
        self.commit_watch = CommitWatch()
        # Who has times beside the engine's, such as faults that end.
        self.alarm: Alarm | None = None

    def supervise(self, supervisor: Supervisor) -> None:
        """Report internal errors from now on, and keep that of one entity from the others."""
        self._supervisor = supervisor
        self._client_failures.is_supervised = True
        self.namespace.contains_failures = True

    @property
    def is_busy(self) -> bool:
        """Return whether something is being written or committed."""
        return self.is_committing or bool(self._batch)

    def now_ms(self) -> int:
        """What the clock says by which the engine lives."""
        return self._clock.now_ms()

    def next_deadline_ms(self) -> int:
        """When something is due next, in the engine or beside it."""
        due_ms = self.namespace.next_deadline_ms()
        return due_ms if self.alarm is None else min(due_ms, self.alarm.next_deadline_ms())

    # --- turns ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Commands follow."""
        self.namespace.begin(self._clock.now_ms())

    def finish(self) -> None:
        """The commands of this turn are given: tell at once what needs no disk, and write the rest soon."""
        namespace = self.namespace
        namespace.settle_turn()
        effects = namespace.effects
        if effects.deliveries or effects.notices or effects.event_deliveries:
            self._dispatch(effects)
        if namespace.failures:
            self._report_failures()
        if not self._is_flush_scheduled and not self.is_committing:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush)

    def deliver_decided(self) -> None:
        """Send what is locked for receivers so far, so that their links know what credit is left."""
        effects = self.namespace.effects
        if effects.deliveries or effects.event_deliveries:
            self._dispatch(effects)

    def _dispatch(self, effects: Effects) -> None:
        failures = self._client_failures
        deliveries, effects.deliveries = effects.deliveries, []
        notices, effects.notices = effects.notices, []
        event_deliveries, effects.event_deliveries = effects.event_deliveries, []
        for consumer, locks in by_consumer(deliveries):
            try:
                cast("Receiver", consumer.context).deliver(locks)
            except Exception as error:
                failures.contain(consumer.context, error)
        for notice in notices:
            try:
                cast("Receiver", notice.consumer.context).notify(notice)
            except Exception as error:
                failures.contain(notice.consumer.context, error)
        for delivery in event_deliveries:
            try:
                cast("Reader", delivery.receiver.context).deliver_events(delivery)
            except Exception as error:
                failures.contain(delivery.receiver.context, error)
        failures.finish()

    async def perform(self, function: Callable[[Namespace], Result]) -> Result:
        """Run one command of our own, and return when what it did is on disk."""
        waiting = self._wait()
        self.begin()
        result = function(self.namespace)
        self.namespace.effects.reply(waiting, None)
        self.finish()
        await self._answer(waiting)
        return result

    async def ask(self, function: Callable[[Namespace, Asker], None]) -> object:
        """Run a command that is answered later, and return the answer."""
        waiting = self._wait()
        self.begin()
        function(self.namespace, waiting)
        self.finish()
        return await self._answer(waiting)

    def _wait(self) -> _Waiting:
        if self.is_failed:
            raise self._restarting()
        return _Waiting(self._loop.create_future())

    async def _answer(self, waiting: _Waiting) -> object:
        self._waiting.add(waiting)
        try:
            return await cast("Awaitable[object]", waiting.future)
        finally:
            self._waiting.discard(waiting)

    # --- flush ----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        if self.is_committing or self.is_failed:
            return
        try:
            if self._to_reload:
                self._reload()
            has_writes = self._write()
        except Exception as error:
            self.fail(error)
            return
        if has_writes or self._store.events.has_uncommitted:
            self.is_committing = True
            self.commit_watch.begin()
            future = self._loop.run_in_executor(self._executor, self._store.commit)
            future.add_done_callback(self._on_committed)
        else:
            self._release()

    def _write(self) -> bool:
        """Write and ask until there is no more of either.

        The answer to a query may decide more. That is written before the next query is answered: each of them has to
        find engine and store in step, or two answers could dispose of the same message.
        """
        namespace = self.namespace
        self.begin()
        self._look_for_room()
        namespace.settle_turn()
        has_writes = self._write_decided()
        ends_at_ms = self._clock.now_ms() + _MAX_QUERIES_MS
        for _ in range(_MAX_QUERIES):
            if not self._queries or self._clock.now_ms() >= ends_at_ms:
                break
            self._read(self._queries.popleft())
            namespace.settle_turn()
            has_writes = self._write_decided() or has_writes
        return has_writes

    def _read(self, query: Query) -> None:
        try:
            self._store.read(query)
        except StoreFailed:
            raise
        except Exception as error:
            # The store has answered, and the entity that had asked could not use the answer.
            queue = self.namespace.queue_of_stream(query.stream)
            if queue is None or self._supervisor is None:
                raise
            self.namespace.failures.append((queue, error))

    def _write_decided(self) -> bool:
        """What was decided since the last time becomes part of the batch."""
        effects = self.namespace.take_effects()
        self._batch.append(effects)
        self._queries.extend(effects.queries)
        has_writes = effects.has_writes
        if has_writes:
            written = self._store.write(effects)
            self._duplicates.update(written.duplicates)
            for stream, by_bytes in written.shared_bytes.items():
                self._shared_bytes[stream] = self._shared_bytes.get(stream, 0) + by_bytes
        self._dispatch(effects)
        return has_writes

    def _look_for_room(self) -> None:
        now_ms = self.namespace.now_ms
        if now_ms >= self._room_known_until_ms:
            self._room_known_until_ms = now_ms + _ROOM_INTERVAL_MS
            self.namespace.is_disk_full = not self._store.has_room()

    def _on_committed(self, future: asyncio.Future[None]) -> None:
        self.is_committing = False
        self.commit_watch.end()
        error = future.exception()
        if isinstance(error, StoreDamaged):
            self.fail(error)
        elif error is not None:
            self.fail(_CommitFailed(str(error) if isinstance(error, StoreFailed) else f"the commit failed: {error!r}"))
        elif not self.is_failed:
            self._release()

    def _release(self) -> None:
        """Tell what was written and is on disk now, and go on."""
        try:
            self._release_batch()
        except Exception as error:
            self.fail(error)
            return
        self._go_on()

    def _release_batch(self) -> None:
        namespace = self.namespace
        self.begin()
        batch, self._batch = self._batch, []
        duplicates, self._duplicates = self._duplicates, set()
        if self._shared_bytes:
            namespace.shared(self._shared_bytes)
            self._shared_bytes = {}
        self._store.events.committed()
        failures = self._client_failures
        for effects in batch:
            namespace.committed(effects, duplicates)
        # Not before: nobody is answered who could find one half of the commit published and the other not.
        for effects in batch:
            for asker, answer in effects.replies:
                try:
                    cast("Asker", asker).release(answer)
                except Exception as error:
                    failures.contain(asker, error)
            for message in effects.handed_out:
                try:
                    cast("Receiver", message.consumer.context).hand_out(message)
                except Exception as error:
                    failures.contain(message.consumer.context, error)
        failures.finish()
        if self._maintenance.is_overdue:
            # Not before the events of this commit are counted: what it says of sizes includes them.
            self._maintenance.perform()
        namespace.settle_turn()
        self._dispatch(namespace.effects)
        if namespace.failures:
            self._report_failures()

    @property
    def _has_more(self) -> bool:
        """Return whether something is decided, asked or to be committed already.

        Receivers decide more when they are notified: a session's receiver passes its credit on as it is accepted.
        """
        namespace = self.namespace
        effects = namespace.effects
        is_decided = effects.has_writes or effects.queries or effects.replies or effects.handed_out
        is_to_be_sent = effects.deliveries or effects.notices or effects.event_deliveries or namespace.has_to_settle
        return bool(is_decided or is_to_be_sent or self._queries or self._store.events.has_uncommitted)

    def _go_on(self) -> None:
        if self._has_more or self._to_reload:
            self.finish()
        else:
            if self._quiet is not None and not self._quiet.done():
                self._quiet.set_result(None)
            self.sweeping.schedule()
        self._maintenance.schedule()
        self._arm()

    # --- time -----------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due_ms = min(self.next_deadline_ms(), self.namespace.now_ms + _MAX_SLEEP_MS)
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_ms = max(0, due_ms - self._clock.now_ms())
        self._timer = self._loop.call_later(delay_ms / 1000, self._on_timer)

    def wake(self) -> None:
        """Look at the clock now: somebody has moved it, and the timer was set by what it said before."""
        if self._timer is not None:
            self._timer.cancel()
        self._on_timer()

    def _on_timer(self) -> None:
        self._timer = None
        if self.is_failed:
            return
        self.begin()
        if self.alarm is not None:
            self.alarm.on_time(self.namespace.now_ms)
        self.namespace.tick()
        self.finish()
        self._arm()

    # --- reloading ------------------------------------------------------------------------------------------

    def reload(self, queue: Queue, on_reloaded: Callable[[], None]) -> None:
        """Read an entity again from the store, a topic with its subscriptions, as soon as no commit is in progress.

        `on_reloaded` runs in the same step: whoever was connected to the old memory has to be sent away by it.
        """
        self._to_reload[queue] = on_reloaded
        self.finish()

    def _reload(self) -> None:
        """Write and commit here and now, so that nothing is decided in between, and read what the store has then."""
        reloads, self._to_reload = self._to_reload, {}
        namespace = self.namespace
        numbers = [number for queue in reloads if not queue.is_dropped for number in namespace.set_aside(queue)]
        for _ in range(_MAX_RELOAD_COMMITS):
            if self._write() or self._store.events.has_uncommitted:
                try:
                    self._store.commit()
                except StoreDamaged:
                    raise
                except StoreFailed as error:
                    raise _CommitFailed(str(error)) from error
            self._release_batch()
            if not self._has_more:
                break
        else:
            raise StateError(f"after {_MAX_RELOAD_COMMITS} commits there is still more to write")
        restore_entities(namespace, self._store.read_entities(numbers))
        for on_reloaded in reloads.values():
            on_reloaded()

    def _report_failures(self) -> None:
        assert self._supervisor is not None, "an internal error is raised where nobody supervises"
        for queue, error in self.namespace.take_failures():
            logger.error("serving '%s' failed", queue.name, exc_info=error)
            self._supervisor.entity_failed(queue.name, error)

    # --- the end --------------------------------------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        """Nothing that was promised to disk may be told any more. What is true is on disk: start again from there."""
        is_of_store = isinstance(error, StoreFailed)
        if not is_of_store:
            logger.error("the engine failed", exc_info=error)
        self.commit_watch.errors.append(str(error) or repr(error))
        self.abandon()
        if self._supervisor is not None and not isinstance(error, _CommitFailed):
            self._supervisor.engine_failed(error)
        elif isinstance(error, StoreFailed):
            self._on_failure(error)
        else:
            self._on_failure(StoreFailed(f"internal error, nothing more is acknowledged: {error!r}"))

    def fail_as_damaged(self, error: StoreDamaged) -> None:
        """Stop acknowledging: something of the store was found damaged that nobody had asked for."""
        if not self.is_failed:
            self.fail(error)

    def abandon(self) -> None:
        """Release nothing more. Whoever waits for an answer is told that the namespace restarts."""
        self.is_failed = True
        self._cancel_timers()
        for waiting in list(self._waiting):
            waiting.release(self._restarting())
        if self._quiet is not None and not self._quiet.done():
            self._quiet.set_result(None)

    def _restarting(self) -> ServerBusy:
        return ServerBusy(
            f"The namespace '{self.namespace.name}' is being restarted. It is not known whether the request was "
            "performed. Please wait 10 seconds and try again."
        )

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self.sweeping, self._maintenance):
            if timer is not None:
                timer.cancel()

    async def quiet(self) -> None:
        """Until everything that was decided is on disk and told."""
        self._quiet = self._loop.create_future()
        self.finish()
        if not self.is_failed:
            await self._quiet

    async def close(self) -> None:
        """Finish what was accepted, and let go of the store. Waits for a commit in progress, however long it takes."""
        if not self.is_failed:
            await self.quiet()
        self._cancel_timers()
        # In a thread: a commit in progress may take its time, and the event loop has other namespaces to serve.
        await asyncio.to_thread(self._executor.shutdown)
        await asyncio.to_thread(self._store.close)


class _Waiting:
    """A coroutine that waits."""

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[object]) -> None:
        self.future = future

    def release(self, answer: object) -> None:
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)
