"""Senders and receivers with the official SDK that go on through trouble, and an account of what became of messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from tests.patience import wait_until

__all__ = ["Account", "consuming", "send_each"]

# Long enough for every restart that a test waits for.
RETRIES = 100


class Account:
    """What was acknowledged to senders, and what receivers completed."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.completed: set[str] = set()
        self.errors: list[str] = []

    @property
    def missing(self) -> set[str]:
        return self.acknowledged - self.completed

    def wait_until_complete(self) -> None:
        wait_until(lambda: not self.missing, "for messages that were acknowledged", lambda: str(len(self.missing)))


def connect(connection_string: str) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(
        connection_string, retry_total=RETRIES, retry_backoff_factor=0.1, retry_backoff_max=1
    )


def send_each(connection_string: str, queue: str, bodies: list[str], account: Account) -> None:
    """Send them one by one; the SDK waits and tries again by itself."""
    with connect(connection_string) as client, client.get_queue_sender(queue) as sender:
        for body in bodies:
            sender.send_messages(ServiceBusMessage(body, message_id=body[:64]))
            account.acknowledged.add(body)


@contextlib.contextmanager
def consuming(connection_string: str, queue: str, account: Account) -> Iterator[None]:
    """Receive and complete in the background, until the end of the block."""
    is_over = threading.Event()

    def consume() -> None:
        with connect(connection_string) as client:
            while not is_over.is_set():
                try:
                    with client.get_queue_receiver(queue, prefetch_count=10) as receiver:
                        while not is_over.is_set():
                            for message in receiver.receive_messages(10, max_wait_time=0.5):
                                receiver.complete_message(message)
                                account.completed.add(str(message))
                except ServiceBusError as error:
                    # A lock that was lost with a restart: the message comes again.
                    account.errors.append(repr(error))

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
