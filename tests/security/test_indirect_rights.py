"""Rights that somebody could hope to gain in a roundabout way.

By a transaction, by way of another queue, by forwarding, by a rule, by moving messages. `BELOW` is a queue whose name
begins with that of the queue whose key they hold.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tandem.amqp import ACCEPTED, Coordinator, Declare, Declared, Message, Target, TransactionalState
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import LONG_TYPE, Array, Symbol
from tandem.driver import Client, Sender
from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tests.markers import mission
from tests.security.desk import QUEUE, STRANGE, SUBSCRIPTION, TOPIC, Answer, Desk, open_desk, request
from tests.security.test_authorization import _ATOM, is_refused

BELOW: Final = f"{QUEUE}/below"
BELOW_TOPIC: Final = f"{TOPIC}/below"
FOREIGN: Final = (STRANGE, BELOW, BELOW_TOPIC)
MESSAGE: Final = encode_message(data=b"message")


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path / "data") as desk:
        await desk.broker.perform(_furnish)
        yield desk


def _furnish(namespace: Namespace) -> None:
    for name in (BELOW, BELOW_TOPIC):
        namespace.create_queue(QueueDescription(name))


def counts(desk: Desk) -> list[int]:
    return [desk.broker.namespace.get(name).main.active_count for name in FOREIGN]


# --- transactions and detours ---------------------------------------------------------------------------------------


@mission("M17")
async def test_a_transaction_gives_no_right(desk: Desk) -> None:
    async with await desk.connect("listen", "key-listen") as client:
        controller = await client.sender(Coordinator())
        declared = await controller.send(Declare().encode())
        assert isinstance(declared, Declared)
        assert await is_refused(client.sender(QUEUE))
        in_transaction = TransactionalState(declared.txn_id)
        answers = await client.receiver(f"{QUEUE}/$management")
        requests = await client.sender(f"{QUEUE}/$management")
        for operation, body in (
            ("schedule-message", {"messages": [{"message": MESSAGE}]}),
            ("cancel-scheduled-message", {"sequence-numbers": Array(LONG_TYPE, [1])}),
        ):
            properties: dict[str, object] = {"operation": f"com.microsoft:{operation}"}
            asked = encode_message(properties=Properties(message_id="1"), application_properties=properties, value=body)
            await requests.send(asked, state=in_transaction)
            answer = Message((await answers.receive()).payload)
            assert (answer.application_properties or {})["statusCode"] == 401, operation
    assert desk.broker.namespace.get(QUEUE).main.scheduled_count == 0


async def attach_by_way(client: Client, via: str, destination: str) -> Sender:
    session = await client._session
    properties: dict[object, object] = {Symbol("com.microsoft:transfer-destination-address"): destination}
    link = session.attach_sender(f"{via} to {destination}", Target(via), properties=properties)
    sender = Sender(client.endpoint, link)
    await client._attach(link, sender)
    return sender


@mission("M17")
async def test_by_way_of_ones_own_queue_there_is_no_way_to_another(desk: Desk) -> None:
    async with await desk.connect("own", "key-own") as client:
        for destination in FOREIGN:
            for text in (destination, destination.upper(), f"/{destination}/", f"sb://127.0.0.1/{destination}"):
                assert await is_refused(attach_by_way(client, QUEUE, text)), text
        # To one's own topic it is allowed, and what only looks like the name of another is the name of nothing.
        assert not await is_refused(attach_by_way(client, QUEUE, TOPIC))
    async with await desk.connect("manage", "key-manage") as client:
        for destination in (f"{QUEUE}%2Fbelow", f"{QUEUE}/../{STRANGE}", f"{STRANGE}/$management"):
            sender = await attach_by_way(client, QUEUE, destination)
            assert await sender.send(MESSAGE) == ACCEPTED
    assert counts(desk) == [0, 0, 0]
    assert desk.broker.namespace.get(QUEUE).transfer_dead_letter_queue.active_count == 3


@mission("M17")
async def test_annotations_and_properties_of_a_message_lead_nowhere(desk: Desk) -> None:
    annotations: dict[str, object] = {
        Symbol("x-opt-via-partition-key"): STRANGE,
        Symbol("x-opt-deadletter-source"): STRANGE,
        Symbol("x-opt-partition-key"): STRANGE,
    }
    message = encode_message(
        message_annotations=annotations, properties=Properties(to=STRANGE, reply_to=STRANGE), data=b"message"
    )
    async with await desk.connect("own", "key-own") as client:
        assert await (await client.sender(QUEUE)).send(message) == ACCEPTED
    assert desk.broker.namespace.get(QUEUE).main.active_count == 1
    assert counts(desk) == [0, 0, 0]


# --- forwarding, moving and rules -----------------------------------------------------------------------------------


def _atom(kind: str, element: str, target: str) -> bytes:
    inner = f"<{kind}><{element}>{target}</{element}></{kind}>"
    return _ATOM.format(kind).replace(f"<{kind}/>", inner).encode()


@mission("M4", "M17")
@pytest.mark.parametrize("target", FOREIGN)
async def test_a_key_cannot_forward_to_what_it_cannot_send_to(desk: Desk, target: str) -> None:
    """Nor with a supplementary token, if that was made with a key of another entity or may not send."""
    own = desk.token("own")
    supplements = ["", own, desk.token("own", target), desk.token("listen"), desk.token("own", QUEUE)]
    for supplement in supplements:
        headers = {"If-Match": "*"}
        if supplement:
            headers |= {
                "ServiceBusSupplementaryAuthorization": supplement,
                "ServiceBusDlqSupplementaryAuthorization": supplement,
            }
        answers: list[Answer] = []
        for element in ("ForwardTo", "ForwardDeadLetteredMessagesTo"):
            for text in (target, target.upper(), f"sb://127.0.0.1/{target}"):
                for path, kind in ((QUEUE, "QueueDescription"), (SUBSCRIPTION, "SubscriptionDescription")):
                    body = _atom(kind, element, text)
                    answers.append(await desk.ask("PUT", f"/{path}", body, token=own, headers=headers))
        for field in ("forward_to", "forward_dead_lettered_messages_to"):
            body = f'{{"{field}": "{target}"}}'.encode()
            for path in (f"queues/{QUEUE}", f"topics/{TOPIC}/subscriptions/all"):
                answers += [await desk.ask("PATCH", f"/$api/v1/{path}", body, token=own, headers=headers)]
        assert {answer.status for answer in answers} == {401}, answers
    for entity in (desk.broker.namespace.get(QUEUE), desk.broker.namespace.get(SUBSCRIPTION)):
        description = entity.description
        assert (description.forward_to, description.forward_dead_lettered_messages_to) == (None, None)


@mission("M4", "M17")
@pytest.mark.parametrize("target", FOREIGN)
async def test_a_key_cannot_move_messages_to_what_it_cannot_send_to(desk: Desk, target: str) -> None:
    await desk.broker.perform(lambda namespace: namespace.get(QUEUE).send(MESSAGE, 0))
    for verb in ("move", "resubmit"):
        body = f'{{"state": "active", "target": "{target}"}}'.encode()
        answer = await desk.ask("POST", f"/$api/v1/entities/{QUEUE}/{verb}", body, token=desk.token("own"))
        assert answer.status == 401, answer
    assert counts(desk) == [0, 0, 0]


@mission("M17")
async def test_the_action_of_a_rule_leads_nowhere(desk: Desk) -> None:
    """It can write any address into a message, and the message stays where it is."""
    action = f"SET sys.To = '{STRANGE}'; SET sys.ReplyTo = '{BELOW}'"
    rule = {
        "rule-name": "redirect",
        "rule-description": {
            "sql-filter": {"expression": "1 = 1"},
            "sql-rule-action": {"expression": action},
        },
    }
    async with await desk.connect("own", "key-own") as client:
        properties: dict[str, object] = {"operation": "com.microsoft:add-rule"}
        answer = await request(client, f"{SUBSCRIPTION}/$management", properties, rule)
        assert (answer.application_properties or {})["statusCode"] == 200
        assert await (await client.sender(TOPIC)).send(MESSAGE) == ACCEPTED
    assert counts(desk) == [0, 0, 0]
    assert desk.broker.namespace.get(SUBSCRIPTION).main.active_count >= 1


@mission("M17")
async def test_a_key_that_may_not_manage_changes_no_rule_and_no_forwarding(desk: Desk) -> None:
    for role in ("listen", "send"):
        async with await desk.connect(role, f"key-{role}") as client:
            properties: dict[str, object] = {"operation": "com.microsoft:add-rule"}
            rule = {"rule-name": "mine", "rule-description": {"sql-filter": {"expression": "1 = 1"}}}
            answer = await request(client, f"{SUBSCRIPTION}/$management", properties, rule)
            assert (answer.application_properties or {})["statusCode"] == 401
        body = f'{{"forward_to": "{STRANGE}"}}'.encode()
        answer_of_api = await desk.ask("PATCH", f"/$api/v1/queues/{QUEUE}", body, token=desk.token(role))
        assert answer_of_api.status == 401

    def look(namespace: Namespace) -> list[str]:
        return sorted(namespace.subscription(TOPIC, "all").rules)

    assert "mine" not in await desk.broker.perform(look)
