"""What the URL of a management request names.

    /$Resources/queues, .../topics, .../eventhubs   lists of the namespace
    /                                               every queue, topic and event hub of the namespace
    /$namespaceinfo                                 the namespace itself
    /orders, /a/b                                   a queue, a topic or an event hub; names hold slashes, encoded or not
    /t/subscriptions, /t/subscriptions/s            of a topic
    /t/subscriptions/s/rules, .../rules/r           of a subscription
    /h/consumergroups, /h/consumergroups/g          of an event hub
    /orders/$deadletterqueue                        a part of an entity, which has no description of its own

The part after a topic or a hub is found from the right; the words between the names may be in any case.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from tandem.addresses import SubQueue, parse_address, split_subscription

__all__ = ["Noun", "Path", "parse_path"]


class Noun(enum.Enum):
    """What can be asked for."""

    QUEUES = "Queues"
    TOPICS = "Topics"
    EVENT_HUBS = "EventHubs"
    SUBSCRIPTIONS = "Subscriptions"
    RULES = "Rules"
    CONSUMER_GROUPS = "ConsumerGroups"
    NAMESPACE = "NamespaceInfo"
    ENTITY = "Entity"
    SUBSCRIPTION = "Subscription"
    RULE = "Rule"
    CONSUMER_GROUP = "ConsumerGroup"
    SUB_QUEUE = "SubQueue"
    EVERYTHING = "Publicly Listed Services"
    NOTHING = ""


@dataclass(frozen=True)
class Path:
    """A URL taken apart. `entity` is the queue, topic or event hub; parts that the URL does not name are empty."""

    noun: Noun
    entity: str = ""
    subscription: str = ""
    rule: str = ""
    consumer_group: str = ""

    @property
    def resource(self) -> str:
        """The path that the claim of the request has to cover."""
        return f"{self.entity}/Subscriptions/{self.subscription}" if self.subscription else self.entity


_LISTS: Final = {"queues": Noun.QUEUES, "topics": Noun.TOPICS, "eventhubs": Noun.EVENT_HUBS}


def parse_path(raw_path: str) -> Path:
    # Split first: an encoded slash belongs to a name.
    segments = [unquote(segment) for segment in raw_path.split("/") if segment]
    if not segments:
        return Path(Noun.EVERYTHING)
    folded = [segment.lower() for segment in segments]
    if folded[-1] == SubQueue.DEAD_LETTER.value:
        return _sub_queue(segments)
    if len(folded) == 2 and folded[0] == "$resources" and folded[1] in _LISTS:
        return Path(_LISTS[folded[1]])
    if folded == ["$namespaceinfo"]:
        return Path(Noun.NAMESPACE)
    count = len(segments)
    if count >= 5 and folded[-2] == "rules" and folded[-4] == "subscriptions":
        return Path(Noun.RULE, "/".join(segments[:-4]), segments[-3], segments[-1])
    if count >= 4 and folded[-1] == "rules" and folded[-3] == "subscriptions":
        return Path(Noun.RULES, "/".join(segments[:-3]), segments[-2])
    if count >= 3 and folded[-2] == "subscriptions":
        return Path(Noun.SUBSCRIPTION, "/".join(segments[:-2]), segments[-1])
    if count >= 2 and folded[-1] == "subscriptions":
        return Path(Noun.SUBSCRIPTIONS, "/".join(segments[:-1]))
    if count >= 3 and folded[-2] == "consumergroups":
        return Path(Noun.CONSUMER_GROUP, "/".join(segments[:-2]), consumer_group=segments[-1])
    if count >= 2 and folded[-1] == "consumergroups":
        return Path(Noun.CONSUMER_GROUPS, "/".join(segments[:-1]))
    if segments and not any(segment.startswith("$") for segment in segments):
        return Path(Noun.ENTITY, "/".join(segments))
    return Path(Noun.NOTHING)


def _sub_queue(segments: list[str]) -> Path:
    address = parse_address(quote("/".join(segments)))
    subscription = split_subscription(address.entity)
    if not address.path or any(segment.startswith("$") for segment in address.path.split("/")):
        return Path(Noun.NOTHING)
    if subscription is None:
        return Path(Noun.SUB_QUEUE, address.path)
    return Path(Noun.SUB_QUEUE, *subscription)
