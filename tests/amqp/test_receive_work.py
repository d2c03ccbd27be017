"""`Connection.receive` stops when its work is done, and loses nothing by it."""

from __future__ import annotations

import pytest

from tandem.amqp import DispositionReceived, Event, LinkDetached, SenderLink, Settings, Source, Target
from tandem.amqp.connection import AMQP_HEADER, EMPTY_FRAME, Connection, Role
from tandem.amqp.delivery_states import ACCEPTED
from tandem.amqp.hot_paths import frame
from tandem.amqp.message import encode_message
from tandem.amqp.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer

ATTACH = Attach("link", 0, False, source=Source("here"), target=Target("there"), initial_delivery_count=0)
CONVERSATION = b"".join(
    [
        AMQP_HEADER,
        frame(0, Open("peer").encode()),
        EMPTY_FRAME,
        frame(0, Begin(None, 0, 5_000, 5_000).encode()),
        frame(0, ATTACH.encode()),
        *[
            frame(0, Transfer(0, number, b"%d" % number, 0, settled=True).encode() + encode_message(data=b"x" * 3_000))
            for number in range(20)
        ],
        frame(0, Flow(0, 5_000, 20, 5_000, 0, 20, 0, echo=True).encode()),
        frame(0, Detach(0, closed=True).encode()),
        frame(0, End().encode()),
        frame(0, Close().encode()),
    ]
)


def server() -> Connection:
    return Connection(Role.SERVER, Settings("server"))


def told(data: bytes, *, work: int, piece: int) -> tuple[list[str], int]:
    """What the bytes meant, in pieces of so many bytes and with so much work for each call; and how many calls."""
    connection = server()
    told: list[str] = []
    calls = 0
    for start in range(0, len(data), piece):
        told += [repr(event) for event in connection.receive(data[start : start + piece], 0, work)]
        calls += 1
        while connection.has_more:
            told += [repr(event) for event in connection.receive(b"", 0, work)]
            calls += 1
    return [event.partition(" at 0x")[0] for event in told], calls


@pytest.mark.parametrize("piece", [1, 7, 1_000, 1_000_000])
@pytest.mark.parametrize("work", [1, 5, 16, 100])
def test_whatever_work_a_call_may_do_the_events_are_the_same(work: int, piece: int) -> None:
    whole, _ = told(CONVERSATION, work=1 << 30, piece=1_000_000)
    parts, calls = told(CONVERSATION, work=work, piece=piece)
    assert parts == whole
    assert calls > 1


def test_large_frames_and_rare_ones_cost_more_than_small_ones() -> None:
    connection = server()
    connection.receive(AMQP_HEADER + frame(0, Open("peer").encode()), 0, 1_000)
    connection.receive(EMPTY_FRAME, 0, 1_000)
    assert connection.work_left == 999
    connection.receive(frame(0, Begin(None, 0, 5_000, 5_000).encode()), 0, 1_000)
    assert connection.work_left == 984
    connection.receive(frame(0, ATTACH.encode()), 0, 1_000)
    large = Transfer(0, 0, b"0", 0, settled=True).encode() + encode_message(data=b"x" * 10_240)
    connection.receive(frame(0, large), 0, 1_000)
    assert connection.work_left == 1_000 - 11


def test_what_the_application_needs_for_a_delivery_counts() -> None:
    connection = server()
    opening = frame(0, Open("peer").encode()) + frame(0, Begin(None, 0, 5_000, 5_000).encode())
    connection.receive(AMQP_HEADER + opening + frame(0, ATTACH.encode()))
    (link,) = connection.sessions[0].links.values()
    link.work_per_delivery = 100  # type: ignore[attr-defined] # the peer sends, so it is a receiver link
    transfer = frame(0, Transfer(0, 0, b"0", 0, settled=True).encode() + b"\x00Sw@")
    assert len(connection.receive(transfer * 10, 0, 250)) == 3
    assert connection.has_more


def receiving(count: int) -> Connection:
    """A server that has sent so many deliveries to its peer, none of which is settled."""
    connection = server()
    attach = Attach("link", 0, True, source=Source("there"), target=Target("here"))
    opening = frame(0, Open("peer").encode()) + frame(0, Begin(None, 0, 100_000, 100_000).encode())
    connection.receive(AMQP_HEADER + opening + frame(0, attach.encode()))
    (link,) = connection.sessions[0].links.values()
    assert isinstance(link, SenderLink)
    link.accept()
    connection.receive(frame(0, Flow(1, 100_000, 0, 100_000, 0, 0, count).encode()))
    for number in range(count):
        link.send(b"\x00Sw@", b"%d" % number)
    connection.data_to_send()
    return connection


def settled(events: list[Event]) -> list[int]:
    """The ids of the deliveries that the peer has settled, in their order."""
    return [
        delivery.delivery_id
        for event in events
        if isinstance(event, DispositionReceived)
        for delivery in event.deliveries
    ]


def test_a_disposition_of_many_deliveries_is_handled_in_parts_and_before_what_follows() -> None:
    connection = receiving(1_000)
    everything = Disposition(True, 0, (1 << 31) - 2, settled=True, state=ACCEPTED)
    data = frame(0, everything.encode()) + frame(0, Detach(0, closed=True).encode())
    parts = [connection.receive(data, 0, 100)]
    while connection.has_more:
        parts.append(connection.receive(b"", 0, 100))
    assert max(len(settled(part)) for part in parts) <= 100
    together = [event for part in parts for event in part]
    assert settled(together) == list(range(1_000))
    assert isinstance(together[-1], LinkDetached)


def test_a_disposition_costs_what_it_names_and_what_is_looked_through_for_it() -> None:
    connection = receiving(1_000)
    connection.receive(frame(0, Disposition(True, 0, 99, settled=True, state=ACCEPTED).encode()), 0, 500)
    assert connection.work_left == 500 - 1 - 100
    # It names nothing that there is, and all that there is was looked at to know.
    connection.receive(frame(0, Disposition(True, 5_000, 1 << 30, settled=True, state=ACCEPTED).encode()), 0, 500)
    assert connection.work_left < 500 - 1


def test_a_disposition_that_is_handled_in_parts_ends_with_its_session() -> None:
    connection = receiving(1_000)
    connection.receive(frame(0, Disposition(True, 0, 999, settled=True, state=ACCEPTED).encode()), 0, 100)
    assert connection.has_more
    connection.sessions[0].end()
    assert connection.receive(b"", 0, 100) == []
    assert not connection.has_more


def test_no_work_at_all_keeps_everything() -> None:
    connection = server()
    assert connection.receive(CONVERSATION, 0, 0) == []
    assert connection.has_more
    assert len(connection.receive(b"")) == len(server().receive(CONVERSATION))


def test_a_connection_that_breaks_has_no_more() -> None:
    connection = server()
    connection.receive(b"HTTP/1.1" + EMPTY_FRAME * 100, 0, 1)
    assert connection.is_broken
    assert not connection.has_more
