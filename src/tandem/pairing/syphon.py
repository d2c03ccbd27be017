"""The syphon: brings messages from the backlog queues of the secondary to the entities that they were sent to.

It completes a backlog message only after the primary has accepted it: a crash in between may bring a message twice, and
none is lost. A message that the primary refuses for good is dead-lettered in its backlog queue, with the reason.

While the primary is known to be away the syphon does not receive. Messages in hand at that moment stay locked, and are
sent when the primary returns. Those whose locks would end before are released, which leaves their delivery counts
alone, and come again later. What that costs is stated in docs/explain/paired-namespaces.md.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final

from tandem.client.errors import MessagingError
from tandem.client.messaging.message import BrokeredMessage
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.wire.retry import RetryPolicy
from tandem.errors import TandemError
from tandem.pairing.backlog_pump import BATCH, BacklogPump
from tandem.pairing.detour import Told
from tandem.pairing.judging import is_refused_for_good
from tandem.pairing.ownership import backlog_place
from tandem.pairing.rewriting import NotRestorable, restore
from tandem.pairing.syphon_primary import SyphonPrimary
from tandem.wire_names import SYPHON_USER_AGENT

__all__ = ["BATCH", "LOCK_RESERVE_S", "LONG_POLL", "Syphon"]

# An hour has four of these for each backlog queue: with ten of them, 40 receives an hour and 960 a day.
LONG_POLL: Final = timedelta(minutes=15)

# A small part of a lock: what is sent must also be completed before the lock ends.
_SEND_TIMEOUT: Final = timedelta(seconds=10)
_SEND_POLICY: Final = RetryPolicy(max_attempts=3)

# Seconds. A message is not sent when less than this is left of its lock; of a short lock, a quarter.
LOCK_RESERVE_S: Final = 10.0
_LOCK_RESERVE_SHARE: Final = 0.25

# Seconds. What is under way when the syphon is closed may come to its end.
_CLOSE_GRACE_S: Final = 5.0

_UNREADABLE: Final = "SyphonCannotRestore"
_REFUSED: Final = "SyphonRefusedByPrimary"


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
        timeout = min(_SEND_TIMEOUT, primary.settings.operation_timeout)
        sending = dataclasses.replace(
            primary.settings, user_agent=SYPHON_USER_AGENT, operation_timeout=timeout, retry_policy=_SEND_POLICY
        )
        self._primary = SyphonPrimary(primary.with_settings(sending), tell)
        self._secondary = secondary.with_settings(
            dataclasses.replace(secondary.settings, user_agent=SYPHON_USER_AGENT, prefetch_count=0)
        )
        self._utc_now_s = secondary.settings.waiting.utc_now_s
        self._first_paths = tuple(backlog_paths)
        self._long_poll = long_poll
        self._tell = tell
        # By the path of their backlog queues, in lower case.
        self._pumps: dict[str, BacklogPump] = {}
        self._running: set[asyncio.Task[None]] = set()
        # Since it was started: what reached the primary, and what never will.
        self.moved_count = 0
        self.dead_lettered_count = 0
        # Messages that were given back, because the primary was away for longer than their locks, and come again.
        self.released_count = 0

    def start(self) -> None:
        self._primary.start()
        self.watch(self._first_paths)

    @property
    def backlog_paths(self) -> tuple[str, ...]:
        """The backlog queues that it watches."""
        return tuple(pump.receiver.path for pump in self._pumps.values())

    def watch(self, backlog_paths: Iterable[str]) -> None:
        """Empty these backlog queues too. Those that are watched already stay as they are."""
        for path in backlog_paths:
            if path.lower() in self._pumps or self._primary.is_closing:
                continue
            place = backlog_place(path)
            assert place is not None, f"'{path}' is not a backlog queue"
            receiver = self._secondary.create_message_receiver(path)
            pump = BacklogPump(*place, receiver, self._primary, self._long_poll, self._carry)
            self._pumps[path.lower()] = pump
            self._running.add(asyncio.create_task(pump.run()))

    def wake(self, path: str) -> None:
        """Send to an entity again: the primary has accepted a ping for it."""
        self._primary.hear_of(path)

    async def close(self) -> None:
        """Receive no more, and let what is under way come to its end. Safe to call twice."""
        await self._primary.stop()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=_CLOSE_GRACE_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
            self._running.clear()
        await asyncio.gather(*(pump.close(_CLOSE_GRACE_S) for pump in self._pumps.values()))
        await self._primary.close()
        await self._secondary.close()

    # --- counts ---------------------------------------------------------------------------------------------

    @property
    def unanswered_count(self) -> int:
        """Sends to the primary and completions that were not answered: each may bring a message twice."""
        return self._primary.unanswered_count

    @property
    def empty_poll_count(self) -> int:
        """Receives from backlog queues that ended without a message."""
        return sum(pump.empty_poll_count for pump in self._pumps.values())

    @property
    def peek_count(self) -> int:
        """Peeks at backlog queues, made while an entity was away."""
        return sum(pump.peek_count for pump in self._pumps.values())

    # --- messages -------------------------------------------------------------------------------------------

    async def _carry(self, pump: BacklogPump, message: BrokeredMessage, note_held: Callable[[], None]) -> bool:
        """Move one message to the primary, or release it before its lock ends. Returns whether it left the backlog."""
        try:
            path, restored = restore(message)
        except NotRestorable as error:
            return await self._dead_letter(message, _UNREADABLE, str(error))
        except TandemError as error:
            return await self._dead_letter(message, _UNREADABLE, f"the message cannot be read: {error}")
        send_until_s = self._send_until_s(message)
        while True:
            await self._hold(path, send_until_s, note_held)
            if self._primary.is_closing or self._primary.is_entity_away(path):
                pump.receiver.release(message)
                self.released_count += 1
                return False
            try:
                await self._primary.send(path, restored)
                break
            except TandemError as error:
                if is_refused_for_good(error) and not self._primary.is_closing:
                    return await self._dead_letter(message, _REFUSED, f"'{path}' at {self._primary.address}: {error}")
        self.moved_count += 1
        details = {"count": 1, "queue": pump.index, "primary_namespace": pump.primary_namespace}
        self._tell(Told("syphoned", path, details))
        try:
            await message.complete()
        except MessagingError:
            # The message comes again: twice, and not never.
            self._primary.note_unanswered()
        return True

    async def _hold(self, path: str, until_s: float, note_held: Callable[[], None]) -> None:
        """Keep a message in hand while its entity is away and its lock lasts."""
        while self._primary.is_entity_away(path) and not self._primary.is_closing:
            left_s = until_s - self._utc_now_s()
            if left_s <= 0:
                return
            if not self._primary.is_away:
                # The pump may go on with the messages of other entities.
                note_held()
            await self._primary.wait_for_entity(path, left_s)

    def _send_until_s(self, message: BrokeredMessage) -> float:
        """The last moment, in seconds since 1970, at which a send can be followed by the completion."""
        if message.locked_until_utc is None:
            return 0.0
        locked_until_s = message.locked_until_utc.timestamp()
        lock_s = max(0.0, locked_until_s - self._utc_now_s())
        return locked_until_s - min(LOCK_RESERVE_S, lock_s * _LOCK_RESERVE_SHARE)

    async def _dead_letter(self, message: BrokeredMessage, reason: str, description: str) -> bool:
        try:
            await message.dead_letter(reason, description[:4_000])
        except MessagingError:
            # Its lock has ended, or the secondary is away: it comes again.
            return False
        self.dead_lettered_count += 1
        return True
