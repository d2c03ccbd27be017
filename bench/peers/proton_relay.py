"""A minimal relay in memory on python-qpid-proton, the baseline of `tandem bench amqp`.

    .venv-peers/bin/python bench/peers/proton_relay.py PORT [CREDIT]

It listens on 127.0.0.1 and prints `ready PORT`. Any address is a queue: what is sent there is accepted and handed out,
in order, to whoever has given credit. It is written the way Proton's documentation teaches, events of a
MessagingHandler and its own Message objects, and leaves out whatever would cost it time: no requeueing, no limits, no
durability.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from typing import Any, Final

from proton import Endpoint
from proton.handlers import MessagingHandler
from proton.reactor import Container

HOST: Final = "127.0.0.1"

# Proton's own default of 10 makes a sender wait for a round trip every few messages: 4,400 sends of 1 KB per second,
# against 5,600 with 100 and 5,700 with 1,000 on the same machine.
DEFAULT_CREDIT: Final = 1000


class Queue:
    """Messages in order of arrival, and the links that want them."""

    def __init__(self) -> None:
        self.messages: deque[Any] = deque()
        self.consumers: deque[Any] = deque()

    def dispatch(self) -> None:
        """Hand out what there is, a message per consumer in turn, to those with credit."""
        idle_count = 0
        while self.messages and idle_count < len(self.consumers):
            consumer = self.consumers[0]
            self.consumers.rotate(-1)
            if consumer.credit > 0:
                consumer.send(self.messages.popleft())
                idle_count = 0
            else:
                idle_count += 1


class Relay(MessagingHandler):  # type: ignore[misc] # proton is not installed where the types are checked
    """All queues of the process."""

    def __init__(self, port: int, credit: int) -> None:
        super().__init__(prefetch=credit)
        self.port = port
        self.queues: defaultdict[str, Queue] = defaultdict(Queue)

    def on_start(self, event: Any) -> None:
        event.container.listen(f"{HOST}:{self.port}")
        print("ready", self.port, flush=True)

    def on_link_opening(self, event: Any) -> None:
        link = event.link
        if link.is_sender:
            link.source.address = link.remote_source.address
            self.queues[link.source.address].consumers.append(link)
        else:
            link.target.address = link.remote_target.address

    def on_sendable(self, event: Any) -> None:
        self.queues[event.link.source.address].dispatch()

    def on_message(self, event: Any) -> None:
        queue = self.queues[event.link.target.address]
        queue.messages.append(event.message)
        queue.dispatch()

    def on_link_closing(self, event: Any) -> None:
        self.forget(event.link)

    def on_connection_closing(self, event: Any) -> None:
        self.forget_links_of(event.connection)

    def on_disconnected(self, event: Any) -> None:
        self.forget_links_of(event.connection)

    def forget_links_of(self, connection: Any) -> None:
        link = connection.link_head(Endpoint.REMOTE_ACTIVE)
        while link:
            self.forget(link)
            link = link.next(Endpoint.REMOTE_ACTIVE)

    def forget(self, link: Any) -> None:
        if link.is_sender and link in self.queues[link.source.address].consumers:
            self.queues[link.source.address].consumers.remove(link)


def main() -> None:
    port = int(sys.argv[1])
    credit = int(sys.argv[2]) if len(sys.argv) > 2 else DEFAULT_CREDIT
    Container(Relay(port, credit)).run()


if __name__ == "__main__":
    main()
