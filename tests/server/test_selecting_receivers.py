"""Receivers that ask for a part of a line, or only for a look at it: selectors and browsers, as clients of JMS have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tandem.amqp import ACCEPTED, RELEASED, Coordinator, Discharge, Message, Modified, TransactionalState
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.terminus import Source
from tandem.amqp.types import Described, Symbol, ULong
from tandem.driver import Client, Receiver
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.message import BrokeredMessage
from tandem.engine.queries import MessagesQuery, Query
from tandem.errors import RemoteError
from tandem.server.broker import Broker
from tests.markers import spec
from tests.patience import until
from tests.server.test_broker import connect, counts, data_of, declare, make_queue, running

SELECTOR: Final = "apache.org:selector-filter:string"
SELECTOR_CODE: Final = ULong(0x0000468C00000004)
NO_LOCAL_CODE: Final = ULong(0x0000468C00000003)


@asynccontextmanager
async def one_queue(directory: Path, **settings: Any) -> AsyncIterator[tuple[Broker, Client]]:
    async with running(directory) as broker:
        await make_queue(broker, "queue", **settings)
        async with await connect(broker) as client:
            yield broker, client


async def send(client: Client, *colours: str, **properties: Any) -> None:
    sender = await client.sender("queue")
    for number, colour in enumerate(colours):
        await sender.send(
            encode_message(
                properties=Properties(**properties),
                application_properties={"colour": colour, "number": number},
                data=f"{colour}-{number}".encode(),
            )
        )
    await sender.close()


def selecting(text: str, *, key: str = "jms-selector", code: object = SELECTOR_CODE, **fields: Any) -> Source:
    return Source("queue", filter={Symbol(key): Described(code, text)}, **fields)


def browsing(**fields: Any) -> Source:
    return Source("queue", distribution_mode="copy", **fields)


async def drained(receiver: Receiver, credit: int = 100) -> list[bytes | None]:
    """Return what a drain brings."""
    await receiver.drain(credit)
    return [data_of(await receiver.receive()) for _ in range(receiver.waiting_count)]


async def granted(client: Client, credit: int, source: str | Source = "queue") -> Receiver:
    """Return a receiver that takes this many messages, and no more when it has got them."""
    receiver = await client.receiver(source, credit=0)
    receiver.grant(credit)
    return receiver


def answered(receiver: Receiver) -> Source:
    attach = receiver.link.attach
    assert attach is not None
    assert attach.source is not None
    return attach.source


# --- browsers -------------------------------------------------------------------------------------------------------


@spec("amqp:3.5.7")
async def test_a_browser_sees_every_message_and_leaves_all_of_them_as_they_were(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (broker, client):
        await send(client, "red", "blue", "green")
        browser = await client.receiver(browsing(), credit=0)
        assert answered(browser).distribution_mode == "copy"
        assert await drained(browser) == [b"red-0", b"blue-1", b"green-2"]
        # It is at the end, and a second drain says so.
        assert await drained(browser) == []
        await browser.close()
        assert counts(broker, "queue") == (3, 0, 0)
        receiver = await client.receiver("queue", credit=10)
        for expected in (b"red-0", b"blue-1", b"green-2"):
            delivery = await receiver.receive()
            header = Message(delivery.payload).header
            assert header is not None
            assert (data_of(delivery), header.delivery_count) == (expected, 0)


async def test_a_browser_sees_locked_messages_and_is_sent_everything_settled(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (_, client):
        await send(client, "red")
        receiver = await client.receiver("queue", credit=1)
        await receiver.receive()
        browser = await client.receiver(browsing(), credit=1)
        delivery = await browser.receive()
        assert (data_of(delivery), delivery.is_settled) == (b"red-0", True)


async def test_a_browser_goes_on_with_messages_that_come_later(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (_, client):
        browser = await client.receiver(browsing(), credit=5)
        await send(client, "red", "blue")
        assert [data_of(await browser.receive()) for _ in range(2)] == [b"red-0", b"blue-1"]


async def test_a_browser_gets_no_more_than_its_credit_and_goes_on_where_it_was(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (_, client):
        await send(client, *["red"] * 5)
        browser = await client.receiver(browsing(), credit=0)
        assert await drained(browser, 2) == [b"red-0", b"red-1"]
        assert await drained(browser, 2) == [b"red-2", b"red-3"]
        assert await drained(browser, 2) == [b"red-4"]


async def test_a_browser_with_a_selector_sees_what_it_picks(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (broker, client):
        await send(client, "red", "blue", "red")
        browser = await client.receiver(selecting("colour = 'red'", distribution_mode="copy"), credit=0)
        assert await drained(browser) == [b"red-0", b"red-2"]
        assert counts(broker, "queue") == (3, 0, 0)


async def test_a_browser_looks_at_dead_letters_and_at_all_sessions_of_a_queue(tmp_path: Path) -> None:
    async with one_queue(tmp_path, requires_session=True) as (_, client):
        await send(client, "red", group_id="a")
        await send(client, "blue", group_id="b")
        browser = await client.receiver(browsing(), credit=0)
        assert await drained(browser) == [b"red-0", b"blue-0"]
        dead = await client.receiver(Source("queue/$deadletterqueue", distribution_mode="copy"), credit=0)
        assert await drained(dead) == []


async def test_a_browser_is_told_when_its_queue_is_deleted(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (broker, client):
        browser = await client.receiver(browsing(), credit=5)
        await broker.perform(lambda namespace: namespace.delete(namespace.get("queue")))
        with pytest.raises(RemoteError, match="deleted"):
            await browser.receive()


# --- selectors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        selecting("colour = 'red'"),
        selecting("colour = 'red'", key=SELECTOR, code=Symbol(SELECTOR)),
        Source("queue", filter={Symbol(SELECTOR): "colour = 'red'"}),
    ],
    ids=["by number", "by symbol", "by key"],
)
async def test_a_receiver_gets_what_its_selector_picks_and_others_get_the_rest(tmp_path: Path, source: Source) -> None:
    async with one_queue(tmp_path) as (broker, client):
        await send(client, "red", "blue", "red", "blue")
        red = await client.receiver(source, credit=0)
        assert answered(red).filter == source.filter
        await red.drain(10)
        for expected in (b"red-0", b"red-2"):
            delivery = await red.receive()
            assert data_of(delivery) == expected
            await red.confirm(delivery)
        assert red.waiting_count == 0
        rest = await client.receiver("queue", credit=0)
        assert await drained(rest) == [b"blue-1", b"blue-3"]
        assert counts(broker, "queue")[0] == 2


async def test_a_selector_picks_messages_that_come_later(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (_, client):
        red = await client.receiver(selecting("colour = 'red' AND number BETWEEN 1 AND 2"), credit=5)
        await send(client, "red", "red", "blue", "red")
        assert data_of(await red.receive()) == b"red-1"
        assert await drained(red) == []


async def test_a_selector_refers_to_header_fields_of_jms(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (_, client):
        await send(client, "red", correlation_id="a", subject="order")
        await send(client, "blue", correlation_id="b", subject="order")
        selected = await client.receiver(selecting("JMSCorrelationID = 'b' AND JMSType = 'order'"), credit=0)
        assert await drained(selected) == [b"blue-0"]


async def test_a_message_that_came_back_is_selected_again_with_its_delivery_count(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (_, client):
        await send(client, "blue", "red", "red")
        plain = await granted(client, 3)
        deliveries = [await plain.receive() for _ in range(3)]
        red = await client.receiver(selecting("colour = 'red'"), credit=0)
        assert await drained(red) == []
        await plain.confirm(deliveries[0], Modified(delivery_failed=True))
        await plain.confirm(deliveries[2], Modified(delivery_failed=True))
        red.grant(1)
        delivery = await red.receive()
        header = Message(delivery.payload).header
        assert header is not None
        assert (data_of(delivery), header.delivery_count) == (b"red-2", 1)


async def test_a_message_is_not_given_to_a_selector_and_to_a_plain_receiver(tmp_path: Path) -> None:
    """Both have read it into memory when one of them takes it."""
    async with one_queue(tmp_path) as (broker, client):
        await send(client, *["red", "blue"] * 20)
        plain = await client.receiver("queue", credit=1)
        red = await client.receiver(selecting("colour = 'red'"), credit=1)
        other = await client.receiver(selecting("number < 100"), credit=1)
        seen: list[bytes | None] = []
        while len(seen) < 40:
            for receiver in (plain, red, other):
                if receiver.waiting_count:
                    delivery = await receiver.receive()
                    seen.append(data_of(delivery))
                    await receiver.confirm(delivery)
                    receiver.grant(1)
            await until(lambda: len(seen) == 40 or plain.waiting_count + red.waiting_count + other.waiting_count > 0)
        assert len(set(seen)) == 40
        await until(lambda: counts(broker, "queue") == (0, 0, 0))


async def test_a_selector_that_is_asked_for_again_goes_on_where_it_was(tmp_path: Path) -> None:
    """A client may open a consumer for each message: the backlog is not read again each time."""
    async with one_queue(tmp_path) as (broker, client):
        await send(client, *["blue"] * 30, "red", "red")
        expected = [b"red-30", b"red-31"]
        for data in expected:
            red = await granted(client, 1, selecting("colour = 'red'"))
            delivery = await red.receive()
            assert data_of(delivery) == data
            await red.confirm(delivery)
            await red.close()
        cursors = broker.namespace.get("queue").main.cursors
        assert cursors is not None
        (outlet,) = cursors._selected.values()
        assert outlet.head.cursor >= 30
        # What came back is found though the cursor has passed it.
        plain = await granted(client, 1)
        first = await plain.receive()
        blue = await client.receiver(selecting("colour = 'blue' AND number = 0"), credit=0)
        assert await drained(blue) == []
        await blue.close()
        await plain.confirm(first, RELEASED)
        again = await client.receiver(selecting("colour = 'blue' AND number = 0"), credit=1)
        assert data_of(await again.receive()) == b"blue-0"


def count_reads(broker: Broker) -> list[int]:
    """Return a list that gets the number of messages of each page that is read from now on."""
    counted: list[int] = []
    store = broker.runner._store
    read = store.read

    def counting(query: Query) -> None:
        if isinstance(query, MessagesQuery):
            answer = query.answer

            def answering(messages: list[BrokeredMessage]) -> None:
                counted.append(len(messages))
                answer(messages)

            query.answer = answering
        read(query)

    store.read = counting  # type: ignore[method-assign]  # the same store, counted
    return counted


async def test_a_message_costs_a_selector_the_same_whatever_waits_before_it(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (broker, client):
        await send(client, *["blue"] * 200)
        red = await client.receiver(selecting("colour = 'red'"), credit=0)
        assert await drained(red) == []
        counted = count_reads(broker)
        for _ in range(5):
            await send(client, "red")
            red.grant(1)
            await red.confirm(await red.receive())
            # The same for a client that opens a consumer for each message.
            await red.close()
            red = await client.receiver(selecting("colour = 'red'"), credit=0)
        assert sum(counted) <= 10
        browser = await client.receiver(browsing(), credit=0)
        assert len(await drained(browser, 10)) == 10
        assert sum(counted) <= 20


@pytest.mark.parametrize(
    "source, condition, words",
    [
        (selecting("colour ="), "com.microsoft:argument-error", "selector"),
        (selecting("JMSPriority > 3"), "com.microsoft:argument-error", "JMSPriority"),
        (
            Source("queue", filter={Symbol("no-local"): Described(NO_LOCAL_CODE, "NoLocalFilter{}")}),
            "amqp:not-implemented",
            "No-local",
        ),
    ],
)
async def test_a_filter_that_cannot_be_applied_refuses_the_attach(
    tmp_path: Path, source: Source, condition: str, words: str
) -> None:
    async with one_queue(tmp_path) as (_, client):
        with pytest.raises(RemoteError, match=words) as raised:
            await client.receiver(source)
        assert raised.value.condition == condition


@spec("amqp:3.5.8")
@pytest.mark.parametrize("address", ["queue", "queue/$management", "hub/ConsumerGroups/$Default/Partitions/0"])
async def test_an_attach_is_answered_with_the_filters_that_are_in_force(tmp_path: Path, address: str) -> None:
    async with one_queue(tmp_path) as (broker, client):
        await broker.perform(lambda namespace: namespace.hubs.create(EventHubDescription("hub")))
        source = Source(address, filter={Symbol("example.com:colour"): Described(Symbol("example.com:colour"), "red")})
        receiver = await client.receiver(source, credit=0)
        assert not answered(receiver).filter


async def test_a_session_is_not_received_in_part(tmp_path: Path) -> None:
    async with one_queue(tmp_path, requires_session=True) as (_, client):
        both: dict[object, object] = {Symbol(SELECTOR): "colour = 'red'", Symbol("com.microsoft:session-filter"): "a"}
        with pytest.raises(RemoteError, match="session") as raised:
            await client.receiver(Source("queue", filter=both))
        assert raised.value.condition == "amqp:not-implemented"


# --- what comes back at once ----------------------------------------------------------------------------------------


async def rolled_back(client: Client, *, is_settled: bool) -> Receiver:
    """Receive a message, accept it in a transaction, and roll that back."""
    controller = await client.sender(Coordinator())
    receiver = await granted(client, 1)
    delivery = await receiver.receive()
    transaction = await declare(controller)
    receiver.settle(delivery, TransactionalState(transaction, ACCEPTED), is_settled=is_settled)
    assert await controller.send(Discharge(transaction, fail=True).encode()) == ACCEPTED
    return receiver


@spec("amqp:4.4.2")
async def test_a_message_that_its_receiver_settled_comes_back_with_the_rollback(tmp_path: Path) -> None:
    async with one_queue(tmp_path) as (_, client):
        await send(client, "red")
        receiver = await rolled_back(client, is_settled=True)
        receiver.grant(1)
        header = Message((await receiver.receive()).payload).header
        assert header is not None
        assert header.delivery_count == 1


async def test_rollbacks_of_a_message_end_in_the_dead_letter_queue(tmp_path: Path) -> None:
    async with one_queue(tmp_path, max_delivery_count=2) as (broker, client):
        await send(client, "red")
        for _ in range(2):
            receiver = await rolled_back(client, is_settled=True)
            await receiver.close()
        await until(lambda: counts(broker, "queue") == (0, 1, 0))


async def test_a_receiver_that_has_not_settled_keeps_its_lock_over_a_rollback(tmp_path: Path) -> None:
    """As the service's own SDKs expect, which settle the message in another way then."""
    async with one_queue(tmp_path) as (broker, client):
        await send(client, "red")
        await rolled_back(client, is_settled=False)
        assert len(broker.namespace.get("queue").main.outlet.locks.held) == 1


