"""The operations on queues, topics, subscriptions, rules and event hubs, described.

What answers them is in the files above. They are all alike: create, list, show, update and delete, each for every noun.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta

from tandem.management.operations.described import Operation, Parameter
from tandem.management.operations.entity_shapes import (
    Deleted,
    ExplainRequest,
    Explanation,
    Hub,
    HubList,
    HubRequest,
    NewSubscription,
    Queue,
    QueueList,
    QueueRequest,
    Rule,
    RuleList,
    RuleSettings,
    Subscription,
    SubscriptionList,
    SubscriptionRequest,
    Topic,
    TopicList,
    TopicRequest,
)
from tandem.management.requests import DEFAULT_PAGE_ENTITIES, MAX_PAGE_ENTITIES

__all__ = ["ENTITY_OPERATIONS"]

_PAGE: Final = (
    Parameter("skip", Annotated[int, Meta(ge=0, le=999_999_999)], "How many to pass over."),
    Parameter(
        "top",
        Annotated[int, Meta(ge=0, le=MAX_PAGE_ENTITIES)],
        f"How many at most; {DEFAULT_PAGE_ENTITIES} if left out.",
    ),
)


class _Noun(NamedTuple):
    singular: str
    path: str
    entity: Any
    listed: Any
    created: Any
    updated: Any
    holder: str


_SUBSCRIPTIONS: Final = "/topics/{topic_name}/subscriptions"

_NOUNS: Final = (
    _Noun("queue", "/queues", Queue, QueueList, QueueRequest, QueueRequest, "queue"),
    _Noun("topic", "/topics", Topic, TopicList, TopicRequest, TopicRequest, "topic"),
    _Noun(
        "subscription",
        _SUBSCRIPTIONS,
        Subscription,
        SubscriptionList,
        NewSubscription,
        SubscriptionRequest,
        "subscription",
    ),
    _Noun(
        "rule",
        f"{_SUBSCRIPTIONS}/{{subscription_name}}/rules",
        Rule,
        RuleList,
        RuleSettings,
        RuleSettings,
        "subscription",
    ),
    _Noun("hub", "/hubs", Hub, HubList, HubRequest, HubRequest, "hub"),
)

_WITH_OPERATIONS: Final = Parameter("all", bool, "With `true`, the hub `$operations` too, which the broker fills.")


def _operations(noun: _Noun) -> list[Operation]:
    name, tag = noun.singular, f"{noun.singular}s"
    one = f"{noun.path}/{{name}}"
    reads, writes = f"any on the {noun.holder}", f"Manage on the {noun.holder}"
    lists = {
        **dict.fromkeys(("queue", "topic", "hub"), "any on the namespace"),
        "subscription": "any on the topic",
    }
    return [
        Operation(
            "GET",
            noun.path,
            f"list_{tag}",
            f"List {tag} in the order of their names.",
            lists.get(name, reads),
            noun.listed,
            parameters=(*_PAGE, _WITH_OPERATIONS) if name == "hub" else _PAGE,
            tag=tag,
        ),
        Operation(
            "PUT", one, f"create_{name}", f"Create a {name}.", writes, noun.entity, 201, body=noun.created, tag=tag
        ),
        Operation("GET", one, f"show_{name}", f"Show a {name}.", reads, noun.entity, tag=tag),
        Operation(
            "PATCH",
            one,
            f"update_{name}",
            f"Change a {name}: what the body leaves out stays.",
            writes,
            noun.entity,
            body=noun.updated,
            tag=tag,
        ),
        Operation("DELETE", one, f"delete_{name}", f"Delete a {name}, with all it holds.", writes, Deleted, tag=tag),
    ]


_EXPLAIN: Final = Operation(
    "POST",
    "/topics/{name}/explain",
    "explain",
    "Which subscriptions would get a message of these properties, and why.",
    "any on the topic",
    Explanation,
    body=ExplainRequest,
    parameters=_PAGE,
    tag="topics",
)

ENTITY_OPERATIONS: Final = (*[operation for noun in _NOUNS for operation in _operations(noun)], _EXPLAIN)
