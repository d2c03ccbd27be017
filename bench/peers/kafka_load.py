"""The load of `tandem bench hub` for logs that speak Kafka's protocol: produce requests, pipelined on one connection.

`python bench/peers/kafka_load.py JOB` makes a topic, sends, and prints the events per second as a JSON object.
Every request holds one record batch for one partition, and is acknowledged by all replicas, of which there is one. All
batches are the same bytes, made once, so that the load itself costs next to nothing.

Of Kafka's protocol there is here what this takes: CreateTopics version 2 and Produce version 3, the oldest that
current brokers still know.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from typing import Final

import msgspec

from tandem.bench.load.job import LoadFailed
from tandem.errors import TandemError

__all__ = ["KafkaJob", "crc32c", "record_batch"]

_PRODUCE: Final = 0, 3
_CREATE_TOPICS: Final = 19, 2
_CLIENT: Final = b"tandem-bench"

# acks=all: a request is answered when all replicas have what it holds.
_ALL_REPLICAS: Final = -1

# Requests that are under way at the same time, as many as deliveries that Tandem lets a sender of events have.
_WINDOW: Final = 300

# Error codes: none; those of a topic that was just made, or is there already.
_NONE: Final = 0
_NOT_READY: Final = (3, 5, 6, 7, 14, 15, 41)
_EXISTS: Final = 36

# Seconds. How long a topic may take to have leaders, how often to ask, and how long one answer may take.
_READY_LIMIT_S: Final = 60.0
_RETRY_S: Final = 0.1
_ANSWER_LIMIT_S: Final = 60.0
_REQUEST_TIMEOUT_MS: Final = 30_000

# Seconds. With a sync for each request, all events of a job could take hours; the rate is known before.
_SENDING_LIMIT_S: Final = 10.0


class KafkaJob(msgspec.Struct, frozen=True, kw_only=True):
    """Events to send, as many as there is time for, to a topic that is made for them."""

    host: str
    port: int
    topic: str
    partitions: int
    events: int
    body_bytes: int
    batch_events: int


class _Connection:
    """Requests and answers, in the same order."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=_ANSWER_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> bytes:
        """An answer, behind the number of its request."""
        length = self._answers.read(4)
        if len(length) < 4:
            raise LoadFailed("the connection was closed")
        return self._answers.read(int.from_bytes(length, "big"))[4:]

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


def _request(api: tuple[int, int], body: bytes) -> bytes:
    # Answers come in the order of their requests, so that numbers need not tell them apart.
    head = struct.pack(">hhih", *api, 0, len(_CLIENT)) + _CLIENT
    return struct.pack(">i", len(head) + len(body)) + head + body


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _create_topic_request(topic: str, partitions: int) -> bytes:
    one_replica = struct.pack(">ih", partitions, 1)
    nothing_assigned_and_configured = struct.pack(">ii", 0, 0)
    body = struct.pack(">i", 1) + _text(topic) + one_replica + nothing_assigned_and_configured
    return _request(_CREATE_TOPICS, body + struct.pack(">i?", _REQUEST_TIMEOUT_MS, False))


def _produce_request(topic: str, partition: int, batch: bytes) -> bytes:
    no_transaction = struct.pack(">h", -1)
    head = no_transaction + struct.pack(">hii", _ALL_REPLICAS, _REQUEST_TIMEOUT_MS, 1) + _text(topic)
    return _request(_PRODUCE, head + struct.pack(">iii", 1, partition, len(batch)) + batch)


def _produce_error(answer: bytes, topic: str) -> int:
    # topics i32 · name · partitions i32 · partition i32 · error i16
    error: int = struct.unpack_from(">h", answer, 4 + len(_text(topic)) + 4 + 4)[0]
    return error


# --- record batches -------------------------------------------------------------------------------------------------