@spec("amqp:3.5.3")
async def test_unsettled_messages_of_a_link_with_a_default_outcome_come_back_when_it_is_closed(tmp_path: Path) -> None:
    """Clients of JMS prefetch: what they have not looked at counts as never delivered."""
    async with one_queue(tmp_path) as (_, client):
        await send(client, "red", "blue")
        source = Source("queue", default_outcome=Modified(delivery_failed=True))
        receiver = await client.receiver(source, credit=2)
        assert answered(receiver).default_outcome == RELEASED
        await receiver.receive()
        await receiver.receive()
        await receiver.close()
        other = await client.receiver("queue", credit=2)
        for expected in (b"red-0", b"blue-1"):
            delivery = await other.receive()
            header = Message(delivery.payload).header
            assert header is not None
            assert (data_of(delivery), header.delivery_count) == (expected, 0)


async def test_locks_of_a_connection_that_broke_last_until_they_expire(tmp_path: Path) -> None:
    """Nobody knows what the client has made of the messages."""
    async with one_queue(tmp_path) as (broker, client):
        await send(client, "red")
        async with await connect(broker) as mortal:
            source = Source("queue", default_outcome=Modified(delivery_failed=True))
            receiver = await mortal.receiver(source, credit=1)
            await receiver.receive()
            mortal.endpoint.abort()
        main = broker.namespace.get("queue").main
        await until(lambda: not main.consumers)
        assert len(main.outlet.locks.held) == 1
