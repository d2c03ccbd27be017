"""Receiving for one channel: prefetching over several queues, locks and their renewal, and what is settled.

All of it runs on the event loop of the client library. The program's thread says what it wants by `call_soon`; what
arrives goes to it by a handover.

    free room      each source asks for as many messages as the channel may still take; when one has filled it, the
                   others stop asking, and what they got nevertheless is released
    held           handed to the program and not settled; its lock is renewed at half time as long as the process lives
    finished       acknowledged by the program, but not by the broker yet

A broker that restarts has forgotten all locks. Messages that are held come again: to this channel, which recognises
them by their sequence numbers, takes the new lock, and does not hand them to the program twice; a message that is
finished is completed. (Another process may get them first. Then they are processed twice, as after any lost lock.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from tandem.client import (
    BrokeredMessage,
    MessageLockLostError,
    MessageReceiver,
    MessagingError,
    ReceiveMode,
)

__all__ = ["Delivery", "Intake", "Source"]

logger = logging.getLogger(__name__)

# Seconds. How long one receive waits: a queue that is read is not idle.
_RECEIVE_S: Final = 60.0

# Seconds between two attempts to receive from a broker that cannot be reached; the client library has tried before.
_PAUSE_S: Final = 1.0

# Messages that may wait for the program if it has set no prefetch count, or if nothing is to be acknowledged.
_WAITING_MESSAGES: Final = 100

# Messages that are remembered as finished while the broker has not confirmed it.
_MAX_FINISHED: Final = 100_000

# Seconds. How long a close waits for acknowledgements that are under way.
_CLOSE_S: Final = 5.0

# The part of its lock that a message has before it is renewed, and how often locks are looked at meanwhile.
_RENEWED_AT: Final = 0.5
_LOOKS_PER_LOCK: Final = 8

# Where a message lies, and its number there: what it is known by for good.
_Key = tuple[str, int]


class _Opener(Protocol):
    """Makes receivers, and knows how long locks last."""

    def receiver(self, path: str, receive_mode: ReceiveMode) -> MessageReceiver:
        """Return a receiver of an entity."""

    async def lock_duration_s(self, path: str) -> float:
        """Return how long a message of an entity stays locked."""


class Delivery(NamedTuple):
    """A message for the program, under the tag that it is settled by; no tag if there is nothing to settle."""

    consumer_tag: str
    tag: int | None
    message: BrokeredMessage


class Source:
    """One entity that a consumer reads."""

    def __init__(self, consumer_tag: str, path: str, receiver: MessageReceiver, lock_duration_s: float) -> None:
        self.consumer_tag = consumer_tag
        self.path = path
        self.receiver = receiver
        self.lock_duration_s = lock_duration_s
        self.is_locking = receiver.receive_mode is ReceiveMode.PEEK_LOCK
        self.task: asyncio.Task[None] | None = None


@dataclass
class _Held:
    """A message that the program has. `renew_at_s` is never if its lock is known to be lost."""

    source: Source
    message: BrokeredMessage
    renew_at_s: float

    @property
    def key(self) -> _Key:
        return self.source.path, self.message.sequence_number or 0


_NEVER_S: Final = float("inf")


class Intake:
    """What one channel receives. `hand_over` gets each delivery, or the error that ends the channel."""

    def __init__(self, opener: _Opener, hand_over: Callable[[Delivery | Exception], None]) -> None:
        self._opener = opener
        self._hand_over = hand_over
        self._prefetch_count = 0
        self._sources: list[Source] = []
        self._held: dict[int, _Held] = {}
        self._held_by_key: dict[_Key, int] = {}
        self._finished: dict[_Key, None] = {}
        # Handed over and not yet taken by the program.
        self._waiting_count = 0
        self._last_tag = 0
        self._has_room = asyncio.Event()
        self._settlements: set[asyncio.Task[None]] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._is_closed = False

    # --- what the program wants -----------------------------------------------------------------------------

    async def consume(self, consumer_tag: str, path: str, *, no_ack: bool) -> None:
        """Begin to receive from an entity. What is wrong with it is raised here, and not by the first receive."""
        mode = ReceiveMode.RECEIVE_AND_DELETE if no_ack else ReceiveMode.PEEK_LOCK
        receiver = self._opener.receiver(path, mode)
        await receiver.attach()
        duration_s = 0.0 if no_ack else await self._opener.lock_duration_s(path)
        source = Source(consumer_tag, path, receiver, duration_s)
        self._sources.append(source)
        source.task = asyncio.create_task(self._receive(source), name=f"receive from {path}")
        if self._renewing is None and not no_ack:
            self._renewing = asyncio.create_task(self._renew_locks(), name="renew locks")

    async def cancel(self, consumer_tag: str) -> None:
        """Receive no more for a consumer. What it holds can still be settled."""
        for source in self._sources:
            if source.consumer_tag == consumer_tag and source.task is not None:
                await _end(source.task)

    def consumed_paths(self, consumer_tag: str) -> list[str]:
        return [source.path for source in self._sources if source.consumer_tag == consumer_tag]

    async def get(self, path: str, *, no_ack: bool) -> Delivery | None:
        """Return a message that is there now, None if there is none."""
        source = next((one for one in self._sources if one.path == path and one.is_locking is not no_ack), None)
        if source is None:
            mode = ReceiveMode.RECEIVE_AND_DELETE if no_ack else ReceiveMode.PEEK_LOCK
            duration_s = 0.0 if no_ack else await self._opener.lock_duration_s(path)
            source = Source("", path, self._opener.receiver(path, mode), duration_s)
            self._sources.append(source)
        if self._renewing is None and not no_ack:
            self._renewing = asyncio.create_task(self._renew_locks(), name="renew locks")
        message = await source.receiver.receive(0)
        return None if message is None else self._accept(source, message)

    def set_prefetch_count(self, count: int) -> None:
        self._prefetch_count = count
        self._adjust()

    def note_taken(self, count: int = 1) -> None:
        """The program has taken deliveries from the handover."""
        self._waiting_count -= count
        self._adjust()

    def complete(self, tag: int) -> None:
        held = self._let_go(tag)
        if held is not None:
            self._remember_finished(held.key)
            self._settle(held, held.message.complete)

    def abandon(self, tag: int) -> None:
        held = self._let_go(tag)
        if held is not None:
            self._settle(held, held.message.abandon)

    def dead_letter(self, tag: int) -> None:
        held = self._let_go(tag)
        if held is not None:
            self._settle(held, lambda: held.message.dead_letter("rejected", "A consumer has rejected the message."))

    def release(self, tag: int) -> None:
        """Give a message back as if it had not been received."""
        held = self._let_go(tag)
        if held is not None:
            held.source.receiver.release(held.message)

    def release_all(self) -> None:
        for tag in list(self._held):
            self.release(tag)

    async def close(self) -> None:
        """Stop receiving, wait for acknowledgements under way, and give back what is held."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in [*[source.task for source in self._sources], self._renewing]:
            if task is not None:
                await _end(task)
        if self._settlements:
            await asyncio.wait(self._settlements, timeout=_CLOSE_S)
        self.release_all()
        closing = [asyncio.create_task(source.receiver.close()) for source in self._sources]
        if closing:
            # A broker that is gone does not hold this up.
            await asyncio.wait(closing, timeout=_CLOSE_S)
        for task in closing:
            task.cancel()

    # --- receiving ------------------------------------------------------------------------------------------

    def _room(self, source: Source) -> int:
        """Return how many messages may come from a source now."""
        if source.is_locking and self._prefetch_count:
            return self._prefetch_count - len(self._held)
        return _WAITING_MESSAGES - self._waiting_count

    def _adjust(self) -> None:
        """The room has changed: those that wait for some look again, those that would get too much stop waiting."""
        self._has_room.set()
        for source in self._sources:
            if source.task is not None and self._room(source) <= 0:
                source.receiver.stop_waiting()

    async def _receive(self, source: Source) -> None:
        """Receive until the consumer is cancelled. Whatever ends this otherwise ends the channel."""
        try:
            await self._receive_forever(source)
        except Exception as error:
            self._hand_over(error)

    async def _receive_forever(self, source: Source) -> None:
        is_reachable = True
        while True:
            while (room := self._room(source)) <= 0:
                self._has_room.clear()
                await self._has_room.wait()
            try:
                messages = await source.receiver.receive_batch(room, _RECEIVE_S)
            except MessagingError as error:
                if not error.is_transient:
                    raise
                if is_reachable:
                    logger.warning("cannot receive from '%s', and go on trying: %s", source.path, error)
                is_reachable = False
                await asyncio.sleep(_PAUSE_S)
                continue
            if not is_reachable:
                logger.warning("receiving from '%s' again", source.path)
                is_reachable = True
            for message in messages:
                self._take_in(source, message)

    def _take_in(self, source: Source, message: BrokeredMessage) -> None:
        if source.is_locking and self._recognise(source, message):
            return
        if source.is_locking and self._room(source) <= 0:
            # Another source has filled the room in the meantime.
            source.receiver.release(message)
            return
        delivery = self._accept(source, message)
        self._waiting_count += 1
        self._hand_over(delivery)
        self._adjust()

    def _recognise(self, source: Source, message: BrokeredMessage) -> bool:
        """Deal with a message that is held, or finished, and has come again because its lock was lost."""
        key = (source.path, message.sequence_number or 0)
        if key in self._finished:
            self._settle(_Held(source, message, _NEVER_S), message.complete)
            return True
        tag = self._held_by_key.get(key)
        if tag is None:
            return False
        logger.info("message %d of '%s' is still being processed, under a new lock", key[1], source.path)
        self._held[tag].message = message
        self._held[tag].renew_at_s = self._renewal_s(source)
        return True

    def _accept(self, source: Source, message: BrokeredMessage) -> Delivery:
        if not source.is_locking:
            return Delivery(source.consumer_tag, None, message)
        self._last_tag += 1
        held = _Held(source, message, self._renewal_s(source))
        self._held[self._last_tag] = held
        self._held_by_key[held.key] = self._last_tag
        return Delivery(source.consumer_tag, self._last_tag, message)

    # --- settling -------------------------------------------------------------------------------------------

    def _let_go(self, tag: int) -> _Held | None:
        held = self._held.pop(tag, None)
        if held is not None:
            del self._held_by_key[held.key]
            self._adjust()
        return held

    def _remember_finished(self, key: _Key) -> None:
        self._finished[key] = None
        if len(self._finished) > _MAX_FINISHED:
            del self._finished[next(iter(self._finished))]

    def _settle(self, held: _Held, settle: Callable[[], Awaitable[None]]) -> None:
        async def perform() -> None:
            try:
                await settle()
            except MessagingError as error:
                # It comes again: if it is finished, it is completed then.
                logger.info("message %d of '%s' could not be settled: %s", held.key[1], held.key[0], error)
            else:
                self._finished.pop(held.key, None)

        task = asyncio.create_task(perform(), name="settle")
        self._settlements.add(task)
        task.add_done_callback(self._settlements.discard)

    # --- locks ----------------------------------------------------------------------------------------------

    def _renewal_s(self, source: Source) -> float:
        return asyncio.get_running_loop().time() + source.lock_duration_s * _RENEWED_AT

    async def _renew_locks(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            shortest_s = min(
                (source.lock_duration_s for source in self._sources if source.is_locking), default=_PAUSE_S
            )
            await asyncio.sleep(shortest_s / _LOOKS_PER_LOCK)
            due = [held for held in self._held.values() if held.renew_at_s <= loop.time()]
            await asyncio.gather(*(self._renew(held) for held in due))

    async def _renew(self, held: _Held) -> None:
        message = held.message
        try:
            await message.renew_lock()
        except MessageLockLostError:
            # Either it was settled meanwhile, or it comes again.
            if held.message is message:
                held.renew_at_s = _NEVER_S
        except MessagingError as error:
            logger.warning("the lock of message %d of '%s' is not renewed: %s", held.key[1], held.key[0], error)
        else:
            held.renew_at_s = self._renewal_s(held.source)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel a task of our own and wait until it is over."""
    task.cancel()
    await asyncio.wait([task])
