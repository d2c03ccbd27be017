"""What one hostile connection makes the broker hold is bounded by the broker's own account, and everybody is served on.

`python -m tests.load.memory` measures the same attacks in resident memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from tandem.amqp import (
    ACCEPTED,
    Coordinator,
    Discharge,
    Message,
    Modified,
    ReceiverLink,
    Rejected,
    Settings,
    TransactionalState,
)
from tandem.amqp.message import encode_message
from tandem.amqp.types import LONG_TYPE, Array, Symbol
from tandem.driver import Client
from tandem.driver.endpoint import WRITE_BUFFER_HIGH_BYTES
from tandem.engine.consumer import Gate
from tandem.limits import (
    MAX_ANSWER_BYTES,
    MAX_ATTACH_BYTES,
    MAX_HEADS_BYTES,
    MAX_LOCKS_PER_CONNECTION,
    MAX_OWED_BYTES,
    MAX_PEEK_BYTES,
    MAX_TRANSACTION_BYTES_PER_CONNECTION,
    MAX_UNDECIDED_BYTES_PER_CLIENT,
    REQUEST_WORK,
)
from tandem.server import peer as peer_module
from tandem.server.broker import Broker
from tandem.server.nodes.request_gate import RequestGate
from tandem.server.peer import Peer
from tests.load.attacker import Attacker, request, symbols
from tests.patience import until
from tests.server.test_broker import KEY, RULE, condition, connect, counts, declare, make_queue, running

LARGE = encode_message(data=bytes(255_000))

# Bytes. What one read of the transport can bring, with a frame that it completes.
ONE_READ_BYTES = 2_097_152


def only_peer(broker: Broker) -> Peer:
    (peer,) = broker.directory.default.services.peers
    return peer


async def fill(broker: Broker, queue: str, count: int) -> None:
    await make_queue(broker, queue, lock_duration_ms=300_000)
    async with await connect(broker) as client:
        sender = await client.sender(queue)
        await asyncio.gather(*(sender.send(LARGE) for _ in range(count)))


def unsent_bytes(peer: Peer) -> int:
    transport = peer.endpoint._transport
    assert transport is not None
    return transport.get_write_buffer_size() + peer.endpoint.connection.unsent_bytes


def held_bytes(peer: Peer) -> int:
    connection = peer.endpoint.connection
    return connection.held_bytes + connection.undecided_bytes


async def test_open_transactions_are_refused_more_than_a_connection_may_hold(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        memory = broker.namespace.transactions.memory
        async with await connect(broker) as client:
            controller = await client.sender(Coordinator(), has_own_session=True)
            sender = await client.sender("q")
            outcomes = []
            first = await declare(controller)
            second = await declare(controller)
            for transaction in (first, second):
                state = TransactionalState(transaction)
                outcomes += await asyncio.gather(*(sender.send(LARGE, state=state) for _ in range(100)))
                assert memory.held_bytes <= MAX_TRANSACTION_BYTES_PER_CONNECTION
            refused = [one for one in outcomes if isinstance(one, Rejected)]
            assert refused
            assert {condition(one) for one in refused} == {"amqp:resource-limit-exceeded"}
            answer = await controller.send(Discharge(second).encode())
            assert condition(answer) == "amqp:transaction:rollback"
            assert await controller.send(Discharge(first).encode()) == ACCEPTED
            assert counts(broker, "q")[0] == 100
            assert memory.held_bytes == 0
            third = await declare(controller)
            await sender.send(LARGE, state=TransactionalState(third))
            assert memory.held_bytes > 255_000
        await until(lambda: memory.held_bytes == 0)


async def test_properties_in_open_transactions_count_by_what_they_take_decoded(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await fill(broker, "q", 100)
        async with await connect(broker) as client:
            controller = await client.sender(Coordinator(), has_own_session=True)
            receiver = await client.receiver("q", credit=100)
            outcome = Modified(message_annotations=symbols([("a", [[] for _ in range(10_000)])]))
            state = TransactionalState(await declare(controller), outcome)
            answers = [await receiver.confirm(await receiver.receive(), state) for _ in range(60)]
            assert {type(answer) for answer in answers} == {TransactionalState, Rejected}
            assert broker.namespace.transactions.memory.held_bytes <= MAX_TRANSACTION_BYTES_PER_CONNECTION


async def test_one_request_cannot_schedule_more_than_the_queue_has_room_for(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q", max_size_in_megabytes=1)
        async with await connect(broker) as client:
            plain = await client.sender("q")
            for _ in range(2):
                await plain.send(LARGE)
            receiver, sender = await client.receiver("q/$management"), await client.sender("q/$management")
            messages = [{"message-id": str(number), "message": LARGE} for number in range(3)]
            await sender.send(request("schedule-message", {"messages": messages}, ""))
            answer = Message((await receiver.receive()).payload).application_properties or {}
            assert answer["errorCondition"] == "amqp:resource-limit-exceeded"
            assert counts(broker, "q")[0] == 2
            assert broker.namespace.get("q").main.scheduled_count == 0


@pytest.mark.parametrize("is_window_shut", [False, True])
@pytest.mark.parametrize("deletes", [False, True])
async def test_a_reader_that_does_not_read_is_given_little(tmp_path: Path, is_window_shut: bool, deletes: bool) -> None:
    async with running(tmp_path) as broker:
        for number in range(6):
            await fill(broker, f"q{number}", 20)

        def attack(attacker: Attacker) -> None:
            attacker.write(attacker.begin(incoming_window=1 if is_window_shut else 1_000))
            for handle in range(6):
                attach = attacker.attach_receiver(f"q{handle}", handle, deletes=deletes)
                attacker.write(attach + attacker.flow(handle, window=1 if is_window_shut else 1_000))

        with await asyncio.to_thread(Attacker, broker.port) as attacker:
            await asyncio.to_thread(attack, attacker)
            peer = only_peer(broker)
            await until(lambda: len(peer._nodes) == 6 and peer.gate.is_shut)
            await broker.runner.quiet()
            bound = WRITE_BUFFER_HIGH_BYTES + 2 * MAX_OWED_BYTES + 6 * len(LARGE)
            assert unsent_bytes(peer) <= bound
            assert broker.namespace.heads.held_bytes <= MAX_HEADS_BYTES
            # Whoever reads the rest afterwards finds it: nothing was given out that is not under way.
            left = sum(counts(broker, f"q{number}")[0] for number in range(6))
            assert left * len(LARGE) >= (120 * len(LARGE) - bound if deletes else 120)


@pytest.mark.parametrize("deletes", [False, True])
async def test_receivers_of_a_connection_that_falls_behind_all_get_everything(tmp_path: Path, deletes: bool) -> None:
    async with running(tmp_path) as broker:
        for number in range(6):
            await fill(broker, f"q{number}", 12)
        async with await connect(broker) as client:
            client.endpoint._transport.pause_reading()
            receiving = [
                asyncio.create_task(client.receiver(f"q{number}", credit=12, is_settled=deletes)) for number in range(6)
            ]
            await asyncio.sleep(0)
            client.endpoint._transport.resume_reading()
            for receiver in await asyncio.gather(*receiving):
                for _ in range(12):
                    delivery = await receiver.receive()
                    if not deletes:
                        receiver.settle(delivery)
            await until(lambda: all(counts(broker, f"q{number}")[0] == 0 for number in range(6)))
            assert only_peer(broker).gate.owed_bytes == 0
            assert only_peer(broker).gate.locked_count == 0


async def test_answers_that_wait_for_credit_are_bounded_and_all_arrive(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await fill(broker, "q", 20)
        async with await connect(broker) as client:
            receiver = await client.receiver("q/$management", credit=0)
            sender = await client.sender("q/$management")
            peek = request("peek-message", {"message-count": 1_000}, "")
            asking = [asyncio.create_task(sender.send(peek)) for _ in range(60)]
            peer = only_peer(broker)
            await until(lambda: peer.waiting_response_bytes > MAX_ANSWER_BYTES - MAX_PEEK_BYTES)
            await broker.runner.quiet()
            assert peer.waiting_response_bytes <= MAX_ANSWER_BYTES + 2 * MAX_PEEK_BYTES
            assert peer.requests.running_bytes <= MAX_ANSWER_BYTES + MAX_PEEK_BYTES
            for _ in range(60):
                receiver.grant(1)
                answer = Message((await receiver.receive()).payload)
                assert (answer.application_properties or {})["statusCode"] == 200
            await asyncio.gather(*asking)
            assert (peer.waiting_response_bytes, peer.requests.running_bytes, held_bytes(peer)) == (0, 0, 0)


@pytest.mark.parametrize("is_settled", [False, True])
async def test_sends_that_wait_for_the_disk_are_bounded_and_all_arrive(tmp_path: Path, is_settled: bool) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        peer_count = 200
        is_disk_free = threading.Event()
        store = broker.runner._store
        commit = store.commit

        def slow_commit() -> None:
            is_disk_free.wait()
            commit()

        def attack(attacker: Attacker) -> None:
            attacker.write(attacker.begin() + attacker.attach_sender("q"))
            for number in range(peer_count):
                attacker.write(attacker.transfer(number, LARGE, is_settled=is_settled), reads=True)

        with await asyncio.to_thread(Attacker, broker.port) as attacker:
            store.commit = slow_commit  # type: ignore[method-assign] # a disk that takes its time
            attacking = asyncio.create_task(asyncio.to_thread(attack, attacker))
            peer = only_peer(broker)
            await until(lambda: peer.endpoint.connection.is_saturated)
            await until(lambda: peer.endpoint._is_held_back)
            assert held_bytes(peer) <= MAX_UNDECIDED_BYTES_PER_CLIENT + ONE_READ_BYTES
            is_disk_free.set()
            await attacking
            await until(lambda: counts(broker, "q")[0] == attacker.written_bytes // len(LARGE))
            await until(lambda: held_bytes(peer) == 0)


async def test_a_connection_has_a_bounded_number_of_locks_and_goes_on_as_they_are_settled(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await fill(broker, "q", 10)
        async with await connect(broker) as client:
            gate = only_peer(broker).gate
            gate.locked_count = MAX_LOCKS_PER_CONNECTION - 4
            receiver = await client.receiver("q", credit=10)
            first = [await receiver.receive() for _ in range(4)]
            assert gate.locked_count == MAX_LOCKS_PER_CONNECTION
            assert gate.has_missed
            for delivery in first:
                receiver.settle(delivery)
            for _ in range(4):
                await receiver.receive()


async def test_deferred_messages_that_requests_lock_count_to_their_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await fill(broker, "q", 2)
        async with await connect(broker) as client:
            receiver = await client.receiver("q", credit=2)
            for _ in range(2):
                await receiver.confirm(await receiver.receive(), Modified(undeliverable_here=True))
            gate = only_peer(broker).gate
            await until(lambda: gate.locked_count == 0)
            answers, asks = await client.receiver("q/$management"), await client.sender("q/$management")

            async def receive(number: int) -> dict[str, object]:
                numbers: dict[str, object] = {"sequence-numbers": Array(LONG_TYPE, [number])}
                await asks.send(request("receive-by-sequence-number", numbers, ""))
                return Message((await answers.receive()).payload).application_properties or {}

            gate.locked_count = MAX_LOCKS_PER_CONNECTION - 1
            assert (await receive(1))["statusCode"] == 200
            assert gate.locked_count == MAX_LOCKS_PER_CONNECTION
            refused = await receive(2)
            assert refused["statusCode"] == 403
            assert "Settle some of them first" in str(refused["statusDescription"])


def test_a_gate_that_is_shut_remembers_whom_it_passed_over() -> None:
    gate = Gate()
    assert gate.can_pass()
    assert not gate.has_missed
    gate.owed_bytes = MAX_OWED_BYTES
    assert not gate.can_pass()
    assert gate.has_missed


async def test_what_links_and_sessions_say_of_themselves_is_not_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        await make_queue(broker, "s", requires_session=True)
        junk = symbols([("junk", "x" * 5_000)])

        def attack(attacker: Attacker) -> None:
            filters = symbols([("com.microsoft:session-filter", None)])
            attacker.write(attacker.begin(properties=junk) + attacker.attach_sender("q", 0, properties=junk))
            attacker.write(attacker.attach_receiver("s", 1, filters=filters, properties=junk))
            attacker.write(attacker.attach_sender("missing", 2, properties=junk))
            attacker.wait_for(b"missing")

        with await asyncio.to_thread(Attacker, broker.port) as attacker:
            await asyncio.to_thread(attack, attacker)
            connection = only_peer(broker).endpoint.connection
            session = connection.sessions[0]
            await until(lambda: len(session.links) == 3)
            assert session.begin is not None
            assert session.begin.properties is None
            assert [link.attach for link in session.links.values()] == [None, None, None]
            assert [len(link.encoded_attach) > 0 for link in session.links.values()] == [False, True, False]
            assert connection.link_count == 3


async def test_what_a_connection_says_of_itself_in_its_open_is_not_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        settings = Settings("peer", user=RULE, password=KEY, properties={Symbol("junk"): [[] for _ in range(1_000)]})
        async with await Client.connect("127.0.0.1", broker.port, settings):
            opened = only_peer(broker).endpoint.connection.open_received
            assert opened is not None
            assert opened.container_id == "peer"
            assert opened.properties is None


async def test_requests_count_more_than_their_frames(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")
        async with await connect(broker) as client:
            for address in ("$cbs", "$management", "q/$management"):
                await client.sender(address)
            links = only_peer(broker).endpoint.connection.sessions[0].links.values()
            receivers = [link for link in links if isinstance(link, ReceiverLink)]
            assert [link.work_per_delivery for link in receivers] == [REQUEST_WORK] * 3


class WrittenTo:
    """The endpoint of a client that reads, or does not."""

    is_backlogged = True
    is_awaited = False

    def await_writable(self) -> None:
        self.is_awaited = True


class Waiting:
    """The connection of a client whose requests wait."""

    def __init__(self) -> None:
        self.endpoint = WrittenTo()
        self.turn_count = 0

    def turn(self, step: Callable[[], None]) -> None:
        self.turn_count += 1
        step()


async def test_requests_that_have_waited_start_a_few_in_each_turn() -> None:
    peer = Waiting()
    gate = RequestGate(cast("Peer", peer))
    started: list[int] = []
    for number in range(1_000):
        gate.submit(partial(started.append, number))
    assert started == []
    assert peer.endpoint.is_awaited
    peer.endpoint.is_backlogged = False
    gate.go_on()
    assert len(started) == 16
    gate.go_on()
    assert len(started) == 16, "whatever calls it, the others have to wait for the next turn of the loop"
    await until(lambda: len(started) == 1_000)
    assert started == list(range(1_000))
    assert peer.turn_count >= 1_000 // 16
    peer.endpoint.is_backlogged = True
    gate.submit(partial(started.append, 0))
    peer.endpoint.is_backlogged = False
    gate.go_on()
    gate.clear()


async def test_an_attach_that_is_too_large_closes_the_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await make_queue(broker, "q")

        def attack(attacker: Attacker) -> bytes:
            junk = symbols([("junk", "x" * MAX_ATTACH_BYTES)])
            attacker.write(attacker.begin() + attacker.attach_sender("q", properties=junk))
            return attacker.wait_for(b"amqp:resource-limit-exceeded")

        with await asyncio.to_thread(Attacker, broker.port) as attacker:
            assert b"amqp:resource-limit-exceeded" in await asyncio.to_thread(attack, attacker)


async def test_links_that_were_refused_count_until_the_client_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "MAX_LINKS_PER_CONNECTION", 20)
    async with running(tmp_path) as broker:

        def attack(attacker: Attacker) -> bytes:
            attacker.write(attacker.begin())
            for handle in range(30):
                attacker.write(attacker.attach_sender("missing", handle))
            return attacker.wait_for(b"links on one connection")

        with await asyncio.to_thread(Attacker, broker.port) as attacker:
            assert b"links on one connection; at most 20" in await asyncio.to_thread(attack, attacker)


async def test_a_request_is_kept_no_longer_than_it_is_read(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        await fill(broker, "q", 1)
        async with await connect(broker) as client:
            receiver, sender = await client.receiver("q/$management"), await client.sender("q/$management")
            await sender.send(request("peek-message", {"message-count": 1, "junk": "x" * 100_000}, ""))
            await receiver.receive()
            peer = only_peer(broker)
            await until(lambda: held_bytes(peer) == 0)
            too_large = request("peek-message", {"message-count": 1, "junk": "x" * 2_000_000}, "")
            assert condition(await sender.send(too_large)) == "amqp:link:message-size-exceeded"
