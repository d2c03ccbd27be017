"""The broker over AMQP, where the official SDKs do not reach: transactions, send-via, strangers, tokens that end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tandem.amqp import (
    ACCEPTED,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    IncomingDelivery,
    Message,
    Modified,
    Rejected,
    Settings,
    Target,
    TransactionalState,
)
from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import Symbol, Timestamp
from tandem.auth import make_token
from tandem.driver import Client, Receiver, Sender
from tandem.engine.description import QueueDescription
from tandem.errors import RemoteError
from tandem.server.broker import Broker, BrokerSettings
from tests.markers import mission, spec

RULE = "RootManageSharedAccessKey"
KEY = "SAS_KEY_VALUE"
PING = "application/vnd.ms-servicebus-ping"


@asynccontextmanager
async def running(directory: Path, **settings: Any) -> AsyncIterator[Broker]:
    broker = Broker(BrokerSettings(directory, port=0, http_port=0, is_dev=True, tls="off", **settings))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def make_queue(broker: Broker, name: str, **fields: Any) -> None:
    await broker.perform(lambda namespace: namespace.create_queue(QueueDescription(name, **fields)))


def connect(broker: Broker, *, is_stranger: bool = False) -> Any:
    settings = Settings("stranger") if is_stranger else Settings("client", user=RULE, password=KEY)
    return Client.connect("127.0.0.1", broker.port, settings)


def counts(broker: Broker, name: str) -> tuple[int, int, int]:
    """Active, dead-lettered and transfer-dead-lettered messages."""
    queue = broker.namespace.get(name)
    return queue.main.active_count, queue.dead_letter_queue.active_count, queue.transfer_dead_letter_queue.active_count


async def declare(controller: Sender) -> bytes:
    state = await controller.send(Declare().encode())
    assert isinstance(state, Declared)
    return state.txn_id


def condition(state: DeliveryState | None) -> str:
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error.condition


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


def manage(client: Client, queue: str, operation: str, body: dict[str, object]) -> Any:
    return request(client, f"{queue}/$management", {"operation": f"com.microsoft:{operation}"}, body)


async def put_token(broker: Broker, client: Client, audience: str, *, key: str = KEY, lasts_s: int = 600) -> object:
    """Put a token to `$cbs`, and return the status of the answer."""
    token = make_token(audience, RULE, key, broker.settings.clock.now_ms() // 1000 + lasts_s)
    asked: dict[str, object] = {"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": audience}
    answer = await request(client, "$cbs", asked, token)
    assert answer.application_properties is not None
    return answer.application_properties["status-code"]


def data_of(delivery: IncomingDelivery) -> bytes | None:
    return Message(delivery.payload).data


# --- receive-and-delete -----------------------------------------------------------------------------------------------


@mission("M2")
async def test_what_is_received_and_deleted_comes_with_an_empty_tag_and_no_delivery_annotations(tmp_path: Path) -> None:
    """As the service writes it: SDKs take a tag for a lock token, and there is no lock."""
    async with running(tmp_path) as broker:
        await make_queue(broker, "queue")
        async with await connect(broker) as client:
            sender = await client.sender("queue")
            await sender.send(encode_message(data=b"x"))
            await sender.send(encode_message(delivery_annotations={"x-opt-of-mine": 1}, data=b"x"))
            receiver = await client.receiver("queue", is_settled=True)
            deliveries = [await receiver.receive() for _ in range(2)]
    assert [delivery.delivery_tag for delivery in deliveries] == [b"", b""]
    annotations = [Message(delivery.payload).delivery_annotations for delivery in deliveries]
    assert annotations == [{}, {Symbol("x-opt-of-mine"): 1}]


# --- transactions ---------------------------------------------------------------------------------------------------


@spec("amqp:4.3")
async def test_what_a_transaction_sends_is_there_after_its_discharge_and_not_before(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            controller = await client.sender(Coordinator())
            sender = await client.sender("q")
            transaction = await declare(controller)
            state = await sender.send(encode_message(data=b"a"), state=TransactionalState(transaction))
            assert state == TransactionalState(transaction, ACCEPTED)
            assert counts(broker, "q") == (0, 0, 0)
            assert await controller.send(Discharge(transaction).encode()) == ACCEPTED
            assert counts(broker, "q") == (1, 0, 0)


@spec("amqp:4.3")
async def test_a_transaction_that_is_rolled_back_leaves_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            controller = await client.sender(Coordinator())
            sender = await client.sender("q")
            transaction = await declare(controller)
            await sender.send(encode_message(data=b"a"), state=TransactionalState(transaction))
            assert await controller.send(Discharge(transaction, fail=True).encode()) == ACCEPTED
            assert counts(broker, "q") == (0, 0, 0)
            outcome = await controller.send(Discharge(transaction).encode())
            assert condition(outcome) == "amqp:transaction:unknown-id"


@spec("amqp:4.2")
async def test_closing_the_controller_rolls_back(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            controller = await client.sender(Coordinator())
            sender = await client.sender("q")
            transaction = await declare(controller)
            await sender.send(encode_message(data=b"a"), state=TransactionalState(transaction))
            await controller.close()
            outcome = await sender.send(encode_message(data=b"b"), state=TransactionalState(transaction))
            assert condition(outcome) == "amqp:transaction:unknown-id"
            assert counts(broker, "q") == (0, 0, 0)


@spec("amqp:4.4.3")
async def test_a_settlement_in_a_transaction_happens_at_its_discharge(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            controller = await client.sender(Coordinator())
            sender = await client.sender("q")
            await sender.send(encode_message(data=b"a"))
            receiver = await client.receiver("q", is_second=True)
            delivery = await receiver.receive()
            transaction = await declare(controller)
            receiver.settle(delivery, TransactionalState(transaction, ACCEPTED), is_settled=False)
            await controller.send(Declare().encode())  # a round trip: the settlement has arrived
            assert counts(broker, "q") == (1, 0, 0)
            assert await controller.send(Discharge(transaction).encode()) == ACCEPTED
            assert counts(broker, "q") == (0, 0, 0)


async def test_a_transaction_cannot_be_made_to_stop_half_way(tmp_path: Path) -> None:
    """A settlement that is not possible is refused when it is asked for, and not when others were done already."""
    async with running(tmp_path) as broker:
        await make_queue(broker, "q", max_delivery_count=1)
        async with await connect(broker) as client:
            controller = await client.sender(Coordinator())
            sender = await client.sender("q")
            await sender.send(encode_message(data=b"dead"))
            receiver = await client.receiver("q", is_second=True)
            receiver.settle(await receiver.receive(), Modified(True), is_settled=False)
            dead = await client.receiver("q/$DeadLetterQueue", is_second=True)
            delivery = await dead.receive()
            transaction = await declare(controller)
            await sender.send(encode_message(data=b"a"), state=TransactionalState(transaction))
            dead.settle(delivery, TransactionalState(transaction, Rejected()), is_settled=False)
            outcome = await controller.send(Discharge(transaction).encode())
            assert condition(outcome) == "amqp:transaction:rollback"
            # The send did not take place; the dead letter stays what it is, under its lock.
            assert counts(broker, "q") == (0, 1, 0)
            assert not broker.namespace.get("q").dead_letter_queue.outlet.locks.held.popitem()[1].is_enlisted


# --- messages -------------------------------------------------------------------------------------------------------


async def test_a_message_sent_by_way_of_a_queue_to_a_missing_one_is_a_transfer_dead_letter(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "via")
        await make_queue(broker, "there")
        async with await connect(broker) as client:
            session = await client._session
            for destination, expected in (("there", (0, 0, 0)), ("nowhere", (0, 0, 1))):
                name = f"via-{destination}"
                properties: dict[object, object] = {Symbol("com.microsoft:transfer-destination-address"): destination}
                link = session.attach_sender(name, Target("via"), properties=properties)
                sender = Sender(client.endpoint, link)
                await client._attach(link, sender)
                assert await sender.send(encode_message(data=b"a")) == ACCEPTED
                assert counts(broker, "via") == expected
            assert counts(broker, "there") == (1, 0, 0)
            receiver = await client.receiver("via/$Transfer/$DeadLetterQueue")
            properties_of_dead = Message((await receiver.receive()).payload).application_properties
            assert properties_of_dead is not None
            assert "'nowhere' could not be found" in str(properties_of_dead["DeadLetterErrorDescription"])


async def test_properties_to_modify_come_back_with_the_message(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            sender = await client.sender("q")
            await sender.send(encode_message(application_properties={"kept": "yes", "tries": "0"}, data=b"a"))
            receiver = await client.receiver("q", is_second=True)
            delivery = await receiver.receive()
            changes: dict[object, object] = {Symbol("tries"): "1"}
            receiver.settle(delivery, Modified(True, False, changes), is_settled=False)
            again = Message((await receiver.receive()).payload)
            assert again.application_properties == {"kept": "yes", "tries": "1"}
            assert again.header is not None
            assert again.header.delivery_count == 1
            assert again.data == b"a"


@mission("M25")
async def test_a_ping_is_accepted_counted_and_never_delivered(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            sender = await client.sender("q")
            ping = encode_message(properties=Properties(content_type=PING), data=b"")
            assert await sender.send(ping) == ACCEPTED
            assert await sender.send(encode_message(data=b"after it")) == ACCEPTED
            receiver = await client.receiver("q")
            assert data_of(await receiver.receive()) == b"after it"
            assert broker.namespace.get("q").ping_count == 1


async def test_batch_delete_removes_what_nobody_holds(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            sender = await client.sender("q")
            for number in range(5):
                await sender.send(encode_message(data=str(number).encode()))
            receiver: Receiver = await client.receiver("q", credit=0)
            await receiver.drain(2)
            later = Timestamp(broker.namespace.now_ms + 1_000)
            body: dict[str, object] = {"message-count": 100, "enqueued-time-utc": later}
            answer = await manage(client, "q", "batch-delete-messages", body)
            assert answer.value == {"message-count": 3}
            empty = await manage(client, "q", "batch-delete-messages", body)
            assert empty.application_properties["statusCode"] == 204
            assert counts(broker, "q") == (2, 0, 0)


@pytest.mark.parametrize(
    "operation, body, status, text",
    [
        ("no-such-thing", {}, 501, "no-such-thing"),
        ("peek-message", {"message-count": 0}, 400, "message-count is 0"),
        ("peek-message", {"message-count": "many"}, 400, "message-count must be a number"),
        ("renew-lock", {"lock-tokens": "none"}, 400, "lock-tokens must be an array"),
        ("cancel-scheduled-message", {"sequence-numbers": [7]}, 404, "does not exist"),
        ("get-session-state", {"session-id": "s"}, 400, "does not require sessions"),
        ("update-disposition", {"disposition-status": "eaten", "lock-tokens": []}, 400, "lock-tokens"),
    ],
)
async def test_a_request_that_cannot_be_met_is_answered_with_its_reason(
    tmp_path: Path, operation: str, body: dict[str, object], status: int, text: str
) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            answer = await manage(client, "q", operation, body)
            assert answer.application_properties["statusCode"] == status
            assert text in answer.application_properties["statusDescription"]


@mission("M13")
async def test_a_throttled_send_is_rejected_with_server_busy(tmp_path: Path) -> None:
    async with running(tmp_path, credits_per_second=3) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            sender = await client.sender("q")
            states = await asyncio.gather(*[sender.send(encode_message(data=b"a")) for _ in range(20)])
            refused = [state for state in states if state != ACCEPTED]
            assert refused
            assert {condition(state) for state in refused} == {"com.microsoft:server-busy"}
            assert counts(broker, "q")[0] == len(states) - len(refused)


# --- strangers and tokens -------------------------------------------------------------------------------------------


async def test_a_stranger_reaches_no_entity(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker, is_stranger=True) as client:
            for attach in (client.sender("q"), client.receiver("q"), client.sender("q/$management")):
                with pytest.raises(RemoteError, match="amqp:unauthorized-access"):
                    await attach
            await client.sender("$cbs")


async def test_a_stranger_that_attaches_again_and_again_is_closed(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await connect(broker, is_stranger=True)
        for _ in range(8):
            await client.sender("$cbs")
        with pytest.raises(RemoteError, match="at most 8 are allowed"):
            await client.sender("$cbs")
        await client.close()


@mission("M34")
async def test_a_client_that_asks_for_what_is_missing_is_no_stranger(tmp_path: Path) -> None:
    """The Go SDK opens two links to $cbs for each entity. Its fifth one must not cost it the connection."""
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker, is_stranger=True) as client:
            for entity, status in [("missing", 404)] * 5 + [("q", 202)]:
                assert await put_token(broker, client, f"sb://localhost/{entity}") == status
            await client.receiver("q")
            with pytest.raises(RemoteError, match="amqp:unauthorized-access"):
                await client.receiver("missing")


async def test_a_stranger_with_a_wrong_key_stays_one(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await connect(broker, is_stranger=True)
        for _ in range(4):
            assert await put_token(broker, client, "sb://localhost/missing", key="guess") == 401
        with pytest.raises(RemoteError, match="at most 8 are allowed"):
            await client.sender("$cbs")
        await client.close()


async def test_a_stranger_that_proves_nothing_in_time_is_closed(tmp_path: Path) -> None:
    # Time to connect on a busy machine; whether it is also enough to attach does not matter.
    async with running(tmp_path, authentication_timeout_s=2.0) as broker:
        client = await connect(broker, is_stranger=True)
        with pytest.raises(RemoteError, match="No token was put"):
            await (await client.receiver("$cbs")).receive()
        await client.close()


async def test_a_wrong_key_is_refused_at_the_door(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        with pytest.raises(Exception, match="refused our credentials"):
            await Client.connect("127.0.0.1", broker.port, Settings("thief", user=RULE, password="guess"))


async def test_a_token_opens_its_entity_until_it_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        await make_queue(broker, "other")
        async with await connect(broker, is_stranger=True) as client:
            assert await put_token(broker, client, "sb://localhost/q", lasts_s=5) == 202
            receiver = await client.receiver("q")
            with pytest.raises(RemoteError, match="amqp:unauthorized-access"):
                await client.receiver("other")
            with pytest.raises(RemoteError, match="ExpiredToken"):
                await receiver.receive()
