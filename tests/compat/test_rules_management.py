"""Rules over `$management`, request by request: what the official SDK for Python has no call for.

The SDK for JavaScript has one: test_topics_node.py uses that. Here is what a client can get wrong, and what a
transaction does to a topic, which no official SDK but those for .NET and Java can ask for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tandem.amqp import ACCEPTED, Coordinator, Declare, Declared, Discharge, Message, Settings, TransactionalState
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import Described
from tandem.driver import Client, Receiver, Sender
from tandem.errors import RemoteError
from tests.compat.sdk import AT_ONCE, ROOT_KEY, ROOT_RULE, Bus, Subscription, in_a_loop, rule, sql
from tests.markers import mission

pytestmark = AT_ONCE

SQL_FILTER: Final = 0x13_7000_0006
TRUE_FILTER: Final = 0x13_7000_0007
FALSE_FILTER: Final = 0x13_7000_0008
CORRELATION_FILTER: Final = 0x13_7000_0009
RULE_DESCRIPTION: Final = 0x137_0000_0004
EMPTY_ACTION: Final = 0x137_0000_0005
SQL_ACTION: Final = 0x137_0000_0006

RED: Final = {"sql-filter": {"expression": "colour = 'red'"}}


@dataclass(frozen=True)
class Part:
    """A rule, a filter or an action, as it is written on the wire."""

    descriptor: int
    fields: list[Any]


def part(value: object) -> Part:
    assert isinstance(value, Described)
    assert isinstance(value.descriptor, int)
    assert isinstance(value.value, list)
    return Part(int(value.descriptor), value.value)


class Management:
    """The `$management` of one entity, and the answers it gives."""

    def __init__(self, sender: Sender, receiver: Receiver) -> None:
        self._sender = sender
        self._receiver = receiver

    async def request(self, operation: str, body: object) -> Message:
        request = encode_message(
            properties=Properties(message_id="1"),
            application_properties={"operation": f"com.microsoft:{operation}"},
            value=body,
        )
        assert await self._sender.send(request) is ACCEPTED
        return Message((await self._receiver.receive()).payload)

    async def status(self, operation: str, body: object) -> tuple[int, str | None, str]:
        """What an SDK decides by: the status, the condition if there is one, and what it shows its user."""
        properties = (await self.request(operation, body)).application_properties
        assert properties is not None
        status, text = properties["statusCode"], properties["statusDescription"]
        assert isinstance(status, int)
        assert isinstance(text, str)
        condition = properties.get("errorCondition")
        return int(status), None if condition is None else str(condition), text

    async def rules(self, skip: int = 0, top: int = 100) -> dict[str, tuple[Part, Part]]:
        """Filter and action of each rule."""
        body = (await self.request("enumerate-rules", {"skip": skip, "top": top})).value
        assert isinstance(body, dict)
        rules: dict[str, tuple[Part, Part]] = {}
        for entry in body.get("rules", []):
            description = part(entry["rule-description"])
            assert description.descriptor == RULE_DESCRIPTION
            condition, action, name, _ = description.fields
            rules[name] = (part(condition), part(action))
        return rules


@asynccontextmanager
async def connected(bus: Bus, rule_name: str = ROOT_RULE, key: str = ROOT_KEY) -> AsyncIterator[Client]:
    settings = Settings("rules", user=rule_name, password=key)
    async with await Client.connect("127.0.0.1", bus.broker.port, settings) as client:
        yield client


@asynccontextmanager
async def managed(bus: Bus, entity: str, **options: Any) -> AsyncIterator[Management]:
    async with connected(bus, **options) as client:
        node = f"{entity}/$management"
        receiver = await client.receiver(node)
        yield Management(await client.sender(node), receiver)


def new_subscription(bus: Bus, *rules: dict[str, Any]) -> Subscription:
    return bus.topic().subscription(*rules)


@mission("M8")
@in_a_loop
async def test_a_rule_is_added_listed_and_removed(bus: Bus) -> None:
    subscription = new_subscription(bus)
    async with managed(bus, subscription.name) as management:
        ((name, (condition, action)),) = (await management.rules()).items()
        assert name == "$Default"
        assert (condition, action) == (Part(TRUE_FILTER, []), Part(EMPTY_ACTION, []))
        wanted = {"sql-filter": {"expression": "amount > 10"}, "sql-rule-action": {"expression": "SET big = TRUE"}}
        body = {"rule-name": "big", "rule-description": wanted}
        assert await management.status("add-rule", body) == (200, None, "OK")
        assert await management.status("remove-rule", {"rule-name": "$Default"}) == (200, None, "OK")
        ((name, (condition, action)),) = (await management.rules()).items()
        assert name == "big"
        assert (condition.descriptor, condition.fields[0]) == (SQL_FILTER, "amount > 10")
        assert (action.descriptor, action.fields[0]) == (SQL_ACTION, "SET big = TRUE")
    (shown,) = bus.broker.rules(subscription.topic, subscription.own_name)
    assert (shown["name"], shown["filter"]["expression"]) == ("big", "amount > 10")


@mission("M8")
@in_a_loop
async def test_every_kind_of_filter_is_read_and_written(bus: Bus) -> None:
    subscription = new_subscription(bus, rule("none", {"kind": "false"}))
    wanted: dict[str, object] = {
        "correlation-id": "a",
        "message-id": "b",
        "to": "c",
        "reply-to": "d",
        "label": "e",
        "session-id": "f",
        "reply-to-session-id": "g",
        "content-type": "h",
        "properties": {"text": "x", "number": 7, "flag": True, "half": 0.5},
    }
    filters: dict[str, object] = {
        "everything": {"sql-filter": {"expression": "1=1"}},
        "nothing": {"sql-filter": {"expression": "1=0"}},
        "written": {"sql-filter": {"expression": "1 = 1"}},
        "partly": {"correlation-filter": {"label": "e", "to": None, "properties": None}},
        "wholly": {"correlation-filter": wanted, "sql-rule-action": None},
    }
    async with managed(bus, subscription.name) as management:
        for name, description in filters.items():
            assert (await management.status("add-rule", {"rule-name": name, "rule-description": description}))[0] == 200
        found = await management.rules()
    assert {name: condition.descriptor for name, (condition, _) in found.items()} == {
        "everything": TRUE_FILTER,
        "none": FALSE_FILTER,
        "nothing": FALSE_FILTER,
        "partly": CORRELATION_FILTER,
        "wholly": CORRELATION_FILTER,
        "written": SQL_FILTER,
    }
    assert found["written"][0].fields[0] == "1 = 1"
    assert found["partly"][0].fields[:8] == [None, None, None, None, "e", None, None, None]
    assert found["wholly"][0].fields == [*list("abcdefgh"), wanted["properties"]]


@in_a_loop
async def test_rules_are_listed_in_pages_until_there_are_none(bus: Bus) -> None:
    subscription = new_subscription(bus, *(rule(f"rule-{number}", sql(f"n = {number}")) for number in range(5)))
    async with managed(bus, subscription.name) as management:
        pages = [list(await management.rules(skip, 2)) for skip in (0, 2, 4)]
        assert [len(page) for page in pages] == [2, 2, 1]
        assert sorted(name for page in pages for name in page) == [f"rule-{number}" for number in range(5)]
        status, *_ = await management.status("enumerate-rules", {"skip": 5, "top": 2})
        assert status == 204


@in_a_loop
async def test_all_rules_come_in_one_answer_to_a_client_that_asks_for_all(bus: Bus) -> None:
    subscription = new_subscription(bus, *(rule(f"rule-{number}", sql(f"n = {number}")) for number in range(150)))
    async with managed(bus, subscription.name) as management:
        assert len(await management.rules(top=2**31 - 1)) == 150


@mission("M17")
@in_a_loop
async def test_a_rule_that_exists_is_not_added_again(bus: Bus) -> None:
    subscription = new_subscription(bus)
    async with managed(bus, subscription.name) as management:
        assert (await management.status("add-rule", {"rule-name": "red", "rule-description": RED}))[0] == 200
        again = {"rule-name": "RED", "rule-description": {"sql-filter": {"expression": "1=1"}}}
        status, condition, text = await management.status("add-rule", again)
        assert (status, condition) == (409, "com.microsoft:entity-already-exists")
        assert "RED" in text
        assert set(await management.rules()) == {"$Default", "red"}


@mission("M17")
@in_a_loop
async def test_a_rule_that_does_not_exist_is_not_removed(bus: Bus) -> None:
    subscription = new_subscription(bus)
    async with managed(bus, subscription.name) as management:
        status, condition, text = await management.status("remove-rule", {"rule-name": "missing"})
        assert (status, condition) == (404, "amqp:not-found")
        assert "missing" in text


@mission("M17")
@pytest.mark.parametrize(
    "description",
    [
        {"sql-filter": {"expression": "colour = = 'red'"}},
        {"sql-filter": {"expression": "1=1"}, "sql-rule-action": {"expression": "colour = = 'red'"}},
    ],
    ids=["filter", "action"],
)
@in_a_loop
async def test_a_text_that_is_no_rule_is_refused_with_the_place_of_the_mistake(
    bus: Bus, description: dict[str, Any]
) -> None:
    subscription = new_subscription(bus)
    async with managed(bus, subscription.name) as management:
        body = {"rule-name": "bad", "rule-description": description}
        status, condition, text = await management.status("add-rule", body)
        assert (status, condition) == (400, "com.microsoft:argument-error")
        lines = text.splitlines()
        shown = next(number for number, line in enumerate(lines) if line.strip() == "colour = = 'red'")
        place = lines[shown + 1].index("^") - lines[shown].index("colour")
        assert place == (9 if "sql-rule-action" not in description else 0)
        assert set(await management.rules()) == {"$Default"}


@mission("M17")
@pytest.mark.parametrize(
    "body, complaint",
    [
        ({"rule-description": RED}, "rule-name"),
        ({"rule-name": "bad name", "rule-description": RED}, "bad name"),
        ({"rule-name": "x" * 51, "rule-description": RED}, "50"),
        ({"rule-name": "rule"}, "rule-description"),
        ({"rule-name": "rule", "rule-description": {}}, "correlation-filter"),
        ({"rule-name": "rule", "rule-description": {**RED, "correlation-filter": {"label": "x"}}}, "one of"),
        ({"rule-name": "rule", "rule-description": {"sql-filter": {"expression": 7}}}, "expression"),
        ({"rule-name": "rule", "rule-description": {"sql-filter": {"expression": "n = " + "1" * 1_100}}}, "1024"),
        ({"rule-name": "rule", "rule-description": {"correlation-filter": {}}}, "at least one"),
        ({"rule-name": "rule", "rule-description": {"correlation-filter": {"label": 7}}}, "label"),
        ({"rule-name": "rule", "rule-description": {**RED, "sql-rule-action": {"expression": "SET sys.X = 1"}}}, "X"),
    ],
)
@in_a_loop
async def test_a_request_that_makes_no_rule_is_refused_and_says_what_is_wrong(
    bus: Bus, body: dict[str, Any], complaint: str
) -> None:
    subscription = new_subscription(bus)
    async with managed(bus, subscription.name) as management:
        status, _, text = await management.status("add-rule", body)
        assert status == 400
        assert complaint in text.replace(",", "")
        assert set(await management.rules()) == {"$Default"}


@mission("M17")
@in_a_loop
async def test_only_a_subscription_has_rules(bus: Bus) -> None:
    for entity in (bus.queue().name, bus.topic().name):
        async with managed(bus, entity) as management:
            status, condition, _ = await management.status("enumerate-rules", {"skip": 0, "top": 10})
            assert (status, condition) == (400, "amqp:not-allowed")


@mission("M17")
@in_a_loop
async def test_a_key_that_only_listens_changes_no_rules(bus: Bus) -> None:
    subscription = new_subscription(bus)
    async with managed(bus, subscription.name, rule_name="Listener", key="key-of-listener") as management:
        status, condition, _ = await management.status("add-rule", {"rule-name": "red", "rule-description": RED})
        assert (status, condition) == (401, "amqp:unauthorized-access")
    async with managed(bus, subscription.name) as management:
        assert set(await management.rules()) == {"$Default"}


@mission("M7", "M17")
@in_a_loop
async def test_what_is_sent_to_a_subscription_or_received_from_a_topic_is_not_allowed(bus: Bus) -> None:
    subscription = new_subscription(bus)
    async with connected(bus) as client:
        with pytest.raises(RemoteError, match="not-allowed"):
            await client.sender(subscription.name)
        with pytest.raises(RemoteError, match="not-allowed"):
            await client.receiver(subscription.topic)
    async with managed(bus, subscription.name) as management:
        body = {"messages": [{"message-id": "1", "message": encode_message(data=b"smuggled")}]}
        status, condition, _ = await management.status("schedule-message", body)
        assert (status, condition) == (400, "amqp:not-allowed")
    assert subscription.counts() == {}


@in_a_loop
async def test_a_subscription_is_purged_and_others_keep_their_copies(bus: Bus) -> None:
    topic = bus.topic()
    purged, other = topic.subscription(), topic.subscription()
    async with connected(bus) as client:
        sender = await client.sender(topic.name)
        for _ in range(5):
            assert await sender.send(encode_message(data=b"x" * 1_000)) is ACCEPTED
    async with managed(bus, purged.name) as management:
        answer = await management.request("batch-delete-messages", {"message-count": 3})
        assert answer.value == {"message-count": 3}
        answer = await management.request("batch-delete-messages", {"message-count": 100})
        assert answer.value == {"message-count": 2}
    assert (purged.counts(), other.counts()) == ({}, {"active": 5})
    async with managed(bus, other.name) as management:
        assert (await management.request("batch-delete-messages", {"message-count": 100})).value == {"message-count": 5}
    assert topic.fields()["size_in_bytes"] == 0


@mission("M7")
@in_a_loop
async def test_a_transaction_publishes_everything_or_nothing(bus: Bus) -> None:
    topic, queue = bus.topic(), bus.queue()
    everything = topic.subscription()
    red = topic.subscription(rule("red", sql("colour = 'red'")))
    message = encode_message(application_properties={"colour": "red"}, data=b"x")
    async with connected(bus) as client:
        coordinator = await client.sender(Coordinator())
        to_topic, to_queue = await client.sender(topic.name), await client.sender(queue.name)
        for fails in (True, False):
            declared = await coordinator.send(Declare().encode())
            assert isinstance(declared, Declared)
            state = TransactionalState(declared.txn_id)
            for sender in (to_topic, to_topic, to_queue):
                await sender.send(message, state=state)
            assert (everything.counts(), red.counts(), queue.counts()) == ({}, {}, {})
            assert await coordinator.send(Discharge(declared.txn_id, fail=fails).encode()) is ACCEPTED
    assert everything.counts() == red.counts() == {"active": 2}
    assert queue.counts() == {"active": 1}
