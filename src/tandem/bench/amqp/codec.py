"""Codec rates on one core: transfers in and out, dispositions in and out, with no transport between.

`python -m tandem.bench.amqp.codec` prints one JSON object, for the form (compiled or interpreted) that it runs in.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import tandem
from tandem.amqp import (
    ACCEPTED,
    RELEASED,
    Connection,
    IncomingDelivery,
    LinkAttached,
    ReceiverLink,
    Role,
    SenderLink,
    Settings,
    Target,
)
from tandem.amqp.message import encode_message

__all__ = ["codec_rates"]

# Messages per measured batch: what a loop turn of a busy server handles, and below the session window.
BATCH = 1_000
Value = TypeVar("Value")

# Bytes. What a read from a busy socket gives.
READ_BYTES = 262_144


class _Pair:
    """A client that sends to a server, both in this process, with the bytes handed over by hand."""

    def __init__(self, body_bytes: int) -> None:
        self.client = Connection(Role.CLIENT, Settings("client", max_unsettled=BATCH * 2))
        self.server = Connection(Role.SERVER, Settings("server", max_unsettled=BATCH * 2))
        self.client.open(sasl=False)
        self.exchange()
        session = self.client.begin()
        self.exchange()
        self.sender: SenderLink = session.attach_sender("codec", Target("queue"))
        events = self.server.receive(self.client.data_to_send())
        attached = events[0]
        assert isinstance(attached, LinkAttached)
        assert isinstance(attached.link, ReceiverLink)
        self.receiver: ReceiverLink = attached.link
        self.receiver.accept()
        self.grant()
        self.payload = encode_message(data=b"x" * body_bytes)

    def exchange(self) -> None:
        for _ in range(3):
            self.server.receive(self.client.data_to_send())
            self.client.receive(self.server.data_to_send())

    def grant(self) -> None:
        self.receiver.grant(BATCH)
        self.client.receive(self.server.data_to_send())

    # --- what is measured -----------------------------------------------------------------------------------

    def send(self) -> bytes:
        send, payload = self.sender.send, self.payload
        for _ in range(BATCH):
            send(payload)
        return self.client.data_to_send()

    def receive(self, data: bytes) -> list[IncomingDelivery]:
        deliveries: list[IncomingDelivery] = []
        for offset in range(0, len(data), READ_BYTES):
            for event in self.server.receive(data[offset : offset + READ_BYTES]):
                assert isinstance(event, IncomingDelivery)
                deliveries.append(event)
        return deliveries

    def settle(self, deliveries: list[IncomingDelivery]) -> bytes:
        # Two outcomes in turn, so that no two dispositions merge: the worst case, a frame for each message.
        for delivery in deliveries:
            self.receiver.settle(delivery, RELEASED if delivery.delivery_id & 1 else ACCEPTED)
        return self.server.data_to_send()


def _timed(seconds: dict[str, float], name: str, work: Callable[[], Value]) -> Value:
    start = time.perf_counter()
    value = work()
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start
    return value


def _round(body_bytes: int, batches: int) -> dict[str, float]:
    pair = _Pair(body_bytes)
    seconds: dict[str, float] = {}
    for _ in range(batches):
        data = _timed(seconds, "transfers_out", pair.send)
        deliveries = _timed(seconds, "transfers_in", partial(pair.receive, data))
        settled = _timed(seconds, "dispositions_out", partial(pair.settle, deliveries))
        _timed(seconds, "dispositions_in", partial(pair.client.receive, settled))
        pair.grant()
    return {name: BATCH * batches / spent for name, spent in seconds.items()}


def codec_rates(body_bytes: int = 1024, batches: int = 50, rounds: int = 3) -> dict[str, float]:
    """Frames per second, the best of several rounds: what else the machine does can only slow a round down."""
    measured = [_round(body_bytes, batches) for _ in range(rounds)]
    return {name: max(result[name] for result in measured) for name in measured[0]}


if __name__ == "__main__":
    json.dump({"form": tandem.form(), "rates": codec_rates()}, sys.stdout)
