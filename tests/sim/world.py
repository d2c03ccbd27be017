"""One run: a broker, its disk, its clients and the time, one step after the other, all from one seed."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from random import Random
from typing import Final

from tandem.engine.effects import Effects
from tandem.engine.lock_table import Lock
from tandem.engine.namespace import Namespace
from tandem.engine.queries import Query
from tandem.engine.queue import Queue
from tandem.engine.subqueue import SubQueue
from tandem.errors import StoreFailed
from tandem.ids import Nonces
from tandem.server.restoring import restore
from tandem.server.runner import Runner
from tests.sim.actions import ACTIONS, Action
from tests.sim.auditor import Auditor
from tests.sim.clients import Ask, Connection, Receiver
from tests.sim.disk import MemoryPlatter, Platter, SimDisk
from tests.sim.hub_inspection import compare_events_with_disk, inspect_hubs
from tests.sim.hubs import Hubs
from tests.sim.inspection import compare_with_disk, inspect
from tests.sim.ledger import Book, Ledger, Violation
from tests.sim.loop import SimClock, SimLoop
from tests.sim.managing import create_queue, drop_connection, forget
from tests.sim.profile import Profile
from tests.sim.published_counts import judge_counts
from tests.sim.topics import create_subscription, create_topic

__all__ = ["World"]

# Steps between two full inspections.
_INSPECTION_STEPS: Final = 200

# Turns of the loop until a broker that nobody talks to must have come to rest.
_MAX_TURNS_TO_REST: Final = 500

_START_MS: Final = 1_800_000_000_000


class SimRunner(Runner):
    """The broker's own runner. Before it tells anybody anything, the auditor sees what."""

    def __init__(self, world: World) -> None:
        super().__init__(world.namespace, world.disk, world.clock, world.on_failure)
        self._world = world

    def _dispatch(self, effects: Effects) -> None:
        self._world.auditor.audit()
        super()._dispatch(effects)


