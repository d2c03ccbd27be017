"""Short forms of what the tests do with kombu."""

from __future__ import annotations

import socket
from typing import Any, Final, Self

from kombu import Connection, Queue
from kombu.message import Message

from tests.patience import PATIENCE_S

# Seconds. How long to listen for what must not come. A busy machine can hide it, but cannot make it come.
SILENCE_S: Final = 0.5


class Listener:
    """A consumer on a channel of its own, and what it got: a context manager, closed on the way out."""

    def __init__(
        self, connection: Connection, *queues: Queue, acks: bool = True, prefetch_count: int = 0, no_ack: bool = False
    ) -> None:
        self.connection = connection
        self.channel = connection.channel()
        self.messages: list[Message] = []
        self._acks = acks and not no_ack
        if prefetch_count:
            self.channel.basic_qos(0, prefetch_count, False)
        self.consumer = connection.Consumer(queues, channel=self.channel, on_message=self._on_message, no_ack=no_ack)

    def __enter__(self) -> Self:
        self.consumer.consume()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.consumer.cancel()
        self.channel.close()

    def _on_message(self, message: Message) -> None:
        self.messages.append(message)
        if self._acks:
            message.ack()

    @property
    def bodies(self) -> list[Any]:
        return [message.payload for message in self.messages]

    def wait_for(self, count: int) -> list[Any]:
        """Return the bodies once there are so many."""
        while len(self.messages) < count:
            self.connection.drain_events(timeout=PATIENCE_S)
        return self.bodies

    def listen(self, timeout_s: float = SILENCE_S) -> list[Any]:
        """Return the bodies after a time without any message."""
        try:
            while True:
                self.connection.drain_events(timeout=timeout_s)
        except socket.timeout:  # noqa: UP041 - what kombu promises to raise
            return self.bodies
