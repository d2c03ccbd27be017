"""A namespace: every entity, what they share, and the rhythm of the engine.

begin(now)      the time of all that follows
...             commands: methods of namespace, queue, sub-queue, outlet
settle_turn()   give what has become available to whom waits
take_effects()  what the commands wanted done, for the store and the clients
committed(...)  that batch is on disk: its messages exist now
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tandem.addresses import Address, split_hub_path, split_subscription, subscription_path
from tandem.auth.keys import KeyRing, Resource
from tandem.engine.backlogs import StrandedBacklog, is_backlog_queue, stranded_backlogs
from tandem.engine.description import QueueDescription
from tandem.engine.effects import DropQueue, Effects, PutSetting
from tandem.engine.head import HeadMemory
from tandem.engine.hubs.event_hubs import EventHubs
from tandem.engine.hubs.hub import EventHub
from tandem.engine.message import BrokeredMessage
from tandem.engine.metering import Meter
from tandem.engine.queue import STREAMS_PER_QUEUE, Queue
from tandem.engine.rule import Rule
from tandem.engine.subqueue import SubQueue
from tandem.engine.subscription import DEFAULT_RULE, Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.tier_checks import check_entity
from tandem.engine.tiers import TIER_SETTING, Tier, limits_of
from tandem.engine.timers import Timers
from tandem.engine.topic import Topic
from tandem.engine.topic_description import TopicDescription
from tandem.engine.transactions import Transactions
from tandem.engine.visibility import Visibility
from tandem.errors import ArgumentError, EntityAlreadyExists, NotFound, ProtocolError, QuotaExceeded
from tandem.ids import Nonces
from tandem.limits import MAX_SUBSCRIPTIONS_PER_TOPIC, RULE_WORK_PER_TURN
from tandem.rules import TrueFilter

__all__ = ["Namespace"]

# 19 bits of a row are its stream, of which a queue has four.
_MAX_QUEUE_NUMBER: Final = (1 << 17) - 1


class Namespace:
    """All entities of one name."""

    __slots__ = (
        "_backlog_queues",
        "_by_number",
        "_by_path",
        "_next_body_number",
        "_next_number",
        "_to_pump",
        "contains_failures",
        "effects",
        "failures",
        "heads",
        "hubs",
        "is_disk_full",
        "key_ring",
        "limits",
        "meter",
        "name",
        "nonces",
        "now_ms",
        "rule_work_left",
        "timers",
        "transactions",
        "visibility",
    )

    def __init__(
        self,
        name: str,
        nonces: Nonces,
        now_ms: int,
        key_ring: KeyRing | None = None,
        tier: Tier = Tier.TANDEM,
    ) -> None:
        self.name = name
        # Of its tier.
        self.limits = limits_of(tier)
        # The rules of the namespace, which are handed in, and those of its entities.
        self.key_ring = key_ring if key_ring is not None else KeyRing()
        self.nonces = nonces
        self.now_ms = now_ms
        # What rules may still take in this turn.
        self.rule_work_left = RULE_WORK_PER_TURN
        self.effects = Effects()
        self.timers = Timers()
        self.heads = HeadMemory()
        self.transactions = Transactions(self)
        self.hubs = EventHubs(self)
        self.meter = Meter()
        # The store has no room for new messages.
        self.is_disk_full = False
        # Messages that appear later than they came; None unless somebody delays some.
        self.visibility: Visibility | None = None
        # With `contains_failures`, an internal error while one entity is served ends up here and the others are served
        # on. Otherwise it is raised, as tests and simulations want it.
        self.contains_failures = False
        self.failures: list[tuple[Queue, Exception]] = []
        # Queues and topics. Subscriptions are found through their topic.
        self._by_path: dict[str, Queue] = {}
        self._by_number: dict[int, Queue] = {}
        # Those of paired namespaces whose secondary this is, by number.
        self._backlog_queues: dict[int, Queue] = {}
        self._next_number = 1
        self._next_body_number = 1
        self._to_pump: dict[SubQueue, None] = {}

    # --- rhythm ---------------------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """Time goes forward only: a clock that is set back must not make a lock last longer than it was promised."""
        self.now_ms = max(self.now_ms, now_ms)
        self.rule_work_left = RULE_WORK_PER_TURN
        self.meter.begin(self.now_ms)

    def tick(self) -> None:
        """Look after everything that has come due."""
        for subqueue in self.timers.take_due(self.now_ms):
            try:
                subqueue.on_time(self.now_ms)
            except Exception as error:
                self._contain(subqueue.queue, error)
        if self.transactions.next_deadline_ms() <= self.now_ms:
            self.transactions.on_time(self.now_ms)

    def next_deadline_ms(self) -> int:
        return min(self.timers.next_ms(), self.transactions.next_deadline_ms())

    def pump_soon(self, subqueue: SubQueue) -> None:
        self._to_pump[subqueue] = None

    @property
    def has_to_settle(self) -> bool:
        """Messages have become available since the last turn was settled."""
        return bool(self._to_pump)

    def settle_turn(self) -> None:
        while self.hubs.settle_turn() or self._to_pump:
            subqueues = list(self._to_pump)
            self._to_pump.clear()
            for subqueue in subqueues:
                if not subqueue.queue.is_dropped:
                    try:
                        subqueue.pump()
                    except Exception as error:
                        self._contain(subqueue.queue, error)

    def _contain(self, queue: Queue, error: Exception) -> None:
        if not self.contains_failures:
            raise error
        self.failures.append((queue, error))

    def take_failures(self) -> list[tuple[Queue, Exception]]:
        """Return the internal errors since the last call, each with the entity that was being served."""
        failures = self.failures
        self.failures = []
        return failures

    def take_effects(self) -> Effects:
        effects = self.effects
        self.effects = Effects()
        return effects

    def committed(self, effects: Effects, duplicates: Collection[int]) -> None:
        """Publish a batch that is on disk. `duplicates` are the rows that were not written, having been there before.

        Counts first, of all lines that the batch is about, and in one step: a read finds a message that moves where it
        was before, or where it is now.
        """
        for stream, change in effects.streams.items():
            counted = self._by_number.get(stream >> 2)
            if counted is not None:
                counted.subqueues()[stream & 3].counts.publish(change)
        published = effects.appended
        if effects.moved:
            # In the order of their numbers: a queue takes younger messages only after older ones.
            published = sorted([*effects.appended, *effects.moved], key=_row)
        queue: Queue | None = None
        for message in published:
            number = message.stream >> 2
            if queue is None or queue.number != number:
                queue = self._by_number.get(number)
                if queue is None:
                    continue
                self._to_pump[queue.main] = None
            kind = message.stream & 3
            try:
                if duplicates and message.row in duplicates:
                    subqueue = queue.subqueues()[kind]
                    subqueue.counts.refuse(message)
                    subqueue.pending.discard(message.sequence_number)
                elif kind == 0:
                    queue.main.publish(message)
                else:
                    subqueue = queue.subqueues()[kind]
                    subqueue.pending.discard(message.sequence_number)
                    subqueue.put_in_line(message)
            except Exception as error:
                self._contain(queue, error)
        if effects.events:
            self.hubs.committed(effects.events)
        if effects.discharged:
            self.transactions.committed(effects.discharged)
        for topic_number, size_bytes in effects.published:
            topic = self._by_number.get(topic_number)
            if topic is not None:
                topic.size.decide(-size_bytes)

    def shared(self, changes: dict[int, int]) -> None:
        """By how much the shared bodies on disk, counted to these streams, have grown or shrunk."""
        for stream, by_bytes in changes.items():
            topic = self.queue_of_stream(stream)
            if topic is not None:
                topic.main.counts.add_committed_bytes(by_bytes)

    def take_body_number(self) -> int:
        number = self._next_body_number
        self._next_body_number = number + 1
        return number

    def restore_body_number(self, last: int) -> None:
        """Numbers of bodies that are on disk are not given again."""
        self._next_body_number = last + 1

    def set_tier(self, tier: Tier) -> None:
        """Apply the limits of another tier from now on. Entities keep their settings until somebody changes them."""
        self.limits = limits_of(tier)
        self.effects.changes.append(PutSetting(TIER_SETTING, self.limits.name))

    # --- entities -------------------------------------------------------------------------------------------

    def restore(self, number: int, description: QueueDescription, created_at_ms: int, updated_at_ms: int) -> Queue:
        """An entity that was on disk when the broker started. Topics come before their subscriptions."""
        queue = self._make(number, description, created_at_ms)
        queue.updated_at_ms = updated_at_ms
        # How long nobody has used it is not known any more: the time counts from now.
        queue.accessed_at_ms = self.now_ms
        self._add(queue)
        return queue

    def set_aside(self, queue: Queue) -> list[int]:
        """Stop serving an entity, a topic with its subscriptions, whose memory cannot be trusted; return the numbers.

        Nothing on disk changes. The caller writes what was decided before, and then restores the entities with these
        numbers from the store: no other command may come in between.
        """
        parts: list[Queue] = [queue]
        if isinstance(queue, Topic):
            parts += queue.subscriptions.values()
        self.transactions.roll_back_with(parts)
        for part in parts:
            part.is_dropped = True
            for subqueue in part.subqueues():
                self._to_pump.pop(subqueue, None)
                subqueue.forget_head()
            self._by_number.pop(part.number, None)
        if isinstance(queue, Subscription):
            queue.forget_rules()
            # Restoring adds what is on disk then.
            queue.size.detach()
        return [part.number for part in parts]

    def _make(self, number: int, description: QueueDescription, created_at_ms: int) -> Queue:
        if isinstance(description, SubscriptionDescription):
            topic = self.topic(description.topic_name)
            return Subscription(self, number, topic, description, created_at_ms)
        if isinstance(description, TopicDescription):
            return Topic(self, number, description, created_at_ms)
        return Queue(self, number, description, created_at_ms)

    def _add(self, queue: Queue) -> None:
        if isinstance(queue, Subscription):
            queue.parent.subscriptions[queue.subscription_description.subscription_name.lower()] = queue
        else:
            self._by_path[queue.name.lower()] = queue
            if is_backlog_queue(queue.name):
                self._backlog_queues[queue.number] = queue
        self._by_number[queue.number] = queue
        if queue.authorization_rules:
            self.key_ring.replace_entity(queue.name, queue.authorization_rules)
        self._next_number = max(self._next_number, queue.number + 1)
        queue.watch_idle()

    def create_queue(self, description: QueueDescription) -> Queue:
        return self._create(description)

    def create_topic(self, description: TopicDescription) -> Topic:
        topic = self._create(description)
        assert isinstance(topic, Topic)
        return topic

    def create_subscription(
        self, description: SubscriptionDescription, rules: list[Rule] | None = None
    ) -> Subscription:
        """With these rules, or with the one that selects everything."""
        topic = self.topic(description.topic_name)
        # One spelling of the path, that of the topic.
        description.rename(topic.name)
        if len(topic.subscriptions) >= MAX_SUBSCRIPTIONS_PER_TOPIC:
            raise QuotaExceeded(
                f"The topic '{topic.name}' has {len(topic.subscriptions)} subscriptions; at most "
                f"{MAX_SUBSCRIPTIONS_PER_TOPIC} are allowed."
            )
        subscription = self._create(description)
        assert isinstance(subscription, Subscription)
        topic.touch()
        try:
            for rule in rules if rules is not None else [Rule(DEFAULT_RULE, TrueFilter(), None, self.now_ms)]:
                subscription.add_rule(rule)
        except ProtocolError:
            # With all its rules or not at all.
            self.delete(subscription)
            raise
        return subscription

    def _create(self, description: QueueDescription) -> Queue:
        if self.find_any(description.name.lower()) is not None or self.hubs.find(description.name) is not None:
            raise EntityAlreadyExists(
                f"SubCode=40900. Conflict. The messaging entity '{description.name}' exists already."
            )
        if not isinstance(description, SubscriptionDescription):
            self.check_is_no_part(description.name)
            self._check_entity_count(description)
        check_entity(self.limits, description)
        description.choose_message_size(self.limits.default_message_size_in_kilobytes)
        self._check_forwarding(description)
        queue = self._make(self._free_number(), description, self.now_ms)
        self._add(queue)
        queue.record()
        return queue

    def check_is_no_part(self, name: str) -> None:
        """Refuse to give an entity a name under which a part of another one is found."""
        owner = self._owner_of(name)
        if owner != name.lower():
            raise ArgumentError(f"name is {name!r}, which reads as a part of {owner!r}: choose another name")

    def _check_entity_count(self, description: QueueDescription) -> None:
        limits = self.limits
        if len(self._by_path) >= limits.max_entities:
            raise QuotaExceeded(
                f"The namespace has {len(self._by_path)} entities; its tier {limits.name} allows {limits.max_entities}."
            )
        most = limits.max_partitioned_entities
        if description.enable_partitioning and 0 < most < limits.max_entities:
            count = sum([entity.description.enable_partitioning for entity in self._by_path.values()])
            if count >= most:
                raise QuotaExceeded(
                    f"The namespace has {count} partitioned entities; its tier {limits.name} allows {most}."
                )

    def _free_number(self) -> int:
        """The next in turn. Numbers of deleted queues come round again only after all others."""
        if len(self._by_number) >= _MAX_QUEUE_NUMBER:
            raise QuotaExceeded(
                f"The namespace has {len(self._by_number)} queues, topics and subscriptions; there is no room for more."
            )
        while self._next_number in self._by_number or self._next_number > _MAX_QUEUE_NUMBER:
            self._next_number = 1 if self._next_number > _MAX_QUEUE_NUMBER else self._next_number + 1
        return self._next_number

    def update_queue(self, queue: Queue, description: QueueDescription) -> None:
        old = queue.description
        description.check_change(old, queue.noun)
        # Clients of older versions of the service's API do not know of it.
        description.choose_message_size(old.max_message_size_in_kilobytes)
        check_entity(self.limits, description, old)
        self._check_forwarding(description)
        rules = description.authorization_rules
        queue.update(description)
        if rules is not None:
            self.key_ring.replace_entity(queue.name, rules)

    def _check_forwarding(self, description: QueueDescription) -> None:
        for field, target in (
            ("forward_to", description.forward_to),
            ("forward_dead_lettered_messages_to", description.forward_dead_lettered_messages_to),
        ):
            if target is None or target.lower() == description.name.lower():
                continue
            if target.lower() not in self._by_path:
                raise ArgumentError.of("{field} is {value}, which does not exist: make it first", field, value=target)

    def delete(self, queue: Queue) -> None:
        """An entity with all it holds; a topic with its subscriptions."""
        if isinstance(queue, Topic):
            for subscription in list(queue.subscriptions.values()):
                self.delete(subscription)
        error = NotFound(f"The messaging entity '{queue.name}' could not be found. It was deleted.")
        for subqueue in queue.subqueues():
            subqueue.close_all_consumers(error)
            subqueue.outlet.locks.clear()
        queue.is_dropped = True
        if isinstance(queue, Subscription):
            queue.forget_rules()
            del queue.parent.subscriptions[queue.subscription_description.subscription_name.lower()]
            queue.size.detach()
        else:
            del self._by_path[queue.name.lower()]
        del self._by_number[queue.number]
        self._backlog_queues.pop(queue.number, None)
        # One made later under the same name must not inherit them.
        self.key_ring.remove_entity(queue.name)
        self.effects.changes.append(DropQueue(queue.number))
        # Counts of the last moments would bring the stream's row back.
        for subqueue in queue.subqueues():
            self.effects.streams.pop(subqueue.stream, None)

    @property
    def queues(self) -> list[Queue]:
        """In the order of their names; topics are not among them."""
        entities = [self._by_path[path] for path in sorted(self._by_path)]
        return [entity for entity in entities if not isinstance(entity, Topic)]

    def stranded_backlogs(self, now_ms: int) -> list[StrandedBacklog]:
        """Backlogs of paired namespaces that no syphon attends to. Looks at backlog queues only."""
        return stranded_backlogs(list(self._backlog_queues.values()), now_ms)

    @property
    def topics(self) -> list[Topic]:
        """In the order of their names."""
        entities = [self._by_path[path] for path in sorted(self._by_path)]
        return [entity for entity in entities if isinstance(entity, Topic)]

    def find(self, path: str) -> Queue | None:
        """A queue or a topic: what can be sent to."""
        return self._by_path.get(path.lower())

    def find_any(self, path: str) -> Queue | None:
        """The same, or a subscription."""
        entity = self._by_path.get(path.lower())
        if entity is None:
            names = split_subscription(path.lower())
            if names is not None:
                topic = self._by_path.get(names[0])
                if isinstance(topic, Topic):
                    return topic.subscriptions.get(names[1])
        return entity

    def find_hub(self, path: str) -> EventHub | None:
        """Return the event hub that a path names, or names a part of.

        A queue, topic or subscription of that very name comes first: names may hold the words between parts.
        """
        return None if self.find_any(path) is not None else self.hubs.find(split_hub_path(path).hub)

    def has_entity(self, path: str) -> bool:
        """Whether a path names an entity of any kind, or a part of an event hub."""
        return self.find_any(path) is not None or self.find_hub(path) is not None

    def resource_of(self, address: Address) -> Resource:
        """Return what an address names, with the entity whose authorization rules count there."""
        entity = address.entity
        owner = self._owner_of(entity)
        is_subscription = owner != entity and isinstance(self._by_path.get(owner), Topic)
        return Resource(address.resource, owner, entity if is_subscription else "")

    def _owner_of(self, path: str) -> str:
        """Return in lower case the queue, topic or event hub that a path belongs to.

        `orders/new` belongs to `orders` no more than `invoices` does: only a subscription or a part of an event hub
        belongs to another entity. What does not exist belongs to itself, except a subscription of a topic that does.
        """
        folded = path.lower()
        found = self.find_any(folded)
        if isinstance(found, Subscription):
            return found.parent.name.lower()
        if found is not None:
            return folded
        hub = self.find_hub(folded)
        if hub is not None:
            return hub.name.lower()
        names = split_subscription(folded)
        return names[0] if names is not None and isinstance(self._by_path.get(names[0]), Topic) else folded

    def topic(self, path: str) -> Topic:
        topic = self.find(path)
        if not isinstance(topic, Topic):
            raise NotFound(f"The messaging entity '{path}' could not be found.")
        return topic

    def subscription(self, topic: str, name: str) -> Subscription:
        subscription = self.topic(topic).subscriptions.get(name.lower())
        if subscription is None:
            raise NotFound(f"The messaging entity '{subscription_path(topic, name)}' could not be found.")
        return subscription

    def queue_of_stream(self, stream: int) -> Queue | None:
        return self._by_number.get(stream // STREAMS_PER_QUEUE)

    def subqueue_of_stream(self, stream: int) -> SubQueue:
        """Return the line of an entity that exists."""
        return self._by_number[stream // STREAMS_PER_QUEUE].subqueues()[stream % STREAMS_PER_QUEUE]

    def get(self, path: str) -> Queue:
        queue = self.find_any(path)
        if queue is None:
            # Two SDKs tell a missing entity by this very sentence.
            raise NotFound(f"The messaging entity '{path}' could not be found.")
        return queue

    def resolve(self, address: Address) -> SubQueue:
        """The line of messages that an address names."""
        queue = self.find_any(address.entity)
        if queue is None:
            raise NotFound(f"The messaging entity '{address.path}' could not be found.")
        return queue.subqueue(address.sub_queue)


def _row(message: BrokeredMessage) -> int:
    return message.row
