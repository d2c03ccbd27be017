"""Transactions over AMQP as Java and .NET use them: requests to `$management`, coordinators without a token, several
entities on one session. The exchanges are those of the SDKs, made with the driver."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tandem.amqp import ACCEPTED, Coordinator, Declare, Declared, Discharge, Message, TransactionalState
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.terminus import Source
from tandem.amqp.types import LONG_TYPE, UUID_TYPE, Array, Int, Symbol, Timestamp, UInt
from tandem.auth import make_token
from tandem.driver import Client, Sender
from tandem.engine.message import NEVER_MS
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.sessions import Sessions
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import RemoteError
from tandem.limits import MAX_TRANSACTIONS_BEFORE_AUTHENTICATION
from tandem.server.broker import Broker
from tandem.server.nodes.management import _OPERATIONS, _Part
from tests.markers import mission, spec
from tests.patience import until
from tests.server.test_broker import KEY, RULE, condition, connect, counts, data_of, make_queue, running

HOUR_MS: Final = int(timedelta(hours=1).total_seconds() * 1_000)
UNKNOWN: Final = b"never declared"

_numbers = itertools.count(1)


class Desk:
    """A broker with an entity of every kind, and a client that has declared a transaction."""

    def __init__(self, broker: Broker, client: Client, controller: Sender, transaction: bytes) -> None:
        self.broker = broker
        self.client = client
        self.controller = controller
        self.transaction = transaction

    async def request(
        self, entity: str, operation: str, body: dict[str, object], transaction: bytes | None = None
    ) -> Message:
        """One request to the management of an entity, and its answer."""
        node, reply_to = f"{entity}/$management", f"reply-{next(_numbers)}"
        receiver = await self.client.receiver(node)
        sender = await self.client.sender(node)
        state = None if transaction is None else TransactionalState(transaction)
        outcome = await sender.send(
            encode_message(
                properties=Properties(message_id=reply_to),
                application_properties={"operation": f"com.microsoft:{operation}"},
                value=body,
            ),
            state=state,
        )
        assert outcome == (ACCEPTED if transaction is None else TransactionalState(transaction, ACCEPTED))
        answer = Message((await receiver.receive()).payload)
        await sender.close()
        await receiver.close()
        return answer

    async def ask(self, entity: str, operation: str, body: dict[str, object], transaction: bytes | None = None) -> Any:
        """The body of an answer that is no refusal."""
        answer = await self.request(entity, operation, body, transaction)
        assert status_of(answer) == 200, answer.application_properties
        return answer.value

    async def discharge(self, *, fail: bool = False) -> None:
        assert await self.controller.send(Discharge(self.transaction, fail).encode()) == ACCEPTED

    # --- what there is --------------------------------------------------------------------------------------

    async def schedule(self, text: bytes, transaction: bytes | None = None) -> int:
        due = Timestamp(self.broker.settings.clock.now_ms() + HOUR_MS)
        message = encode_message(message_annotations={"x-opt-scheduled-enqueue-time": due}, data=text)
        body: dict[str, object] = {"messages": [{"message-id": "1", "message": message}]}
        answer = await self.ask("q", "schedule-message", body, transaction)
        return int(answer["sequence-numbers"].items[0])

    async def lock(self) -> uuid.UUID:
        """The token of a message of "q" that was just received."""
        sender = await self.client.sender("q")
        await sender.send(encode_message(data=b"received"))
        delivery = await (await self.client.receiver("q", credit=1)).receive()
        return uuid.UUID(bytes_le=delivery.delivery_tag)

    @property
    def queue(self) -> Queue:
        return self.broker.namespace.get("q")

    @property
    def sessions(self) -> Sessions:
        sessions = self.broker.namespace.get("s").main.sessions
        assert sessions is not None
        return sessions


def status_of(answer: Message) -> int:
    status = (answer.application_properties or {})["statusCode"]
    assert isinstance(status, int)
    return status


def condition_of(answer: Message) -> object:
    return (answer.application_properties or {}).get("errorCondition")


def subscribe(namespace: Namespace, name: str) -> None:
    namespace.create_subscription(SubscriptionDescription("t", name))


@pytest_asyncio.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        await make_queue(broker, "other")
        await make_queue(broker, "s", requires_session=True)
        await broker.perform(lambda namespace: namespace.create_topic(TopicDescription("t")))
        for name in ("one", "two"):
            await broker.perform(partial(subscribe, name=name))
        async with await connect(broker) as client:
            controller = await client.sender(Coordinator(), has_own_session=True)
            declared = await controller.send(Declare().encode())
            assert isinstance(declared, Declared)
            yield Desk(broker, client, controller, declared.txn_id)


# --- requests to $management ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", sorted(_OPERATIONS))
async def test_a_request_that_names_an_unknown_transaction_is_refused(desk: Desk, operation: str) -> None:
    answer = await desk.request("q", operation, {}, UNKNOWN)
    assert (status_of(answer), condition_of(answer)) == (400, "amqp:transaction:unknown-id")


REFUSED: Final = sorted(name for name, (_, _, part, _) in _OPERATIONS.items() if part is _Part.REFUSES)


async def test_what_cannot_be_part_of_a_transaction_is_refused_and_not_done(desk: Desk) -> None:
    sender = await desk.client.sender("q")
    await sender.send(encode_message(data=b"there"))
    token = await desk.lock()
    await desk.ask(
        "q", "update-disposition", {"disposition-status": "defered", "lock-tokens": Array(UUID_TYPE, [token])}
    )
    rule = {"sql-filter": {"expression": "1=1"}, "rule-name": "new"}
    bodies: dict[str, tuple[str, dict[str, object]]] = {
        "receive-by-sequence-number": (
            "q",
            {"sequence-numbers": Array(LONG_TYPE, [1]), "receiver-settle-mode": UInt(0)},
        ),
        "batch-delete-messages": ("q", {"message-count": Int(10)}),
        "add-rule": ("t/Subscriptions/one", {"rule-name": "new", "rule-description": rule}),
        "remove-rule": ("t/Subscriptions/one", {"rule-name": "$Default"}),
    }
    assert sorted(bodies) == REFUSED
    for operation, (entity, body) in bodies.items():
        answer = await desk.request(entity, operation, body, desk.transaction)
        assert (status_of(answer), condition_of(answer)) == (400, "amqp:not-allowed"), operation
        assert "cannot be part of a transaction" in str((answer.application_properties or {})["statusDescription"])
    await desk.discharge()
    queue = desk.queue
    assert (queue.main.active_count, queue.main.deferred_count) == (1, 1)
    assert list(desk.broker.namespace.subscription("t", "one").rules) == ["$default"]


@mission("M3")
@pytest.mark.parametrize("fail", [True, False])
async def test_a_scheduled_message_is_cancelled_by_a_commit_only(desk: Desk, fail: bool) -> None:
    number = await desk.schedule(b"later")
    body: dict[str, object] = {"sequence-numbers": Array(LONG_TYPE, [number])}
    await desk.ask("q", "cancel-scheduled-message", body, desk.transaction)
    assert desk.queue.main.scheduled_count == 1
    await desk.discharge(fail=fail)
    assert desk.queue.main.scheduled_count == (1 if fail else 0)


@pytest.mark.parametrize("fail", [True, False])
async def test_a_message_is_scheduled_by_a_commit_only(desk: Desk, fail: bool) -> None:
    await desk.schedule(b"later", desk.transaction)
    assert desk.queue.main.scheduled_count == 0
    await desk.discharge(fail=fail)
    assert desk.queue.main.scheduled_count == (0 if fail else 1)


@pytest.mark.parametrize("fail", [True, False])
async def test_the_state_of_a_session_is_set_by_a_commit_only(desk: Desk, fail: bool) -> None:
    sender = await desk.client.sender("s")
    await sender.send(encode_message(properties=Properties(group_id="mine"), data=b"a"))
    receiver = await desk.client.receiver(Source("s", filter={Symbol("com.microsoft:session-filter"): "mine"}))
    mine: dict[str, object] = {"session-id": "mine"}
    await desk.ask("s", "set-session-state", {**mine, "session-state": b"old"})
    await desk.ask("s", "set-session-state", {**mine, "session-state": b"new"}, desk.transaction)
    assert (await desk.ask("s", "get-session-state", mine))["session-state"] == b"old"
    assert (await desk.ask("s", "get-session-state", mine, desk.transaction))["session-state"] == b"new"
    await desk.discharge(fail=fail)
    assert (await desk.ask("s", "get-session-state", mine))["session-state"] == (b"old" if fail else b"new")
    await receiver.close()


@pytest.mark.parametrize("fail", [True, False])
async def test_a_message_is_settled_by_its_token_with_a_commit_only(desk: Desk, fail: bool) -> None:
    token = await desk.lock()
    # Named twice, it is still one message.
    body: dict[str, object] = {
        "disposition-status": "completed",
        "lock-tokens": Array(UUID_TYPE, [token, token]),
    }
    await desk.ask("q", "update-disposition", body, desk.transaction)
    assert desk.queue.main.active_count == 1
    await desk.discharge(fail=fail)
    assert desk.queue.main.active_count == (1 if fail else 0)
    # After a rollback the lock is as it was.
    answer = await desk.request("q", "update-disposition", body)
    assert status_of(answer) == (200 if fail else 410)


@pytest.mark.parametrize("fail", [True, False])
async def test_a_lock_is_renewed_for_good_by_a_commit_only(desk: Desk, fail: bool) -> None:
    token = await desk.lock()
    lock = desk.queue.main.find_lock(token.bytes)
    before_ms = lock.locked_until_ms
    await until(lambda: desk.broker.settings.clock.now_ms() > before_ms - desk.queue.description.lock_duration_ms)
    answer = await desk.ask("q", "renew-lock", {"lock-tokens": Array(UUID_TYPE, [token])}, desk.transaction)
    renewed_ms = int(answer["expirations"].items[0])
    assert lock.locked_until_ms == renewed_ms > before_ms
    await desk.discharge(fail=fail)
    assert lock.locked_until_ms == (before_ms if fail else renewed_ms)


async def test_reading_in_a_transaction_reads_what_is_committed(desk: Desk) -> None:
    await desk.schedule(b"inside", desk.transaction)
    await desk.schedule(b"outside")
    answer = await desk.ask("q", "peek-message", {"message-count": Int(10)}, desk.transaction)
    assert [Message(entry["message"]).data for entry in answer["messages"]] == [b"outside"]
    rules = await desk.ask("t/Subscriptions/one", "enumerate-rules", {}, desk.transaction)
    assert len(rules["rules"]) == 1


async def test_a_token_cannot_be_put_in_a_transaction(desk: Desk) -> None:
    await desk.client.receiver("$cbs")
    outcome = await (await desk.client.sender("$cbs")).send(put_token("q"), state=TransactionalState(desk.transaction))
    assert condition(outcome) == "amqp:not-allowed"


async def test_a_discharge_answers_a_commit_that_cannot_be_made_with_a_rollback(desk: Desk) -> None:
    number = await desk.schedule(b"later")
    body: dict[str, object] = {"sequence-numbers": Array(LONG_TYPE, [number])}
    await desk.ask("q", "cancel-scheduled-message", body, desk.transaction)
    await desk.ask("q", "cancel-scheduled-message", body)
    outcome = await desk.controller.send(Discharge(desk.transaction).encode())
    assert condition(outcome) == "amqp:transaction:rollback"


# --- before a token ---------------------------------------------------------------------------------------------------


def put_token(entity: str) -> bytes:
    audience = f"sb://localhost/{entity}"
    properties = {"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": audience}
    token = make_token(audience, RULE, KEY, 4_000_000_000)
    return encode_message(properties=Properties(message_id="1"), application_properties=properties, value=token)


async def prove(client: Client, entity: str) -> None:
    receiver = await client.receiver("$cbs")
    await (await client.sender("$cbs")).send(put_token(entity))
    answer = Message((await receiver.receive()).payload).application_properties
    assert answer is not None
    assert answer["status-code"] == 202


def has_no_transactions(broker: Broker) -> bool:
    return broker.namespace.transactions.next_deadline_ms() == NEVER_MS


@spec("amqp:4.2")
async def test_a_transaction_is_declared_before_the_first_token_and_used_after_it(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker, is_stranger=True) as client:
            controller = await client.sender(Coordinator())
            declared = await controller.send(Declare().encode())
            assert isinstance(declared, Declared)
            with pytest.raises(RemoteError, match="amqp:unauthorized-access"):
                await client.sender("q")
            await prove(client, "q")
            sender = await client.sender("q")
            await sender.send(encode_message(data=b"a"), state=TransactionalState(declared.txn_id))
            assert await controller.send(Discharge(declared.txn_id).encode()) == ACCEPTED
            assert counts(broker, "q") == (1, 0, 0)


async def test_a_stranger_holds_a_few_transactions_only_and_none_after_it_left(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker, is_stranger=True) as client:
            controller = await client.sender(Coordinator())
            declared = [
                await controller.send(Declare().encode()) for _ in range(MAX_TRANSACTIONS_BEFORE_AUTHENTICATION)
            ]
            identifiers = [state.txn_id for state in declared if isinstance(state, Declared)]
            assert condition(await controller.send(Declare().encode())) == "amqp:resource-limit-exceeded"
            # Another coordinator of the same stranger holds no more.
            other = await client.sender(Coordinator())
            assert condition(await other.send(Declare().encode())) == "amqp:resource-limit-exceeded"
            assert await controller.send(Discharge(identifiers[-1], fail=True).encode()) == ACCEPTED
            assert isinstance(await other.send(Declare().encode()), Declared)
            await prove(client, "q")
            assert isinstance(await other.send(Declare().encode()), Declared)
        await until(lambda: has_no_transactions(broker))


async def test_the_transactions_of_a_stranger_that_proves_nothing_in_time_are_rolled_back(tmp_path: Path) -> None:
    # Time to connect on a busy machine; whether it is also enough to declare a transaction does not matter.
    async with running(tmp_path, authentication_timeout_s=2.0) as broker:
        client = await connect(broker, is_stranger=True)

        async def linger() -> None:
            await (await client.sender(Coordinator())).send(Declare().encode())
            await (await client.receiver("$cbs")).receive()

        with pytest.raises(RemoteError, match="No token was put"):
            await linger()
        await until(lambda: has_no_transactions(broker))
        await client.close()


async def test_a_stranger_cannot_send_much_to_a_coordinator(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, await connect(broker, is_stranger=True) as client:
        controller = await client.sender(Coordinator())
        outcome = await controller.send(encode_message(data=bytes(5_000)))
        assert condition(outcome) == "amqp:link:message-size-exceeded"


async def test_a_stranger_learns_nothing_about_the_transactions_of_others(desk: Desk) -> None:
    async with await connect(desk.broker, is_stranger=True) as client:
        outcome = await (await client.sender(Coordinator())).send(Discharge(desk.transaction).encode())
        assert condition(outcome) == "amqp:transaction:unknown-id"
    await desk.discharge()


# --- several entities -------------------------------------------------------------------------------------------------

SPANS = "amqp:not-allowed.*Local transactions cannot span multiple top-level entities such as queue or topic."


async def test_a_session_with_a_coordinator_receives_from_its_first_entity_only(desk: Desk) -> None:
    async with await connect(desk.broker) as client:
        # Attached first, it announces that transactions span entities.
        await client.sender(Coordinator())
        await client.sender("q")
        # Sends go by way of the first entity, which is possible.
        await client.sender("other")
        for address in ("other", "other/$DeadLetterQueue", "t/Subscriptions/one"):
            with pytest.raises(RemoteError, match=SPANS):
                await client.receiver(address)
        for address in ("q", "Q", "q/$DeadLetterQueue"):
            await (await client.receiver(address)).close()


async def test_subscriptions_of_one_topic_are_one_entity(desk: Desk) -> None:
    async with await connect(desk.broker) as client:
        await client.sender(Coordinator())
        await client.receiver("t/Subscriptions/one")
        await client.receiver("t/Subscriptions/two")
        await client.sender("q")
        with pytest.raises(RemoteError, match=SPANS):
            await client.receiver("q")


async def test_a_coordinator_on_a_session_of_its_own_ties_nobody_to_an_entity(desk: Desk) -> None:
    await desk.client.sender("q")
    await desk.client.receiver("other")
    await desk.client.receiver("t/Subscriptions/one")


async def test_an_attach_that_is_refused_does_not_choose_the_entity_of_a_session(desk: Desk) -> None:
    async with await connect(desk.broker) as client:
        await client.sender(Coordinator())
        with pytest.raises(RemoteError, match="amqp:not-found"):
            await client.sender("missing")
        await client.receiver("other")


async def test_a_message_is_received_from_one_entity_and_answered_to_another_in_one_transaction(desk: Desk) -> None:
    async with await connect(desk.broker) as client:
        controller = await client.sender(Coordinator())
        await (await desk.client.sender("q")).send(encode_message(data=b"question"))
        receiver = await client.receiver("q", is_second=True)
        question = await receiver.receive()
        declared = await controller.send(Declare().encode())
        assert isinstance(declared, Declared)
        await receiver.confirm(question, TransactionalState(declared.txn_id, ACCEPTED))
        sender = await client.sender("other")
        await sender.send(encode_message(data=b"answer"), state=TransactionalState(declared.txn_id))
        assert await controller.send(Discharge(declared.txn_id).encode()) == ACCEPTED
        assert counts(desk.broker, "q")[0] == 0
    assert data_of(await (await desk.client.receiver("other")).receive()) == b"answer"


async def test_messages_between_partitioned_entities_stay_together_by_their_key_for_the_way(desk: Desk) -> None:
    for name in ("from", "to"):
        await make_queue(desk.broker, name, enable_partitioning=True)

    def message(key: str) -> bytes:
        # As .NET writes a message that has a TransactionPartitionKey only.
        return encode_message(message_annotations={"x-opt-via-partition-key": key}, data=key.encode())

    await (await desk.client.sender("from")).send(message("1"))
    async with await connect(desk.broker) as client:
        controller = await client.sender(Coordinator())
        receiver = await client.receiver("from", is_second=True)
        question = await receiver.receive()
        declared = await controller.send(Declare().encode())
        assert isinstance(declared, Declared)
        await receiver.confirm(question, TransactionalState(declared.txn_id, ACCEPTED))
        sender = await client.sender("to")
        outcome = await sender.send(message("1"), state=TransactionalState(declared.txn_id))
        assert outcome == TransactionalState(declared.txn_id, ACCEPTED)
        assert await controller.send(Discharge(declared.txn_id).encode()) == ACCEPTED
        assert (counts(desk.broker, "from")[0], counts(desk.broker, "to")[0]) == (0, 1)


async def test_two_partition_keys_of_one_queue_are_refused_in_one_transaction(desk: Desk) -> None:
    await make_queue(desk.broker, "p", enable_partitioning=True)
    sender = await desk.client.sender("p")

    def message(key: str) -> bytes:
        return encode_message(message_annotations={"x-opt-partition-key": key}, data=key.encode())

    state = TransactionalState(desk.transaction)
    assert await sender.send(message("1"), state=state) == TransactionalState(desk.transaction, ACCEPTED)
    outcome = await sender.send(message("2"), state=state)
    assert condition(outcome) == "amqp:not-allowed"
    assert "cannot span multiple entities or partitions" in str(outcome)


# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_a_transaction_with_a_send_that_was_refused_is_not_committed(desk: Desk) -> None:
    # Java does not look at the outcome, and commits the rest.
    state = TransactionalState(desk.transaction)
    assert await (await desk.client.sender("q")).send(encode_message(data=b"a"), state=state) != ACCEPTED
    outcome = await (await desk.client.sender("s")).send(encode_message(data=b"no session"), state=state)
    assert condition(outcome) == "amqp:not-allowed"
    answer = await desk.controller.send(Discharge(desk.transaction).encode())
    assert condition(answer) == "amqp:transaction:rollback"
    assert "One of its operations was refused. The SessionId was not set" in str(answer)
    assert counts(desk.broker, "q") == (0, 0, 0)


@pytest.mark.parametrize("is_settled", [True, False])
async def test_a_transaction_with_a_settlement_that_was_refused_is_not_committed(desk: Desk, is_settled: bool) -> None:
    state = TransactionalState(desk.transaction)
    sender = await desk.client.sender("q")
    await sender.send(encode_message(data=b"received"))
    await sender.send(encode_message(data=b"a"), state=state)
    receiver = await desk.client.receiver("q", credit=1)
    delivery = await receiver.receive()
    # Settled by its token meanwhile: there is no lock any more.
    token = uuid.UUID(bytes_le=delivery.delivery_tag)
    body: dict[str, object] = {"disposition-status": "completed", "lock-tokens": Array(UUID_TYPE, [token])}
    await desk.ask("q", "update-disposition", body)
    receiver.settle(delivery, TransactionalState(desk.transaction, ACCEPTED), is_settled=is_settled)
    answer = await desk.controller.send(Discharge(desk.transaction).encode())
    assert condition(answer) == "amqp:transaction:rollback"
    assert counts(desk.broker, "q") == (0, 0, 0)


async def test_a_transaction_in_which_a_request_was_refused_can_be_committed(desk: Desk) -> None:
    """Every client looks at the answer to a request."""
    await (await desk.client.sender("q")).send(encode_message(data=b"a"), state=TransactionalState(desk.transaction))
    body: dict[str, object] = {"sequence-numbers": Array(LONG_TYPE, [1])}
    answer = await desk.request("q", "cancel-scheduled-message", body, desk.transaction)
    assert (status_of(answer), condition_of(answer)) == (404, "com.microsoft:message-not-found")
    await desk.discharge()
    assert counts(desk.broker, "q") == (1, 0, 0)


def test_the_reference_states_the_part_of_every_operation_in_a_transaction() -> None:
    words = {_Part.JOINS: "joins", _Part.READS: "reads", _Part.REFUSES: "refused"}
    page = (Path(__file__).resolve().parents[2] / "docs/reference/queues.md").read_text()
    rows = [line.split("`", 2)[1:] for line in page.splitlines() if line.startswith("| `")]
    stated = {name: rest.removeprefix(" | ") for name, rest in rows if name in _OPERATIONS}
    assert sorted(stated) == sorted(_OPERATIONS)
    for name, (_, _, part, _) in _OPERATIONS.items():
        assert stated[name].startswith(words[part]), name
