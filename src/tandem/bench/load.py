"""A load generator on Tandem's own driver, for machines without the C++ one (`build/amqp_load`).

`python -m tandem.bench.load send|recv|both URL ADDRESS COUNT BODY_BYTES [DURABLE] [CREDIT]` takes the same words and
prints the same last line of JSON. It costs about as much per message as the server it measures, so a rate from it is
a lower bound.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial
from urllib.parse import urlsplit

from tandem.amqp import (
    ConnectionOpened,
    CreditReceived,
    DispositionReceived,
    Event,
    IncomingDelivery,
    LinkAttached,
    ReceiverLink,
    Role,
    SenderLink,
    SessionBegun,
    Settings,
    Source,
    Target,
)
from tandem.amqp.message import encode_message
from tandem.driver import Endpoint, run

__all__: list[str] = []


class _Load:
    """One connection that sends or receives `count` messages; `done` is set when the last one is settled."""

    def __init__(self, address: str, count: int) -> None:
        self.address = address
        self.count = count
        self.started_at = 0.0
        self.ended_at = 0.0
        self.done = asyncio.Event()

    def on_events(self, endpoint: Endpoint, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, ConnectionOpened):
                endpoint.connection.begin()
            elif isinstance(event, SessionBegun):
                self.attach(event)
            else:
                self.on_event(event)

    def attach(self, event: SessionBegun) -> None:
        raise NotImplementedError

    def on_event(self, event: Event) -> None:
        raise NotImplementedError

    def start_clock(self) -> None:
        if not self.started_at:
            self.started_at = time.perf_counter()

    def finish(self) -> None:
        self.ended_at = time.perf_counter()
        self.done.set()

    def on_writable(self, endpoint: Endpoint) -> None:
        """Credit bounds what is under way; nothing waits for the transport."""

    def on_lost(self, endpoint: Endpoint) -> None:
        self.done.set()


class _Sending(_Load):
    def __init__(self, address: str, count: int, body_bytes: int) -> None:
        super().__init__(address, count)
        self.payload = encode_message(data=b"x" * body_bytes)
        self.left = count
        self.accepted = 0

    def attach(self, event: SessionBegun) -> None:
        event.session.attach_sender("load", Target(self.address))

    def on_event(self, event: Event) -> None:
        if isinstance(event, CreditReceived):
            self.start_clock()
            self._send(event.link)
        elif isinstance(event, DispositionReceived):
            self.accepted += len(event.deliveries)
            if self.accepted == self.count:
                self.finish()

    def _send(self, link: SenderLink) -> None:
        batch = min(link.credit, self.left)
        self.left -= batch
        for _ in range(batch):
            link.send(self.payload)


class _Receiving(_Load):
    def __init__(self, address: str, count: int, credit: int) -> None:
        super().__init__(address, count)
        self.credit = credit
        self.received = 0

    def attach(self, event: SessionBegun) -> None:
        event.session.attach_receiver("load", Source(self.address))

    def on_event(self, event: Event) -> None:
        if isinstance(event, LinkAttached):
            assert isinstance(event.link, ReceiverLink)
            event.link.grant(self.credit)
        elif isinstance(event, IncomingDelivery):
            self.start_clock()
            event.link.settle(event)
            self.received += 1
            if self.received == self.count:
                self.finish()
            elif event.link.credit * 2 <= self.credit:
                event.link.grant(self.credit)


async def _drive(loads: list[_Load], host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    for load in loads:
        settings = Settings(f"load-{type(load).__name__}")
        await loop.create_connection(partial(Endpoint, Role.CLIENT, settings, load), host, port)
    for load in loads:
        await load.done.wait()


def main(arguments: list[str]) -> None:
    mode, url, address = arguments[0], urlsplit(arguments[1]), arguments[2]
    count, body_bytes = int(arguments[3]), int(arguments[4])
    credit = int(arguments[6]) if len(arguments) > 6 else 500  # the seventh word, as in the usage line
    loads: list[_Load] = []
    if mode in ("recv", "both"):
        loads.append(_Receiving(address, count, credit))
    if mode in ("send", "both"):
        loads.append(_Sending(address, count, body_bytes))
    run(_drive(loads, url.hostname or "127.0.0.1", url.port or 5672))
    if not all(load.ended_at for load in loads):
        sys.exit("the connection was lost before all messages were settled")
    seconds = max(load.ended_at for load in loads) - min(load.started_at for load in loads if load.started_at)
    json.dump({"mode": mode, "count": count, "seconds": seconds, "messages_per_second": count / seconds}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
