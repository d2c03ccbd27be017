"""Create, read, change and delete the entities of a namespace, through the service's management API."""

from __future__ import annotations

import json
import ssl
from typing import Final
from urllib.parse import quote
from xml.etree import ElementTree

from tandem.arguments import ARGUMENT_HEADER, Argument
from tandem.client.entities.atom import (
    description_element,
    entries_of,
    entry_xml,
    in_attributes,
    insert_before,
    parse_xml,
    read_description,
    read_path,
    text_of,
)
from tandem.client.entities.entity import DEFAULT_RULE_NAME, ConsumerGroupDescription, RuleDescription
from tandem.client.entities.generated import (
    EventHubDescription,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from tandem.client.entities.rule_xml import read_rule, rule_element
from tandem.client.errors import MessagingEntityNotFoundError, error_of_http_status
from tandem.client.settings import MessagingFactorySettings
from tandem.client.wire.http import exchange
from tandem.client.wire.retry import Retrier
from tandem.client.wire.token_provider import TokenProvider, token_provider_of
from tandem.connection_string import ConnectionString, ServiceAddress
from tandem.errors import UsageError
from tandem.rules import Filter

__all__ = ["NamespaceManager"]

_API_VERSION: Final = "2021-05"

# Entities in one page of a list, as many as the service returns at once.
_PAGE_ENTITIES: Final = 100

# Kilobytes. The largest message of the Premium tier, whose description of a namespace does not state it.
_PREMIUM_MESSAGE_KILOBYTES: Final = 102_400

# The words for the descriptions of the service.
_NOUNS: Final = {
    "QueueDescription": "queue",
    "TopicDescription": "topic",
    "SubscriptionDescription": "subscription",
    "RuleDescription": "rule",
    "EventHubDescription": "event hub",
    "ConsumerGroupDescription": "consumer group",
}


# The header that carries a token for the entity that an element names: whoever forwards sends there.
_FORWARD_AUTHORIZATION: Final = {
    "ForwardTo": "ServiceBusSupplementaryAuthorization",
    "ForwardDeadLetteredMessagesTo": "ServiceBusDlqSupplementaryAuthorization",
}


class NamespaceManager:
    """Manages one namespace. A manager holds no connection open, so it needs no close.

    The token needs the right Manage on the namespace, or on the entity that is managed.
    """

    def __init__(
        self,
        address: str | ServiceAddress,
        token_provider: TokenProvider,
        settings: MessagingFactorySettings | None = None,
    ) -> None:
        self._address = ServiceAddress.parse(address) if isinstance(address, str) else address
        self._token_provider = token_provider
        self._settings = settings or MessagingFactorySettings()
        self._retrier = Retrier(
            self._settings.retry_policy, self._settings.waiting, self._settings.operation_timeout.total_seconds()
        )

    @classmethod
    def from_connection_string(
        cls, connection_string: str, settings: MessagingFactorySettings | None = None
    ) -> NamespaceManager:
        """Return a manager for the namespace and with the key that a connection string names."""
        given = ConnectionString.parse(connection_string)
        return cls(given.address, token_provider_of(given), settings)

    @property
    def address(self) -> str:
        """The address of the namespace."""
        return str(self._address)

    # --- queues ---------------------------------------------------------------------------------------------

    async def create_queue(self, queue: str | QueueDescription) -> QueueDescription:
        """Create a queue, from its path or from a description."""
        description = QueueDescription(queue) if isinstance(queue, str) else queue
        return await self._put_queue(description, is_update=False)

    async def get_queue(self, path: str) -> QueueDescription:
        """Return a queue as it is now, with its counts. MessagingEntityNotFoundError if there is none."""
        return _queue(*await self._get(path, "QueueDescription"))

    async def get_queues(self) -> list[QueueDescription]:
        """Return all queues."""
        return [_queue(*entry) for entry in await self._list("$Resources/queues")]

    async def update_queue(self, queue: QueueDescription) -> QueueDescription:
        """Replace all settings of a queue by those of a description, preferably one that was just fetched."""
        return await self._put_queue(queue, is_update=True)

    async def delete_queue(self, path: str) -> None:
        """Delete a queue and all messages in it."""
        await self._request("DELETE", path)

    async def queue_exists(self, path: str) -> bool:
        """Return whether there is a queue of that path."""
        return await self._exists(path, "QueueDescription")

    async def _put_queue(self, queue: QueueDescription, *, is_update: bool) -> QueueDescription:
        return _queue(*await self._put(queue.path, description_element(queue), is_update=is_update))

    # --- topics ---------------------------------------------------------------------------------------------

    async def create_topic(self, topic: str | TopicDescription) -> TopicDescription:
        """Create a topic, from its path or from a description."""
        description = TopicDescription(topic) if isinstance(topic, str) else topic
        return await self._put_topic(description, is_update=False)

    async def get_topic(self, path: str) -> TopicDescription:
        """Return a topic as it is now, with its counts. MessagingEntityNotFoundError if there is none."""
        return _topic(*await self._get(path, "TopicDescription"))

    async def get_topics(self) -> list[TopicDescription]:
        """Return all topics."""
        return [_topic(*entry) for entry in await self._list("$Resources/topics")]

    async def update_topic(self, topic: TopicDescription) -> TopicDescription:
        """Replace all settings of a topic by those of a description, preferably one that was just fetched."""
        return await self._put_topic(topic, is_update=True)

    async def delete_topic(self, path: str) -> None:
        """Delete a topic with its subscriptions and all messages in them."""
        await self._request("DELETE", path)

    async def topic_exists(self, path: str) -> bool:
        """Return whether there is a topic of that path."""
        return await self._exists(path, "TopicDescription")

    async def _put_topic(self, topic: TopicDescription, *, is_update: bool) -> TopicDescription:
        return _topic(*await self._put(topic.path, description_element(topic), is_update=is_update))

    # --- subscriptions --------------------------------------------------------------------------------------

    async def create_subscription(
        self,
        subscription: SubscriptionDescription | str,
        name: str | Filter | RuleDescription | None = None,
        rule: Filter | RuleDescription | None = None,
    ) -> SubscriptionDescription:
        """Create a subscription, from a description or from the path of its topic and its name.

        create_subscription(topic_path, name)                 it receives every message
        create_subscription(topic_path, name, rule)           it receives what the filter or rule selects
        create_subscription(description), create_subscription(description, rule)
        """
        description, first = _new_subscription(subscription, name, rule)
        element = description_element(description)
        if first is not None:
            insert_before(element, "MaxDeliveryCount", rule_element(first, "DefaultRuleDescription"))
        path = _subscription_path(description.topic_path, description.name)
        return _subscription(description.topic_path, *await self._put(path, element, is_update=False))

    async def get_subscription(self, topic_path: str, name: str) -> SubscriptionDescription:
        """Return a subscription as it is now, with its counts. MessagingEntityNotFoundError if there is none."""
        entry = await self._get(_subscription_path(topic_path, name), "SubscriptionDescription")
        return _subscription(topic_path, *entry)

    async def get_subscriptions(self, topic_path: str) -> list[SubscriptionDescription]:
        """Return all subscriptions of a topic."""
        entries = await self._list(f"{topic_path}/subscriptions")
        return [_subscription(topic_path, *entry) for entry in entries]

    async def update_subscription(self, subscription: SubscriptionDescription) -> SubscriptionDescription:
        """Replace all settings of a subscription by those of a description, preferably one that was just fetched."""
        path = _subscription_path(subscription.topic_path, subscription.name)
        entry = await self._put(path, description_element(subscription), is_update=True)
        return _subscription(subscription.topic_path, *entry)

    async def delete_subscription(self, topic_path: str, name: str) -> None:
        """Delete a subscription and all messages in it."""
        await self._request("DELETE", _subscription_path(topic_path, name))

    async def subscription_exists(self, topic_path: str, name: str) -> bool:
        """Return whether a topic has a subscription of that name."""
        return await self._exists(_subscription_path(topic_path, name), "SubscriptionDescription")

    # --- rules ----------------------------------------------------------------------------------------------

    async def create_rule(self, topic_path: str, subscription: str, rule: RuleDescription) -> RuleDescription:
        """Add a rule to a subscription, which receives the messages that any of its rules selects."""
        path = _rule_path(topic_path, subscription, rule.name)
        return read_rule(*await self._put(path, rule_element(rule), is_update=False))

    async def get_rule(self, topic_path: str, subscription: str, name: str) -> RuleDescription:
        """Return a rule. MessagingEntityNotFoundError if there is none."""
        return read_rule(*await self._get(_rule_path(topic_path, subscription, name), "RuleDescription"))

    async def get_rules(self, topic_path: str, subscription: str) -> list[RuleDescription]:
        """Return all rules of a subscription."""
        path = f"{_subscription_path(topic_path, subscription)}/rules"
        return [read_rule(*entry) for entry in await self._list(path)]

    async def update_rule(self, topic_path: str, subscription: str, rule: RuleDescription) -> RuleDescription:
        """Replace the filter and the action of a rule."""
        path = _rule_path(topic_path, subscription, rule.name)
        return read_rule(*await self._put(path, rule_element(rule), is_update=True))

    async def delete_rule(self, topic_path: str, subscription: str, name: str) -> None:
        """Delete a rule."""
        await self._request("DELETE", _rule_path(topic_path, subscription, name))

    async def rule_exists(self, topic_path: str, subscription: str, name: str) -> bool:
        """Return whether a subscription has a rule of that name."""
        return await self._exists(_rule_path(topic_path, subscription, name), "RuleDescription")

    # --- event hubs -----------------------------------------------------------------------------------------

    async def create_event_hub(self, event_hub: str | EventHubDescription) -> EventHubDescription:
        """Create an event hub, from its path or from a description."""
        description = EventHubDescription(event_hub) if isinstance(event_hub, str) else event_hub
        return await self._put_event_hub(description, is_update=False)

    async def get_event_hub(self, path: str) -> EventHubDescription:
        """Return an event hub as it is now. MessagingEntityNotFoundError if there is none."""
        return _event_hub(*await self._get(path, "EventHubDescription"))

    async def get_event_hubs(self) -> list[EventHubDescription]:
        """Return all event hubs, without the one in which a Tandem records its operations."""
        return [_event_hub(*entry) for entry in await self._list("$Resources/eventhubs")]

    async def update_event_hub(self, event_hub: EventHubDescription) -> EventHubDescription:
        """Change the retention, the status and the metadata of an event hub to those of a description."""
        return await self._put_event_hub(event_hub, is_update=True)

    async def delete_event_hub(self, path: str) -> None:
        """Delete an event hub with its events and its consumer groups."""
        await self._request("DELETE", path)

    async def event_hub_exists(self, path: str) -> bool:
        """Return whether there is an event hub of that path."""
        return await self._exists(path, "EventHubDescription")

    async def _put_event_hub(self, event_hub: EventHubDescription, *, is_update: bool) -> EventHubDescription:
        return _event_hub(*await self._put(event_hub.path, description_element(event_hub), is_update=is_update))

    # --- consumer groups ------------------------------------------------------------------------------------

    async def create_consumer_group(self, event_hub_path: str, name: str) -> ConsumerGroupDescription:
        """Create a consumer group of an event hub."""
        group = ConsumerGroupDescription(event_hub_path, name)
        entry = await self._put(_group_path(event_hub_path, name), description_element(group), is_update=False)
        return _consumer_group(event_hub_path, *entry)

    async def get_consumer_group(self, event_hub_path: str, name: str) -> ConsumerGroupDescription:
        """Return a consumer group. MessagingEntityNotFoundError if there is none."""
        entry = await self._get(_group_path(event_hub_path, name), "ConsumerGroupDescription")
        return _consumer_group(event_hub_path, *entry)

    async def get_consumer_groups(self, event_hub_path: str) -> list[ConsumerGroupDescription]:
        """Return all consumer groups of an event hub. Every hub has `$Default`."""
        entries = await self._list(f"{event_hub_path}/consumergroups")
        return [_consumer_group(event_hub_path, *entry) for entry in entries]

    async def delete_consumer_group(self, event_hub_path: str, name: str) -> None:
        """Delete a consumer group and disconnect its readers."""
        await self._request("DELETE", _group_path(event_hub_path, name))

    async def consumer_group_exists(self, event_hub_path: str, name: str) -> bool:
        """Return whether an event hub has a consumer group of that name."""
        return await self._exists(_group_path(event_hub_path, name), "ConsumerGroupDescription")

    # --- the namespace --------------------------------------------------------------------------------------

    async def max_message_size_in_kilobytes(self) -> int | None:
        """Return the largest message size that an entity may be created with; None if the namespace offers no choice.

        Tandem and the Premium tier of the cloud service offer it. Its Standard tier refuses a description that names a
        size.
        """
        try:
            _, namespace = await self._get("$namespaceinfo", "NamespaceInfo")
        except MessagingEntityNotFoundError:
            return None
        stated = text_of(namespace, "MaxMessageSizeInKilobytes")
        if stated is not None and stated.isdecimal():
            return int(stated)
        is_premium = text_of(namespace, "MessagingSKU") == "Premium"
        return _PREMIUM_MESSAGE_KILOBYTES if is_premium else None

    # --- requests -------------------------------------------------------------------------------------------

    async def _get(self, path: str, kind: str) -> tuple[str, ElementTree.Element]:
        """Return the entry at a path. An entity of another kind counts as missing."""
        entries = entries_of(parse_xml(await self._request("GET", path)))
        if not entries or not entries[0][1].tag.endswith(f"}}{kind}"):
            raise MessagingEntityNotFoundError(f"there is no {_NOUNS[kind]} '{path}'")
        return entries[0]

    async def _exists(self, path: str, kind: str) -> bool:
        try:
            await self._get(path, kind)
        except MessagingEntityNotFoundError:
            return False
        return True

    async def _list(self, path: str) -> list[tuple[str, ElementTree.Element]]:
        """Return all entries of a feed, which is read page by page."""
        found: list[tuple[str, ElementTree.Element]] = []
        while True:
            query = f"&$skip={len(found)}&$top={_PAGE_ENTITIES}"
            page = entries_of(parse_xml(await self._request("GET", path, query=query)))
            found += page
            if len(page) < _PAGE_ENTITIES:
                return found

    async def _put(
        self, path: str, description: ElementTree.Element, *, is_update: bool
    ) -> tuple[str, ElementTree.Element]:
        headers = {"If-Match": "*"} if is_update else {}
        targets = {
            header: read_path(target)
            for element, header in _FORWARD_AUTHORIZATION.items()
            if (target := text_of(description, element))
        }
        answer = await self._request("PUT", path, entry_xml(description), headers, targets=targets)
        return entries_of(parse_xml(answer))[0]

    async def _request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        query: str = "",
        targets: dict[str, str] | None = None,
    ) -> bytes:
        """Make a request with a token for the path, and one for each target in the header that names it."""
        url = f"{self._address.http_url}/{quote(path, safe='/$')}?api-version={_API_VERSION}{query}"

        async def attempt() -> bytes:
            fields = {"Authorization": await self._authorization(path), **(headers or {})}
            for header, target in (targets or {}).items():
                fields[header] = await self._authorization(target)
            if body is not None:
                fields["Content-Type"] = "application/atom+xml"
            return await _exchange(method, url, body, fields, self._settings.ssl_context)

        return await self._retrier.perform(attempt, f"{method} of '{path}'")

    async def _authorization(self, path: str) -> str:
        token = await self._token_provider.get_token(self._address.audience(path), self._settings.waiting.utc_now_s())
        return token.authorization


