"""Ways in which one authenticated connection tries to make the broker hold memory. Each ends when no more is taken."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import time
from collections.abc import Callable
from typing import Final

from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.delivery_states import Modified, TransactionalState
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.performatives import Disposition
from tandem.amqp.transactions import Declare
from tandem.amqp.types import LONG_TYPE, Array, Timestamp
from tandem.auth import make_token
from tests.load.attacker import HOST, Attacker, request, symbols, websocket_upgrade

__all__ = ["ATTACKS", "BIG", "HUB", "MANY", "RULES", "SESSIONS", "SMALL", "TOPIC", "Ports"]

# The entities, and what `tests.load.memory` fills them with.
BIG: Final = "big"
SMALL: Final = "small"
MANY: Final = "many"
SESSIONS: Final = "sessions"
TOPIC: Final = "topic"
RULES: Final = "topic/Subscriptions/rules"
HUB: Final = "hub"
DEFERRED: Final = "deferred"
TARGET: Final = "target"

LARGE_BODY: Final = bytes(255_000)
LARGE: Final = encode_message(data=LARGE_BODY)
TINY: Final = encode_message(data=b"x")
# A list of empty lists, which takes 21 times its bytes in memory.
_BLOWN_UP: Final[list[list[object]]] = [[] for _ in range(20_000)]


class Ports:
    """Where the broker listens."""

    def __init__(self, amqp: int, http: int) -> None:
        self.amqp = amqp
        self.http = http


def transactions(ports: Ports) -> int:
    """100 open transactions of 100 messages of 255 KB."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin() + attacker.attach_sender(None, 0) + attacker.attach_sender(TARGET, 1))
        identifiers: list[bytes] = []
        for number in range(100):
            attacker.received = b""
            attacker.write(attacker.transfer(number, Declare().encode()))
            found = re.search(rb"\x00\x53\x33.{1,8}?\xa0\x0c(.{12})", attacker.wait_for(b"\x00\x53\x33"), re.DOTALL)
            if found is None:
                break
            identifiers.append(found[1])
        for number in range(10_000):
            state = TransactionalState(identifiers[number // 100])
            if not attacker.write(attacker.transfer(1_000 + number, LARGE, 1, state=state), reads=True):
                break
        return attacker.written_bytes


def transaction_properties(ports: Ports) -> int:
    """Settlements in transactions that set large properties on messages."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin() + attacker.attach_sender(None, 0) + attacker.attach_receiver(SMALL, 1))
        attacker.write(attacker.flow(1, 2_000))
        attacker.read_for(1.0)
        for number in range(10):
            attacker.received = b""
            attacker.write(attacker.transfer(number, Declare().encode()))
            found = re.search(rb"\x00\x53\x33.{1,8}?\xa0\x0c(.{12})", attacker.wait_for(b"\x00\x53\x33"), re.DOTALL)
            if found is None:
                break
            outcome = Modified(message_annotations=symbols([("a", _BLOWN_UP[:4_000])]))
            for delivery in range(100):
                first = number * 100 + delivery
                if not attacker.write(_disposition(attacker, first, TransactionalState(found[1], outcome)), reads=True):
                    return attacker.written_bytes
        return attacker.written_bytes


def _disposition(attacker: Attacker, delivery_id: int, state: TransactionalState) -> bytes:
    return attacker.frame(Disposition(True, delivery_id, delivery_id, False, state))


def partial_deliveries(ports: Ports) -> int:
    """An incomplete delivery of 255 KB on each of 2,000 links of 20 sessions."""
    with Attacker(ports.amqp) as attacker:
        for channel in range(20):
            attacker.write(attacker.begin(channel))
            for handle in range(100):
                piece = attacker.transfer(handle, LARGE, handle, channel, more=True)
                if not attacker.write(attacker.attach_sender(TARGET, handle, channel) + piece, reads=True):
                    return attacker.written_bytes
        return attacker.written_bytes


def settled_sends(ports: Ports) -> int:
    """500 MB of messages that were sent settled, as fast as the broker reads."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin() + attacker.attach_sender(TARGET))
        for number in range(2_000):
            if not attacker.write(attacker.transfer(number, LARGE, is_settled=True), reads=True):
                break
        return attacker.written_bytes


def tiny_sends(ports: Ports) -> int:
    """300,000 messages of a byte on 30 links, beyond the credit."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin())
        attacker.write(b"".join([attacker.attach_sender(TARGET, handle) for handle in range(30)]))
        for round_number in range(100):
            frames = [attacker.transfer(round_number * 3_000 + number, TINY, number % 30) for number in range(3_000)]
            if not attacker.write(b"".join(frames), reads=True):
                break
        return attacker.written_bytes


def batches(ports: Ports) -> int:
    """20 batches of 65,000 of the smallest messages."""
    batch = make_batch([encode_message(data=b"")] * 65_000)
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin() + attacker.attach_sender(TARGET))
        for number in range(20):
            if not attacker.write(attacker.transfer(number, batch, message_format=BATCH_FORMAT), reads=True):
                break
        return attacker.written_bytes


def _attach_everywhere(attacker: Attacker, *, deletes: bool = False) -> None:
    for handle in range(40):
        attacker.write(
            attacker.attach_receiver(f"{MANY}-{handle}", handle, deletes=deletes) + attacker.flow(handle), reads=False
        )


def slow_reader(ports: Ports) -> int:
    """All credit on a queue of 200 MB, and nothing read."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin() + attacker.attach_receiver(BIG) + attacker.flow(0))
        time.sleep(3)
        return attacker.written_bytes


def slow_reader_of_many(ports: Ports) -> int:
    """All credit on 40 queues of 5 MB, and nothing read."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin())
        _attach_everywhere(attacker)
        time.sleep(3)
        return attacker.written_bytes


def slow_reader_that_deletes(ports: Ports) -> int:
    """The same, received and deleted."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin())
        _attach_everywhere(attacker, deletes=True)
        time.sleep(3)
        return attacker.written_bytes


def shut_window(ports: Ports) -> int:
    """All credit, everything read, and a session window of one transfer."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin(incoming_window=1) + attacker.attach_receiver(BIG))
        attacker.write(attacker.flow(0, window=1))
        attacker.read_for(3.0)
        return attacker.written_bytes


def locks(ports: Ports) -> int:
    """200,000 messages received and never settled, on link after link."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin())
        for handle in range(4):
            attacker.write(attacker.attach_receiver(SMALL, handle) + attacker.flow(handle))
            attacker.read_for(1.5)
        return attacker.written_bytes


def _ask(attacker: Attacker, node: str, credit: int) -> None:
    attacker.write(attacker.begin() + attacker.attach_sender(f"{node}/$management"))
    attacker.write(attacker.attach_receiver(f"{node}/$management", 1))
    if credit:
        attacker.write(attacker.flow(1, credit))
    attacker.read_for(0.3)


def _flood_requests(ports: Ports, node: str, payload: bytes, count: int, credit: int, *, reads: bool = False) -> int:
    with Attacker(ports.amqp) as attacker:
        _ask(attacker, node, credit)
        for first in range(0, count, 100):
            frames = [attacker.transfer(first + number, payload) for number in range(min(100, count - first))]
            if not attacker.write(b"".join(frames), reads=reads):
                break
        time.sleep(2)
        return attacker.written_bytes


def peeks(ports: Ports) -> int:
    """2,000 requests to browse 4 MiB each, and nothing read."""
    return _flood_requests(ports, BIG, request("peek-message", {"message-count": 1_000}), 2_000, 100_000)


def peeks_without_credit(ports: Ports) -> int:
    """The same without credit for the answers."""
    return _flood_requests(ports, BIG, request("peek-message", {"message-count": 1_000}), 2_000, 0, reads=True)


def deferred(ports: Ports) -> int:
    """500 requests for 200 deferred messages of 255 KB each."""
    body: dict[str, object] = {"sequence-numbers": Array(LONG_TYPE, list(range(1, 201)))}
    return _flood_requests(ports, DEFERRED, request("receive-by-sequence-number", body), 500, 100_000)


def few_deferred(ports: Ports) -> int:
    """500 requests for 30 deferred messages of 255 KB each, received and deleted or locked once."""
    body: dict[str, object] = {"sequence-numbers": Array(LONG_TYPE, list(range(1, 31)))}
    return _flood_requests(ports, DEFERRED, request("receive-by-sequence-number", body), 500, 100_000)


def schedules(ports: Ports) -> int:
    """300 requests of 1 MB, each to schedule four messages."""
    late = {"x-opt-scheduled-enqueue-time": Timestamp(4_000_000_000_000)}
    message = encode_message(message_annotations=late, data=LARGE_BODY)
    body: dict[str, object] = {"messages": [{"message-id": "m", "message": message}] * 4}
    return _flood_requests(ports, TARGET, request("schedule-message", body), 300, 100_000)


def blown_up_requests(ports: Ports) -> int:
    """50 requests of 900 KB that take 21 times as much when they are decoded."""
    body: dict[str, object] = {"message-count": 1, "junk": [_BLOWN_UP] * 15}
    return _flood_requests(ports, SMALL, request("peek-message", body), 50, 100_000)


def rule_lists(ports: Ports) -> int:
    """2,000 requests for a list of 500 rules, and nothing read."""
    return _flood_requests(ports, RULES, request("enumerate-rules", {"top": 2_000, "skip": 0}), 2_000, 100_000)


def attaches(ports: Ports) -> int:
    """5,000 links whose attach has 8 KB of properties that take 21 times as much."""
    junk = symbols([("junk", [[] for _ in range(2_500)])])
    with Attacker(ports.amqp) as attacker:
        for channel in range(20):
            attacker.write(attacker.begin(channel), reads=True)
            for handle in range(250):
                if not attacker.write(attacker.attach_sender(TARGET, handle, channel, properties=junk), reads=True):
                    return attacker.written_bytes
        return attacker.written_bytes


def session_waits(ports: Ports) -> int:
    """5,000 receivers that wait for a session, with large attaches."""
    junk = symbols([("junk", [[] for _ in range(2_500)])])
    filters = symbols([("com.microsoft:session-filter", None)])
    with Attacker(ports.amqp) as attacker:
        for channel in range(20):
            attacker.write(attacker.begin(channel), reads=True)
            for handle in range(250):
                frames = attacker.attach_receiver(SESSIONS, handle, channel, filters=filters, properties=junk)
                if not attacker.write(frames, reads=True):
                    return attacker.written_bytes
        return attacker.written_bytes


def begins(ports: Ports) -> int:
    """500 sessions with 60 KB of properties each."""
    junk = symbols([("junk", _BLOWN_UP)])
    with Attacker(ports.amqp) as attacker:
        begin = attacker.begin(properties=junk)
        for channel in range(500):
            # The channel is in the last two bytes of the frame's header: encoding takes as long as decoding.
            if not attacker.write(begin[:6] + struct.pack(">H", channel) + begin[8:], reads=True):
                break
        return attacker.written_bytes


def refused_links(ports: Ports) -> int:
    """250 links to a missing entity on each of 200 sessions, whose detach is never answered."""
    with Attacker(ports.amqp) as attacker:
        for channel in range(200):
            frames = [attacker.attach_sender("missing", handle, channel) for handle in range(250)]
            if not attacker.write(attacker.begin(channel) + b"".join(frames), reads=True):
                break
        return attacker.written_bytes


def flows(ports: Ports) -> int:
    """500,000 flows that ask for an answer, and nothing read."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin() + attacker.attach_receiver(SMALL))
        echo = attacker.flow(0, 0, echo=True) * 1_000
        for _ in range(500):
            if not attacker.write(echo):
                break
        return attacker.written_bytes


def hub_readers(ports: Ports) -> int:
    """160 readers of 32 partitions with 3 MB each, and nothing read."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin())
        for handle in range(160):
            address = f"{HUB}/ConsumerGroups/$Default/Partitions/{handle % 32}"
            attacker.write(attacker.attach_receiver(address, handle) + attacker.flow(handle))
        time.sleep(3)
        return attacker.written_bytes


def tokens(ports: Ports) -> int:
    """20,000 tokens, each for another audience."""
    with Attacker(ports.amqp) as attacker:
        attacker.write(attacker.begin() + attacker.attach_sender("$cbs") + attacker.attach_receiver("$cbs", 1))
        attacker.write(attacker.flow(1, 1_000_000))
        attacker.read_for(0.3)
        for number in range(20_000):
            audience = f"sb://{HOST}/{SMALL}/junk-{number}"
            token = make_token(audience, "RootManageSharedAccessKey", "SAS_KEY_VALUE", int(time.time()) + 3_600)
            put = encode_message(
                properties=Properties(message_id="m", reply_to="reply-0-1"),
                application_properties={
                    "operation": "put-token",
                    "type": "servicebus.windows.net:sastoken",
                    "name": audience,
                },
                value=token,
            )
            if not attacker.write(attacker.transfer(number, put), reads=True):
                break
        return attacker.written_bytes


def rest_bodies(ports: Ports) -> int:
    """200 pipelined requests with bodies of 1 MB, and nothing read."""
    token = make_token(f"http://{HOST}/{TARGET}", "RootManageSharedAccessKey", "SAS_KEY_VALUE", int(time.time()) + 600)
    head = (
        f"POST /{TARGET}/messages HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {token}\r\n"
        f"Content-Length: {len(LARGE_BODY) * 4}\r\n\r\n"
    ).encode()
    return _pour(ports.http, head + LARGE_BODY * 4, 200)


def websocket_message(ports: Ports) -> int:
    """A WebSocket message of which 100 MB arrive and the end never does."""
    part = bytes(1_000_000)
    header = struct.pack(">BBQI", 0x02, 0xFF, len(part), 0)
    more = struct.pack(">BBQI", 0x00, 0xFF, len(part), 0)
    with websocket_upgrade(ports.http) as opened:
        opened.settimeout(2)
        count = 0
        with contextlib.suppress(OSError):
            for number in range(100):
                opened.sendall((header if number == 0 else more) + part)
                count += len(part)
        return count


def _pour(port: int, data: bytes, count: int) -> int:
    written_bytes = 0
    with socket.create_connection((HOST, port)) as opened, contextlib.suppress(OSError):
        opened.settimeout(2)
        for _ in range(count):
            opened.sendall(data)
            written_bytes += len(data)
    return written_bytes


ATTACKS: Final[dict[str, Callable[[Ports], int]]] = {
    attack.__name__: attack
    for attack in (
        transactions,
        transaction_properties,
        partial_deliveries,
        settled_sends,
        tiny_sends,
        batches,
        slow_reader,
        slow_reader_of_many,
        slow_reader_that_deletes,
        shut_window,
        locks,
        peeks,
        peeks_without_credit,
        deferred,
        few_deferred,
        schedules,
        blown_up_requests,
        rule_lists,
        attaches,
        session_waits,
        begins,
        refused_links,
        flows,
        hub_readers,
        tokens,
        rest_bodies,
        websocket_message,
    )
}
