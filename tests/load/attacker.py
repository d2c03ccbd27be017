"""One authenticated connection that keeps no rule: frames are written as asked for, and read only if wanted."""

from __future__ import annotations

import base64
import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.hot_paths import SASL_FRAME, frame
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.performatives import Attach, Begin, Flow, Open, Performative, Transfer
from tandem.amqp.terminus import Coordinator, Source, Target
from tandem.amqp.types import Symbol

__all__ = ["Attacker", "request", "websocket_upgrade"]

HOST: Final = "127.0.0.1"
MAX_UINT: Final = 0xFFFF_FFFF

# Seconds without a byte taken after which the broker has stopped reading from us.
STALLED_AFTER_S: Final = 2.0

_SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
_AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"


class Attacker:
    """A connection that is logged in. `write` gives up when the broker closes it or reads no more."""

    def __init__(self, port: int, max_frame_size: int = 1_048_576) -> None:
        self._socket = socket.create_connection((HOST, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_over = False
        self.written_bytes = 0
        self.received = b""
        login = b"\x00RootManageSharedAccessKey\x00SAS_KEY_VALUE"
        body = b"\x00\x53\x41\xd0" + _list([b"\xa3\x05PLAIN", b"\xb0" + struct.pack(">I", len(login)) + login])
        self._socket.sendall(_SASL_HEADER + frame(0, body, SASL_FRAME))
        self._await(b"\x00\x53\x44")
        self._socket.sendall(_AMQP_HEADER + frame(0, Open("attacker", HOST, max_frame_size).encode()))
        self._await(b"\x00\x53\x10")
        self._socket.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def _await(self, sign: bytes) -> None:
        said = b""
        while sign not in said:
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionError("the broker hung up during the login")
            said += data

    # --- bytes ----------------------------------------------------------------------------------------------

    def write(self, data: bytes, *, reads: bool = False) -> bool:
        """Write, and read what comes if wanted. False when nothing more is taken: the attack is over."""
        view = memoryview(data)
        while view and not self.is_over:
            wanted = [self._socket] if reads else []
            readable, writable, _ = select.select(wanted, [self._socket], [], STALLED_AFTER_S)
            if readable:
                self._read()
            if not readable and not writable:
                self.is_over = True
            if writable:
                try:
                    count = self._socket.send(view[:262_144])
                except OSError:
                    self.is_over = True
                    break
                self.written_bytes += count
                view = view[count:]
        return not self.is_over

    def _read(self) -> None:
        try:
            data = self._socket.recv(1_048_576)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.received = (self.received + data)[-65_536:]
        if not data:
            self.is_over = True

    def read_for(self, seconds: float) -> None:
        """Read until nothing has come for this long."""
        while not self.is_over:
            readable, _, _ = select.select([self._socket], [], [], seconds)
            if not readable:
                return
            self._read()

    def wait_for(self, sign: bytes, seconds: float = 20.0) -> bytes:
        """Read until these bytes have come; return all that came last."""
        deadline = time.monotonic() + seconds
        while sign not in self.received and not self.is_over and time.monotonic() < deadline:
            self.read_for(0.05)
        return self.received

    # --- frames ---------------------------------------------------------------------------------------------

    def frame(self, performative: Performative, payload: bytes = b"", channel: int = 0) -> bytes:
        body = performative.encode()
        return frame(channel, body, payload_length=len(payload)) + payload

    def begin(
        self, channel: int = 0, incoming_window: int = 1_000_000, properties: dict[object, object] | None = None
    ) -> bytes:
        return self.frame(Begin(None, 0, incoming_window, 1_000_000, properties=properties), channel=channel)

    def attach_sender(self, address: str | None, handle: int = 0, channel: int = 0, **more: object) -> bytes:
        """Attach a link on which we send; without an address, to the coordinator."""
        target = Coordinator() if address is None else Target(address)
        attach = Attach(
            f"out-{channel}-{handle}", handle, False, source=Source(), target=target, initial_delivery_count=0
        )
        return self.frame(_with(attach, more), channel=channel)

    def attach_receiver(
        self,
        address: str,
        handle: int = 0,
        channel: int = 0,
        *,
        deletes: bool = False,
        filters: dict[object, object] | None = None,
        **more: object,
    ) -> bytes:
        attach = Attach(
            f"in-{channel}-{handle}",
            handle,
            True,
            1 if deletes else 0,
            source=Source(address, filter=filters),
            target=Target(f"reply-{channel}-{handle}"),
        )
        return self.frame(_with(attach, more), channel=channel)

    def flow(
        self, handle: int, credit: int = 0x7FFF_FFFF, channel: int = 0, window: int = 1_000_000, *, echo: bool = False
    ) -> bytes:
        return self.frame(Flow(1, window, 0, 1_000_000, handle, 0, credit, echo=echo), channel=channel)

    def transfer(
        self,
        delivery_id: int,
        payload: bytes,
        handle: int = 0,
        channel: int = 0,
        *,
        is_settled: bool = False,
        more: bool = False,
        state: DeliveryState | None = None,
        message_format: int = 0,
    ) -> bytes:
        tag = struct.pack(">I", delivery_id)
        transfer = Transfer(handle, delivery_id, tag, message_format, is_settled, more, state=state)
        return self.frame(transfer, payload, channel)


def request(operation: str, body: dict[str, object], reply_to: str = "reply-0-1") -> bytes:
    """Return a request to `$management` of an entity."""
    return encode_message(
        properties=Properties(message_id="m", reply_to=reply_to),
        application_properties={"operation": f"com.microsoft:{operation}"},
        value=body,
    )


def websocket_upgrade(port: int) -> socket.socket:
    """Open a WebSocket by hand."""
    opened = socket.create_connection((HOST, port))
    key = base64.b64encode(os.urandom(16)).decode()
    opened.sendall(
        f"GET /$servicebus/websocket HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: AMQPWSB10\r\n\r\n".encode()
    )
    with contextlib.suppress(OSError):
        opened.recv(4_096)
    return opened


def symbols(pairs: Iterable[tuple[str, object]]) -> dict[object, object]:
    """Return a map with symbols as keys."""
    return {Symbol(key): value for key, value in pairs}


def _list(fields: list[bytes]) -> bytes:
    body = struct.pack(">I", len(fields)) + b"".join(fields)
    return struct.pack(">I", len(body)) + body


def _with(attach: Attach, fields: dict[str, object]) -> Attach:
    for name, value in fields.items():
        setattr(attach, name, value)
    return attach