async def _exchange(
    method: str, url: str, body: bytes | None, headers: dict[str, str], tls: ssl.SSLContext | None
) -> bytes:
    answer = await exchange(method, url, body, headers, tls)
    if answer.status < 300:
        return answer.content
    detail = _detail(answer.content) or answer.reason
    argument = _argument(answer.headers.get(ARGUMENT_HEADER))
    raise error_of_http_status(answer.status, detail if argument is None else in_attributes(detail, argument))


def _argument(text: str | None) -> Argument | None:
    """Return the field at fault, which only Tandem reports as data."""
    try:
        return None if text is None else Argument.from_fields(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _detail(content: bytes) -> str | None:
    try:
        return text_of(ElementTree.fromstring(content), "Detail")  # noqa: S314 - as in atom.py
    except ElementTree.ParseError:
        return content.decode(errors="replace")[:500]


def _subscription_path(topic_path: str, name: str) -> str:
    return f"{topic_path}/subscriptions/{name}"


def _rule_path(topic_path: str, subscription: str, name: str) -> str:
    return f"{_subscription_path(topic_path, subscription)}/rules/{name}"


def _group_path(event_hub_path: str, name: str) -> str:
    return f"{event_hub_path}/consumergroups/{name}"


def _new_subscription(
    subscription: SubscriptionDescription | str,
    name: str | Filter | RuleDescription | None,
    rule: Filter | RuleDescription | None,
) -> tuple[SubscriptionDescription, RuleDescription | None]:
    """Return the description and the first rule that the arguments of `create_subscription` stand for."""
    if isinstance(subscription, str):
        if not isinstance(name, str):
            raise UsageError(
                f"the topic is {subscription!r} and the name of the subscription {name!r:.80}; pass both as strings, "
                "or pass one SubscriptionDescription"
            )
        description = SubscriptionDescription(subscription, name)
    else:
        # A description names the subscription, so that the second argument is the rule.
        if isinstance(name, str) or (name is not None and rule is not None):
            raise UsageError(
                f"the second argument is {name!r:.80}; after a SubscriptionDescription it must be a filter or a rule"
            )
        description, rule = subscription, rule if name is None else name
    return description, RuleDescription(DEFAULT_RULE_NAME, rule) if isinstance(rule, Filter) else rule


def _queue(title: str, element: ElementTree.Element) -> QueueDescription:
    return read_description(QueueDescription(title), element)


def _topic(title: str, element: ElementTree.Element) -> TopicDescription:
    return read_description(TopicDescription(title), element)


def _subscription(topic_path: str, title: str, element: ElementTree.Element) -> SubscriptionDescription:
    return read_description(SubscriptionDescription(topic_path, title), element)


def _event_hub(title: str, element: ElementTree.Element) -> EventHubDescription:
    # A hub without a bound in time reports no retention.
    return read_description(EventHubDescription(title, message_retention_in_days=None), element)


def _consumer_group(event_hub_path: str, title: str, element: ElementTree.Element) -> ConsumerGroupDescription:
    return read_description(ConsumerGroupDescription(event_hub_path, title), element)
