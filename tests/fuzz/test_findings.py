"""What fuzzing found and a counterexample alone would not explain."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tandem.amqp.connection import AMQP_HEADER, Connection, Role
from tandem.amqp.delivery_states import AmqpError, DeliveryState, Modified, Rejected
from tandem.amqp.events import ConnectionFailed, LinkAttached, SessionFailed
from tandem.amqp.hot_paths import frame
from tandem.amqp.link import Link, ReceiverLink, SenderLink
from tandem.amqp.performatives import Attach, Begin, Disposition, Flow, Open, Performative
from tandem.amqp.settings import Settings
from tandem.amqp.terminus import Target
from tandem.amqp.types import Symbol
from tandem.errors import DecodeError, EncodeError, FrameSizeTooSmall, NotFound
from tests.fuzz.conversations import attached_server
from tests.markers import spec

LONG = "more than fits into a frame of 512 bytes " * 20


def links() -> tuple[Connection, ReceiverLink, SenderLink]:
    """A connection to a peer with frames of 512 bytes, and its links, each with unsettled deliveries."""
    connection = attached_server().connection
    receiver, sender = connection.sessions[0].links.values()
    assert isinstance(receiver, ReceiverLink)
    assert isinstance(sender, SenderLink)
    return connection, receiver, sender


@spec("amqp:2.8.15")
def test_an_attach_whose_answer_would_not_fit_into_the_peers_frames_ends_the_session() -> None:
    connection = Connection(Role.SERVER, Settings("server"))
    opening = (Open("peer", max_frame_size=512), Begin(None, 0, 9, 9), Attach("link", 0, False, target=Target(LONG)))
    events = connection.receive(AMQP_HEADER + b"".join([frame(0, performative.encode()) for performative in opening]))
    event = events[-1]
    assert isinstance(event, SessionFailed)
    assert isinstance(event.error, FrameSizeTooSmall)
    assert not [event for event in events if isinstance(event, LinkAttached)]
    assert not event.session.links


def detach(link: Link) -> None:
    link.detach(NotFound(LONG))


def end(link: Link) -> None:
    link.session.end(AmqpError("x:y", LONG))


def close(link: Link) -> None:
    link.session.connection.close(NotFound(LONG))


@spec("amqp:2.7.1")
@pytest.mark.parametrize("call", [detach, end, close])
def test_words_of_the_application_that_do_not_fit_into_the_peers_frames_are_shortened(
    call: Callable[[Link], None],
) -> None:
    connection, receiver, _ = links()
    call(receiver)
    assert connection.data_to_send()
    assert receiver.is_gone


@pytest.mark.parametrize(
    "state",
    [Modified(None, None, {Symbol("x"): LONG}), Rejected(AmqpError("not-ascii:\u00e9"))],
    ids=["long", "symbol"],
)
def test_a_state_that_cannot_be_written_is_refused_when_it_is_given_not_when_it_is_written(
    state: DeliveryState,
) -> None:
    connection, receiver, sender = links()
    received = connection.sessions[0].incoming_unsettled[0]
    sent = connection.sessions[0].outgoing_unsettled[0]
    with pytest.raises(EncodeError):
        receiver.settle(received, state)
    with pytest.raises(EncodeError):
        sender.settle(sent, state)
    assert connection.data_to_send() == b""
    assert not received.is_settled
    assert not sent.is_settled
    receiver.settle(received)
    sender.settle(sent, None)
    assert connection.data_to_send()


@spec("amqp:2.3.1")
@pytest.mark.parametrize("performative", [Flow(1, 6, 0, 100), Disposition(True, 0)], ids=["flow", "disposition"])
def test_bytes_behind_a_performative_without_payload_are_an_error_on_the_hot_paths_too(
    performative: Performative,
) -> None:
    connection, _, _ = links()
    (event,) = connection.receive(frame(0, performative.encode() + b"\x40"))
    assert isinstance(event, ConnectionFailed)
    assert isinstance(event.error, DecodeError)
