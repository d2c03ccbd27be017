"""What `Connection.receive` reports. Events come in the order in which the peer caused them.

An arrived message is reported by its `IncomingDelivery` (in `deliveries.py`), which is an event itself: one object per
message is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.amqp.delivery_states import AmqpError, DeliveryState

if TYPE_CHECKING:
    from tandem.amqp.deliveries import IncomingDelivery, OutgoingDelivery
    from tandem.amqp.link import Link, ReceiverLink, SenderLink
    from tandem.amqp.performatives import Attach, Open
    from tandem.amqp.session import Session
    from tandem.errors import ProtocolError

__all__ = [
    "AuthenticationFailed",
    "AuthenticationRequested",
    "AuthenticationSucceeded",
    "ConnectionClosed",
    "ConnectionFailed",
    "ConnectionOpened",
    "CreditDrained",
    "CreditReceived",
    "DeliveryAborted",
    "DeliveryRefused",
    "DispositionReceived",
    "Event",
    "LinkAttached",
    "LinkDetached",
    "LinkFailed",
    "SessionBegun",
    "SessionEnded",
    "SessionFailed",
    "SettlementReceived",
]


class Event:
    """Base of all events."""

    __slots__ = ()


class AuthenticationRequested(Event):
    """Server: the client chose a mechanism. Answer with `accept_authentication` or `reject_authentication`.

    Input behind it is kept back until then; call `receive(b"")` after the answer.
    """

    __slots__ = ("authorization_id", "hostname", "initial_response", "mechanism", "password", "user")

    def __init__(
        self,
        mechanism: str,
        initial_response: bytes,
        hostname: str | None,
        user: str | None = None,
        password: str | None = None,
        authorization_id: str | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.initial_response = initial_response
        self.hostname = hostname
        self.user = user
        self.password = password
        self.authorization_id = authorization_id

    def __repr__(self) -> str:
        # Never the password, and never the response that holds it: events end up in logs.
        return f"AuthenticationRequested({self.mechanism}, user={self.user!r}, hostname={self.hostname!r})"


class AuthenticationSucceeded(Event):
    """Client: the server took our credentials."""

    __slots__ = ("additional_data",)

    def __init__(self, additional_data: bytes | None) -> None:
        self.additional_data = additional_data


class AuthenticationFailed(Event):
    """Client: the server refused, or offers no mechanism we can use. The connection is over."""

    __slots__ = ("code", "offered")

    def __init__(self, code: int, offered: list[str]) -> None:
        self.code = code
        self.offered = offered

    def __repr__(self) -> str:
        return f"AuthenticationFailed(code={self.code}, offered={self.offered})"


class ConnectionOpened(Event):
    """The peer's open arrived; ours is on its way if it had not been sent."""

    __slots__ = ("open",)

    def __init__(self, open: Open) -> None:
        self.open = open

    def __repr__(self) -> str:
        return f"ConnectionOpened({self.open!r})"


class ConnectionClosed(Event):
    """The peer closed the connection (our close is queued) or answered our close. Write what is left and hang up."""

    __slots__ = ("error",)

    def __init__(self, error: AmqpError | None) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"ConnectionClosed({self.error!r})"


class ConnectionFailed(Event):
    """The peer broke the protocol; the close that says how is queued. Write it and hang up."""

    __slots__ = ("error",)

    def __init__(self, error: ProtocolError) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"ConnectionFailed({self.error!r})"


class SessionBegun(Event):
    """A session is mapped, begun by either side."""

    __slots__ = ("session",)

    def __init__(self, session: Session) -> None:
        self.session = session


class SessionEnded(Event):
    """The peer ended a session, or answered our end."""

    __slots__ = ("error", "session")

    def __init__(self, session: Session, error: AmqpError | None) -> None:
        self.session = session
        self.error = error


class SessionFailed(Event):
    """The peer broke the protocol on one session; the end that says how is queued. Others go on."""

    __slots__ = ("error", "session")

    def __init__(self, session: Session, error: ProtocolError) -> None:
        self.session = session
        self.error = error


class LinkAttached(Event):
    """The peer attached. If it began, answer with `link.accept()` or `link.refuse(error)`, now or later."""

    __slots__ = ("attach", "link")

    def __init__(self, link: Link, attach: Attach) -> None:
        self.link = link
        self.attach = attach

    def __repr__(self) -> str:
        return f"LinkAttached({self.attach!r})"


class LinkDetached(Event):
    """The peer detached (our detach is queued), or answered ours. The link object is of no more use."""

    __slots__ = ("error", "is_closed", "link")

    def __init__(self, link: Link, error: AmqpError | None, is_closed: bool) -> None:
        self.link = link
        self.error = error
        self.is_closed = is_closed


class LinkFailed(Event):
    """The peer broke the protocol on one link; the detach that says how is queued. Session and others go on."""

    __slots__ = ("error", "link")

    def __init__(self, link: Link, error: ProtocolError) -> None:
        self.link = link
        self.error = error


class CreditReceived(Event):
    """The receiver spoke: look at `link.credit`. When `link.is_draining`, send what there is, then `link.drained()`."""

    __slots__ = ("link",)

    def __init__(self, link: SenderLink) -> None:
        self.link = link


class CreditDrained(Event):
    """The sender has nothing more for the drain we asked for."""

    __slots__ = ("link",)

    def __init__(self, link: ReceiverLink) -> None:
        self.link = link


class DeliveryAborted(Event):
    """The sender gave up a delivery half way; nothing of it counts."""

    __slots__ = ("delivery_id", "link")

    def __init__(self, link: ReceiverLink, delivery_id: int) -> None:
        self.link = link
        self.delivery_id = delivery_id


class DeliveryRefused(Event):
    """A message beyond the link's max-message-size was discarded as it came in; its rejection is queued."""

    __slots__ = ("delivery_id", "link", "size_bytes")

    def __init__(self, link: ReceiverLink, delivery_id: int, size_bytes: int) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.size_bytes = size_bytes


class DispositionReceived(Event):
    """The receiver said something about messages we sent on one link. Those it settled are forgotten here.

    Where it did not settle them, it waits for us: answer with `link.settle(delivery, state)`.
    """

    __slots__ = ("deliveries", "is_settled", "link", "state")

    def __init__(
        self, link: SenderLink, deliveries: list[OutgoingDelivery], state: DeliveryState | None, is_settled: bool
    ) -> None:
        self.link = link
        self.deliveries = deliveries
        self.state = state
        self.is_settled = is_settled

    def __repr__(self) -> str:
        return f"DispositionReceived({self.deliveries!r}, {self.state!r}, settled={self.is_settled})"


class SettlementReceived(Event):
    """The sender said something about messages it sent us on one link, and settled them or not."""

    __slots__ = ("deliveries", "is_settled", "link", "state")

    def __init__(
        self, link: ReceiverLink, deliveries: list[IncomingDelivery], state: DeliveryState | None, is_settled: bool
    ) -> None:
        self.link = link
        self.deliveries = deliveries
        self.state = state
        self.is_settled = is_settled
