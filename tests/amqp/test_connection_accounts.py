"""What a connection counts for its application, and the limits that an application sets on the way."""

from __future__ import annotations

import pytest

from tandem.amqp import LinkAttached, Settings, Source, Target
from tandem.amqp.connection import AMQP_HEADER, EMPTY_FRAME, Connection, Role
from tandem.amqp.events import ConnectionFailed
from tandem.amqp.hot_paths import frame
from tandem.amqp.performatives import Attach, Begin, Open
from tandem.errors import ResourceLimitExceeded

OPEN = AMQP_HEADER + frame(0, Open("peer").encode())
ATTACH = frame(
    0, Attach("link", 0, False, source=Source("here"), target=Target("there"), initial_delivery_count=0).encode()
)


def server(max_undecided_bytes: int = 1_000) -> Connection:
    return Connection(Role.SERVER, Settings("server", max_undecided_bytes=max_undecided_bytes))


def test_what_the_application_holds_counts_until_it_is_released() -> None:
    connection = server(max_undecided_bytes=1_000)
    connection.hold(1_001)
    was_saturated = connection.is_saturated
    connection.release(1)
    assert (was_saturated, connection.is_saturated) == (True, False)
    assert connection.unsent_bytes == 0


@pytest.mark.parametrize("is_open_first", [True, False])
def test_frames_are_limited_from_the_open_on(is_open_first: bool) -> None:
    connection = server()
    if is_open_first:
        connection.receive(OPEN)
    connection.limit_frames(1_024, 512)
    if not is_open_first:
        connection.receive(OPEN)
    events = connection.receive(frame(0, Begin(None, 0, 1, 1, properties={"large": "x" * 600}).encode()))
    (failure,) = events
    assert isinstance(failure, ConnectionFailed)
    assert isinstance(failure.error, ResourceLimitExceeded)
    assert connection.max_frame_size == 1_024


def test_an_attach_that_was_put_away_is_still_answered() -> None:
    connection = server()
    (attached,) = [
        event
        for event in connection.receive(OPEN + frame(0, Begin(None, 0, 5, 5).encode()) + ATTACH)
        if isinstance(event, LinkAttached)
    ]
    attached.link.forget_attach()
    assert attached.link.attach is None
    reply = attached.link.attach_reply()
    assert isinstance(reply.target, Target)
    assert reply.target.address == "there"
    attached.link.accept(reply)
    attached.link.forget_attach()
    assert attached.link.is_attached


def test_input_that_was_left_comes_before_input_that_is_new() -> None:
    connection = server()
    connection.receive(OPEN + EMPTY_FRAME + EMPTY_FRAME, 0, 1)
    assert connection.has_more
    events = connection.receive(frame(0, Begin(None, 0, 5, 5).encode()) + ATTACH)
    assert [event for event in events if isinstance(event, LinkAttached)]
    assert not connection.has_more
