"""How far the key of an entity reaches, among entities whose names are prefixes of each other.

Names hold slashes, and may look like a part of another entity. A key works on its entity and the parts of it, through
every way in, and on nothing else. `TARGETS` says of each path which entity it belongs to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from tandem.amqp import Message
from tandem.auth import AuthorizationRule, Right, make_token
from tandem.driver import Client
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.namespace import Namespace
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ArgumentError
from tests.markers import mission
from tests.security.desk import STRANGE, Desk, open_desk, request
from tests.security.test_authorization import is_refused

QUEUES: Final = (
    "q1",
    "q1/x",
    "q1/x/y",
    "q1x",
    # These look like a subscription of a queue, of a topic, and like parts of an event hub.
    "q1/subscriptions/x",
    "t1/subscriptions/q",
    "t1/x",
    "h1/partitions/0",
    "h1/consumergroups/g",
    "h1/publishers/p",
    "h1/x",
)
OWNERS: Final = (*QUEUES, "t1", "h1")

# Paths, and the entity that each belongs to.
TARGETS: Final[dict[str, str]] = {
    **{queue: queue for queue in QUEUES},
    **{f"{queue}/$management": queue for queue in QUEUES},
    **{f"{queue}/$DeadLetterQueue": queue for queue in QUEUES},
    **{f"{queue}/$Transfer/$DeadLetterQueue": queue for queue in QUEUES},
    "t1": "t1",
    "t1/$management": "t1",
    "t1/Subscriptions/s": "t1",
    "t1/Subscriptions/s/$management": "t1",
    "t1/Subscriptions/s/$DeadLetterQueue": "t1",
    "h1": "h1",
    "h1/Partitions/1": "h1",
    "h1/Publishers/other": "h1",
    "h1/ConsumerGroups/$Default/Partitions/0": "h1",
    "h1/ConsumerGroups/g/Partitions/0": "h1",
}

# The same paths, spelled as somebody would who hopes that two places read them differently.
SPELLINGS: Final = (
    "{}",
    "/{}/",
    "//{}//",
    "sb://127.0.0.1/{}",
    "amqps://127.0.0.1:5671/{}/",
)


def _key(owner: str) -> str:
    return f"key-of-{owner}"


def _furnish(namespace: Namespace) -> None:
    # Before the topic and the hub: afterwards such names are refused.
    for queue in QUEUES:
        namespace.create_queue(QueueDescription(queue))
    namespace.create_topic(TopicDescription("t1"))
    namespace.create_subscription(SubscriptionDescription("t1", "s"))
    namespace.hubs.create(EventHubDescription("h1", partition_count=2, consumer_groups=["g"]))
    for owner in OWNERS:
        namespace.key_ring.put(AuthorizationRule("own", Right.MANAGE, _key(owner), scope=owner))


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path / "data") as desk:
        await desk.broker.perform(_furnish)
        yield desk


def token_of(desk: Desk, owner: str, resource: str = "") -> str:
    expires_at_s = desk.broker.settings.clock.now_ms() // 1_000 + 600
    return make_token(f"sb://127.0.0.1/{quote(resource)}", "own", _key(owner), expires_at_s)


async def acquainted(desk: Desk) -> Client:
    """A connection with a token for something else: strangers have only a few links."""
    client = await desk.connect()
    assert await desk.put_token(client, desk.token("other", STRANGE), f"sb://127.0.0.1/{STRANGE}") == 202
    return client


async def is_attach_refused(client: Client, target: str) -> bool:
    """Whether neither sending nor receiving is allowed. Other refusals say that the right was there."""
    answers = {await is_refused(client.receiver(target)), await is_refused(client.sender(target))}
    assert len(answers) == 1, target
    return answers.pop()


# --- AMQP -----------------------------------------------------------------------------------------------------------


@mission("M17")
@pytest.mark.parametrize("owner", OWNERS)
async def test_a_key_logs_in_to_its_entity_and_no_other(desk: Desk, owner: str) -> None:
    async with await desk.connect("own", _key(owner)) as client:
        for target, belongs_to in TARGETS.items():
            assert await is_attach_refused(client, target) is (belongs_to != owner), target


@mission("M17")
@pytest.mark.parametrize("owner", OWNERS)
async def test_a_token_made_with_a_key_is_taken_for_its_entity_and_no_other(desk: Desk, owner: str) -> None:
    """Whatever the token says that it is for: the namespace, the entity of the key, or the target itself."""
    async with await acquainted(desk) as client:
        for target, belongs_to in TARGETS.items():
            for resource in ("", owner, target):
                status = await desk.put_token(client, token_of(desk, owner, resource), f"sb://127.0.0.1/{target}")
                is_held = resource == "" or target.lower().startswith(resource.lower())
                assert status == (202 if belongs_to == owner and is_held else 401), (target, resource)


@mission("M17")
@pytest.mark.parametrize("owner", OWNERS)
async def test_a_claim_on_an_entity_opens_links_to_its_parts_and_to_nothing_below_its_name(
    desk: Desk, owner: str
) -> None:
    async with await desk.connect() as client:
        assert await desk.put_token(client, token_of(desk, owner), f"sb://127.0.0.1/{owner}") == 202
        for target, belongs_to in TARGETS.items():
            assert await is_attach_refused(client, target) is (belongs_to != owner), target


@mission("M17")
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_no_spelling_of_a_path_leads_elsewhere(desk: Desk, spelling: str) -> None:
    async with await desk.connect("own", _key("q1")) as client:
        for target, belongs_to in TARGETS.items():
            for text in (target, target.upper(), quote(target, safe=""), target.replace("/", "//")):
                assert await is_refused(client.receiver(spelling.format(text))) is (belongs_to != "q1"), text
        for text in ("q1/../q1x", "q1/./x", "q1/x/..", "q1%252Fx", "q1/$management/x", "$management/q1"):
            # Nothing is of that name, and nothing else is meant by it.
            assert await is_refused(client.receiver(spelling.format(text))), text


@mission("M17")
async def test_a_token_of_the_namespace_reaches_what_lies_below_the_path_it_is_for(desk: Desk) -> None:
    """As the service documents it: such a token is valid for all resources that its resource is a prefix of."""
    async with await desk.connect() as client:
        assert await desk.put_token(client, desk.token("manage", "q1"), "sb://127.0.0.1/q1") == 202
        for target in TARGETS:
            is_below = target == "q1" or target.startswith("q1/")
            assert await is_attach_refused(client, target) is not is_below, target


@mission("M17")
async def test_a_request_about_a_hub_needs_the_key_of_that_hub(desk: Desk) -> None:
    async with await acquainted(desk) as client:
        for owner in OWNERS:
            properties: dict[str, object] = {
                "operation": "READ",
                "type": "com.microsoft:eventhub",
                "name": "h1",
                "security_token": token_of(desk, owner),
            }
            answer: Message = await request(client, "$management", properties, None)
            status = (answer.application_properties or {})["status-code"]
            assert status == (200 if owner == "h1" else 401), owner


@mission("M17")
async def test_a_claim_does_not_pass_to_an_entity_that_takes_the_place_of_a_part(desk: Desk) -> None:
    """A key of a topic opens its subscription, and not the queue that is found at the same path later."""
    async with await desk.connect("own", _key("t1")) as client:
        assert not await is_refused(client.receiver("t1/subscriptions/s"))

        def replace(namespace: Namespace) -> None:
            namespace.delete(namespace.get("t1"))
            namespace.create_queue(QueueDescription("t1/subscriptions/s"))

        await desk.broker.perform(replace)
        assert await is_refused(client.receiver("t1/subscriptions/s"))


@mission("M17")
async def test_a_rule_of_a_subscription_reaches_that_subscription_and_nothing_else(desk: Desk) -> None:
    """Only the file of keys can have one. A queue of such a name has rules of its own."""
    rule = AuthorizationRule("narrow", Right.MANAGE, "key-narrow", scope="t1/Subscriptions/s")
    await desk.broker.perform(lambda namespace: namespace.key_ring.put(rule))
    async with await desk.connect("narrow", "key-narrow") as client:
        for target in TARGETS:
            is_its_own = target.startswith("t1/Subscriptions/s")
            assert await is_attach_refused(client, target) is not is_its_own, target


# --- HTTP -----------------------------------------------------------------------------------------------------------

# By the kinds of entities that have them.
QUEUE_ROUTES: Final = (
    "GET /{}",
    "PUT /{}",
    "POST /{}/messages",
    "POST /{}/messages/head?timeout=0",
    "DELETE /{}/messages/head?timeout=0",
    "DELETE /{}/messages/1/00000000-0000-0000-0000-000000000001",
    "GET /$api/v1/queues/{}",
    "PATCH /$api/v1/queues/{}",
    "GET /$api/v1/entities/{}/messages",
    "POST /$api/v1/entities/{}/purge",
    "POST /$api/v1/entities/{}/undefer",
    "GET /$api/v1/authorization-rules?entity={}",
    "PUT /$api/v1/authorization-rules/more?entity={}",
)
TOPIC_ROUTES: Final = (
    "GET /t1",
    "POST /t1/messages",
    "GET /t1/subscriptions",
    "GET /t1/subscriptions/s",
    "GET /t1/subscriptions/s/rules",
    "GET /t1/subscriptions/s/rules/$Default",
    "PUT /t1/subscriptions/new",
    "DELETE /t1/subscriptions/s/messages/head?timeout=0",
    "GET /$api/v1/topics/t1",
    "POST /$api/v1/topics/t1/explain",
    "GET /$api/v1/topics/t1/subscriptions",
    "GET /$api/v1/topics/t1/subscriptions/s",
    "GET /$api/v1/topics/t1/subscriptions/s/rules/$Default",
    "GET /$api/v1/entities/t1/subscriptions/s/messages",
)
HUB_ROUTES: Final = (
    "GET /h1",
    "GET /h1/consumergroups",
    "GET /h1/consumergroups/g",
    "POST /h1/messages",
    "POST /h1/partitions/1/messages",
    "POST /h1/publishers/other/messages",
    "GET /$api/v1/hubs/h1",
    "PATCH /$api/v1/hubs/h1",
    "GET /$api/v1/hubs/h1/consumer-groups",
    "GET /$api/v1/hubs/h1/partitions",
    "GET /$api/v1/hubs/h1/partitions/0",
    "GET /$api/v1/hubs/h1/partitions/0/events",
    "GET /$api/v1/hubs/h1/partitions/0/events?format=json",
)
ROUTES: Final[list[tuple[str, str]]] = [
    # A queue whose name looks like a subscription or a consumer group has no URL of its own in the service's API.
    *[
        (route.format(queue), queue)
        for route in QUEUE_ROUTES
        for queue in QUEUES
        if not ("/{}" in route[:9] and route.endswith("{}") and ("subscriptions" in queue or "consumergroups" in queue))
    ],
    *[(route, "t1") for route in TOPIC_ROUTES],
    *[(route, "h1") for route in HUB_ROUTES],
    # Where the URL itself says what is meant, the owner of a lookalike has no say.
    ("GET /t1/subscriptions/q", "t1"),
    ("DELETE /t1/subscriptions/q", "t1"),
    ("GET /$api/v1/topics/t1/subscriptions/q", "t1"),
    ("GET /h1/consumergroups/g", "h1"),
]


@mission("M4", "M17")
@pytest.mark.parametrize("owner", OWNERS)
async def test_over_http_a_key_works_on_its_entity_and_no_other(desk: Desk, owner: str) -> None:
    for route, belongs_to in ROUTES:
        method, path = route.split(" ")
        url = path.partition("?")[0]
        for resource in ("", url.strip("/")):
            answer = await desk.ask(method, path, b"{}", token=token_of(desk, owner, resource))
            assert answer.status < 500, (route, answer)
            assert (answer.status == 401) is (belongs_to != owner), (route, resource, answer)


@mission("M4", "M17")
@pytest.mark.parametrize("noun", ["$api/v1/queues", "$api/v1/topics", "$api/v1/hubs", ""])
async def test_nobody_creates_an_entity_with_the_key_of_another(desk: Desk, noun: str) -> None:
    before = desk.inventory()
    for owner in ("q1", "t1", "h1"):
        for part in ("new", "new/er", "subscriptions/new", "consumergroups/new", "partitions/9"):
            name = f"{owner}/{part}"
            # At the service's own URLs a slash stands between parts too: only names that have one meaning are refused.
            if noun or part.startswith("new"):
                path = f"/{noun}/{quote(name, safe='')}" if noun else f"/{name}"
                answer = await desk.ask("PUT", path, b"{}", token=token_of(desk, owner))
                assert answer.status == 401, (name, answer)
    assert desk.inventory() == before


@mission("M4")
async def test_no_entity_gets_a_name_under_which_a_part_of_another_is_found(desk: Desk) -> None:
    def create(namespace: Namespace) -> None:
        for name in ("t1/subscriptions/new", "h1/partitions/1", "h1/consumergroups/new", "H1/Publishers/new"):
            with pytest.raises(ArgumentError, match="reads as a part of"):
                namespace.create_queue(QueueDescription(name))
            with pytest.raises(ArgumentError, match="reads as a part of"):
                namespace.create_topic(TopicDescription(name))
        with pytest.raises(ArgumentError, match="reads as a part of 't1'"):
            namespace.hubs.create(EventHubDescription("t1/Subscriptions/new"))

    await desk.broker.perform(create)
