"""The driver for `azure.servicebus.aio`, with asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from azure.servicebus import ServiceBusMessageBatch
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from tandem.pairing.azure.background import TaskBackground
from tandem.pairing.azure.judging import ERRORS, judge_backlog, judge_ping
from tandem.pairing.azure.messages import (
    DivertedMessages,
    PairedMessageBatch,
    SdkMessage,
    make_ping,
    schedule,
    single_messages,
    too_large_for_detour,
)
from tandem.pairing.azure.pair import (
    ATTEMPT_TIMEOUT_S,
    DEFAULT_BATCH_BYTES,
    MIN_TIMEOUT_S,
    PROBE_PATH,
    RETRIES,
    PairedServiceBusOptions,
    SdkPair,
    SdkReporter,
)
from tandem.pairing.detour import (
    Judgement,
    Outcome,
    PairedEntity,
    Ping,
    SendToBacklog,
    SendToPrimary,
    Sleep,
    Step,
    Told,
)
from tandem.pairing.failover import FailoverState
from tandem.pairing.following import follow
from tandem.pairing.ownership import Reached
from tandem.pairing.send_availability import DIVERTED

__all__ = ["PairedServiceBusClient", "PairedServiceBusSender"]

MakeSender = Callable[[], ServiceBusSender]


class _Pair(SdkPair):
    """The pair of one client. Entities that fail are watched in the background."""

    def __init__(
        self, primary: str | ServiceBusClient, secondary: str | ServiceBusClient, options: PairedServiceBusOptions
    ) -> None:
        super().__init__(primary, secondary, options)
        self._is_primary_given = not isinstance(primary, str)
        self.primary = _client(primary)
        self.secondary = _client(secondary)
        # How to ping an entity: topics and queues have senders of their own.
        self.make_senders: dict[str, MakeSender] = {}
        self._reporter: SdkReporter | None = None
        self.background = TaskBackground(self.primary_address)
        self._is_set_up = False

    async def set_up(self) -> None:
        """Find or make the backlog queues, once."""
        async with self.background.lock:
            if self._is_set_up:
                return
            probed = await self._probe() if self._is_primary_given else None
            await self.background.run(self.set_up_backlog(probed))
            if self.secondary_string is not None:
                self._reporter = await self.background.run(
                    SdkReporter.create(self.primary_address, self.primary_namespace, self.secondary_string)
                )
            self._is_set_up = True

    async def _probe(self) -> Reached:
        """Open a link with a client that was given, as its senders will."""
        try:
            async with self.primary.get_queue_sender(PROBE_PATH) as sender:
                await sender.create_message_batch()
        except ERRORS as error:
            return self.judge_probe(error)
        return Reached(True)

    async def note_primary(self, outcome: Outcome) -> Outcome:
        """What came of a send to the primary, or of a ping."""
        if outcome.error is None and self.is_reconciling_due:
            await self.background.run(self.start_reconciling())
        return self.note(outcome)

    def report(self, told: Told) -> None:
        if self._reporter is not None:
            self.background.report(self._reporter, told)

    def tell_soon(self, told: Told) -> None:
        self.background.pass_on(self.tell, told)

    def start_watch(self, entity: PairedEntity) -> None:
        self.background.start(lambda: self._watch(entity), f"ping {entity.path}")

    async def _watch(self, entity: PairedEntity) -> None:
        sender = self.make_senders[entity.path.lower()]()

        async def perform(step: Step) -> Outcome:
            if isinstance(step, Sleep):
                await self.background.sleep(step.delay_s)
                return Outcome()
            assert isinstance(step, Ping)
            outcome = await _tried(lambda: _send(sender, [make_ping()], step.timeout_s), judge_ping)
            if outcome.error is None:
                await self.note_primary(outcome)
            return outcome

        try:
            await follow(entity.watch(), perform)
        finally:
            await sender.close()

    async def close(self) -> None:
        await self.background.close()
        await self.background.run(self.stop_reconciling())
        reporter, self._reporter = self._reporter, None
        if reporter is not None:
            await self.background.run(reporter.close())
        await self.primary.close()
        await self.secondary.close()


class PairedServiceBusSender:
    """A `ServiceBusSender` whose messages take the detour while their entity cannot be sent to.

    Like that it is not to be shared between threads. What it does not have of its own is that of the primary's sender.
    """

    def __init__(self, pair: _Pair, path: str, make_sender: MakeSender) -> None:
        self._pair = pair
        self._path = path
        self._paired = pair.sender(path)
        self._primary = make_sender()
        # The backlog queue that was drawn, by its index.
        self._backlog: dict[int, ServiceBusSender] = {}
        # What a batch may have, as the entity said it last.
        self._batch_bytes = DEFAULT_BATCH_BYTES
        pair.make_senders[path.lower()] = make_sender

    # Any: whatever the SDK has.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._primary, name)

    async def __aenter__(self) -> Self:
        await self._pair.set_up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send_messages(
        self,
        message: SdkMessage | Iterable[SdkMessage] | ServiceBusMessageBatch,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the SDK's own name
    ) -> None:
        """Send, and return when one namespace or the other has it."""
        await self._follow(single_messages(message), timeout, lambda one, time_s: _send(self._primary, one, time_s))

    async def schedule_messages(
        self,
        messages: SdkMessage | Iterable[SdkMessage],
        schedule_time_utc: datetime,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the SDK's own name
    ) -> list[int]:
        """Schedule messages. Those that take the detour have no sequence number yet: 0 stands for it."""
        numbers: list[int] = []
        # Any: the SDK's union of messages has names of its own.
        originals: list[Any] = list(single_messages(messages))

        async def schedule_direct(scheduled: list[SdkMessage], timeout_s: float) -> int:
            numbers.extend(await self._primary.schedule_messages(originals, schedule_time_utc, timeout=timeout_s))
            return len(scheduled)

        await self._follow([schedule(one, schedule_time_utc) for one in originals], timeout, schedule_direct)
        return numbers or [DIVERTED] * len(originals)

    async def create_message_batch(self, max_size_in_bytes: int | None = None) -> PairedMessageBatch:
        """Make a batch as large as the entity takes, as far as it could be asked; else as the smallest tier takes."""
        if max_size_in_bytes is None and not self._paired.is_diverted:
            try:
                batch = await self._primary.create_message_batch()
                self._batch_bytes = batch.max_size_in_bytes
            except ServiceBusError as error:
                if self._pair.judge(error) is Judgement.REFUSED:
                    raise
        return PairedMessageBatch(max_size_in_bytes or self._batch_bytes)

    async def close(self) -> None:
        """Close the links to both namespaces."""
        await self._primary.close()
        for sender in self._backlog.values():
            await sender.close()
        self._backlog.clear()

    async def _follow(
        self,
        messages: list[SdkMessage],
        timeout_s: float | None,
        send_direct: Callable[[list[SdkMessage], float], Awaitable[int]],
    ) -> None:
        pair = self._pair
        await pair.set_up()

        # Made when the first message takes the detour.
        diverted: DivertedMessages | None = None

        async def perform(step: Step) -> Outcome:
            nonlocal diverted
            if isinstance(step, SendToPrimary):
                tried = await _tried(lambda: send_direct(list(step.messages), step.timeout_s), pair.judge)
                return await pair.note_primary(tried)
            if isinstance(step, SendToBacklog):
                rewritten = diverted = diverted or DivertedMessages(step.messages, self._path)
                return pair.note(await _tried(lambda: self._send_to_backlog(rewritten, step), judge_backlog))
            assert isinstance(step, Sleep)
            await pair.background.sleep(step.delay_s)
            return Outcome()

        await follow(self._paired.send(messages, timeout_s), perform)

    async def _send_to_backlog(self, diverted: DivertedMessages, step: SendToBacklog[SdkMessage]) -> int:
        queue, sender = self._pair.backlog_path(step.index), self._backlog_sender(step.index)
        if len(step.messages) > 1:
            # This opens the link, which knows what the queue takes: an error that can be foreseen must come first.
            await sender.create_message_batch()
        portion = diverted.portion(len(step.messages), sender, queue)
        try:
            return await _send(sender, portion, ATTEMPT_TIMEOUT_S)
        except MessageSizeExceededError as error:
            raise too_large_for_detour(self._path, f"'{queue}': {error}") from error

    def _backlog_sender(self, index: int) -> ServiceBusSender:
        sender = self._backlog.get(index)
        if sender is None:
            sender = self._backlog[index] = self._pair.secondary.get_queue_sender(self._pair.backlog_path(index))
        return sender


class PairedServiceBusClient:
    """A `ServiceBusClient` for a pair of namespaces: what it sends goes on while the primary cannot be sent to.

    What it does not have of its own, such as receivers, is that of the primary's client. `set_up` finds or makes the
    backlog queues, and raises what keeps it from it; entering the client or its first send does the same.
    """

    def __init__(
        self,
        primary: str | ServiceBusClient,
        secondary: str | ServiceBusClient,
        options: PairedServiceBusOptions | None = None,
    ) -> None:
        """Each namespace is a connection string, or a client that was made for it."""
        self._pair = _Pair(primary, secondary, options or PairedServiceBusOptions())

    # Any: whatever the SDK has.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._pair.primary, name)

    async def __aenter__(self) -> Self:
        await self.set_up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def options(self) -> PairedServiceBusOptions:
        """As given; `backlog_queue_count` is how many were found or made."""
        return self._pair.options

    @property
    def states(self) -> dict[str, FailoverState]:
        """The state of each entity that was sent to, by its path."""
        return self._pair.states

    @property
    def unanswered_count(self) -> int:
        """Sends to either namespace that were not answered: what was sent again may have come twice."""
        return self._pair.unanswered_count

    async def set_up(self) -> None:
        """Find or make the backlog queues."""
        await self._pair.set_up()

    def get_queue_sender(self, queue_name: str, **settings: Any) -> PairedServiceBusSender:
        """As the SDK's, and with the detour."""
        primary = self._pair.primary
        return PairedServiceBusSender(self._pair, queue_name, lambda: primary.get_queue_sender(queue_name, **settings))

    def get_topic_sender(self, topic_name: str, **settings: Any) -> PairedServiceBusSender:
        """As the SDK's, and with the detour."""
        primary = self._pair.primary
        return PairedServiceBusSender(self._pair, topic_name, lambda: primary.get_topic_sender(topic_name, **settings))

    async def close(self) -> None:
        """Close both clients, and stop to ping."""
        await self._pair.close()


def _client(given: str | ServiceBusClient) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(given, retry_total=RETRIES) if isinstance(given, str) else given


# Any: the SDK's union of messages has names of its own.
async def _send(sender: ServiceBusSender, messages: list[Any], timeout_s: float) -> int:
    await sender.send_messages(messages if len(messages) > 1 else messages[0], timeout=max(timeout_s, MIN_TIMEOUT_S))
    return len(messages)


async def _tried(attempt: Callable[[], Awaitable[int]], judge: Callable[[Exception], Judgement]) -> Outcome:
    try:
        return Outcome(count=await attempt())
    except ERRORS as error:
        return Outcome(judge(error), error=error)
