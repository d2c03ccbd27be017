"""Reading all partitions of a hub, together with other processes: `EventProcessor`.

Each processor claims its fair share of the partitions in a checkpoint store, renews its claims, and reads what it owns
from the last checkpoint on. It reads as an owner, so that the hub itself lets no two of them read one partition: the
last one to claim it wins, and the other one is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from tandem.client.errors import ReceiverDisconnectedError
from tandem.client.hubs.balancing import choose_claims
from tandem.client.hubs.checkpoint_store import Checkpoint, CheckpointStore, Ownership, Stream
from tandem.client.hubs.event_data import EventData
from tandem.client.hubs.event_hub_client import DEFAULT_CONSUMER_GROUP, EventHubClient
from tandem.client.hubs.event_position import EventPosition
from tandem.client.wire.checks import require_seconds, require_whole_number
from tandem.errors import UsageError

__all__ = ["CloseReason", "EventHandler", "EventProcessor", "EventProcessorSettings", "PartitionContext"]

# The owner level of all processors: among equals the last one to come wins.
_OWNER_LEVEL: Final = 0


class CloseReason(enum.Enum):
    """Why a partition is no longer read."""

    SHUTDOWN = "shutdown"
    OWNERSHIP_LOST = "ownership lost"
    FAILED = "failed"


@dataclass(frozen=True)
class EventProcessorSettings:
    """How a processor takes part. All processors of a stream should have the same two times."""

    # Seconds. How often claims are renewed and looked at.
    load_balancing_interval_s: float = 10.0
    # Seconds. After this long without a renewal a partition is nobody's.
    ownership_expiry_s: float = 30.0
    # Where to begin in a partition that has no checkpoint.
    initial_position: EventPosition = field(default_factory=EventPosition.earliest)
    max_batch_count: int = 300
    # Seconds. A handler is called with no events after this long without any; None for never.
    max_wait_s: float | None = None
    # Seconds. How long a handler may go on with the events it has when their partition is closed.
    close_grace_s: float = 10.0
    random: Callable[[Sequence[str]], str] = field(default=random.choice, repr=False)

    def __post_init__(self) -> None:
        for name in ("load_balancing_interval_s", "ownership_expiry_s", "close_grace_s"):
            require_seconds(name, getattr(self, name))
        if self.max_wait_s is not None:
            require_seconds("max_wait_s", self.max_wait_s)
        require_whole_number("max_batch_count", self.max_batch_count)
        if not 0 < self.load_balancing_interval_s < self.ownership_expiry_s:
            raise UsageError(
                f"load_balancing_interval_s is {self.load_balancing_interval_s} and ownership_expiry_s "
                f"{self.ownership_expiry_s}; claims must be renewed before they expire"
            )


class PartitionContext:
    """A partition that this processor owns, as its handler sees it."""

    def __init__(self, store: CheckpointStore, stream: Stream, partition_id: str) -> None:
        self._store = store
        self.stream: Final = stream
        self.partition_id: Final = partition_id

    async def checkpoint(self, event: EventData) -> None:
        """Remember that everything up to and with this event was dealt with: whoever reads next begins behind it."""
        if event.sequence_number is None:
            raise UsageError("an event that was not read has no place in a partition")
        await self._store.update_checkpoint(
            self.stream, Checkpoint(self.partition_id, event.sequence_number, event.offset)
        )


class EventHandler:
    """What a program does with events. Override `process_events`, and what else you need."""

    async def process_events(self, context: PartitionContext, events: list[EventData]) -> None:
        """Events of one partition, in order. The next ones come when this returns."""
        raise NotImplementedError

    async def process_error(self, context: PartitionContext | None, error: Exception) -> None:
        """Something failed: reading, a handler, or with None as context the balancing. The processor goes on."""

    async def partition_initialize(self, context: PartitionContext) -> None:
        """A partition is now read here."""

    async def partition_close(self, context: PartitionContext, reason: CloseReason) -> None:
        """A partition is no longer read here."""


class EventProcessor:
    """One of the processes that read a hub together. Use it as an async context manager, or start and stop it."""

    def __init__(
        self,
        client: EventHubClient,
        store: CheckpointStore,
        handler: EventHandler,
        consumer_group: str = DEFAULT_CONSUMER_GROUP,
        settings: EventProcessorSettings | None = None,
    ) -> None:
        self._client = client
        self._store = store
        self._handler = handler
        self._settings = settings or EventProcessorSettings()
        self._waiting = client.settings.waiting
        self._stream = Stream(client.address, client.event_hub_name, consumer_group)
        self._balancing: asyncio.Task[None] | None = None
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._is_stopping = False
        self._owned: dict[str, Ownership] = {}
        # Who it is among the others.
        self.owner_id: Final = uuid.uuid4().hex

    @property
    def partition_ids(self) -> list[str]:
        """The partitions that are read here at the moment."""
        return sorted(self._pumps)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def start(self) -> None:
        """Begin to take part."""
        if self._balancing is not None:
            raise UsageError("the processor runs already")
        self._is_stopping = False
        self._balancing = asyncio.create_task(self._balance_forever())

    async def stop(self) -> None:
        """Stop reading, and give the partitions back, so that others take them at once."""
        if self._balancing is None:
            return
        self._is_stopping = True
        self._balancing.cancel()
        await asyncio.wait([self._balancing])
        self._balancing = None
        await self._stop_pumps(list(self._pumps))
        nobodys = [Ownership(one.partition_id, "", self._waiting.utc_now_s(), one.etag) for one in self._owned.values()]
        self._owned.clear()
        if nobodys:
            await self._store.claim_ownerships(self._stream, nobodys)

    # --- balancing ------------------------------------------------------------------------------------------

    async def _balance_forever(self) -> None:
        while True:
            try:
                await self.balance()
            except Exception as error:
                await self._tell(None, error)
            await self._waiting.sleep(self._settings.load_balancing_interval_s)

    async def balance(self) -> None:
        """One round: renew what is owned here, claim what should be, and let go of what others took."""
        settings = self._settings
        partition_ids = (await self._client.get_properties()).partition_ids
        ownerships = await self._store.list_ownerships(self._stream)
        claims = choose_claims(
            partition_ids,
            ownerships,
            self.owner_id,
            self._waiting.utc_now_s(),
            settings.ownership_expiry_s,
            settings.random,
        )
        await self._claim(claims)
        await self._stop_pumps([partition_id for partition_id in self._pumps if partition_id not in self._owned])
        ended = [partition_id for partition_id, pump in self._pumps.items() if pump.done()]
        for partition_id in ended:
            del self._pumps[partition_id]
        fresh = [partition_id for partition_id in self._owned if partition_id not in self._pumps]
        if fresh:
            checkpoints = {one.partition_id: one for one in await self._store.list_checkpoints(self._stream)}
            for partition_id in fresh:
                self._pumps[partition_id] = asyncio.create_task(self._pump(partition_id, checkpoints.get(partition_id)))

    async def _claim(self, claims: list[Ownership]) -> None:
        """Claim partitions, and note those that were granted.

        `stop` may cancel the round while the store is at work. The store then finishes, and its grants are noted all
        the same: `stop` could not give back what it does not know, and others would have to wait until that expires.
        """
        claiming = asyncio.ensure_future(self._store.claim_ownerships(self._stream, claims))
        try:
            await asyncio.shield(claiming)
        finally:
            await asyncio.wait([claiming])
            if not claiming.cancelled() and claiming.exception() is None:
                self._owned = {one.partition_id: one for one in claiming.result()}

    async def _stop_pumps(self, partition_ids: Sequence[str]) -> None:
        pumps = [self._pumps.pop(partition_id) for partition_id in partition_ids]
        for pump in pumps:
            pump.cancel()
        if pumps:
            await asyncio.wait(pumps)

    # --- reading --------------------------------------------------------------------------------------------

    async def _pump(self, partition_id: str, checkpoint: Checkpoint | None) -> None:
        """Read one partition until it is taken away, by another processor or by `stop`."""
        context = PartitionContext(self._store, self._stream, partition_id)
        position = self._settings.initial_position
        if checkpoint is not None:
            position = EventPosition.from_sequence_number(checkpoint.sequence_number)
        consumer = self._client.create_consumer(
            self._stream.consumer_group,
            partition_id,
            position,
            owner_level=_OWNER_LEVEL,
            prefetch_count=self._settings.max_batch_count,
        )
        reason = CloseReason.FAILED
        try:
            await self._handler.partition_initialize(context)
            while True:
                events = await consumer.receive_batch(self._settings.max_batch_count, self._settings.max_wait_s)
                if events or self._settings.max_wait_s is not None:
                    await self._process(context, events)
        except ReceiverDisconnectedError:
            reason = CloseReason.OWNERSHIP_LOST
            self._owned.pop(partition_id, None)
        except asyncio.CancelledError:
            reason = CloseReason.SHUTDOWN if self._is_stopping else CloseReason.OWNERSHIP_LOST
            raise
        except Exception as error:
            # The next round begins again at the last checkpoint.
            await self._tell(context, error)
        finally:
            await consumer.close()
            with contextlib.suppress(Exception):
                await self._handler.partition_close(context, reason)

    async def _process(self, context: PartitionContext, events: list[EventData]) -> None:
        """A handler that is at work when its partition is closed may finish: what it has done it can then remember."""
        work = asyncio.ensure_future(self._handler.process_events(context, events))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            _, unfinished = await asyncio.wait([work], timeout=self._settings.close_grace_s)
            if unfinished:
                work.cancel()
                await asyncio.wait(unfinished)
            elif not work.cancelled() and isinstance(error := work.exception(), Exception):
                await self._tell(context, error)
            raise

    async def _tell(self, context: PartitionContext | None, error: Exception) -> None:
        # A handler of errors that fails has nobody to tell it to.
        with contextlib.suppress(Exception):
            await self._handler.process_error(context, error)
