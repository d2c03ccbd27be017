"""The sealer as a process of its own: it works, it can be killed at any moment, and it leaves when the broker does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.errors import StoreError
from tandem.store.log.check import check_log
from tandem.store.log.event_log import EventLog
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.sealing import sealer as sealing
from tandem.store.log.sealing.sealer import SealerProcess, wait_for_sealer
from tandem.store.log.sealing.worker import LOCK_NAME
from tests.markers import mission
from tests.patience import PATIENCE_S, wait_until
from tests.store.log.drive import HUB, Writer, numbers, read_all

HUBS = {HUB: 1}
LIMITS = LogLimits(seal_events=400, segment_events=400)

# A broker that fills a log until it is killed. After each commit it says how many events there are, and segments.
BROKER = """
import sys, time
from pathlib import Path
from tandem.store.log.event_log import EventLog
from tests.store.log.drive import Writer
from tests.store.log.sealing.test_sealer import HUBS, LIMITS, sealed_counts
log = EventLog(Path(sys.argv[1]), limits=LIMITS)
[found] = log.recover(HUBS).partitions
writer = Writer(log)
writer.continue_at(found.hub_number, 0, found.next_sequence_number)
while True:
    writer.now_ms += 1_000
    writer.append(50)
    log.maintain(writer.now_ms, {})
    segment_count = len(sealed_counts(Path(sys.argv[1])))
    print(log.snapshot(found.hub_number, 0, 0, 0).next_sequence_number, segment_count, flush=True)
    # So that the sealer has its turn before there is much to look at.
    time.sleep(0.02)
