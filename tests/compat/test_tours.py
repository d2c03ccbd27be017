"""The two examples that use everything the official Python SDK can do with a queue, over every transport.

All six are started at once, with the first of these tests: they mostly wait for locks and messages to expire.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pytest

from examples.queue_tour import FEATURES, SETTINGS, queues
from tandem.testing import Broker
from tests.compat.sdk import connection_string
from tests.markers import mission

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SCRIPTS: Final = {"sync": ROOT / "examples" / "queue_tour.py", "aio": ROOT / "examples" / "queue_tour_aio.py"}
TRANSPORTS: Final = ("tcp", "tls", "websocket")

# Seconds. A tour takes about thirty, alone on a machine.
TOUR_LIMIT_S: Final = 150.0

pytestmark = pytest.mark.timeout(200)


@dataclass(frozen=True)
class RunningTour:
    process: subprocess.Popen[bytes]
    output: IO[bytes]

    def finish(self) -> str:
        """What it printed, when it ended as it should."""
        try:
            code = self.process.wait(TOUR_LIMIT_S)
        finally:
            self.output.seek(0)
            printed = self.output.read().decode(errors="replace")
        assert code == 0, printed
        return printed

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.output.close()


def start(broker: Broker, folder: Path, kind: str, transport: str) -> RunningTour:
    script, prefix = str(SCRIPTS[kind]), f"tours/{kind}-{transport}-"
    for queue in queues(prefix, SETTINGS):
        broker.create_queue(queue.pop("name"), **queue)
    # The certificate is for the name; the connection string has the address.
    address = broker.connection_string.replace("127.0.0.1", "localhost")
    listener = connection_string(broker, "key-of-listener", "Listener").replace("127.0.0.1", "localhost")
    where = ["--connection-string", address, "--transport", transport, "--ca", str(broker.ca_path)]
    where += ["--listen-connection-string", listener]
    output = (folder / f"{kind}-{transport}.txt").open("w+b")
    command = [sys.executable, script, *where, "--queue", prefix]
    return RunningTour(subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT), output)


@pytest.fixture(scope="module")
def tours(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], RunningTour]]:
    folder = tmp_path_factory.mktemp("tours")
    kinds = [(kind, transport) for kind in SCRIPTS for transport in TRANSPORTS]
    with contextlib.ExitStack() as stack:
        with ThreadPoolExecutor(len(kinds)) as pool:
            started = {kind: pool.submit(start, broker, folder, *kind) for kind in kinds}
        for tour in started.values():
            stack.callback(tour.result().end)
        yield {kind: tour.result() for kind, tour in started.items()}


@mission("M1", "M2", "M3", "M6", "M17")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", SCRIPTS)
def test_the_tour_sees_what_it_expects(tours: dict[tuple[str, str], RunningTour], kind: str, transport: str) -> None:
    printed = tours[kind, transport].finish()
    assert printed.splitlines()[-1].startswith(f"{len(FEATURES)} features over {transport} in"), printed
    assert "skipped" not in printed


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_tour_lists_the_queues_that_it_needs(kind: str) -> None:
    command = [sys.executable, str(SCRIPTS[kind]), "--print-queues", "--queue", "mine-"]
    listed = subprocess.run(command, check=True, capture_output=True, timeout=30)
    assert json.loads(listed.stdout) == queues("mine-", SETTINGS)
