"""The administration client of the official Java SDK, unchanged, against a broker on the port that it insists on.

The client takes no port from its connection string: it always asks for 443. In the other tests a policy of its HTTP
pipeline leads the requests to a free port. Here the program leaves that policy out.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tandem.auth.keys import KeyRing
from tandem.testing import Broker, BrokerFailed
from tandem.testing.ports import HOST, PortReservation
from tests.compat.programs import LIMIT_S, Program, run, steps
from tests.compat.sdk import RULES
from tests.interop.peers.available import require_java_sdk
from tests.markers import mission
from tests.patience import PATIENCE_S
from tools.sdk_features import ADMINISTRATION

HTTPS_PORT: Final = 443
TAKEN: Final = f"another process has port {HTTPS_PORT}"

# Seconds between two attempts to get the port.
PAUSE_S: Final = 0.1


def reserve_443() -> PortReservation:
    """Wait for the port, which other runs of the tests want as well. Skip the test if this one cannot have it."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_server((HOST, HTTPS_PORT)).close()
        except PermissionError:
            pytest.skip(f"port {HTTPS_PORT} is for root, or for a process with CAP_NET_BIND_SERVICE")
        except OSError:
            reservation = None
        else:
            reservation = PortReservation.of(HTTPS_PORT)
        if reservation is not None:
            return reservation
        if time.monotonic() > deadline_s:
            pytest.skip(TAKEN)
        time.sleep(PAUSE_S)


@pytest.fixture
def program() -> Program:
    return Program("java", require_java_sdk())


@pytest.fixture
def broker_on_443(program: Program, tmp_path: Path) -> Iterator[Broker]:
    """A broker with TLS on 443. `program` comes first: without it nobody has to wait for the port."""
    (tmp_path / "keys.json").write_text(json.dumps(KeyRing(list(RULES)).to_dict()), encoding="utf-8")
    with reserve_443(), contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(Broker(tmp_path, arguments=("--listen", f"tls://{HTTPS_PORT}")))
        except BrokerFailed as failure:
            # A process that knows nothing of reservations may have been faster.
            if f"cannot listen on {HOST}:{HTTPS_PORT}" in str(failure):
                pytest.skip(TAKEN)
            raise
        yield broker


@mission("M34")
@pytest.mark.timeout(LIMIT_S + 120)
def test_the_java_administration_client_needs_nothing_but_a_broker_on_443(
    program: Program, broker_on_443: Broker
) -> None:
    chosen = [step for step in steps(program.language) if step.group == ADMINISTRATION]
    tour = run(program, broker_on_443, chosen, http_port=HTTPS_PORT)
    for step in chosen:
        tour.judge(step)
