"""The primary as a syphon sees it: where it sends, and which parts of it are known to be away.

A lost connection means that the whole namespace is away; connecting again, which costs nothing, brings it back. Every
other failure that may pass is one entity's: pings bring it back, like those of a paired client, because a message that
was sent as a probe and not answered might arrive twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import Final

from tandem.client.errors import MessagingCommunicationError, ServerBusyError
from tandem.client.messaging.message import BrokeredMessage
from tandem.client.messaging.messaging_factory import MessagingFactory
from tandem.client.messaging.sender import MessageSender
from tandem.client.wire.retry import SERVER_BUSY_WAIT_S
from tandem.errors import TandemError
from tandem.pairing.detour import Judgement, Told
from tandem.pairing.judging import is_refused_for_good, judge_ping
from tandem.pairing.ping import make_ping
from tandem.pairing.reachability import Reachability

__all__ = ["SyphonPrimary"]

# Seconds. The longest pauses between two probes. Connecting is free; pings are charged, and as rare as a client's.
_LONGEST_CONNECT_PAUSE_S: Final = 15.0
_LONGEST_PING_PAUSE_S: Final = 60.0

_PING_TIMEOUT_S: Final = 10.0


class SyphonPrimary:
    """Sends to the entities of the primary, and remembers what failed."""

    def __init__(self, factory: MessagingFactory, tell: Callable[[Told], None]) -> None:
        self._factory = factory
        self._tell = tell
        self._waiting = factory.settings.waiting
        self._namespace = Reachability(self._connect, self._waiting, _LONGEST_CONNECT_PAUSE_S)
        # By lower-case path: names are the same in any case.
        self._entities: dict[str, Reachability] = {}
        self._senders: dict[str, MessageSender] = {}
        self.is_closing = False
        # Sends that were not answered: each may have brought a message twice.
        self.unanswered_count = 0

    @property
    def address(self) -> str:
        return self._factory.address

    def start(self) -> None:
        """Find out whether the primary can be reached. Until then the whole namespace counts as away."""
        self._namespace.doubt()

    # --- what is away ---------------------------------------------------------------------------------------

    @property
    def is_away(self) -> bool:
        """Whether the whole namespace is."""
        return self._namespace.is_away

    @property
    def has_entities_away(self) -> bool:
        return any(entity.is_away for entity in self._entities.values())

    def is_entity_away(self, path: str) -> bool:
        return self._namespace.is_away or self._entity(path).is_away

    async def wait_until_reached(self, timeout_s: float | None = None) -> None:
        """Return when the namespace can be reached, after the time, or when the syphon is closing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._namespace.is_away and not self.is_closing:
                    await self._namespace.wait_for_change()

    async def wait_until_away(self) -> None:
        """Return when the namespace cannot be reached, or the syphon is closing."""
        while not self._namespace.is_away and not self.is_closing:
            await self._namespace.wait_for_change()

    async def wait_for_entity(self, path: str, timeout_s: float) -> None:
        """Return when something changes for an entity that is away, or after the time."""
        away = self._namespace if self._namespace.is_away else self._entity(path)
        await away.wait_for_change(timeout_s)

    async def sleep(self, delay_s: float) -> None:
        """Let time pass, unless an entity that is away returns or the syphon is closing."""
        away = [self._namespace, *(entity for entity in self._entities.values() if entity.is_away)]
        tasks = {asyncio.create_task(one.wait_for_change()) for one in away}
        tasks.add(asyncio.create_task(self._waiting.sleep(delay_s)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def hear_of(self, path: str) -> None:
        """Record that an entity answered somebody else."""
        self._namespace.reach()
        self._entity(path).reach()

    def _entity(self, path: str) -> Reachability:
        entity = self._entities.get(path.lower())
        if entity is None:
            probe = functools.partial(self._ping, path)
            entity = self._entities[path.lower()] = Reachability(probe, self._waiting, _LONGEST_PING_PAUSE_S)
        return entity

    # --- sending --------------------------------------------------------------------------------------------

    async def send(self, path: str, message: BrokeredMessage) -> None:
        """Send a message, and remember what the outcome says about the namespace and the entity."""
        namespace, entity = self._namespace, self._entity(path)
        namespace_epoch, entity_epoch = namespace.epoch, entity.epoch
        try:
            await self._sender(path).send(message)
        except MessagingCommunicationError:
            namespace.lose(namespace_epoch)
            raise
        except TandemError as error:
            if not is_refused_for_good(error):
                entity.lose(entity_epoch, SERVER_BUSY_WAIT_S if isinstance(error, ServerBusyError) else 0.0)
            raise
        namespace.confirm()
        entity.confirm()

    def _sender(self, path: str) -> MessageSender:
        sender = self._senders.get(path)
        if sender is None:
            sender = self._senders[path] = self._factory.create_direct_sender(path)
            sender.on_unanswered = self.note_unanswered
        return sender

    def note_unanswered(self) -> None:
        self.unanswered_count += 1

    # --- probes ---------------------------------------------------------------------------------------------

    async def _connect(self) -> bool:
        try:
            await self._factory.connect()
        except TandemError:
            return False
        return True

    async def _ping(self, path: str) -> bool:
        """Ask an entity whether it is back. One that refuses for good has answered: its messages are refused, too."""
        await self.wait_until_reached()
        if self.is_closing:
            return False
        epoch = self._namespace.epoch
        # One of its own: a ping that was not answered brings no message twice.
        sender = self._factory.create_direct_sender(path)
        try:
            await sender.send_some([make_ping().to_payload()], _PING_TIMEOUT_S)
        except TandemError as error:
            judgement = judge_ping(error)
            if judgement is Judgement.LOST:
                self._namespace.lose(epoch)
            is_answered = judgement is Judgement.SENT or is_refused_for_good(error)
        else:
            judgement, is_answered = Judgement.SENT, True
        finally:
            await sender.close()
        outcome = "ok" if judgement is Judgement.SENT else judgement.value
        self._tell(Told("ping", path, {"outcome": outcome}))
        return is_answered

    # --- the end --------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop probing, and let everybody who waits go on."""
        self.is_closing = True
        for one in (self._namespace, *self._entities.values()):
            await one.close()

    async def close(self) -> None:
        await self._factory.close()
