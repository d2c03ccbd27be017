"""Exchanges, queues and bindings as entities of the bus.

    exchange        a topic
    queue           a queue
    binding         a rule of the subscription that the exchange's topic has for the queue; that subscription forwards
                    to the queue, or, if the queue is transient, is read beside it

A queue is transient if it is declared to go when nobody uses it: pidboxes, replies and event receivers have such
queues. Its entities are deleted by the broker when they are idle. A subscription that forwards would stay: the service
does not delete those. An exclusive queue has one user, which finds it empty: whatever a killed process has left under
the same name is deleted first.

Entities that exist are used as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from tandem.celery.entity_names import entity_name, short_name
from tandem.celery.routing_keys import DIRECT, filter_of
from tandem.client import (
    NEVER,
    MessagingEntityAlreadyExistsError,
    MessagingEntityNotFoundError,
    NamespaceManager,
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
)
from tandem.errors import UsageError

__all__ = ["QueueSettings", "Topology", "TopologyOptions", "duration_option"]

# The least that the service accepts.
_MIN_AUTO_DELETE: Final = timedelta(minutes=5)
_MIN_TIME_TO_LIVE: Final = timedelta(seconds=1)

# How long a message that is sent again is recognised.
_WINDOW: Final = timedelta(minutes=10)

# What the topics of exchanges begin with: queues and topics share their names, and Celery gives both the same.
_EXCHANGES: Final = "exchange/"
# What says in the metadata of a topic of which type its exchange is.
_TYPE: Final = "kombu exchange type: "


@dataclass(frozen=True)
class TopologyOptions:
    """How queues are made, from `broker_transport_options`.

    `max_delivery_count` is the largest that the service accepts: whether a task that kills its worker is tried again is
    up to Celery. A message that is sent again after a lost connection has the id of the first, so that the queue drops
    it within `duplicate_detection_window`; None switches that off.
    """

    queue_name_prefix: str = ""
    lock_duration: timedelta = timedelta(minutes=1)
    max_delivery_count: int = 2_000
    duplicate_detection_window: timedelta | None = _WINDOW

    @staticmethod
    def read(options: dict[str, Any]) -> TopologyOptions:
        """Take what is ours of the options of a transport. Times are in seconds, as everywhere in Celery."""
        default = TopologyOptions()
        has_window = options.get("duplicate_detection_window", True) is not None
        return TopologyOptions(
            queue_name_prefix=str(options.get("queue_name_prefix", default.queue_name_prefix)),
            lock_duration=duration_option(options, "lock_duration", default.lock_duration),
            max_delivery_count=int(options.get("max_delivery_count", default.max_delivery_count)),
            duplicate_detection_window=duration_option(options, "duplicate_detection_window", _WINDOW)
            if has_window
            else None,
        )


def duration_option(options: dict[str, Any], name: str, default: timedelta) -> timedelta:
    """Return an option that is a number of seconds."""
    value = options.get(name, default)
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return timedelta(seconds=value)
    raise UsageError(f"{name} of broker_transport_options is {value!r:.80}; it must be a number of seconds above 0")


@dataclass(frozen=True)
class QueueSettings:
    """What a program has declared of a queue."""

    is_exclusive: bool = False
    is_transient: bool = False
    expires: timedelta | None = None
    message_ttl: timedelta | None = None


@dataclass
class _Queue:
    """A queue that was declared on this connection."""

    path: str
    settings: QueueSettings
    # Topics that it is bound to by subscriptions of its own.
    topics: set[str] = field(default_factory=set)


class Topology:
    """What one connection has declared."""

    def __init__(self, manager: NamespaceManager, options: TopologyOptions) -> None:
        self._manager = manager
        self._options = options
        self._queues: dict[str, _Queue] = {}
        # Types of exchanges by name.
        self._exchanges: dict[str, str] = {}
        self._bindings: set[tuple[str, str, str]] = set()

    # --- names ----------------------------------------------------------------------------------------------

    def queue_path(self, queue: str) -> str:
        return entity_name(queue, self._options.queue_name_prefix)

    def topic_path(self, exchange: str) -> str:
        return entity_name(exchange, f"{self._options.queue_name_prefix}{_EXCHANGES}")

    def source_paths(self, queue: str) -> list[str]:
        """Return the entities that the messages of a queue lie in."""
        known = self._queues.get(queue)
        if known is None:
            return [self.queue_path(queue)]
        return [known.path, *[_subscription_path(topic, queue) for topic in sorted(known.topics)]]

    # --- exchanges ------------------------------------------------------------------------------------------

    async def declare_exchange(self, exchange: str, exchange_type: str) -> None:
        if exchange in self._exchanges:
            return
        filter_of(exchange_type, "")
        description = TopicDescription(self.topic_path(exchange), user_metadata=f"{_TYPE}{exchange_type}")
        await _unless_there(self._manager.create_topic(description))
        self._exchanges[exchange] = exchange_type

    async def has_exchange(self, exchange: str) -> bool:
        return exchange in self._exchanges or await self._manager.topic_exists(self.topic_path(exchange))

    async def delete_exchange(self, exchange: str) -> None:
        self._exchanges.pop(exchange, None)
        self._bindings = {one for one in self._bindings if one[1] != exchange}
        topic = self.topic_path(exchange)
        for queue in self._queues.values():
            queue.topics.discard(topic)
        await _if_there(self._manager.delete_topic(topic))

    async def _type_of(self, exchange: str) -> str:
        """Return the type of an exchange, also of one that somebody else has declared."""
        known = self._exchanges.get(exchange)
        if known is None:
            metadata = (await self._manager.get_topic(self.topic_path(exchange))).user_metadata or ""
            known = metadata.removeprefix(_TYPE) if metadata.startswith(_TYPE) else DIRECT
            self._exchanges[exchange] = known
        return known

    # --- queues ---------------------------------------------------------------------------------------------

    async def declare_queue(self, queue: str, settings: QueueSettings) -> None:
        if queue in self._queues:
            return
        path = self.queue_path(queue)
        window = None if settings.is_transient else self._options.duplicate_detection_window
        description = QueueDescription(
            path,
            lock_duration=self._options.lock_duration,
            max_delivery_count=self._options.max_delivery_count,
            auto_delete_on_idle=_idle_time(settings),
            default_message_time_to_live=_time_to_live(settings),
            requires_duplicate_detection=window is not None,
        )
        if window is not None:
            description.duplicate_detection_history_time_window = window
        if settings.is_exclusive:
            await self._make_anew(
                lambda: self._manager.create_queue(description), lambda: self._manager.delete_queue(path)
            )
        else:
            await _unless_there(self._manager.create_queue(description))
        self._queues[queue] = _Queue(path, settings)

    async def has_queue(self, queue: str) -> bool:
        return await self._manager.queue_exists(self.queue_path(queue))

    async def count_messages(self, queue: str) -> int:
        """Return how many messages are in a queue, those that are locked or due later among them."""
        try:
            count = (await self._manager.get_queue(self.queue_path(queue))).message_count or 0
            for topic in self._topics_of(queue):
                count += (await self._manager.get_subscription(topic, short_name(queue))).message_count or 0
        except MessagingEntityNotFoundError:
            return 0
        return count

    async def lock_duration_s(self, path: str) -> float:
        """Return how long a message of an entity stays locked."""
        topic, found, name = path.partition("/Subscriptions/")
        if found:
            return (await self._manager.get_subscription(topic, name)).lock_duration.total_seconds()
        return (await self._manager.get_queue(path)).lock_duration.total_seconds()

    async def delete_queue(self, queue: str) -> None:
        """Delete a queue and its bindings, also those that other processes have made."""
        known = self._queues.pop(queue, None)
        self._bindings = {one for one in self._bindings if one[0] != queue}
        if known is not None and known.settings.is_transient:
            topics = list(known.topics)
        else:
            prefix = f"{self._options.queue_name_prefix}{_EXCHANGES}"
            topics = [one.path for one in await self._manager.get_topics() if one.path.startswith(prefix)]
        for topic in topics:
            await _if_there(self._manager.delete_subscription(topic, short_name(queue)))
        await _if_there(self._manager.delete_queue(self.queue_path(queue)))

    def forget(self, queue: str) -> QueueSettings | None:
        """The queue is not there any more. Return how it was declared, if it was; it may be declared again."""
        known = self._queues.pop(queue, None)
        self._bindings = {one for one in self._bindings if one[0] != queue}
        return None if known is None else known.settings

    def forget_exchange(self, exchange: str) -> None:
        self._exchanges.pop(exchange, None)
        self._bindings = {one for one in self._bindings if one[1] != exchange}

    def is_exclusive(self, queue: str) -> bool:
        known = self._queues.get(queue)
        return known is not None and known.settings.is_exclusive

    def _topics_of(self, queue: str) -> set[str]:
        known = self._queues.get(queue)
        return set() if known is None else known.topics

    # --- bindings -------------------------------------------------------------------------------------------

    async def bind(self, queue: str, exchange: str, routing_key: str) -> None:
        binding = (queue, exchange, routing_key)
        if binding in self._bindings:
            return
        rule = RuleDescription(short_name(routing_key), filter_of(await self._type_of(exchange), routing_key))
        topic, name = self.topic_path(exchange), short_name(queue)
        known = self._queues.get(queue) or _Queue(self.queue_path(queue), QueueSettings())
        settings = known.settings
        description = SubscriptionDescription(
            topic,
            name,
            lock_duration=self._options.lock_duration,
            max_delivery_count=self._options.max_delivery_count,
            default_message_time_to_live=_time_to_live(settings),
            auto_delete_on_idle=_idle_time(settings),
            forward_to=None if settings.is_transient else known.path,
        )
        if settings.is_exclusive and topic not in known.topics:
            await self._make_anew(
                lambda: self._manager.create_subscription(description, rule),
                lambda: self._manager.delete_subscription(topic, name),
            )
        elif not await _unless_there(self._manager.create_subscription(description, rule)):
            await _unless_there(self._manager.create_rule(topic, name, rule))
        if settings.is_transient:
            known.topics.add(topic)
        self._bindings.add(binding)

    async def unbind(self, queue: str, exchange: str, routing_key: str) -> None:
        self._bindings.discard((queue, exchange, routing_key))
        topic, name = self.topic_path(exchange), short_name(queue)
        await _if_there(self._manager.delete_rule(topic, name, short_name(routing_key)))

    @staticmethod
    async def _make_anew(create: Callable[[], Awaitable[object]], delete: Callable[[], Awaitable[None]]) -> None:
        if not await _unless_there(create()):
            await _if_there(delete())
            await _unless_there(create())


async def _unless_there(creation: Awaitable[object]) -> bool:
    """Return whether the entity was made; false if there is one already."""
    try:
        await creation
    except MessagingEntityAlreadyExistsError:
        return False
    return True


async def _if_there(deletion: Awaitable[None]) -> None:
    with contextlib.suppress(MessagingEntityNotFoundError):
        await deletion


def _idle_time(settings: QueueSettings) -> timedelta:
    if not settings.is_transient:
        return NEVER
    return max(_MIN_AUTO_DELETE, settings.expires or _MIN_AUTO_DELETE)


def _time_to_live(settings: QueueSettings) -> timedelta:
    return NEVER if settings.message_ttl is None else max(_MIN_TIME_TO_LIVE, settings.message_ttl)


def _subscription_path(topic: str, queue: str) -> str:
    return f"{topic}/Subscriptions/{short_name(queue)}"