def record_batch(body: bytes, count: int, now_ms: int) -> bytes:
    """Events with the same body, without keys and headers: a record batch of magic 2."""
    records = b"".join(_record(body, number) for number in range(count))
    no_producer = struct.pack(">qhi", -1, -1, -1)
    covered = struct.pack(">hiqq", 0, count - 1, now_ms, now_ms) + no_producer + struct.pack(">i", count) + records
    behind_length = struct.pack(">ibI", 0, 2, crc32c(covered)) + covered
    return struct.pack(">qi", 0, len(behind_length)) + behind_length


def _record(body: bytes, number: int) -> bytes:
    no_attributes_and_delay = b"\x00\x00"
    fields = no_attributes_and_delay + _varint(number) + _varint(-1) + _varint(len(body)) + body + _varint(0)
    return _varint(len(fields)) + fields


def _varint(value: int) -> bytes:
    """Zigzag, seven bits to a byte, the lowest first."""
    left = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def crc32c(data: bytes) -> int:
    """The checksum of Castagnoli, which Python does not have. A batch is made once, so that it may be slow."""
    table = list(range(256))
    for _ in range(8):
        # The polynomial, its bits reversed.
        table = [one >> 1 ^ 0x82F6_3B78 if one & 1 else one >> 1 for one in table]
    crc = 0xFFFF_FFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFF_FFFF


# --- the job --------------------------------------------------------------------------------------------------------


def _events_per_second(job: KafkaJob) -> float:
    batch = record_batch(b"x" * job.body_bytes, job.batch_events, int(time.time() * 1000))
    requests = [_produce_request(job.topic, partition, batch) for partition in range(job.partitions)]
    connection = _Connection(job.host, job.port)
    try:
        _make_topic(connection, job)
        _wait_for_leaders(connection, job, requests)
        started_at = time.perf_counter()
        sent = answered = 0
        wanted = job.events // job.batch_events
        while answered < wanted:
            if sent < wanted and sent - answered < _WINDOW:
                connection.send(requests[sent % job.partitions])
                sent += 1
                continue
            error = _produce_error(connection.receive(), job.topic)
            if error != _NONE:
                raise LoadFailed(f"a batch was answered with error {error} of Kafka's protocol")
            answered += 1
            if time.perf_counter() - started_at > _SENDING_LIMIT_S:
                # What is under way comes to its end.
                wanted = sent
        return answered * job.batch_events / (time.perf_counter() - started_at)
    finally:
        connection.close()


def _make_topic(connection: _Connection, job: KafkaJob) -> None:
    deadline = time.monotonic() + _READY_LIMIT_S
    while True:
        connection.send(_create_topic_request(job.topic, job.partitions))
        # throttle i32 · topics i32 · name · error i16
        error = struct.unpack_from(">h", connection.receive(), 4 + 4 + len(_text(job.topic)))[0]
        if error in (_NONE, _EXISTS):
            return
        if error not in _NOT_READY or time.monotonic() > deadline:
            raise LoadFailed(f"the topic was answered with error {error} of Kafka's protocol")
        time.sleep(_RETRY_S)


def _wait_for_leaders(connection: _Connection, job: KafkaJob, requests: list[bytes]) -> None:
    """One batch into each partition, before the clock starts."""
    deadline = time.monotonic() + _READY_LIMIT_S
    for request in requests:
        while True:
            connection.send(request)
            error = _produce_error(connection.receive(), job.topic)
            if error == _NONE:
                break
            if error not in _NOT_READY or time.monotonic() > deadline:
                raise LoadFailed(f"the first batch was answered with error {error} of Kafka's protocol")
            time.sleep(_RETRY_S)


def main(arguments: list[str]) -> None:
    job = msgspec.json.decode(arguments[0], type=KafkaJob)
    try:
        rate = _events_per_second(job)
    except (TandemError, OSError) as error:
        sys.exit(f"{job.topic}: {error}")
    print(msgspec.json.encode({"events_per_second": rate}).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
