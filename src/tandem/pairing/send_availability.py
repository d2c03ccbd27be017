"""A factory whose namespace is the primary of a pair: where its messages go, and all that runs in the background."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, assert_never

from tandem.client.errors import MessageSizeExceededError
from tandem.client.messaging.message import BrokeredMessage
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.messaging.sender import MessageSender
from tandem.connection_string import ServiceAddress
from tandem.errors import TandemError
from tandem.namespace_identity import NamespaceIdentity
from tandem.pairing.backlog import (
    BACKLOG_BATCH_BYTES,
    backlog_queue_path,
    detour_size_text,
    ensure_backlog_queues,
    list_backlog_queues,
)
from tandem.pairing.closing import end_together
from tandem.pairing.detour import (
    Judgement,
    Outcome,
    PairedEntity,
    PairedSender,
    Ping,
    SendToBacklog,
    SendToPrimary,
    Sleep,
    Step,
    Told,
    Tried,
)
from tandem.pairing.discovery import keep_watching
from tandem.pairing.events import EventReporter
from tandem.pairing.failover import FailoverState
from tandem.pairing.first_contact import identify_primary, require_two_namespaces
from tandem.pairing.following import follow
from tandem.pairing.judging import judge_backlog, judge_ping, judge_primary
from tandem.pairing.options import SendAvailabilityPairedNamespaceOptions
from tandem.pairing.ownership import BacklogOwner, Reached, resolve_owner
from tandem.pairing.ping import make_ping
from tandem.pairing.reconciling import reconcile
from tandem.pairing.rewriting import rewrite
from tandem.pairing.rotation import BacklogRotation
from tandem.pairing.syphon import Syphon

__all__ = ["DIVERTED", "SendAvailabilityPairedNamespace"]

# What is returned in place of the sequence number of a scheduled message that took the detour: it has none yet, and so
# cannot be cancelled. Real ones begin with 1.
DIVERTED: Final = 0

# Seconds. How long a backlog queue may take.
_ATTEMPT_TIMEOUT_S: Final = 10.0


class SendAvailabilityPairedNamespace:
    """What `MessagingFactory.pair_namespace` sets up."""

    def __init__(
        self,
        primary: MessagingFactory,
        options: SendAvailabilityPairedNamespaceOptions,
        owner: BacklogOwner,
        syphoned: Sequence[str],
    ) -> None:
        """`owner` is the primary as the secondary knows it, `syphoned` the backlog queues for the syphon, if any."""
        self._primary = primary
        self._secondary = options.asynchronous_factory
        self._options = options
        self._waiting = primary.settings.waiting
        self._rotation = BacklogRotation(options.backlog_queue_count, options.choose)
        self._reporter = EventReporter(
            primary.address, owner.name, self._secondary, options.listener, self._secondary.settings.waiting.utc_now_s
        )
        self._owner = owner
        paths = [backlog_queue_path(owner.name, index) for index in range(options.backlog_queue_count)]
        self._backlog = [self._secondary.create_direct_sender(path) for path in paths]
        for backlog in self._backlog:
            backlog.on_unanswered = self._note_unanswered
        self._unanswered_count = 0
        self._entities: dict[str, PairedEntity] = {}
        self._senders: weakref.WeakKeyDictionary[MessageSender, PairedSender[bytes]] = weakref.WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._syphon: Syphon | None = None
        if options.enable_syphon:
            self._syphon = Syphon(primary, self._secondary, syphoned, self._reporter.tell)

    @classmethod
    async def create(
        cls, primary: MessagingFactory, options: SendAvailabilityPairedNamespaceOptions
    ) -> SendAvailabilityPairedNamespace:
        """Reach both namespaces, find or make the backlog queues, and start the syphon if it is wanted."""
        manager = options.asynchronous_manager
        queues = await list_backlog_queues(manager)
        owner = await identify_primary(
            primary, options.primary_namespace, queues, allow_unresolved=options.allow_unresolved_primary
        )
        await require_two_namespaces(owner, primary.address, options.asynchronous_factory)
        options.backlog_queue_count = await ensure_backlog_queues(manager, owner, options.backlog_queue_count, queues)
        primary.name_role("primary")
        options.asynchronous_factory.name_role("secondary")
        paths = [backlog_queue_path(owner.name, index) for index in range(options.backlog_queue_count)]
        found = [queue.description.path for queue in owner.select(queues, options.backlog_queue_count)]
        paired = cls(primary, options, owner, list(dict.fromkeys([*paths, *found])))
        paired._start()
        if options.enable_syphon:
            for name, count in owner.unwatched(queues).items():
                paired._reporter.tell(Told("backlog-unwatched", "", {"namespace": name, "count": count}))
        return paired

    def _start(self) -> None:
        self._primary.call_when_connected(self._on_primary_connected)
        if self._syphon is not None:
            self._syphon.start()
            # It outlives the pair: the partner of a factory that is closed has some seconds to be closed, too.
            self._watcher = asyncio.create_task(self._end_together())
            if not self._owner.is_name_given:
                self._start_task(keep_watching(self._find_backlog, self._syphon.watch, self._waiting))

    _watcher: asyncio.Task[None] | None = None

    async def _end_together(self) -> None:
        await end_together(self._primary, self._secondary, self._waiting, self._end_syphon)

    async def _end_syphon(self) -> None:
        if self._syphon is not None:
            await self._syphon.close()

    # --- identity -------------------------------------------------------------------------------------------

    def _on_primary_connected(self, identity: NamespaceIdentity | None) -> None:
        """The first time that a primary answers which was away when it was paired, and whenever another one answers."""
        address = ServiceAddress.parse(self._primary.address)
        found = resolve_owner(address, Reached(True, identity), None, ())
        if found.id != self._owner.id:
            self._start_task(self._reconcile(found))

    async def _reconcile(self, found: BacklogOwner) -> None:
        count = len(self._backlog)
        manager = self._options.secondary_namespace_manager
        self._owner, queues = await reconcile(manager, self._owner, found, count, self._reporter.tell)
        if self._syphon is not None:
            self._syphon.watch(queue.description.path for queue in self._owner.select(queues, count))

    async def _find_backlog(self) -> list[str]:
        """The backlog queues of this primary under every name."""
        queues = await list_backlog_queues(self._options.secondary_namespace_manager)
        return [queue.description.path for queue in self._owner.select(queues, self._options.backlog_queue_count)]

    # --- what is known --------------------------------------------------------------------------------------

    @property
    def states(self) -> dict[str, FailoverState]:
        """The state of each entity that was sent to, by its path."""
        return {entity.path: entity.state for entity in self._entities.values()}

    @property
    def usable_backlog_queues(self) -> tuple[int, ...]:
        """The backlog queues that are in rotation."""
        return self._rotation.usable

    @property
    def syphon(self) -> Syphon | None:
        """The syphon of this process, if it was enabled."""
        return self._syphon

    @property
    def unanswered_count(self) -> int:
        """Transfers to either namespace, the syphon's among them, that were handed over and not answered: whether they
        were taken is not known, and what was sent again may have come twice. Pings do not count."""
        return self._unanswered_count + (0 if self._syphon is None else self._syphon.unanswered_count)

    def _note_unanswered(self) -> None:
        self._unanswered_count += 1

    # --- SendInterceptor ------------------------------------------------------------------------------------

    async def send(self, sender: MessageSender, payloads: Sequence[bytes]) -> None:
        """Send messages to the entity of the sender, or to a backlog queue."""
        paired = self._paired_sender(sender)
        tried: Tried | None = None
        timeout_s = paired.attempt_timeout_s
        if timeout_s is not None:
            self._primary.require_open()
            started_s = self._waiting.now_s()
            try:
                count = await sender.send_some(payloads, timeout_s)
            except TandemError as error:
                tried = Tried(started_s, Outcome(self._judge(error), error=error))
            else:
                if count == len(payloads):
                    paired.note_success()
                    return
                tried = Tried(started_s, Outcome(count=count))

        async def send_direct(messages: Sequence[bytes], timeout_s: float) -> int:
            return await sender.send_some(messages, timeout_s)

        await self._send(sender, payloads, send_direct, tried)

    async def schedule(self, sender: MessageSender, messages: Sequence[BrokeredMessage]) -> list[int]:
        """Schedule messages, all in one request; what takes the detour is scheduled when it arrives."""
        numbers: list[int] = []

        async def schedule_direct(_: Sequence[bytes], timeout_s: float) -> int:
            numbers.extend(await sender.schedule_once(messages, timeout_s))
            return len(messages)

        await self._send(sender, [message.to_payload() for message in messages], schedule_direct)
        return numbers or [DIVERTED] * len(messages)

    async def close(self) -> None:
        """Stop to ping and to syphon, and tell what is left to be told."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._end_syphon()
        await self._reporter.close()

    # --- sending --------------------------------------------------------------------------------------------

    async def _send(
        self,
        sender: MessageSender,
        payloads: Sequence[bytes],
        send_direct: Callable[[Sequence[bytes], float], Awaitable[int]],
        tried: Tried | None = None,
    ) -> None:
        # Each message is rewritten once, when the first of them takes the detour.
        rewritten: list[bytes] = []

        async def perform(step: Step) -> Outcome:
            # That this factory was closed says nothing about the namespace.
            self._primary.require_open()
            if isinstance(step, SendToPrimary):
                return await _tried(send_direct(step.messages, step.timeout_s), self._judge)
            if isinstance(step, SendToBacklog):
                if len(rewritten) < len(step.messages):
                    rewritten[:] = [_rewritten(payload, sender.path) for payload in step.messages]
                # The messages of a step are always the last ones of those that were given.
                left = rewritten[len(rewritten) - len(step.messages) :]
                return await _tried(self._send_to_backlog(sender.path, step.index, left), judge_backlog)
            assert isinstance(step, Sleep)
            await self._waiting.sleep(step.delay_s)
            return Outcome()

        await follow(self._paired_sender(sender).send(payloads, tried=tried), perform)

    def _judge(self, error: Exception) -> Judgement:
        return judge_primary(error, self._options.failover_rule)

    def _paired_sender(self, sender: MessageSender) -> PairedSender[bytes]:
        paired = self._senders.get(sender)
        if paired is None:
            sender.on_unanswered = self._note_unanswered
            timeout_s = self._primary.settings.operation_timeout.total_seconds()
            paired = self._senders[sender] = PairedSender(
                self._entity(sender.path), self._rotation, timeout_s, self._waiting.now_s, self._reporter.tell
            )
        return paired

    def _entity(self, path: str) -> PairedEntity:
        """Names are the same in any case."""
        entity = self._entities.get(path.lower())
        if entity is None:
            options = self._options
            entity = self._entities[path.lower()] = PairedEntity(
                path,
                options.failover_interval.total_seconds(),
                options.ping_primary_interval.total_seconds(),
                self._waiting.now_s,
                self._on_told,
                self._start_watch,
            )
        return entity

    async def _send_to_backlog(self, path: str, index: int, rewritten: Sequence[bytes]) -> int:
        try:
            return await self._backlog[index].send_some(rewritten, _ATTEMPT_TIMEOUT_S, BACKLOG_BATCH_BYTES)
        except MessageSizeExceededError as error:
            raise MessageSizeExceededError(detour_size_text(path, error.description)) from error

    # --- in the background ----------------------------------------------------------------------------------

    def _on_told(self, told: Told) -> None:
        self._reporter.tell(told)
        if told.event == "restored" and self._syphon is not None:
            self._syphon.wake(told.entity)

    def _start_watch(self, entity: PairedEntity) -> None:
        self._start_task(self._watch(entity))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, entity: PairedEntity) -> None:
        sender = self._primary.create_direct_sender(entity.path)

        async def perform(step: Step) -> Outcome:
            match step:
                case Sleep():
                    await self._waiting.sleep(step.delay_s)
                    return Outcome()
                case Ping():
                    return await _tried(sender.send_some([make_ping().to_payload()], step.timeout_s), judge_ping)
                case SendToPrimary() | SendToBacklog():
                    raise AssertionError("a watch sends nothing but pings")
                case _:
                    assert_never(step)

        try:
            await follow(entity.watch(), perform)
        finally:
            await sender.close()


def _rewritten(payload: bytes, path: str) -> bytes:
    return rewrite(BrokeredMessage.from_payload(payload), path).to_payload()


async def _tried(attempt: Awaitable[int], judge: Callable[[Exception], Judgement]) -> Outcome:
    try:
        return Outcome(count=await attempt)
    except TandemError as error:
        return Outcome(judge(error), error=error)
