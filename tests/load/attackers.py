"""`python -m tests.load.attackers NAME PORT SECONDS`: one connection that means no good, as fast as it can.

Each attacker is a process of its own, so that it takes nothing from the clients whose waiting is measured. It says
`attacking` when it begins, and goes on until its time is over or the broker hangs up; then it connects again.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from tandem.amqp import Settings, Source, Target
from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.connection import EMPTY_FRAME, Connection, Role
from tandem.amqp.delivery_states import RELEASED
from tandem.amqp.hot_paths import frame
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.performatives import Attach, Begin, Detach, Disposition, End, Flow, Transfer
from tandem.amqp.types import Int, Symbol
from tandem.limits import MAX_MESSAGES_PER_SENT_BATCH

__all__ = ["ACTED_TOPIC", "ATTACKED_QUEUE", "ATTACKERS", "PEEKED_QUEUE", "SESSIONS_QUEUE", "TEXT_TOPIC", "WIDE_TOPIC"]

HOST: Final = "127.0.0.1"
USER: Final = "RootManageSharedAccessKey"
KEY: Final = "SAS_KEY_VALUE"

# Bytes. What is handed to the kernel at once.
PORTION_BYTES: Final = 262_144

# What the programme makes ready for them (`tests.load.starvation`).
ATTACKED_QUEUE: Final = "attacked"
PEEKED_QUEUE: Final = "peeked"
SESSIONS_QUEUE: Final = "sessions"
TEXT_TOPIC: Final = "texts"
WIDE_TOPIC: Final = "wide"
ACTED_TOPIC: Final = "acted"
TEXT_BYTES: Final = 60_000

# Deliveries that one connection may hold without settling them, nearly.
HELD_MESSAGES: Final = 32_000

RECEIVER: Final = True
SENDER: Final = False

# How the bodies of two performatives begin.
TRANSFERRED: Final = b"\x00\x53\x14"
DETACHED: Final = b"\x00\x53\x16"


class Stream:
    """A socket with an AMQP connection on it, inside a WebSocket if need be."""

    def __init__(self, port: int, settings: Settings, *, is_websocket: bool = False) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=30)
        self._is_websocket = is_websocket
        if is_websocket:
            self._upgrade(port)
        self._buffer = b""
        self.connection = Connection(Role.CLIENT, settings)
        self.connection.open()
        while not self.connection.is_open:
            self._exchange()

    def _upgrade(self, port: int) -> None:
        self.socket.sendall(
            b"GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost:%d\r\n"
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: AMQPWSB10\r\n\r\n" % port
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(1)

    def _exchange(self) -> None:
        data = self.connection.data_to_send()
        if data:
            self.socket.sendall(in_websocket(data) if self._is_websocket else data)
        received = self.socket.recv(65_536)
        if not received:
            raise ConnectionError("hung up on")
        self.connection.receive(self._payloads(received) if self._is_websocket else received)

    def _payloads(self, received: bytes) -> bytes:
        """Those of whole small messages, which is all that comes here."""
        self._buffer += received
        payloads = b""
        while len(self._buffer) >= 2 and self._buffer[1] <= 126:
            start, length = (
                (2, self._buffer[1]) if self._buffer[1] < 126 else (4, int.from_bytes(self._buffer[2:4], "big"))
            )
            if len(self._buffer) < start + length:
                break
            payloads += self._buffer[start : start + length]
            self._buffer = self._buffer[start + length :]
        return payloads

    def say(self, *performatives: bytes) -> None:
        """Frames on channel 0, whose answers nobody looks at."""
        self.socket.sendall(b"".join(frame(0, one) for one in performatives))

    def wait_for_detach(self) -> None:
        """Detach the first link, and read until that is answered: everything before it is handled then."""
        self.say(Detach(0, closed=True).encode())
        received = b""
        while DETACHED not in received:
            received = received[-2:] + self.socket.recv(1 << 20)

    def flood(self, data: bytes, ends_at: float) -> None:
        """The same bytes again and again. What comes back is read and dropped."""
        reader = threading.Thread(target=_drop, args=(self.socket,), daemon=True)
        reader.start()
        portion = data * max(1, PORTION_BYTES // len(data))
        self.socket.settimeout(0.5)
        while time.monotonic() < ends_at:
            view = memoryview(portion)
            while view and time.monotonic() < ends_at:
                # While the broker does not read from us, nothing can be sent.
                with contextlib.suppress(TimeoutError):
                    view = view[self.socket.send(view) :]
            if not reader.is_alive():
                raise ConnectionError("hung up on")


def _drop(connection: socket.socket) -> None:
    while True:
        try:
            if not connection.recv(262_144):
                return
        except TimeoutError:
            continue
        except OSError:
            return


def in_websocket(payload: bytes) -> bytes:
    """One binary message with a mask of zeros."""
    length = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return b"\x82" + length + bytes(4) + payload


def _stranger(port: int) -> Stream:
    return Stream(port, Settings("stranger"))


def _client(port: int) -> Stream:
    return Stream(port, Settings("client", user=USER, password=KEY))


def _begin() -> bytes:
    return Begin(None, 0, 5_000, 5_000).encode()


def _attach(name: str, handle: int, role: bool, address: str) -> bytes:
    ours = Source(address) if role is RECEIVER else Source("here")
    theirs = Target("here") if role is RECEIVER else Target(address)
    return Attach(name, handle, role, source=ours, target=theirs, initial_delivery_count=None if role else 0).encode()


def _transfer(handle: int, payload: bytes) -> bytes:
    return frame(0, Transfer(handle, 0, b"0", 0, settled=True).encode() + payload)


# --- AMQP -------------------------------------------------------------------------------------------------------


def empty_frames(port: int, ends_at: float) -> None:
    _stranger(port).flood(EMPTY_FRAME, ends_at)


def put_tokens(port: int, ends_at: float) -> None:
    stream = _stranger(port)
    stream.say(_begin(), _attach("cbs", 0, SENDER, "$cbs"), _attach("answers", 1, RECEIVER, "$cbs"))
    stream.say(Flow(0, 5_000, 0, 5_000, 1, 0, 10_000).encode())
    request = encode_message(
        properties=Properties(message_id=1, reply_to="here"),
        application_properties={
            "operation": "put-token",
            "type": "servicebus.windows.net:sastoken",
            "name": "sb://localhost/neighbour",
        },
        value=f"SharedAccessSignature sr=sb%3A%2F%2Flocalhost&sig=Zm9yZ2Vk&se=4102444800&skn={USER}",
    )
    stream.flood(_transfer(0, request), ends_at)


def flows(port: int, ends_at: float) -> None:
    stream = _client(port)
    stream.say(_begin(), _attach("drained", 0, RECEIVER, ATTACKED_QUEUE))
    stream.flood(frame(0, Flow(0, 5_000, 0, 5_000, 0, 0, 10, 0, drain=True, echo=True).encode()), ends_at)


def attaches(port: int, ends_at: float) -> None:
    stream = _client(port)
    stream.say(_begin())
    pair = frame(0, _attach("again", 0, RECEIVER, ATTACKED_QUEUE)) + frame(0, Detach(0, closed=True).encode())
    stream.flood(pair, ends_at)


def begins(port: int, ends_at: float) -> None:
    stream = _client(port)
    stream.flood(frame(0, _begin()) + frame(0, End().encode()), ends_at)


def dispositions(port: int, ends_at: float) -> None:
    """Frames that name 32,000 deliveries each. They decide nothing, so that each of them names as many."""
    stream = _holding(port)
    stream.flood(frame(0, Disposition(RECEIVER, 0, (1 << 31) - 2, settled=False, state=None).encode()), ends_at)


def settlements(port: int, ends_at: float) -> None:
    """32,000 messages that are released by one frame, and come again."""
    while time.monotonic() < ends_at:
        stream = _holding(port)
        stream.say(Disposition(RECEIVER, 0, (1 << 31) - 2, settled=True, state=RELEASED).encode())
        stream.wait_for_detach()


def _holding(port: int) -> Stream:
    """A client to which 32,000 messages are delivered."""
    stream = _client(port)
    stream.say(_begin(), _attach("settling", 0, RECEIVER, ATTACKED_QUEUE))
    stream.say(Flow(0, 1 << 20, 0, 5_000, 0, 0, HELD_MESSAGES).encode())
    count = 0
    while count < HELD_MESSAGES:
        count += stream.socket.recv(1 << 20).count(TRANSFERRED)
    return stream


def peeks(port: int, ends_at: float) -> None:
    stream = _client(port)
    node = f"{PEEKED_QUEUE}/$management"
    stream.say(_begin(), _attach("asks", 0, SENDER, node), _attach("answers", 1, RECEIVER, node))
    stream.say(Flow(0, 5_000, 0, 5_000, 1, 0, 100_000).encode())
    request = encode_message(
        properties=Properties(message_id=1, reply_to="here"),
        application_properties={"operation": "com.microsoft:peek-message"},
        value={"from-sequence-number": 1, "message-count": Int(1_000)},
    )
    stream.flood(_transfer(0, request), ends_at)


def sends(port: int, ends_at: float) -> None:
    stream = _client(port)
    stream.say(_begin(), _attach("sender", 0, SENDER, ATTACKED_QUEUE))
    stream.flood(_transfer(0, encode_message(data=b"x" * 900)), ends_at)


def batches(port: int, ends_at: float) -> None:
    batch = make_batch([encode_message(data=b"x")] * MAX_MESSAGES_PER_SENT_BATCH)
    stream = _client(port)
    stream.say(_begin(), _attach("sender", 0, SENDER, ATTACKED_QUEUE))
    stream.flood(frame(0, Transfer(0, 0, b"0", BATCH_FORMAT, settled=True).encode() + batch), ends_at)


def copies(port: int, ends_at: float) -> None:
    """Batches of 1,000 to a topic with 2,000 subscriptions that want everything."""
    batch = make_batch([encode_message(data=b"x")] * 1_000)
    stream = _client(port)
    stream.say(_begin(), _attach("sender", 0, SENDER, WIDE_TOPIC))
    stream.flood(frame(0, Transfer(0, 0, b"0", BATCH_FORMAT, settled=True).encode() + batch), ends_at)


def actions(port: int, ends_at: float) -> None:
    """Messages of 250 KB to a topic with 2,000 rules that change the copy which each makes."""
    stream = _client(port)
    stream.say(_begin(), _attach("sender", 0, SENDER, ACTED_TOPIC))
    stream.flood(_transfer(0, encode_message(application_properties={"a": "x"}, data=bytes(250_000))), ends_at)


def waits(port: int, ends_at: float) -> None:
    """5,000 receivers that wait for a session, and leave."""
    stream = _client(port)
    source = Source(SESSIONS_QUEUE, filter={Symbol("com.microsoft:session-filter"): None})
    frames: list[bytes] = []
    for channel in range(19):
        frames.append(frame(channel, _begin()))
        for handle in range(255):
            attach = Attach(f"{channel}-{handle}", handle, RECEIVER, source=source, target=Target("here"))
            frames.append(frame(channel, attach.encode()))
    ends = [frame(channel, End().encode()) for channel in range(19)]
    stream.flood(b"".join(frames + ends), ends_at)


def unread_answers(port: int, ends_at: float) -> None:
    """Requests whose answers are not read until no more requests are taken, and then all at once."""
    stream = _client(port)
    node = f"{PEEKED_QUEUE}/$management"
    stream.say(_begin(), _attach("asks", 0, SENDER, node))
    for handle in range(1, 250):
        stream.say(_attach(f"answers-{handle}", handle, RECEIVER, node))
        stream.say(Flow(0, 50_000, 0, 50_000, handle, 0, 100_000).encode())
    peek, nonsense = [
        _transfer(
            0,
            encode_message(
                properties=Properties(message_id=1, reply_to="nowhere"),
                application_properties={"operation": f"com.microsoft:{operation}"},
                value={"from-sequence-number": 1, "message-count": Int(1_000)},
            ),
        )
        for operation in ("peek-message", "nonsense")
    ]
    while time.monotonic() < ends_at:
        stream.socket.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            stream.socket.sendall(peek * 40)
            while time.monotonic() < ends_at:
                stream.socket.sendall(nonsense * 100)
        with contextlib.suppress(TimeoutError):
            while stream.socket.recv(1 << 20):
                pass


def texts(port: int, ends_at: float) -> None:
    stream = _client(port)
    stream.say(_begin(), _attach("sender", 0, SENDER, TEXT_TOPIC))
    message = encode_message(application_properties={"text": "a" * TEXT_BYTES})
    stream.flood(_transfer(0, message), ends_at)


# --- other protocols --------------------------------------------------------------------------------------------


def websocket_frames(port: int, ends_at: float) -> None:
    Stream(port, Settings("client", user=USER, password=KEY), is_websocket=True).flood(
        in_websocket(EMPTY_FRAME), ends_at
    )


def websocket_pings(port: int, ends_at: float) -> None:
    Stream(port, Settings("stranger"), is_websocket=True).flood(b"\x89\x80" + bytes(4), ends_at)


def _flood_http(port: int, request: bytes, ends_at: float) -> None:
    stream = Stream.__new__(Stream)
    stream.socket = socket.create_connection((HOST, port), timeout=30)
    stream.flood(request, ends_at)


def http_requests(port: int, ends_at: float) -> None:
    _flood_http(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", ends_at)


def http_guesses(port: int, ends_at: float) -> None:
    token = f"SharedAccessSignature sr=http%3A%2F%2Flocalhost&sig=Zm9yZ2Vk&se=4102444800&skn={USER}".encode()
    _flood_http(port, b"GET /$api/v1/queues HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\n\r\n" % token, ends_at)


def http_nonsense(port: int, ends_at: float) -> None:
    """A connection for each: the broker closes it."""
    while time.monotonic() < ends_at:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=30) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nbad header\r\n\r\n")
            connection.recv(65_536)


def tls_handshakes(port: int, ends_at: float) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    while time.monotonic() < ends_at:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((HOST, port), timeout=30) as plain,
            context.wrap_socket(plain),
        ):
            pass


def connections(port: int, ends_at: float) -> None:
    while time.monotonic() < ends_at:
        with contextlib.suppress(OSError):
            socket.create_connection((HOST, port), timeout=30).close()


# By name: how many at once, and what each does.
ATTACKERS: Final[dict[str, tuple[int, Callable[[int, float], None]]]] = {
    "nobody": (0, empty_frames),
    "stranger: empty frames": (1, empty_frames),
    "stranger: put-token": (1, put_tokens),
    "4 strangers: put-token": (4, put_tokens),
    "stranger: WebSocket pings": (1, websocket_pings),
    "stranger: HTTP requests": (1, http_requests),
    "stranger: HTTP, wrong tokens": (1, http_guesses),
    "stranger: malformed HTTP": (1, http_nonsense),
    "4 strangers: TLS handshakes": (4, tls_handshakes),
    "4 strangers: connections": (4, connections),
    "client: flow, drain and echo": (1, flows),
    "client: attach and detach": (1, attaches),
    "client: begin and end": (1, begins),
    "client: wide dispositions": (1, dispositions),
    "client: 32,000 settled at once": (1, settlements),
    "client: 5,000 waits for sessions": (1, waits),
    "client: peek 1,000": (1, peeks),
    "client: answers not read": (1, unread_answers),
    "client: WebSocket, empty frames": (1, websocket_frames),
    "client: sends without credit": (1, sends),
    "client: batches of 4,500": (1, batches),
    "client: 60 KB to 2,000 LIKE": (1, texts),
    "client: 1,000 to 2,000 subscriptions": (1, copies),
    "client: 250 KB to 2,000 actions": (1, actions),
}


def main() -> None:
    name, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    count, attack = ATTACKERS[name]
    ends_at = time.monotonic() + seconds

    def go_on() -> None:
        while time.monotonic() < ends_at:
            with contextlib.suppress(OSError):
                attack(port, ends_at)

    threads = [threading.Thread(target=go_on, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    print("attacking", flush=True)
    for thread in threads:
        thread.join(max(0.0, ends_at - time.monotonic()) + 5)


if __name__ == "__main__":
    main()
