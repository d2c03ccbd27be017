"""The syphon: brings messages from the backlog queues of the secondary to the entities that they were sent to.

It completes a backlog message only after the primary has accepted it: a crash in between may bring a message twice, and
none is lost. A message that the primary refuses for good is dead-lettered in its backlog queue, with the reason. One
whose entity cannot take it now stays: if the whole primary is away, all are given back and the syphon waits; if it is
one entity, its messages are left under their locks, so that those of the others go on, and given back when that entity
is heard of again: by the pair, if it is one of this process, and else by one of its messages, which is tried now and
then.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final

from tandem.client.errors import MessagingCommunicationError, MessagingError
from tandem.client.message import BrokeredMessage
from tandem.client.messaging_factory import MessagingFactory
from tandem.client.receiver import MessageReceiver
from tandem.client.retry import RetryPolicy
from tandem.client.sender import MessageSender
from tandem.errors import TandemError
from tandem.pairing.detour import Told
from tandem.pairing.judging import is_refused_for_good
from tandem.pairing.rewriting import NotRestorable, restore

__all__ = ["LONG_POLL", "USER_AGENT", "Syphon"]

# Tells the brokers at both ends what the connection is for: they count its operations as the syphon's.
USER_AGENT: Final = "tandem-syphon"

# An hour has four of these for each backlog queue: with ten of them, 40 receives an hour and 960 a day.
LONG_POLL: Final = timedelta(minutes=15)

# Messages. What one pump has in hand: their locks last a minute, and they are all sent at once.
_BATCH: Final = 100

# Messages. What is left under locks, for each entity, to be given back; more than that come again when their locks end.
_MAX_LEFT: Final = 1_000

# A small part of a lock: what is sent must also be completed before the lock ends.
_SEND_TIMEOUT: Final = timedelta(seconds=10)
_SEND_POLICY: Final = RetryPolicy(max_attempts=3)

# Seconds. The waits of a pump that could move nothing: each twice as long as the one before.
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 15.0

# Seconds. What is under way when the syphon is closed may come to its end.
_CLOSE_GRACE_S: Final = 5.0

_UNREADABLE: Final = "SyphonCannotRestore"
_REFUSED: Final = "SyphonRefusedByPrimary"


class _Move(enum.Enum):
    """What became of a message."""

    DONE = "done"
    # The primary is away.
    GIVEN_BACK = "given back"
    # Its entity, or the syphon's right to send to it, is away.
    LEFT = "left to its lock"


class Syphon:
    """A pump for each backlog queue. It has connections of its own to both namespaces."""

    def __init__(
        self,
        primary: MessagingFactory,
        secondary: MessagingFactory,
        backlog_paths: Sequence[str],
        tell: Callable[[Told], None],
        *,
        long_poll: timedelta = LONG_POLL,
    ) -> None:
        self._waiting = primary.settings.waiting
        timeout = min(_SEND_TIMEOUT, primary.settings.operation_timeout)
        self._primary = primary.with_settings(
            dataclasses.replace(
                primary.settings, user_agent=USER_AGENT, operation_timeout=timeout, retry_policy=_SEND_POLICY
            )
        )
        self._secondary = secondary.with_settings(
            dataclasses.replace(secondary.settings, user_agent=USER_AGENT, prefetch_count=0)
        )
        self._backlog_paths = tuple(backlog_paths)
        self._tell = tell
        self._long_poll = long_poll
        self._senders: dict[str, MessageSender] = {}
        self._pumps: set[asyncio.Task[None]] = set()
        self._receiving: set[asyncio.Task[list[BrokeredMessage]]] = set()
        # What was left under its lock, by the entity that did not take it.
        self._left: dict[str, list[BrokeredMessage]] = {}
        self._giving_back: set[asyncio.Task[None]] = set()
        # Those who try an entity that has such messages, by its path.
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._woken = asyncio.Event()
        self._is_closing = False
        # Since it was started: what reached the primary, and what never will.
        self.moved_count = 0
        self.dead_lettered_count = 0
        # Sends to the primary and completions that were not answered: each may bring a message twice.
        self.unanswered_count = 0

    def start(self) -> None:
        paths, self._backlog_paths = self._backlog_paths, ()
        self.watch(paths)

    @property
    def backlog_paths(self) -> tuple[str, ...]:
        """The backlog queues that it watches."""
        return tuple(self._backlog_paths)

    def watch(self, backlog_paths: Iterable[str]) -> None:
        """Empty these backlog queues too. Those that are watched already stay as they are."""
        for path in backlog_paths:
            is_watched = path.lower() in {known.lower() for known in self._backlog_paths}
            if not is_watched and not self._is_closing:
                index = int(path.rpartition("/")[2])
                self._backlog_paths = (*self._backlog_paths, path)
                self._pumps.add(asyncio.create_task(self._pump(index, self._secondary.create_message_receiver(path))))

    def wake(self) -> None:
        """Try again now: the primary was heard of."""
        for path in list(self._left):
            self._give_back(path)
        self._woken.set()
        self._woken = asyncio.Event()

    async def close(self) -> None:
        """Receive no more, and let what is under way come to its end. Safe to call twice."""
        self._is_closing = True
        for receiving in self._receiving:
            receiving.cancel()
        self.wake()
        if self._pumps:
            _, late = await asyncio.wait(self._pumps, timeout=_CLOSE_GRACE_S)
            for pump in late:
                pump.cancel()
            if late:
                await asyncio.wait(late)
            self._pumps.clear()
        if waiting := {*self._giving_back, *self._probes.values()}:
            await asyncio.wait(waiting, timeout=_CLOSE_GRACE_S)
        await self._primary.close()
        await self._secondary.close()

    # --- pumps ----------------------------------------------------------------------------------------------

    async def _pump(self, index: int, receiver: MessageReceiver) -> None:
        pause_s = 0.0
        while not self._is_closing:
            try:
                messages = await self._receive(receiver)
            except TandemError:
                # The secondary is away, or the queue was deleted and may be made again: nothing is lost meanwhile.
                messages, is_stuck = [], True
            else:
                is_stuck = bool(messages) and not await self._move_all(index, messages)
            pause_s = min(_LONGEST_PAUSE_S, max(_FIRST_PAUSE_S, pause_s * 2)) if is_stuck else 0.0
            if pause_s and not self._is_closing:
                await self._pause(pause_s)

    async def _receive(self, receiver: MessageReceiver) -> list[BrokeredMessage]:
        """Nothing when the long poll is over, or the syphon is being closed."""
        receiving = asyncio.create_task(receiver.receive_batch(_BATCH, self._long_poll))
        self._receiving.add(receiving)
        try:
            return await receiving
        except asyncio.CancelledError:
            if not self._is_closing:
                receiving.cancel()
                raise
            return []
        finally:
            self._receiving.discard(receiving)

    async def _pause(self, delay_s: float) -> None:
        sleep = asyncio.create_task(self._waiting.sleep(delay_s))
        woken = asyncio.create_task(self._woken.wait())
        try:
            await asyncio.wait([sleep, woken], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            woken.cancel()

    # --- messages -------------------------------------------------------------------------------------------

    async def _move_all(self, index: int, messages: list[BrokeredMessage]) -> bool:
        """Whether any of them got out of the backlog."""
        # Those for one entity go out on one link in the order of these calls.
        moves = await asyncio.gather(*(self._move(index, message) for message in messages))
        return _Move.DONE in moves

    async def _move(self, index: int, message: BrokeredMessage) -> _Move:
        try:
            path, restored = restore(message)
        except NotRestorable as error:
            return await self._dead_letter(message, _UNREADABLE, str(error))
        except TandemError as error:
            return await self._dead_letter(message, _UNREADABLE, f"the message cannot be read: {error}")
        try:
            await self._sender(path).send(restored)
        except TandemError as error:
            return await self._keep(message, path, error)
        self.moved_count += 1
        self._give_back(path)
        self._tell(Told("syphoned", path, {"count": 1, "queue": index}))
        try:
            await message.complete()
        except MessagingError:
            # The message comes again: twice, and not never.
            self._note_unanswered()
        return _Move.DONE

    def _note_unanswered(self) -> None:
        self.unanswered_count += 1

    async def _keep(self, message: BrokeredMessage, path: str, error: TandemError) -> _Move:
        if is_refused_for_good(error) and not self._is_closing:
            return await self._dead_letter(message, _REFUSED, f"'{path}' at {self._primary.address}: {error}")
        if not isinstance(error, MessagingCommunicationError):
            left = self._left.setdefault(path, [])
            if len(left) < _MAX_LEFT:
                left.append(message)
            if path not in self._probes and not self._is_closing:
                self._probes[path] = asyncio.create_task(self._probe(path))
            return _Move.LEFT
        await _abandon([message])
        return _Move.GIVEN_BACK

    async def _probe(self, path: str) -> None:
        """Give back one of the messages that are left for an entity, and later another: the first that is taken brings
        the others with it. Ends when none is left."""
        pause_s = _FIRST_PAUSE_S
        try:
            while self._left.get(path):
                await self._pause(pause_s)
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
                if left := self._left.get(path):
                    await _abandon([left.pop(0)])
        finally:
            del self._probes[path]

    def _give_back(self, path: str) -> None:
        """What was left under its lock for an entity is received again at once."""
        left = self._left.pop(path, None)
        if left:
            task = asyncio.create_task(_abandon(left))
            self._giving_back.add(task)
            task.add_done_callback(self._giving_back.discard)

    async def _dead_letter(self, message: BrokeredMessage, reason: str, description: str) -> _Move:
        try:
            await message.dead_letter(reason, description[:4_000])
        except MessagingError:
            return _Move.LEFT
        self.dead_lettered_count += 1
        return _Move.DONE

    def _sender(self, path: str) -> MessageSender:
        sender = self._senders.get(path)
        if sender is None:
            sender = self._senders[path] = self._primary.create_direct_sender(path)
            sender.on_unanswered = self._note_unanswered
        return sender


async def _abandon(messages: list[BrokeredMessage]) -> None:
    """One that cannot be given back, because its lock has ended, comes again by itself."""
    for message in messages:
        with contextlib.suppress(MessagingError):
            await message.abandon()
