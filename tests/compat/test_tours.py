"""The two examples that use everything the official Python SDK can do with a queue, over every transport.

They are started with the first of these tests, a few at a time: they mostly wait for locks to end, but each has many
clients, and those of all six would starve each other on a small machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from examples import queue_tour, queue_tour_aio
from examples.queue_tour import FEATURES, SETTINGS, queues
from tandem.testing import Broker
from tests.compat.sdk import connection_string
from tests.markers import mission
from tools.sdk_features import TRANSPORTS

ROOT: Final = Path(__file__).resolve().parent.parent.parent
SCRIPTS: Final = {"sync": ROOT / "examples" / "queue_tour.py", "aio": ROOT / "examples" / "queue_tour_aio.py"}

AT_ONCE: Final = 3

# Seconds. A tour takes about fifteen, alone on a machine; a slow one, which it shares with others, has this long.
TOUR_LIMIT_S: Final = 400.0

pytestmark = pytest.mark.timeout(2 * TOUR_LIMIT_S + 50)


class Tours:
    """The processes, so that none outlives the tests."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._broker = broker
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self.printed = {
            (kind, transport): self._pool.submit(self._run, kind, transport)
            for transport in TRANSPORTS
            for kind in SCRIPTS
        }

    def _run(self, kind: str, transport: str) -> str:
        """What it printed, when it ended as it should."""
        prefix = f"tours/{kind}-{transport}-"
        for queue in queues(prefix, SETTINGS):
            self._broker.create_queue(queue.pop("name"), **queue)
        address = connection_string(self._broker, transport=transport)
        listener = connection_string(self._broker, "key-of-listener", "Listener", transport=transport)
        where = ["--connection-string", address, "--transport", transport, "--ca", str(self._broker.ca_path)]
        where += ["--listen-connection-string", listener, "--queue", prefix]
        path = self._folder / f"{kind}-{transport}.txt"
        with path.open("wb") as output:
            tour = subprocess.Popen(
                [sys.executable, str(SCRIPTS[kind]), *where], stdout=output, stderr=subprocess.STDOUT
            )
            self._processes.append(tour)
            code = tour.wait(TOUR_LIMIT_S)
        printed = path.read_text(errors="replace")
        assert code == 0, printed
        return printed

    def end(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in self._processes:
            process.kill()
            process.wait()
        self._pool.shutdown()


@pytest.fixture(scope="module")
def tours(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tours]:
    tours = Tours(broker, tmp_path_factory.mktemp("tours"))
    yield tours
    tours.end()


@mission("M1", "M2", "M3", "M6", "M17", "M34")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("kind", SCRIPTS)
def test_the_tour_sees_what_it_expects(tours: Tours, kind: str, transport: str) -> None:
    printed = tours.printed[kind, transport].result()
    assert printed.splitlines()[-1].startswith(f"{len(FEATURES)} features over {transport} in"), printed
    assert "skipped" not in printed


@pytest.mark.parametrize("main", [queue_tour.main, queue_tour_aio.main], ids=SCRIPTS)
def test_a_tour_lists_the_queues_that_it_needs(
    main: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tour", "--print-queues", "--queue", "mine-"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code is None
    assert json.loads(capsys.readouterr().out) == queues("mine-", SETTINGS)
