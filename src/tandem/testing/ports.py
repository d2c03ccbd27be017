"""Free loopback ports that stay reserved while nobody listens on them.

A port that is free when a test chooses it can be taken before its server listens, or while that is down between a kill
and a restart. So whoever uses a port through this module holds a claim on it that all test processes of the machine
see, whichever clone or user they belong to.
"""

from __future__ import annotations

import random
import socket
import sys
from types import TracebackType
from typing import Final, Self

__all__ = ["PortReservation"]

HOST: Final = "127.0.0.1"

# Ports below those that the system gives to outgoing connections (32768 and up on Linux). A client that tries to reach
# a dead server on such a port can be given that very port for its own end: it is then connected to itself, and the
# server cannot come back to its port.
FIRST_PORT: Final = 20_000
LAST_PORT: Final = 32_767


class PortReservation:
    """Some ports, until it is closed. A context manager."""

    def __init__(self, count: int) -> None:
        self.ports: list[int] = []
        self._claims: list[socket.socket] = []
        while len(self.ports) < count:
            # Not drawn from the seeded generator: two test processes with one seed would want the same ports.
            port = random.SystemRandom().randint(FIRST_PORT, LAST_PORT)
            self._reserve(port)

    @classmethod
    def of(cls, port: int) -> Self | None:
        """Reserve this port. Return None if another process has reserved it or listens on it."""
        reservation = cls(0)
        return reservation if reservation._reserve(port) else None

    def _reserve(self, port: int) -> bool:
        claim = _claim(port)
        if claim is None:
            return False
        if not _is_free(port):
            claim.close()
            return False
        self.ports.append(port)
        self._claims.append(claim)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others have the ports. Safe to call twice."""
        for claim in self._claims:
            claim.close()


def _claim(port: int) -> socket.socket | None:
    """Bind a name that belongs to the port and ends with this process. Return None if another process has it."""
    if sys.platform != "linux":
        # Only Linux has names outside of the file system: elsewhere a claim keeps nobody away.
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0tandem-port-{port}")
    except OSError:
        claim.close()
        return None
    return claim


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