class World:
    """A simulated broker and everything around it."""

    def __init__(self, seed: int, platter: Platter | None = None, *, is_tracing: bool = False) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.profile = Profile(self.random)
        self.trace: list[str] | None = [] if is_tracing else None
        self.steps = 0
        self.uid = 0
        self.queue_count = 0
        self.crash_count = 0
        self.clock = SimClock(_START_MS)
        self.ledger = Ledger()
        self.auditor = Auditor(self)
        self.hubs = Hubs(self)
        self._platter = platter or MemoryPlatter()
        self.disk = SimDisk(self, self._platter)
        self.connections = [Connection(self, index) for index in range(self.profile.connection_count)]
        self.receivers: list[Receiver] = []
        self.loose_locks: list[Lock] = []
        self.scheduled: list[int] = []
        self.deferred: list[int] = []
        self.unanswered: set[Ask] = set()
        self._slow_until_ms = 0
        self._commit_at_ms = 0
        self._weights = self._weigh(ACTIONS)
        self._start()

    def _weigh(self, actions: dict[Action, float]) -> list[Action]:
        """A list to draw actions from; each seed likes some of them more than others."""
        drawn: list[Action] = []
        for action, weight in actions.items():
            drawn += [action] * round(weight * (0.3 + 2 * self.random.random()))
        return drawn

    # --- the broker -----------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.loop = SimLoop(self.clock)
        nonces = Random(self.random.random())
        self.namespace = Namespace("sim", Nonces(lambda: nonces.randbytes(4096)), self.clock.time_ms)
        restore(self.namespace, self.disk)
        asyncio._set_running_loop(self.loop)  # type: ignore[arg-type] # the part of a loop that the runner uses
        try:
            self.runner = SimRunner(self)
        finally:
            asyncio._set_running_loop(None)
        self._has_failed = False
        self.auditor.start(self.namespace.effects)
        for book in self.ledger.books.values():
            book.accessed_ms = book.unused_since_ms = book.described_ms = self.now_ms
        self.hubs.books.start(self.now_ms)
        self.runner.begin()
        self.runner.finish()

    def on_failure(self, error: StoreFailed) -> None:
        """The broker stops. That is right when its disk has failed, and the end of the run for any other reason."""
        if not self.disk.is_failing:
            raise Violation(
                "no exception is unexpected", "".join(traceback.format_exception(error.__context__ or error))
            )
        self._has_failed = True

    @property
    def now_ms(self) -> int:
        return self.clock.time_ms

    def queue(self, book: Book) -> Queue:
        return self.namespace.get(book.description.name)

    def subqueue(self, stream: int) -> SubQueue:
        queue = self.queue(self.ledger.books[stream >> 2])
        return queue.subqueues()[stream & 3]

    def touch(self, stream: int) -> None:
        book = self.ledger.books.get(stream >> 2)
        if book is not None:
            book.accessed_ms = self.now_ms

    def judge_idle(self, book: Book) -> None:
        """A queue was deleted for being idle."""
        idle_ms = book.description.auto_delete_on_idle_ms
        books = [book, *self.ledger.subscriptions(book)] if book.is_topic else [book]
        numbers = {one.number for one in books}
        is_used = any(one.is_open and one.stream >> 2 in numbers for one in self.receivers)
        accessed_ms = max([one.accessed_ms for one in books])
        if idle_ms is None or accessed_ms + idle_ms > self.now_ms or is_used:
            raise Violation("only an idle queue is deleted", f"{book.description.name} at {self.now_ms}")

    # --- steps ----------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """As many steps, an inspection now and then, and at the end all that is left is received."""
        for _ in range(2):
            self.turn([create_queue])
        self.turn([create_topic])
        for _ in range(self.profile.subscription_count):
            self.turn([create_subscription])
        for _ in range(steps):
            self.step()
        self.finish()

    def step(self) -> None:
        self.steps += 1
        random = self.random.random
        self._advance()
        commands = [self._weights[int(random() * len(self._weights))]]
        while random() < 0.3:
            commands.append(self._weights[int(random() * len(self._weights))])
        if len(self.ledger.books) < 2:
            commands.append(create_queue)
        while self.hubs.hub_count and self.hubs.random.random() < self.hubs.share:
            commands.append(self.hubs.act)
        self.turn(commands)
        if random() >= self.profile.patience:
            self.loop.run_ready()
            self.observe()
        if self.loop.work is not None and self._commit_at_ms <= self.now_ms:
            self._finish_commit()
        if self.has_failed() or random() < self.profile.crash_share:
            self.crash()
        elif self.steps % _INSPECTION_STEPS == 0:
            self.rest()
            if self.has_failed():
                self.crash()
            else:
                self.inspect()

    def has_failed(self) -> bool:
        """The store failed: the process would have stopped."""
        return self._has_failed

    def turn(self, commands: list[Action]) -> None:
        """One connection's input: commands, and then the runner's share of the work."""
        self.runner.begin()
        if self.namespace.next_deadline_ms() <= self.now_ms and self.random.random() > self.profile.lateness:
            self.namespace.tick()
            self.observe()
        for command in commands:
            command(self)
            self.observe()
            self.auditor.expect_nothing_more()
        self.runner.finish()
        self.observe()
        self._look_at_commit()

    def observe(self) -> None:
        """Judge what was decided, and read the counts: the loop is between two callbacks, so that anybody could."""
        self.auditor.audit()
        judge_counts(self)

    def _look_at_commit(self) -> None:
        if self.loop.work is not None and not self._commit_at_ms:
            is_slow = self.now_ms < self._slow_until_ms
            self._commit_at_ms = self.now_ms + int(self.random.random() * (3_000 if is_slow else 5))

    def _finish_commit(self) -> None:
        self._commit_at_ms = 0
        self.loop.finish_work()
        self.observe()
        self._look_at_commit()

    def _advance(self) -> None:
        """Time passes: mostly a little, sometimes a lot, and what is due by then may be late."""
        random = self.random.random
        draw = random()
        if draw < 0.9:
            self.clock.time_ms += int(draw * 4)
        elif draw < 0.97:
            self.clock.time_ms += int(random() * 100)
        elif draw < 0.97 + self.profile.hurry:
            self.clock.time_ms += int(random() * (3_000 if random() < 0.9 else 200_000))
        elif draw > 0.999_8:
            self.clock.time_ms += int(random() * 10_000_000)
        if draw > 0.95 and random() < self.profile.slow_disk_share:
            self._slow_until_ms = self.now_ms + int(random() * 5_000)
        self._look_at_commit()
        if self.loop.work is not None and self._commit_at_ms <= self.now_ms:
            self._finish_commit()
        if random() >= self.profile.lateness:
            self.loop.run_due_timers()
            self.observe()
        self._look_at_commit()

    def crash(self) -> None:
        """The process dies and is started again, perhaps with its clock set back."""
        random = self.random.random
        self.crash_count += 1
        is_committed = self.loop.work is not None and random() < 0.5
        self.note(f"crash, the commit under way {'took place' if is_committed else 'did not take place'}")
        self.disk.crash(is_committed)
        self.ledger.crash(is_committed)
        self.hubs.crash()
        for connection in self.connections:
            connection.receivers.clear()
            connection.is_deaf = False
            for transaction in list(connection.transactions):
                forget(transaction)
        for receiver in self.receivers:
            receiver.is_open = False
        self.receivers.clear()
        self.loose_locks.clear()
        self.unanswered.clear()
        self._commit_at_ms = 0
        if random() < 0.3:
            self.clock.time_ms += int((random() - 0.4) * 3_600_000)
        self._start()
        self.rest()
        self.compare_with_disk()
        self.inspect()

    def inspect(self) -> None:
        """The broker is at rest: everything must be in order."""
        inspect(self)
        inspect_hubs(self)

    def compare_with_disk(self) -> None:
        compare_with_disk(self, self._platter.store)
        compare_events_with_disk(self, self._platter.store)

    def rest(self) -> None:
        """Let the broker finish whatever it has to do at the present time."""
        for _ in range(_MAX_TURNS_TO_REST):
            self.loop.run_due_timers()
            self.observe()
            if self.namespace.next_deadline_ms() <= self.now_ms:
                self.runner.begin()
                self.namespace.tick()
                self.observe()
                self.runner.finish()
            self.loop.run_ready()
            self.observe()
            if self.loop.work is not None:
                self._commit_at_ms = 0
                self.loop.finish_work()
                self.observe()
            elif self.loop.is_idle and self.namespace.next_deadline_ms() > self.now_ms:
                return
            if self._has_failed:
                return
        raise Violation("the broker comes to rest", f"it is still busy after {_MAX_TURNS_TO_REST} turns")

    # --- clients --------------------------------------------------------------------------------------------

    def ask(
        self,
        name: str,
        decided: Callable[[object], None],
        asked: Callable[[], None] | None,
        call: Callable[[Ask], None],
        released: Callable[[object], None] | None = None,
    ) -> None:
        """Ask something that the store has to be asked for. `asked` is called right before it is."""
        effects = self.namespace.effects
        before = len(effects.queries)
        ask = Ask(self, name, released, decided)
        call(ask)
        self.unanswered.add(ask)
        if asked is not None:
            query: Query = effects.queries[before]
            self.disk.before[query] = asked

    def books(self, kind: str | None = None) -> list[Book]:
        """All, or those of queues, topics or subscriptions."""
        return [one for one in self.ledger.books.values() if kind is None or one.description.kind == kind]

    def pick_book(self, kind: str | None = None) -> Book | None:
        books = self.books(kind)
        return books[int(self.random.random() * len(books))] if books else None

    def pick_target(self) -> Book | None:
        """What can be sent to."""
        is_publishing = self.profile.topic_count and self.random.random() < self.profile.publishing_share
        return (self.pick_book("topic") if is_publishing else None) or self.pick_book("queue")

    def pick_source(self) -> Book | None:
        """What can be received from."""
        is_publishing = self.profile.topic_count and self.random.random() < self.profile.publishing_share
        return (self.pick_book("subscription") if is_publishing else None) or self.pick_book("queue")

    def pick_connection(self) -> Connection:
        return self.connections[int(self.random.random() * len(self.connections))]

    def pick_receiver(self) -> Receiver | None:
        receivers = self.receivers
        for _ in range(3):
            if not receivers:
                return None
            at = int(self.random.random() * len(receivers))
            if receivers[at].is_open:
                return receivers[at]
            receivers[at] = receivers[-1]
            receivers.pop()
        return None

    def pick_some(self, uids: list[int]) -> list[int]:
        """A few of these, mostly one, that are not looked for again."""
        picked: list[int] = []
        while uids and (not picked or self.random.random() < 0.3):
            at = int(self.random.random() * len(uids))
            uids[at], uids[-1] = uids[-1], uids[at]
            picked.append(uids.pop())
        return picked

    def note(self, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.steps:>7} {self.now_ms - _START_MS:>9} {text}")

    # --- the end --------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Whatever is still there can be received, and then nothing is left."""
        from tests.sim.draining import drain_everything

        for connection in self.connections:
            self.turn([lambda world, one=connection: drop_connection(world, one)])  # type: ignore[misc]
        self.rest()
        self.inspect()
        self.compare_with_disk()
        drain_everything(self)
