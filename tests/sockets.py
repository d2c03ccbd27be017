"""What tests do to sockets."""

from __future__ import annotations

import socket
from typing import Any, Protocol


class HasSocket(Protocol):
    """A transport, or a WebSocket of aiohttp."""

    def get_extra_info(self, name: str) -> Any: ...


def hold_little(connection: HasSocket) -> None:
    """Let the kernel hold little of what this side does not read: by itself it may take tens of megabytes."""
    connection.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 262_144)
