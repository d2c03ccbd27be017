"""Receives from one backlog queue, as long as what it receives can be sent on.

the namespace is away    nothing is received; a long poll that waits is ended
an entity is away        the messages of other entities may lie between or behind those of that entity. Once the
                         pump has met a message that it cannot send on, it looks before each receive: it peeks, which
                         locks nothing, for a message of an entity that can be reached
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final

from tandem.client.messaging.message import BrokeredMessage
from tandem.client.messaging.receiver import MessageReceiver
from tandem.errors import TandemError
from tandem.pairing.rewriting import NotRestorable, restore
from tandem.pairing.syphon_primary import SyphonPrimary

__all__ = ["BATCH", "BacklogPump", "Carry"]

# Messages. What one receive may bring: their locks last a minute, and they are all sent at once.
BATCH: Final = 100

# Messages. What one pump may hold for entities that are away before it stops receiving.
_MAX_HELD: Final = 1_000

# Peeks. How far one look goes: the next one continues there.
_PEEKS_PER_LOOK: Final = 10

# Seconds. The pauses between looks, and of a pump that cannot reach the secondary: each twice the one before.
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_LOOK_PAUSE_S: Final = 60.0
_LONGEST_RETRY_PAUSE_S: Final = 15.0

# Seconds between two looks, while nothing is received, whether the link to the backlog queue is still there.
_ATTACH_INTERVAL_S: Final = 60.0

# What a look has found is there already.
_SHORT_POLL: Final = timedelta(seconds=1)

# Carries one message to the primary, and returns whether it has left the backlog. Calls back while it holds the message
# because its entity is away.
Carry = Callable[["BacklogPump", BrokeredMessage, Callable[[], None]], Coroutine[Any, Any, bool]]


class BacklogPump:
    """The pump of one backlog queue."""

    def __init__(
        self,
        primary_namespace: str,
        index: int,
        receiver: MessageReceiver,
        primary: SyphonPrimary,
        long_poll: timedelta,
        carry: Carry,
    ) -> None:
        # The name in the backlog queue: a program that started without its primary may have given it another.
        self.primary_namespace = primary_namespace
        self.index = index
        self.receiver = receiver
        self._primary = primary
        self._long_poll = long_poll
        self._carry = carry
        self._carrying: set[asyncio.Task[bool]] = set()
        # Whether it has met a message for an entity that is away, and looks before it receives.
        self._is_wary = False
        self._look_from = 0
        self._look_began_s = 0.0
        self._look_pause_s = _FIRST_PAUSE_S
        # Receives that ended without a message, and peeks: what the secondary charges besides the messages.
        self.empty_poll_count = 0
        self.peek_count = 0

    async def run(self) -> None:
        pause_s = 0.0
        while not self._primary.is_closing:
            await self._attend()
            try:
                if not await self._may_receive():
                    continue
                messages = await self._receive()
            except TandemError:
                # The secondary is away, or the queue was deleted and may be made again: nothing is lost meanwhile.
                pause_s = min(_LONGEST_RETRY_PAUSE_S, max(_FIRST_PAUSE_S, pause_s * 2))
                await self._primary.sleep(pause_s)
                continue
            pause_s = 0.0
            if messages:
                self._look_pause_s = _FIRST_PAUSE_S
                await self._carry_all(messages)
            elif self._is_wary and not self._primary.is_away:
                # Another syphon holds what was seen.
                self._look_from += 1

    async def close(self, grace_s: float) -> None:
        """Wait for the messages in hand."""
        if self._carrying:
            _, late = await asyncio.wait(self._carrying, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _attend(self) -> None:
        """While the namespace is away, keep the link: by it the secondary knows that the backlog has a syphon."""
        while self._primary.is_away and not self._primary.is_closing:
            with contextlib.suppress(TandemError):
                await self.receiver.attach()
            await self._primary.wait_until_reached(_ATTACH_INTERVAL_S)

    # --- receiving ------------------------------------------------------------------------------------------

    async def _receive(self) -> list[BrokeredMessage]:
        """Return no messages when the poll is over: by its time, because the namespace is away, or at the end."""
        if self._primary.is_away or self._primary.is_closing:
            return []
        poll = _SHORT_POLL if self._is_wary else self._long_poll
        receiving = asyncio.create_task(self.receiver.receive_batch(BATCH, poll))
        stopping = asyncio.create_task(self._primary.wait_until_away())
        try:
            await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done() and not self.receiver.stop_waiting():
                # It has no link yet, and so has not asked for anything.
                receiving.cancel()
                await asyncio.wait({receiving})
                return []
            messages = await receiving
        finally:
            receiving.cancel()
            stopping.cancel()
        self.empty_poll_count += int(not messages)
        return messages

    async def _carry_all(self, messages: list[BrokeredMessage]) -> None:
        """Return when each message has left the backlog, was released, or is held for its entity."""
        # Those for one entity go out on one link in the order of these calls.
        carries = [self._start_carrying(message) for message in messages]
        await asyncio.wait([tried for _, tried in carries])
        is_stuck = any(not task.done() or not task.result() for task, _ in carries)
        if is_stuck and self._primary.has_entities_away and not self._is_wary:
            self._is_wary = True
            self._look_from = max(message.sequence_number or 0 for message in messages) + 1
            self._look_began_s = asyncio.get_running_loop().time()

    def _start_carrying(self, message: BrokeredMessage) -> tuple[asyncio.Task[bool], asyncio.Future[None]]:
        tried: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def note_tried(_: object = None) -> None:
            if not tried.done():
                tried.set_result(None)

        task = asyncio.create_task(self._carry(self, message, note_tried))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        task.add_done_callback(note_tried)
        return task, tried

    # --- looking --------------------------------------------------------------------------------------------

    async def _may_receive(self) -> bool:
        """Whether a receive can bring a message that can be sent on. If not, it returns after a pause."""
        self._is_wary = self._is_wary and self._primary.has_entities_away
        if not self._is_wary or (len(self._carrying) < _MAX_HELD and await self._look()):
            return True
        await self._primary.sleep(self._look_pause_s)
        self._look_pause_s = min(_LONGEST_LOOK_PAUSE_S, self._look_pause_s * 2)
        return False

    async def _look(self) -> bool:
        """Whether there is a message for an entity that can be reached, behind those that were seen already."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._look_began_s >= self._long_poll.total_seconds():
            # From the start once in a long poll: another syphon may have given something back.
            self._look_from, self._look_began_s = 0, now_s
        for _ in range(_PEEKS_PER_LOOK):
            if self._primary.is_closing:
                return False
            messages = await self.receiver.peek(BATCH, self._look_from)
            self.peek_count += 1
            if not messages:
                return False
            for message in messages:
                self._look_from = message.sequence_number or 0
                if self._can_be_moved(message):
                    return True
            self._look_from += 1
        return False

    def _can_be_moved(self, message: BrokeredMessage) -> bool:
        """A message that cannot be restored is dead-lettered, whatever is away."""
        try:
            path, _ = restore(message)
        except (NotRestorable, TandemError):
            return True
        return not self._primary.is_entity_away(path)
