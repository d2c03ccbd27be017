"""A broker with rules of every kind, and clients that hold one of their keys, or none."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
from yarl import URL

from tandem.amqp import Message, Settings
from tandem.amqp.message import Properties, encode_message
from tandem.auth import AuthorizationRule, KeyRing, Right, make_token
from tandem.clock import Clock, SystemClock
from tandem.driver import Client
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import OPERATIONS_HUB, EventHubDescription
from tandem.engine.namespace import Namespace
from tandem.engine.rule import Rule
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.management.api import add_routes
from tandem.rules import TrueFilter
from tandem.server.broker import Broker, BrokerSettings

# Those who hold a key that is worth something, and those who hold none.
NONE, LISTEN, SEND, MANAGE, OWN, OTHER = "none", "listen", "send", "manage", "own", "other"
EXPIRED, TAMPERED = "expired", "tampered"
ROLES: Final = (NONE, LISTEN, SEND, MANAGE, OWN, OTHER, EXPIRED, TAMPERED)

QUEUE, SESSIONS, TOPIC, HUB, STRANGE = "mine", "mine-sessions", "mine-news", "mine-logs", "other"
SUBSCRIPTION: Final = f"{TOPIC}/Subscriptions/all"
RULES: Final = [
    AuthorizationRule("listen", Right.LISTEN, "key-listen", "second-listen"),
    AuthorizationRule("send", Right.SEND, "key-send"),
    AuthorizationRule("manage", Right.MANAGE, "key-manage"),
    # With all rights, to one entity each.
    *[AuthorizationRule("own", Right.MANAGE, "key-own", scope=entity) for entity in (QUEUE, SESSIONS, TOPIC, HUB)],
    AuthorizationRule("other", Right.MANAGE, "key-other", scope=STRANGE),
]


class StillClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.at_ms = SystemClock().now_ms()

    def now_ms(self) -> int:
        return self.at_ms


class Answer(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]


class Desk:
    """What the tests need of the broker."""

    def __init__(self, broker: Broker, session: aiohttp.ClientSession) -> None:
        self.broker = broker
        self.session = session
        self.base = f"http://127.0.0.1:{broker.http_port}"

    def token(self, role: str, resource: str = "") -> str:
        """What someone in this role would show. It is good for the whole namespace, as far as the rule reaches."""
        rule = MANAGE if role in {EXPIRED, TAMPERED} else role
        expires_at_s = int(time.time()) + (-1 if role == EXPIRED else 60)
        token = make_token(f"sb://127.0.0.1/{resource}", rule, f"key-{rule}", expires_at_s)
        return token.replace("se=", "se=1") if role == TAMPERED else token

    async def ask(
        self, method: str, path: str, body: bytes = b"", *, token: str = "", headers: dict[str, str] | None = None
    ) -> Answer:
        given = {**({"Authorization": token} if token else {}), **(headers or {})}
        url = URL(f"{self.base}{path}", encoded=True)
        async with self.session.request(method, url, data=body, headers=given, allow_redirects=False) as response:
            return Answer(response.status, await response.text(errors="replace"), dict(response.headers))

    # --- entities -------------------------------------------------------------------------------------------

    async def furnish(self) -> None:
        """All entities are there, whatever was done to them before."""
        await self.broker.perform(_furnish)

    def inventory(self) -> object:
        """All that a request could have changed."""
        namespace = self.broker.namespace
        entities = [*namespace.queues, *namespace.topics]
        entities += [one for topic in namespace.topics for one in topic.subscriptions.values()]
        keys = [rule.to_dict() for rule in namespace.key_ring]
        # What the broker writes down of refusals is no change of theirs.
        hubs = [
            (
                hub.number,
                hub.description.stored_fields(),
                [one.next_sequence_number for one in hub.partitions],
                [record.to_fields() for record in hub.progress.of_group("extra")],
            )
            for hub in namespace.hubs.all
            if hub.name != OPERATIONS_HUB
        ]
        operations = namespace.hubs.get(OPERATIONS_HUB).description.stored_fields()
        return (
            keys,
            hubs,
            operations,
            [
                (
                    entity.description.stored_fields(),
                    entity.main.active_count,
                    len(entity.main.consumers),
                    sorted(entity.rules) if hasattr(entity, "rules") else None,
                )
                for entity in entities
            ],
        )

    # --- AMQP -----------------------------------------------------------------------------------------------

    async def connect(self, user: str | None = None, password: str | None = None) -> Client:
        settings = Settings("desk") if user is None else Settings("desk", user=user, password=password)
        return await Client.connect("127.0.0.1", self.broker.port, settings)

    async def put_token(self, client: Client, token: str, audience: str) -> int:
        properties: dict[str, object] = {"operation": "put-token", "type": "jwt", "name": audience}
        answer = await request(client, "$cbs", properties, token)
        status = (answer.application_properties or {})["status-code"]
        assert isinstance(status, int)
        return int(status)


async def request(client: Client, node: str, properties: dict[str, object], body: object) -> Message:
    """One request and its answer, on links of their own."""
    receiver = await client.receiver(node)
    sender = await client.sender(node)
    await sender.send(
        encode_message(properties=Properties(message_id="1"), application_properties=properties, value=body)
    )
    delivery = await receiver.receive()
    await sender.close()
    await receiver.close()
    return Message(delivery.payload)


def _furnish(namespace: Namespace) -> None:
    for name in (QUEUE, STRANGE):
        if namespace.find(name) is None:
            namespace.create_queue(QueueDescription(name))
    if namespace.find(SESSIONS) is None:
        namespace.create_queue(QueueDescription(SESSIONS, requires_session=True))
    if namespace.find(TOPIC) is None:
        namespace.create_topic(TopicDescription(TOPIC))
    if namespace.hubs.find(HUB) is None:
        namespace.hubs.create(EventHubDescription(HUB, partition_count=1))
    hub = namespace.hubs.get(HUB)
    if hub.description.find_group("extra") is None:
        fields = {**hub.description.to_fields(), "consumer_groups": ["extra"]}
        namespace.hubs.update(hub, EventHubDescription.from_fields(fields))
    # The rules of an entity go with it: these are from the file of keys.
    for rule in RULES:
        namespace.key_ring.put(rule)
    topic = namespace.topic(TOPIC)
    if not topic.subscriptions:
        namespace.create_subscription(SubscriptionDescription(TOPIC, "all"))
    subscription = namespace.subscription(TOPIC, "all")
    if "extra" not in subscription.rules:
        subscription.add_rule(Rule("extra", TrueFilter(), None, 0))


def _write_keys(folder: Path) -> None:
    folder.mkdir()
    (folder / "keys.json").write_text(json.dumps(KeyRing(RULES).to_dict()), encoding="utf-8")


@contextlib.asynccontextmanager
async def open_desk(folder: Path, clock: Clock | None = None) -> AsyncIterator[Desk]:
    _write_keys(folder)
    broker = Broker(BrokerSettings(folder, port=0, http_port=0, tls="off", clock=clock or SystemClock()))
    add_routes(broker)
    await broker.start()
    try:
        async with aiohttp.ClientSession(skip_auto_headers=["Content-Type"]) as session:
            desk = Desk(broker, session)
            await desk.furnish()
            yield desk
    finally:
        await broker.stop()
