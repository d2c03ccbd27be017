"""Proton's blocking API, cut down to what the features need.

proton is not installed where the types are checked, so its objects are Any here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from proton import Delivery, Timeout
from proton.utils import BlockingConnection, BlockingReceiver, Fetcher

# Long enough for a loaded machine, short enough that a server which does not answer is reported soon.
ANSWER_LIMIT_S: Final = 5.0


class Unsupported(Exception):  # noqa: N818 - an outcome, not an error
    """The client library cannot do this."""


class Received(NamedTuple):
    """A message as Proton decoded it, its delivery, and the bytes that came over the wire."""

    message: Any
    delivery: Any

    @property
    def encoded(self) -> bytes:
        encoded: bytes = self.delivery.encoded
        return encoded

    def settle(self, state: int) -> None:
        self.delivery.update(state)
        self.delivery.settle()


class Link:
    """A receiving link with no credit but what is given by hand."""

    def __init__(
        self, connection: Any, address: str, *, session: Any = None, name: str | None = None, option: Any = None
    ) -> None:
        self._connection = connection
        self._fetcher = Fetcher(connection, 0)
        link = connection.container.create_receiver(
            session or connection.conn, address, name=name, handler=self._fetcher, options=option
        )
        self._receiver = BlockingReceiver(connection, link, self._fetcher, credit=0)
        self.link = link

    def give_credit(self, count: int) -> None:
        self.link.flow(count)

    def take(self, count: int = 1) -> list[Received]:
        """The next messages. The credit for them must have been given."""
        incoming = self._fetcher.incoming
        self._connection.wait(lambda: len(incoming) >= count, msg=f"waiting for {count} messages")
        return [Received(*incoming.popleft()) for _ in range(count)]

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
        return self.take(len(self._fetcher.incoming))

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
    from proton.utils import BlockingSender

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


def wait_for(connection: Any, condition: Callable[[], bool], message: str) -> None:
    connection.wait(condition, msg=message)


def idle(connection: Any, seconds: float) -> None:
    """Process what the server sends for a while, and send nothing but heartbeats."""
    with contextlib.suppress(Timeout):
        connection.wait(lambda: False, timeout=seconds)
