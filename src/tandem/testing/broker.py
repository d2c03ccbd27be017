"""A broker of its own for a test: a real `tandem serve` in a child process, on free loopback ports.

    with Broker(tmp_path) as broker:
        broker.create_queue("orders", lock_duration_ms=2_000)
        client = ServiceBusClient.from_connection_string(broker.connection_string)

The child is what users run, so that it can be killed and started again over the same data, and on the same ports.
Neither a failing test nor a forgotten `stop` leaves one behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Final, Self

from tandem.connection_string import ConnectionString
from tandem.errors import StateError, TandemError
from tandem.testing.json_api import HOST, JsonApi
from tandem.testing.ports import PortReservation

__all__ = ["Broker", "BrokerFailed"]

# Seconds. A start takes well under one; the rest is for a machine that is busy, and for a recovery.
START_LIMIT_S: Final = 120.0
# Seconds. A stop finishes what was accepted: one commit, and the farewell to each client.
STOP_LIMIT_S: Final = 120.0
# Seconds. How often the output of a starting child is looked at.
POLL_INTERVAL_S: Final = 0.02

_READY: Final = "ready amqp://"
# The console script may not be on the path of a test; the package is.
_PROGRAM: Final = "from tandem.cli import main; main()"


class BrokerFailed(TandemError):
    """The child process did not get ready or did not end. The message has what it wrote."""


class Broker(JsonApi):
    """A `tandem serve` child process. As a context manager it starts on the way in and is gone on the way out."""

    # What the child runs.
    program: ClassVar[str] = _PROGRAM

    def __init__(self, data_dir: Path, *, arguments: Sequence[str] = ("--dev",)) -> None:
        """`arguments` go to `tandem serve` behind the data directory, the host and the ports.

        The broker does not judge its own health, since tests slow it down and stop it: `--health` lets it.
        """
        self.data_dir = data_dir
        self.arguments = tuple(arguments)
        self._process: subprocess.Popen[bytes] | None = None
        # Files and not pipes: nobody reads along, and a full pipe would stop the child.
        held = contextlib.ExitStack()
        self._stdout: IO[bytes] = held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - see the finalizer below
        self._stderr: IO[bytes] = held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - see the finalizer below
        self.port, self.http_port = held.enter_context(PortReservation(2)).ports
        self._let_go = weakref.finalize(self, held.close)
        self._reaper: weakref.finalize[..., Broker] | None = None
        self._connection_string: str | None = None
        self._asking = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child, by SIGKILL if it does not heed SIGTERM, and let go of everything. Safe to call twice."""
        if self.is_running:
            with contextlib.suppress(BrokerFailed):
                self.stop()
        self.kill()
        self._let_go()

    # --- process --------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise StateError("the broker was not started")
        return self._process.pid

    def start(self) -> None:
        """Start the child over the data directory, and return when it serves."""
        if self.is_running:
            raise StateError(f"the broker runs already, as process {self.pid}")
        # One that ended by itself may not have been waited for.
        self.kill()
        for output in (self._stdout, self._stderr):
            output.seek(0)
            output.truncate()
        self._process = subprocess.Popen(  # noqa: S603 - our own program, with the arguments of the test
            [sys.executable, "-c", self.program, "serve", *self._serve_arguments()],
            stdin=subprocess.DEVNULL,
            stdout=self._stdout,
            stderr=self._stderr,
        )
        # Also when nobody calls close: with this object, or with the interpreter.
        self._reaper = weakref.finalize(self, _kill, self._process)
        self._wait_until_ready()

    def stop(self) -> int:
        """Ask the child to end as an operator would, with SIGTERM, and return its exit code."""
        if self._process is None:
            raise StateError("the broker was not started")
        self._process.send_signal(signal.SIGTERM)
        return self._wait_for_end()

    def wait_for_end(self) -> int:
        """Wait until the child ends by itself, and return its exit code."""
        if self._process is None:
            raise StateError("the broker was not started")
        return self._wait_for_end()

    def _wait_for_end(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(self._failure(f"did not end within {STOP_LIMIT_S:.0f} s")) from None

    def kill(self) -> None:
        """End the child at once, with SIGKILL: it can neither finish nor say anything."""
        if self._reaper is not None:
            self._reaper()

    def restart(self) -> None:
        """Stop the child if it runs, and start another one on the same ports."""
        if self.is_running:
            self.stop()
        self.start()

    @property
    def stdout(self) -> str:
        """What the child has written to its standard output since it was started last."""
        return _text(self._stdout)

    @property
    def stderr(self) -> str:
        """What the child has written to its standard error since it was started last."""
        return _text(self._stderr)

    def _serve_arguments(self) -> list[str]:
        ports = ["--port", str(self.port), "--http-port", str(self.http_port)]
        return ["--data-dir", str(self.data_dir), "--host", HOST, *ports, "--no-health", *self.arguments]

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_LIMIT_S
        # A whole line: its end may come in a write of its own.
        while not any(line.startswith(_READY) and line.endswith("\n") for line in self.stdout.splitlines(True)):
            if self._process.poll() is not None:
                raise BrokerFailed(
                    self._failure(f"ended with exit code {self._process.returncode} before it was ready")
                )
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(self._failure(f"was not ready within {START_LIMIT_S:.0f} s"))
            time.sleep(POLL_INTERVAL_S)

    def _failure(self, what: str) -> str:
        command = " ".join(["tandem", "serve", *self._serve_arguments()])
        return f"`{command}` {what}.\n--- stderr ---\n{self.stderr}\n--- stdout ---\n{self.stdout}"

    # --- what clients need ----------------------------------------------------------------------------------

    @property
    def connection_string(self) -> str:
        """For the official SDKs: AMQP over plain TCP, with the rule that may do everything."""
        # Tests may ask from many threads, and it takes a process to find out.
        with self._asking:
            if self._connection_string is None:
                self._connection_string = self._print_connection_string()
            return self._connection_string

    @property
    def ca_path(self) -> Path:
        """The certificate authority that signed the certificate of the TLS side of each port."""
        return self.data_dir / "tls" / "ca.pem"

    def _print_connection_string(self) -> str:
        if "--dev" in self.arguments:
            return str(ConnectionString(HOST, self.port))
        # Only the command knows where the keys are kept.
        command = ["connection-string", "--data-dir", str(self.data_dir), "--host", HOST, "--port", str(self.port)]
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", _PROGRAM, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerFailed(f"`tandem {' '.join(command)}` ended with exit code {done.returncode}: {done.stderr}")
        return done.stdout.strip()


def _text(output: IO[bytes]) -> str:
    if output.closed:
        return ""
    # The child shares the position of the file: reading must not move it.
    descriptor = output.fileno()
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