"""


@pytest.fixture
def sealer(tmp_path: Path) -> SealerProcess:
    return SealerProcess(tmp_path)


@pytest.fixture
def log(tmp_path: Path, sealer: SealerProcess) -> Iterator[EventLog]:
    made = EventLog(tmp_path, limits=LIMITS, sealer=sealer)
    made.recover(HUBS)
    yield made
    made.close()


def filled(log: EventLog, turns: int = 8) -> None:
    writer = Writer(log)
    for _ in range(turns):
        writer.append(50)


def sealed_counts(directory: Path) -> list[int]:
    return [int(path.name.split("-")[1]) for path in sorted(directory.rglob("*.arrow"))]


def wait_until_idle(log: EventLog, sealer: SealerProcess, now_ms: int = 0) -> None:
    log.maintain(now_ms, {})
    while sealer.is_busy:
        time.sleep(0.005)
        log.maintain(now_ms, {})


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_no_sealer(directory: Path) -> None:
    """Of this directory, whoever started it."""
    wait_until(lambda: not any(str(directory).encode() in command for command in sealer_commands()), "it ends")


def sealer_commands() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        # Processes come and go.
        with contextlib.suppress(OSError):
            command = path.read_bytes()
            if b"tandem.store.log.sealing.worker" in command:
                yield command


@mission("M10")
def test_events_are_sealed_by_another_process_which_ends_with_the_log(
    tmp_path: Path, log: EventLog, sealer: SealerProcess
) -> None:
    filled(log, 16)
    assert not list(tmp_path.rglob("*.arrow"))
    wait_until_idle(log, sealer)
    assert sealed_counts(tmp_path) == [400, 400]
    assert numbers(read_all(log, limit=1_000)) == list(range(800))
    process_id = sealer.process_id
    assert process_id is not None
    assert process_id != os.getpid()
    assert is_running(process_id)
    log.close()
    assert not is_running(process_id)


@mission("M10")
def test_a_sealer_that_is_killed_is_started_again(tmp_path: Path, log: EventLog, sealer: SealerProcess) -> None:
    filled(log, 40)
    killed = set()
    for delay_s in (0.0, 0.15, 0.3):
        log.maintain(0, {})
        while sealer.process_id is None and sealer.is_busy:
            time.sleep(0.001)
        time.sleep(delay_s)
        if sealer.process_id is not None:
            killed.add(sealer.process_id)
            os.kill(sealer.process_id, signal.SIGKILL)
        # Beyond the pause that follows three failures in a row.
        wait_until_idle(log, sealer, 100_000 * len(killed))
    wait_until_idle(log, sealer, 10_000_000)
    assert len(killed) >= 2
    assert sum(sealed_counts(tmp_path)) == 2_000
    assert numbers(read_all(log, limit=1_000)) == list(range(2_000))
    log.close()
    assert check_log(tmp_path, HUBS).findings == []


@mission("M10")
def test_a_broker_that_is_killed_leaves_no_sealer_and_loses_nothing(tmp_path: Path) -> None:
    for turn in range(2):
        broker = subprocess.Popen([sys.executable, "-c", BROKER, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path.cwd())
        with broker:
            assert broker.stdout is not None
            acknowledged = segment_count = 0
            while segment_count <= turn:
                acknowledged, segment_count = map(int, broker.stdout.readline().split())
            broker.kill()
        log = EventLog(tmp_path, limits=LIMITS)
        # It waits for the sealer, if that is at work.
        (found,) = log.recover(HUBS).partitions
        assert found.next_sequence_number >= acknowledged
        assert numbers(read_all(log, limit=1_000)) == list(range(found.next_sequence_number))
        log.close()
        wait_until_no_sealer(tmp_path)
    assert check_log(tmp_path, HUBS).findings == []
    assert len(sealed_counts(tmp_path)) >= 2


def test_a_sealer_without_its_broker_does_nothing(tmp_path: Path) -> None:
    """The broker died before the sealer had the lock: the next broker may be there already."""
    command = [sys.executable, "-P", "-m", "tandem.store.log.sealing.worker", str(tmp_path), "1"]
    done = subprocess.run(command, input=b"\x00\x00\x00\x01x", capture_output=True, timeout=PATIENCE_S, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_start_gives_up_on_a_sealer_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(sealing, "_LOCK_TIMEOUT_S", 0.05)
    with (tmp_path / LOCK_NAME).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="held by a sealer that was left behind"):
            wait_for_sealer(tmp_path)
    wait_for_sealer(tmp_path)


@mission("M10")
def test_a_damaged_record_is_reported_by_the_sealer_and_the_others_are_sealed(
    tmp_path: Path, log: EventLog, sealer: SealerProcess
) -> None:
    filled(log)
    (journal,) = tmp_path.rglob("*.journal")
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-9] + bytes(9))
    wait_until_idle(log, sealer)
    process_id = sealer.process_id
    assert [damage.unit for damage in log.damages] == [f"hub {HUB} partition 0, events 350 to 399"]
    assert sealed_counts(tmp_path) == []
    writer = Writer(log)
    writer.continue_at(HUB, 0, 400)
    for _ in range(8):
        writer.append(50)
    wait_until_idle(log, sealer, 1_000)
    assert sealed_counts(tmp_path) == [350, 400]
    assert sealer.process_id == process_id
    assert numbers(read_all(log, limit=1_000)) == [*range(350), *range(400, 800)]


def test_pyarrow_is_loaded_for_old_events_only_and_nothing_else_with_it(tmp_path: Path) -> None:
    """It would bring pandas along, where that is installed, and pyarrow.compute: a second and 100 MB."""
    program = """
import sys
from pathlib import Path
from tandem.engine.hubs.record import EventRecord
from tandem.amqp.message import encode_message
from tandem.store.log.event_log import EventLog
from tandem.store.log.log_limits import LogLimits
directory = Path(sys.argv[1])
payload = encode_message(data=b"x", application_properties={"a": 1})

log = EventLog(directory)
log.recover({1: 1})
log.append([EventRecord(1, 0, 0, 1, 5, payload, False, "key"), EventRecord(1, 0, 1, 1, 6, payload, False)])
log.commit()
log.committed()
assert len(log.read(1, 0, 0, 9, 900)) == 2
log.maintain(0, {})
log.close()
assert "pyarrow" not in sys.modules

from tests.store.log.disk import DiskFiles, InlineSealer
log = EventLog(directory, limits=LogLimits(seal_events=2), sealer=InlineSealer(DiskFiles()))
log.recover({1: 1})
log.maintain(0, {})
log.maintain(1, {})
assert len(list(directory.rglob("*.arrow"))) == 1
assert len(log.read(1, 0, 0, 9, 900)) == 2
assert log.find_time(1, 0, 6) == 1
assert len(list(log.snapshot(1, 0, 0, 9).stream())) == 3
log.close()
assert "pyarrow" in sys.modules
assert not {"pandas", "pyarrow.compute"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=PATIENCE_S, check=True)
