"""Entities that exist because a client of JMS attached: temporary queues and topics, and subscriptions of topics.

    dynamic terminus                    a queue or topic with a name of the broker's, gone with the link
    source is a topic, not durable      a subscription that is gone with the last link to it
    source is a topic, durable          a subscription that stays, named as the service names it: name$client$D
    no source at all                    the client takes back a durable subscription, by closing this link

All of them need the right to manage, as in the service, except to receive from a subscription that exists. What a
broker that died leaves behind goes when it has been idle for five minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.addresses import parse_address, validate_subscription_name
from tandem.amqp import LinkAttached, SenderLink
from tandem.amqp.link import Link
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Described, Symbol
from tandem.auth import Right
from tandem.engine.description import QueueDescription
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.subscription import DEFAULT_RULE, Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic import Topic
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ArgumentError, NotAllowed, NotFound, OperationNotImplemented, QuotaExceeded, Scope
from tandem.limits import MAX_TEMPORARY_ENTITIES_PER_CONNECTION, TEMPORARY_ENTITY_IDLE_MS
from tandem.rules import SqlFilter, TrueFilter
from tandem.server.nodes.link_filters import LinkFilters

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["ClientEntities", "Subscribed"]

_TEMPORARY_TOPIC: Final = "temporary-topic"
_TOPICS: Final = frozenset(("topic", _TEMPORARY_TOPIC))
_SHARED: Final = "shared"
_GLOBAL: Final = "global"
# Behind this a client numbers its links to one subscription, and says of what kind they are.
_LINK_NAME_DELIMITER: Final = "|"

_LIFETIME_POLICY: Final = "lifetime-policy"
_DELETE_ON_CLOSE: Final = (0x2B, "amqp:delete-on-close:list")


class Subscribed:
    """The subscription behind a receiver of a topic, and whether it was made just now to stay."""

    def __init__(self, subscription: Subscription, is_new: bool) -> None:
        self.subscription = subscription
        self.is_new = is_new


class ClientEntities:
    """What the links of one connection have made."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._temporary: dict[Link, Queue] = {}
        self._volatile: dict[Link, Subscription] = {}

    def forget(self, link: Link) -> None:
        """Delete what ends with a link that is over."""
        namespace = self._peer.services.namespace
        entity = self._temporary.pop(link, None)
        if entity is not None and not entity.is_dropped:
            namespace.delete(entity)
        subscription = self._volatile.pop(link, None)
        if subscription is not None and not subscription.is_dropped and not subscription.main.consumers:
            namespace.delete(subscription)

    # --- temporary queues and topics ------------------------------------------------------------------------

    def make_dynamic(self, event: LinkAttached) -> None:
        """Make the entity that a dynamic terminus asks for, and write its name into the terminus."""
        terminus = event.attach.source if isinstance(event.link, SenderLink) else event.attach.target
        if not isinstance(terminus, Source | Target) or not terminus.dynamic:
            return
        _check_lifetime(terminus.dynamic_node_properties)
        if len(self._temporary) >= MAX_TEMPORARY_ENTITIES_PER_CONNECTION:
            raise QuotaExceeded(
                f"The connection has {len(self._temporary)} temporary queues and topics, as many as are allowed. "
                "Delete some of them first.",
                Scope.LINK,
            )
        namespace = self._peer.services.namespace
        is_topic = _TEMPORARY_TOPIC in (terminus.capabilities or [])
        noun = "topic" if is_topic else "queue"
        name = f"temporary-{noun}-{namespace.nonces.next().hex()}{namespace.nonces.next().hex()}"
        self._peer.require(Right.MANAGE, parse_address(name))
        idle_ms = TEMPORARY_ENTITY_IDLE_MS
        entity: Queue
        if is_topic:
            entity = namespace.create_topic(TopicDescription(name, auto_delete_on_idle_ms=idle_ms))
        else:
            entity = namespace.create_queue(QueueDescription(name, auto_delete_on_idle_ms=idle_ms))
        entity.has_owner = True
        self._temporary[event.link] = entity
        terminus.address = name

    # --- subscriptions of topics ----------------------------------------------------------------------------

    def subscribe(self, event: LinkAttached, topic: Topic) -> Subscribed | None:
        """Find or make the subscription that a consumer of a topic receives from; None if none is asked for."""
        source = event.attach.source
        capabilities = set() if source is None else {str(one) for one in source.capabilities or []}
        if source is None or not capabilities & _TOPICS:
            return None
        is_durable = source.durable > 0
        is_shared = _SHARED in capabilities
        client = "" if _GLOBAL in capabilities else self._peer.client_name
        name = self._name(event.link.name, client, is_durable, is_shared)
        condition = LinkFilters(event).condition()
        subscription = topic.subscriptions.get(name.lower())
        is_new = subscription is None
        if subscription is None:
            subscription = self._create(topic, name, condition, is_durable)
        else:
            _check_selector(subscription, condition)
            if not is_shared and subscription.main.consumers:
                raise NotAllowed(f"The subscription '{subscription.name}' is in use, and is not shared.", Scope.LINK)
        if not is_durable:
            self._volatile[event.link] = subscription
        return Subscribed(subscription, is_new and is_durable)

    def _name(self, link_name: str, client: str, is_durable: bool, is_shared: bool) -> str:
        if not is_durable and not is_shared:
            nonces = self._peer.services.namespace.nonces
            return f"jms-{nonces.next().hex()}{nonces.next().hex()}"
        own, _, _ = link_name.partition(_LINK_NAME_DELIMITER)
        name = f"{own}${client}${'D' if is_durable else 'ND'}"
        try:
            validate_subscription_name(name)
        except ArgumentError as error:
            raise ArgumentError(
                f"The subscription '{own:.80}' of client '{client:.80}' cannot be named '{name:.120}': {error}. Choose "
                "another name, or another client id.",
                Scope.LINK,
            ) from None
        return name

    def _create(self, topic: Topic, name: str, condition: SqlFilter | None, is_durable: bool) -> Subscription:
        self._peer.require(Right.MANAGE, parse_address(topic.name))
        namespace = self._peer.services.namespace
        settings: dict[str, object] = {} if is_durable else {"auto_delete_on_idle_ms": TEMPORARY_ENTITY_IDLE_MS}
        rule = Rule(DEFAULT_RULE, TrueFilter() if condition is None else condition, None, namespace.now_ms)
        return namespace.create_subscription(SubscriptionDescription(topic.name, name, **settings), [rule])

    def durable_subscriptions(self, event: LinkAttached) -> list[Subscription]:
        """Return what a client wants to unsubscribe from: it knows the name, and not the topic."""
        peer = self._peer
        is_global = _GLOBAL in {str(one) for one in event.attach.desired_capabilities or []}
        name = self._name(event.link.name, "" if is_global else peer.client_name, True, True).lower()
        found = [topic.subscriptions.get(name) for topic in peer.services.namespace.topics]
        subscriptions = [subscription for subscription in found if subscription is not None]
        if not subscriptions:
            raise NotFound(f"The messaging entity '{name}' could not be found: there is no such durable subscription.")
        for subscription in subscriptions:
            peer.require(Right.MANAGE, parse_address(subscription.parent.name))
            if subscription.main.consumers:
                raise NotAllowed(f"The subscription '{subscription.name}' is in use: close it first.", Scope.LINK)
        return subscriptions


def _check_lifetime(properties: dict[object, object] | None) -> None:
    policy = (properties or {}).get(Symbol(_LIFETIME_POLICY))
    if isinstance(policy, Described) and policy.descriptor not in _DELETE_ON_CLOSE:
        raise OperationNotImplemented(
            "A dynamic node is deleted when the link that made it is closed. Ask for delete-on-close, or for nothing.",
            Scope.LINK,
        )


def _check_selector(subscription: Subscription, condition: SqlFilter | None) -> None:
    """A selector is the rule of its subscription: it cannot be another one for one of the consumers."""
    rule = subscription.rules.get(DEFAULT_RULE.lower())
    is_own = len(subscription.rules) == 1 and rule is not None
    existing = rule.filter.expression if rule is not None and isinstance(rule.filter, SqlFilter) else None
    wanted = None if condition is None else condition.expression
    if wanted != existing and (is_own or wanted is not None):
        raise NotAllowed(
            f"The subscription '{subscription.name}' has another selector ({existing or 'none'}): unsubscribe first.",
            Scope.LINK,
        )
