"""The sealer, seen from the broker: one job at a time, and a process that is started when there is a first one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final, Protocol

import msgspec

from tandem.errors import StoreError
from tandem.store.log.sealing.job import SealJob, SealResult
from tandem.store.log.sealing.worker import LOCK_NAME, read_message, write_message

__all__ = ["Sealer", "SealerProcess", "wait_for_sealer"]

# Seconds. A segment takes less than one; what is not done by then is done again from the journal.
_CLOSE_TIMEOUT_S: Final = 5.0

# Seconds. How long a start waits for the sealer of a broker that was killed, and how often it looks.
_LOCK_TIMEOUT_S: Final = 30.0
_LOCK_POLL_S: Final = 0.02


class Sealer(Protocol):
    """Makes segments, one after the other."""

    @property
    def is_busy(self) -> bool:
        """From `start` on until `poll` has given the result."""

    def start(self, job: SealJob) -> None:
        """Returns at once."""

    def poll(self) -> SealResult | None:
        """What came of the job, once; None while it is being worked on."""

    def close(self) -> None:
        """Nothing is written any more when this returns."""


class SealerProcess:
    """A child process. If it ends before it should, the next job starts another."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        # Waits for the process, so that the event loop does not.
        self._thread: threading.Thread | None = None
        self._result = SealResult()

    @property
    def is_busy(self) -> bool:
        return self._thread is not None

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self, job: SealJob) -> None:
        self._thread = threading.Thread(target=self._run, args=(job,), name="sealer", daemon=True)
        self._thread.start()

    def poll(self) -> SealResult | None:
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread.join()
        self._thread = None
        return self._result

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)
        process = self._process
        if self._thread is not None and self._thread.is_alive():
            if process is not None:
                process.kill()
            self._thread.join()
        self._thread = None
        self._stop()

    def _run(self, job: SealJob) -> None:
        try:
            answer = self._ask(msgspec.msgpack.encode(job))
        except OSError as error:
            self._result = SealResult(f"the sealer could not be asked: {error}")
            self._stop()
            return
        if answer is None:
            code = self._stop()
            self._result = SealResult(f"the sealer ended with code {code} before it had answered")
            return
        self._result = msgspec.msgpack.decode(answer, type=SealResult)

    def _ask(self, message: bytes) -> bytes | None:
        process = self._process
        if process is None:
            process = self._process = subprocess.Popen(  # noqa: S603 # our own program, with fixed arguments
                [sys.executable, "-P", "-m", "tandem.store.log.sealing.worker", str(self._directory), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        write_message(process.stdin, message)
        return read_message(process.stdout)

    def _stop(self) -> int | None:
        """End the process, and say how it ended."""
        process, self._process = self._process, None
        if process is None:
            return None
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            # What was to be written has perhaps nobody to read it any more.
            with contextlib.suppress(OSError):
                stream.close()
        try:
            return process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def wait_for_sealer(directory: Path) -> None:
    """The sealer of a broker that was killed may be at its last job: nothing may be looked at before it is done."""
    path = directory / LOCK_NAME
    if not path.exists():
        return
    give_up_at = time.monotonic() + _LOCK_TIMEOUT_S
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > give_up_at:
                    raise StoreError(
                        f"{path} is held by a sealer that was left behind for more than {_LOCK_TIMEOUT_S:.0f} s: "
                        "end the process `tandem.store.log.sealing.worker`, and start again"
                    ) from None
                time.sleep(_LOCK_POLL_S)
