"""Proton's blocking API, cut down to what the features need.

proton is not installed where the types are checked, so its objects are Any here.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import uuid4

from proton import Delivery, Endpoint, Message, Timeout
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender, LinkDetached

# Long enough for a loaded machine, short enough that a server which does not answer is reported soon.
ANSWER_LIMIT_S: Final = 60.0


class Unsupported(Exception):
    """The client library cannot do this."""


class Received(NamedTuple):
    """A message as Proton decoded it, its delivery, and the bytes that came over the wire."""

    message: Any
    delivery: Any
    encoded: bytes

    def settle(self, state: int) -> None:
        self.delivery.update(state)
        self.delivery.settle()


class Inbox:
    """Keeps what arrives on a link, and neither settles it nor gives credit for more."""

    def __init__(self, container: Any) -> None:
        self._container = container
        self.messages: deque[Received] = deque()

    # What Proton calls.

    def on_delivery(self, event: Any) -> None:
        delivery = event.delivery
        if not delivery.readable or delivery.partial:
            return
        encoded = event.link.recv(delivery.pending)
        event.link.advance()
        message = Message()
        message.decode(encoded)
        self.messages.append(Received(message, delivery, bytes(encoded)))
        # The blocking call that waits for this message has to look again.
        self._container.yield_()

    def on_link_remote_close(self, event: Any) -> None:
        if event.link.state & Endpoint.LOCAL_ACTIVE:
            event.link.close()
            raise LinkDetached(event.link)


class Link:
    """A receiving link with no credit but what is given by hand."""

    def __init__(
        self, connection: Any, address: str, *, session: Any = None, name: str | None = None, option: Any = None
    ) -> None:
        self._connection = connection
        self._inbox = Inbox(connection.container)
        link = connection.container.create_receiver(
            session or connection.conn,
            address,
            # Proton's own choice is the same for all links to an address.
            name=name or str(uuid4()),
            handler=self._inbox,
            options=option,
        )
        self._receiver = BlockingReceiver(connection, link, None, credit=0)
        self.link = link

    def give_credit(self, count: int) -> None:
        self.link.flow(count)

    def take(self, count: int = 1) -> list[Received]:
        """The next messages. The credit for them must have been given."""
        messages = self._inbox.messages
        self._connection.wait(lambda: len(messages) >= count, msg=f"waiting for {count} messages")
        return [messages.popleft() for _ in range(count)]

    def take_one(self) -> Received:
        return self.take(1)[0]

    def drain(self) -> list[Received]:
        """Ask for the credit back. What arrives before it is back is returned."""
        self.link.drain(0)
        self._connection.wait(lambda: not self.link.draining() and self.link.credit == 0, msg="draining")
        self.link.drain_mode = False
        return self.arrived()

    def arrived(self) -> list[Received]:
        """What is here already."""
        return self.take(len(self._inbox.messages))

    def close(self) -> None:
        self._receiver.close()


@dataclass(frozen=True)
class Peer:
    """The server under test, and the queue of the feature."""

    host: str
    port: int
    address: str
    user: str
    password: str

    @contextlib.contextmanager
    def connection(self, **options: Any) -> Iterator[Any]:
        """A connection, SASL ANONYMOUS unless the options say otherwise. It is closed in good order."""
        options.setdefault("allowed_mechs", "ANONYMOUS")
        connection = BlockingConnection(f"amqp://{self.host}:{self.port}", timeout=ANSWER_LIMIT_S, **options)
        # Not in a finally: after a failure the server may not answer a close, and that would hide the failure.
        yield connection
        connection.close()


def send(connection: Any, address: str, *messages: Any, session: Any = None) -> None:
    """Send and insist that every message is accepted."""
    sender = connection.create_sender(address) if session is None else sender_on(connection, session, address)
    for message in messages:
        delivery = sender.send(message)
        assert delivery.remote_state == Delivery.ACCEPTED, f"the server answered {delivery.remote_state}"
    sender.close()


def sender_on(connection: Any, session: Any, address: str) -> Any:
    """A blocking sender on another session than the connection's own."""
    return BlockingSender(connection, connection.container.create_sender(session, address))


def send_encoded(connection: Any, address: str, encoded: bytes) -> None:
    """Send a message whose bytes were made elsewhere."""
    sender = connection.create_sender(address)
    wait_for(connection, lambda: sender.link.credit > 0, "waiting for credit")
    delivery = sender.link.delivery(sender.link.delivery_tag())
    sender.link.stream(encoded)
    sender.link.advance()
    wait_for(connection, lambda: delivery.settled, "waiting for the outcome")
    assert delivery.remote_state == Delivery.ACCEPTED, f"the server answered {delivery.remote_state}"
    delivery.settle()
    sender.close()


def receive(connection: Any, address: str, count: int) -> list[Received]:
    """Receive and accept."""
    link = Link(connection, address)
    link.give_credit(count)
    received = link.take(count)
    for one in received:
        one.settle(Delivery.ACCEPTED)
    link.close()
    return received


def left_in(connection: Any, address: str) -> list[Any]:
    """The bodies of all messages that are still in a queue, which is empty afterwards."""
    link = Link(connection, address)
    link.give_credit(100)
    received = link.drain()
    for one in received:
        one.settle(Delivery.ACCEPTED)
    link.close()
    return [one.message.body for one in received]


def require_left(connection: Any, address: str, *bodies: object) -> None:
    """Insist that a queue holds messages with these bodies and no others. It is empty afterwards."""
    left = left_in(connection, address)
    assert left == list(bodies), f"{left} was left in the queue, not {list(bodies)}"


def wait_for(connection: Any, condition: Callable[[], bool], message: str) -> None:
    connection.wait(condition, msg=message)


def idle(connection: Any, seconds: float) -> None:
    """Process what the server sends for a while, and send nothing but heartbeats."""
    with contextlib.suppress(Timeout):
        connection.wait(lambda: False, timeout=seconds)
