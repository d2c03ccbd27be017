"""The end of a token, whatever its links are doing at that moment.

`STATES` has every state that a link can be in. They are all set up on one connection, each of them once as the first:
a link that cannot be ended must not keep the others alive. Afterwards every link is gone that lived on the token, and
nothing more can be done with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, cast

import pytest

from tandem.amqp import (
    ACCEPTED,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Message,
    SenderLink,
    Source,
    Target,
    TransactionalState,
)
from tandem.amqp.hot_paths import frame
from tandem.amqp.link import Link
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.performatives import Transfer
from tandem.amqp.types import Int, Symbol
from tandem.auth import make_token
from tandem.driver import Client, Receiver, Sender
from tandem.engine.namespace import Namespace
from tandem.errors import RemoteError, TandemError
from tandem.server.nodes.egress import Egress
from tandem.server.nodes.ingress import Ingress
from tandem.server.services import Services
from tests.markers import mission
from tests.patience import until
from tests.security.desk import HUB, QUEUE, SESSIONS, STRANGE, SUBSCRIPTION, TOPIC, Desk, StillClock, open_desk

MESSAGE: Final = encode_message(data=b"message")
LIFETIME_S: Final = 100
# Longer than a lock lasts.
LOCK_MS: Final = 61_000
LATER_MS: Final = LIFETIME_S * 1_000 - LOCK_MS + 1

ENTITIES: Final = (QUEUE, SESSIONS, TOPIC, HUB, STRANGE)


class Bench:
    """A connection with a token for each entity, and what there is to check when the tokens have ended."""

    def __init__(self, desk: Desk, clock: StillClock, client: Client) -> None:
        self.desk = desk
        self.clock = clock
        self.client = client
        self._checks: list[Callable[[], Awaitable[None]]] = []

    async def put_tokens(self, *entities: str, lifetime_s: int = LIFETIME_S) -> None:
        expires_at_s = self.clock.at_ms // 1_000 + lifetime_s
        for name in entities:
            token = make_token(f"sb://127.0.0.1/{name}", "manage", "key-manage", expires_at_s)
            assert await self.desk.put_token(self.client, token, f"sb://127.0.0.1/{name}") == 202

    def expire(self) -> None:
        self.clock.at_ms += LATER_MS
        self.desk.broker.directory.default.services.wake()

    def afterwards(self, check: Callable[[], Awaitable[None]], *, is_first: bool = False) -> None:
        self._checks.insert(0 if is_first else len(self._checks), check)

    def ends(self, end: Sender | Receiver) -> None:
        async def check() -> None:
            await until(lambda: end.error is not None, "for the link to end")
            assert_expired(end.error)

        self.afterwards(check)

    async def check(self) -> None:
        for check in self._checks:
            await check()


def assert_expired(error: TandemError | None) -> None:
    assert isinstance(error, RemoteError)
    assert error.condition == "amqp:unauthorized-access"
    assert "ExpiredToken" in str(error)


async def attach(client: Client, link: SenderLink) -> Sender:
    sender = Sender(client.endpoint, link)
    await client._attach(link, sender)
    return sender


# --- states ---------------------------------------------------------------------------------------------------------


async def session_in_grace(bench: Bench) -> None:
    """The lock of its session has expired, and the link is about to be detached."""
    source = Source(SESSIONS, filter={Symbol("com.microsoft:session-filter"): "red"})
    receiver = await bench.client.receiver(source, credit=0)
    bench.clock.at_ms += LOCK_MS
    bench.desk.broker.runner.wake()
    sessions = bench.desk.broker.namespace.get(SESSIONS).main.sessions
    assert sessions is not None
    await until(lambda: sessions.find("red") is None)
    assert receiver.error is None
    bench.ends(receiver)


async def attach_that_waits_for_a_session(bench: Bench) -> None:
    source = Source(SESSIONS, filter={Symbol("com.microsoft:session-filter"): None})
    subqueue = bench.desk.broker.namespace.get(SESSIONS).main
    count = len(subqueue.consumers)
    attach = asyncio.create_task(bench.client.receiver(source))
    await until(lambda: len(subqueue.consumers) == count + 1)

    async def check() -> None:
        with pytest.raises(RemoteError) as caught:
            await attach
        assert_expired(caught.value)
        assert len(subqueue.consumers) == 0

    bench.afterwards(check)


async def holder_of_a_session(bench: Bench) -> None:
    receiver = await bench.client.receiver(Source(SESSIONS, filter={Symbol("com.microsoft:session-filter"): "blue"}))
    sessions = bench.desk.broker.namespace.get(SESSIONS).main.sessions
    assert sessions is not None
    assert sessions.find("blue") is not None

    async def check() -> None:
        assert sessions.find("blue") is None, "somebody else may have it"

    bench.ends(receiver)
    bench.afterwards(check)


async def sender_in_the_middle_of_a_message(bench: Bench) -> None:
    """The rest of the message never comes."""
    sender = await bench.client.sender(STRANGE)
    link = sender.link
    transfer = Transfer(link.handle, link.session.take_delivery_id(), b"half", 0, more=True)
    transport = bench.client.endpoint._transport
    assert transport is not None
    transport.write(frame(link.session.channel, transfer.encode() + MESSAGE[:10]))
    (peer,) = bench.desk.broker.directory.default.services.peers
    connection = peer.endpoint.connection
    await until(lambda: connection.incomplete_bytes == 10)

    async def check() -> None:
        assert connection.incomplete_bytes == 0

    bench.ends(sender)
    bench.afterwards(check)


async def idle_sender(bench: Bench) -> None:
    sender = await bench.client.sender(QUEUE)
    bench.ends(sender)

    async def check() -> None:
        with pytest.raises(RemoteError, match="ExpiredToken"):
            await sender.send(MESSAGE)

    bench.afterwards(check)


async def idle_receiver(bench: Bench) -> None:
    bench.ends(await bench.client.receiver(SUBSCRIPTION))


async def receiver_without_credit(bench: Bench) -> None:
    bench.ends(await bench.client.receiver(f"{QUEUE}/$DeadLetterQueue", credit=0))


async def draining_receiver(bench: Bench) -> None:
    receiver = await bench.client.receiver(f"{QUEUE}/$Transfer/$DeadLetterQueue", credit=0)
    drain = asyncio.create_task(receiver.drain(5))
    subqueue = bench.desk.broker.namespace.get(QUEUE).transfer_dead_letter_queue
    await until(lambda: [one for one in subqueue.consumers if cast("Egress", one.context).link.is_draining])

    async def check() -> None:
        with pytest.raises(RemoteError) as caught:
            await drain
        assert_expired(caught.value)

    bench.ends(receiver)
    bench.afterwards(check)


async def receiver_with_an_unsettled_message(bench: Bench) -> None:
    namespace = bench.desk.broker.namespace
    await bench.desk.broker.perform(lambda namespace: namespace.get(STRANGE).send(MESSAGE, 0))
    receiver = await bench.client.receiver(STRANGE, is_second=True)
    delivery = await receiver.receive()

    async def check() -> None:
        # What comes too late settles nothing.
        receiver.link.settle(delivery, ACCEPTED)
        assert namespace.get(STRANGE).main.active_count == 1

    bench.ends(receiver)
    bench.afterwards(check)


async def request_to_management_under_way(bench: Bench) -> None:
    """It was allowed when it came, and is answered. The next one has no link."""
    client, runner = bench.client, bench.desk.broker.runner
    answers = await client.receiver(f"{QUEUE}/$management")
    requests = await client.sender(f"{QUEUE}/$management")
    held: list[None] = []
    flush = runner._flush
    runner._flush = lambda: held.append(None)  # type: ignore[method-assign] # as if the disk took its time
    properties: dict[str, object] = {"operation": "com.microsoft:peek-message"}
    body = {"from-sequence-number": 0, "message-count": Int(1)}
    peek = encode_message(properties=Properties(message_id="1"), application_properties=properties, value=body)
    await requests.send(peek)
    await until(lambda: held)

    async def check() -> None:
        runner._flush = flush  # type: ignore[method-assign]
        flush()
        answer = Message((await answers.receive()).payload)
        assert (answer.application_properties or {})["statusCode"] in {200, 204}
        with pytest.raises(RemoteError, match="ExpiredToken"):
            await requests.send(peek)

    # First of all: others wait for the disk.
    bench.afterwards(check, is_first=True)
    bench.ends(requests)


async def open_transaction(bench: Bench) -> None:
    """What was taken into it while the token was valid is committed. Nothing more gets into it."""
    # In a session of their own: all links of a session with a controller are to one entity.
    session = await bench.client._begin_session()
    controller = await attach(bench.client, session.attach_sender("controller", Coordinator()))
    sender = await attach(bench.client, session.attach_sender("in transaction", Target(TOPIC)))
    declared = await controller.send(Declare().encode())
    assert isinstance(declared, Declared)
    in_transaction = TransactionalState(declared.txn_id)
    await sender.send(MESSAGE, state=in_transaction)

    async def check() -> None:
        assert controller.error is None
        with pytest.raises(RemoteError, match="ExpiredToken"):
            await sender.send(MESSAGE, state=in_transaction)
        assert await controller.send(Discharge(declared.txn_id).encode()) == ACCEPTED
        assert bench.desk.broker.namespace.subscription(TOPIC, "all").main.active_count == 1

    bench.ends(sender)
    bench.afterwards(check)


async def sender_by_way_of_another_queue(bench: Bench) -> None:
    session = await bench.client._session
    properties: dict[object, object] = {Symbol("com.microsoft:transfer-destination-address"): STRANGE}
    bench.ends(await attach(bench.client, session.attach_sender("via", Target(QUEUE), properties=properties)))


async def sender_of_events(bench: Bench) -> None:
    bench.ends(await bench.client.sender(f"{HUB}/Partitions/0"))


async def receiver_of_events(bench: Bench) -> None:
    bench.ends(await bench.client.receiver(f"{HUB}/ConsumerGroups/$Default/Partitions/0"))


State = Callable[[Bench], Awaitable[None]]

# The first moves the clock. The one that holds up the disk comes after all others but one: a drain is answered at once,
# unless the broker has to read from the disk to know that there are no messages.
MOVES_THE_CLOCK: Final[State] = session_in_grace
HOLDS_UP_THE_DISK: Final[State] = request_to_management_under_way
WAITS_FOR_THE_DISK: Final[State] = draining_receiver
STATES: Final[list[State]] = [
    attach_that_waits_for_a_session,
    holder_of_a_session,
    idle_sender,
    sender_in_the_middle_of_a_message,
    idle_receiver,
    receiver_without_credit,
    receiver_with_an_unsettled_message,
    open_transaction,
    sender_by_way_of_another_queue,
    sender_of_events,
    receiver_of_events,
]


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    # The grace after which a receiver of an expired session is detached: longer than the test.
    monkeypatch.setattr(Services, "call_later", lambda self, _, step: self._loop.call_later(600, step))
    clock = StillClock()
    async with open_desk(tmp_path / "data", clock) as desk, await desk.connect() as client:
        yield Bench(desk, clock, client)


@mission("M17")
@pytest.mark.parametrize("first", range(len(STATES)), ids=lambda number: STATES[number].__name__)
async def test_whatever_its_links_are_doing_a_token_ends_them_all(bench: Bench, first: int) -> None:
    await bench.put_tokens(*ENTITIES)
    await MOVES_THE_CLOCK(bench)
    for state in (*STATES[first:], *STATES[:first], HOLDS_UP_THE_DISK, WAITS_FOR_THE_DISK):
        await state(bench)
    bench.expire()
    await bench.check()
    for target in (QUEUE, SUBSCRIPTION, f"{HUB}/ConsumerGroups/$Default/Partitions/0", f"{QUEUE}/$management"):
        with pytest.raises(RemoteError, match="amqp:unauthorized-access"):
            await bench.client.receiver(target)


@mission("M17")
async def test_links_whose_token_was_renewed_stay(bench: Bench) -> None:
    await bench.put_tokens(QUEUE, STRANGE)
    bench.clock.at_ms += LOCK_MS
    renewed = await bench.client.sender(QUEUE)
    other = await bench.client.sender(STRANGE)
    await bench.put_tokens(QUEUE)
    bench.expire()
    await until(lambda: other.error is not None)
    assert await renewed.send(MESSAGE) == ACCEPTED


@mission("M17")
async def test_a_sender_by_way_of_a_queue_ends_with_the_token_for_its_destination(bench: Bench) -> None:
    await bench.put_tokens(QUEUE, lifetime_s=10 * LIFETIME_S)
    await bench.put_tokens(STRANGE)
    direct = await bench.client.sender(QUEUE)
    await sender_by_way_of_another_queue(bench)
    bench.clock.at_ms += LOCK_MS
    bench.expire()
    await bench.check()
    assert await direct.send(MESSAGE) == ACCEPTED


@mission("M17")
async def test_somebody_elses_token_renews_nothing(bench: Bench) -> None:
    """A token for one entity, or with fewer rights, does not keep a link to another alive."""
    await bench.put_tokens(QUEUE)
    sender = await bench.client.sender(QUEUE)
    bench.clock.at_ms += LOCK_MS
    expires_at_s = bench.clock.at_ms // 1_000 + LIFETIME_S
    audience = f"sb://127.0.0.1/{QUEUE}"
    put = bench.desk.put_token
    # A key of another entity is refused, and one that may only listen replaces the claims to send.
    foreign = make_token(audience, "other", "key-other", expires_at_s)
    assert await put(bench.client, foreign, audience) == 401
    part = f"{audience}/$management"
    assert await put(bench.client, make_token(part, "manage", "key-manage", expires_at_s), part) == 202
    listens = make_token(audience, "listen", "key-listen", expires_at_s)
    assert await put(bench.client, listens, f"{audience}/$deadletterqueue") == 202
    bench.ends(sender)
    bench.expire()
    await bench.check()


@mission("M17")
async def test_a_link_that_cannot_be_detached_ends_with_its_connection(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.put_tokens(QUEUE)
    senders = [await bench.client.sender(QUEUE) for _ in range(3)]
    detach = Link.detach
    failed: list[Link] = []

    def fail_once(link: Link, error: object = None) -> None:
        if not failed:
            failed.append(link)
            raise RuntimeError("cannot be detached")
        detach(link, error)  # type: ignore[arg-type] # as it came

    (peer,) = bench.desk.broker.directory.default.services.peers
    with monkeypatch.context() as patched:
        patched.setattr(Link, "detach", fail_once)
        bench.clock.at_ms += LOCK_MS
        # Where no supervisor is, the error is raised when every link had its turn.
        with pytest.raises(RuntimeError, match="cannot be detached"):
            bench.expire()
    assert not [node for node in peer._nodes.values() if isinstance(node, Ingress)]
    await until(lambda: all(sender.error is not None for sender in senders))


@mission("M17")
async def test_the_next_token_ends_in_its_time_whatever_went_wrong_with_the_one_before(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.put_tokens(QUEUE)
    await bench.put_tokens(STRANGE, lifetime_s=LIFETIME_S + 50)
    services = bench.desk.broker.directory.default.services
    (peer,) = services.peers

    def fail() -> None:
        raise RuntimeError("cannot be judged")

    bench.clock.at_ms += LOCK_MS
    with monkeypatch.context() as patched:
        patched.setattr(peer, "expire_claims", fail)
        with pytest.raises(RuntimeError, match="cannot be judged"):
            bench.expire()
    sender = await bench.client.sender(STRANGE)
    bench.ends(sender)
    bench.clock.at_ms += 60_000
    services.wake()
    await bench.check()


async def test_a_disk_that_is_held_up_is_let_go(bench: Bench) -> None:
    """A check of this file's own: what the states do to the broker does not outlive them."""
    await bench.put_tokens(QUEUE)
    await HOLDS_UP_THE_DISK(bench)
    bench.clock.at_ms += LOCK_MS
    bench.expire()
    await bench.check()

    def look(namespace: Namespace) -> int:
        return len(namespace.queues)

    assert await bench.desk.broker.perform(look)
