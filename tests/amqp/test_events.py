"""Events: each carries what it is given, and shows what a log needs and no more."""

from __future__ import annotations

import pytest

from tandem.amqp import events
from tandem.amqp.connection import Connection, Role
from tandem.amqp.deliveries import IncomingDelivery, OutgoingDelivery
from tandem.amqp.delivery_states import ACCEPTED, AmqpError
from tandem.amqp.events import (
    AuthenticationFailed,
    AuthenticationRequested,
    AuthenticationSucceeded,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    CreditDrained,
    CreditReceived,
    DeliveryAborted,
    DeliveryRefused,
    DispositionReceived,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    SessionBegun,
    SessionEnded,
    SessionFailed,
    SettlementReceived,
)
from tandem.amqp.link import ReceiverLink, SenderLink
from tandem.amqp.performatives import SENDER, Attach, Open
from tandem.amqp.session import Session
from tandem.amqp.settings import Settings
from tandem.errors import FramingError, NotFound, WindowViolation

SESSION = Session(Connection(Role.SERVER, Settings("c")), 0)
RECEIVER_LINK = ReceiverLink(SESSION, "in", 1)
SENDER_LINK = SenderLink(SESSION, "out", 2)
INCOMING = IncomingDelivery(RECEIVER_LINK, 7, b"tag", 0, False, None, b"payload")
OUTGOING = OutgoingDelivery(SENDER_LINK, 8, b"tag", False, None)
ERROR = AmqpError("amqp:not-found", "no such queue")
ATTACH = Attach("in", 1, SENDER)

# Every event, and what its attributes must be.
EVENTS: list[tuple[Event, dict[str, object]]] = [
    (
        AuthenticationRequested("PLAIN", b"\x00u\x00p", "h", "u", "p", "a"),
        {
            "mechanism": "PLAIN",
            "initial_response": b"\x00u\x00p",
            "hostname": "h",
            "user": "u",
            "password": "p",
            "authorization_id": "a",
        },
    ),
    (AuthenticationSucceeded(b"Welcome!"), {"additional_data": b"Welcome!"}),
    (AuthenticationFailed(1, ["PLAIN"]), {"code": 1, "offered": ["PLAIN"]}),
    (ConnectionOpened(Open("c")), {"open": Open("c")}),
    (ConnectionClosed(ERROR), {"error": ERROR}),
    (ConnectionClosed(None), {"error": None}),
    (SessionBegun(SESSION), {"session": SESSION}),
    (SessionEnded(SESSION, ERROR), {"session": SESSION, "error": ERROR}),
    (LinkAttached(RECEIVER_LINK, ATTACH), {"link": RECEIVER_LINK, "attach": ATTACH}),
    (LinkDetached(SENDER_LINK, ERROR, True), {"link": SENDER_LINK, "error": ERROR, "is_closed": True}),
    (CreditReceived(SENDER_LINK), {"link": SENDER_LINK}),
    (CreditDrained(RECEIVER_LINK), {"link": RECEIVER_LINK}),
    (DeliveryAborted(RECEIVER_LINK, 7), {"link": RECEIVER_LINK, "delivery_id": 7}),
    (DeliveryRefused(RECEIVER_LINK, 7, 300), {"link": RECEIVER_LINK, "delivery_id": 7, "size_bytes": 300}),
    (
        DispositionReceived(SENDER_LINK, [OUTGOING], ACCEPTED, True),
        {"link": SENDER_LINK, "deliveries": [OUTGOING], "state": ACCEPTED, "is_settled": True},
    ),
    (
        SettlementReceived(RECEIVER_LINK, [INCOMING], None, False),
        {"link": RECEIVER_LINK, "deliveries": [INCOMING], "state": None, "is_settled": False},
    ),
]


@pytest.mark.parametrize("event, attributes", EVENTS, ids=lambda value: type(value).__name__)
def test_an_event_carries_what_it_was_given(event: Event, attributes: dict[str, object]) -> None:
    assert {name: getattr(event, name) for name in attributes} == attributes


def test_failures_carry_the_error_that_goes_to_the_peer() -> None:
    broken, errant, missing = FramingError("broken"), WindowViolation("errant"), NotFound("missing")
    assert ConnectionFailed(broken).error is broken
    failed = SessionFailed(SESSION, errant)
    assert (failed.session, failed.error) == (SESSION, errant)
    detached = LinkFailed(RECEIVER_LINK, missing)
    assert (detached.link, detached.error) == (RECEIVER_LINK, missing)


def test_the_tests_know_every_event() -> None:
    known = {type(event).__name__ for event, _ in EVENTS} | {"ConnectionFailed", "SessionFailed", "LinkFailed", "Event"}
    assert known == set(events.__all__)
    assert all(issubclass(getattr(events, name), Event) for name in known)


def test_events_show_what_a_log_needs() -> None:
    shown = [
        repr(AuthenticationFailed(1, ["PLAIN"])),
        repr(ConnectionOpened(Open("c", None, 512, 7))),
        repr(ConnectionClosed(ERROR)),
        repr(ConnectionFailed(FramingError("broken"))),
        repr(LinkAttached(RECEIVER_LINK, ATTACH)),
        repr(DispositionReceived(SENDER_LINK, [OUTGOING], ACCEPTED, True)),
    ]
    assert shown == [
        "AuthenticationFailed(code=1, offered=['PLAIN'])",
        "ConnectionOpened(Open(container_id='c', max_frame_size=UInt(512), channel_max=UShort(7)))",
        "ConnectionClosed(AmqpError(condition='amqp:not-found', description='no such queue'))",
        "ConnectionFailed(FramingError('broken'))",
        "LinkAttached(Attach(name='in', handle=UInt(1), role=False, incomplete_unsettled=False))",
        "DispositionReceived([OutgoingDelivery(id=8, tag=b'tag')], Accepted([]), settled=True)",
    ]


def test_a_request_for_authentication_shows_neither_the_password_nor_the_response_that_holds_it() -> None:
    event = AuthenticationRequested("PLAIN", b"\x00user\x00secret", "h", "user", "secret", "")
    assert repr(event) == "AuthenticationRequested(PLAIN, user='user', hostname='h')"
