"""Ports that some clients insist on, where the other tests use free ones."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tandem.testing import Broker, BrokerFailed
from tandem.testing.ports import HOST, PortReservation
from tests.patience import PATIENCE_S

# Seconds between two attempts to get the port.
_PAUSE_S: Final = 0.1


@contextlib.contextmanager
def broker_with_tls_on(port: int, folder: Path, *arguments: str) -> Iterator[Broker]:
    """A broker that serves TLS on this port as well. The test is skipped if the port cannot be had."""
    with _reserve(port), contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(Broker(folder, arguments=(*arguments, "--listen", f"tls://{port}")))
        except BrokerFailed as failure:
            # A process that knows nothing of reservations may have been faster.
            if f"cannot listen on {HOST}:{port}" in str(failure):
                pytest.skip(_taken(port))
            raise
        yield broker


def _reserve(port: int) -> PortReservation:
    """Wait for the port, which other runs of the tests want as well."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_server((HOST, port)).close()
        except PermissionError:
            pytest.skip(f"port {port} is for root, or for a process with CAP_NET_BIND_SERVICE")
        except OSError:
            reservation = None
        else:
            reservation = PortReservation.of(port)
        if reservation is not None:
            return reservation
        if time.monotonic() > deadline_s:
            pytest.skip(_taken(port))
        time.sleep(_PAUSE_S)


def _taken(port: int) -> str:
    return f"another process has port {port}"
