"""The `tandem` command as users run it: a child process."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import re
import signal
import subprocess
import sys
import unittest.mock
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tandem.cli import main
from tandem.connection_string import ConnectionString

# The console script may not be on the path of a test; the package is.
MAIN: Final = "import sys; sys.argv[0] = 'tandem'; from tandem.cli import main; main()"
PROGRAM: Final = (sys.executable, "-c", MAIN)

# Seconds. A command takes about one; the rest is for a machine that is busy.
TIME_LIMIT_S: Final = 120

READY: Final = re.compile(
    r"ready amqp://(?P<host>\S+):(?P<port>\d+) http://(?P=host):(?P<http_port>\d+)(?P<further>(?: \S+:\d+)*)\n"
)


def environment(**extra: str) -> dict[str, str]:
    """That of this process, without what would lead a command to another broker."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_CONNECTION")}
    # Tables fit into the terminal, of which there is none.
    return {**inherited, "COLUMNS": "120", **extra}


def tandem(
    *arguments: str | Path, folder: Path | None = None, connection_string: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in a process of its own."""
    extra = {} if connection_string is None else {"TANDEM_CONNECTION_STRING": connection_string}
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
        cwd=folder,
        env=environment(**extra),
    )


def tandem_here(
    *arguments: str | Path,
    folder: Path | None = None,
    connection_string: str | None = None,
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[str]:
    """The same in this process, without the second that a child takes to start. Not for one that serves until a signal.

    What it writes is text; bytes that are none are as `os.fsdecode` has them.
    """
    output, errors = _stream(), _stream()
    command = ["tandem", *map(str, arguments)]
    extra = {} if connection_string is None else {"TANDEM_CONNECTION_STRING": connection_string}
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(errors))
        stack.enter_context(contextlib.chdir(folder or Path.cwd()))
        stack.enter_context(unittest.mock.patch.object(sys, "argv", command))
        stack.enter_context(unittest.mock.patch.object(sys, "stdin", _stream(stdin)))
        # A broker sets these for its whole process.
        stack.enter_context(unittest.mock.patch.object(gc, "set_threshold"))
        stack.enter_context(unittest.mock.patch.object(sys, "setswitchinterval"))
        stack.enter_context(unittest.mock.patch.dict(os.environ, environment(**extra), clear=True))
        with pytest.raises(SystemExit) as ended:
            main()
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess(command, ended.value.code, _written(output), _written(errors))


def _stream(content: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="", write_through=True)


def _written(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return os.fsdecode(buffer.getvalue())


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a command which failed has to say."""
    assert done.returncode != 0
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("tandem: ")
    return line


class Commands:
    """The commands of one group, such as `tandem queue`, with the broker in the environment."""

    def __init__(self, connection_string: ConnectionString, group: str) -> None:
        self.connection_string = str(connection_string)
        self.group = group
        self.tandem: Callable[..., subprocess.CompletedProcess[str]] = tandem_here

    def done(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.tandem(self.group, *arguments, connection_string=self.connection_string)

    def run(self, *arguments: str) -> str:
        done = self.done(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def refusal(self, *arguments: str) -> str:
        return one_line(self.done(*arguments))


class Serving:
    """A `tandem serve` that is ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready is not None, f"{line!r} {process.communicate(timeout=TIME_LIMIT_S)}"
        self.host = ready["host"]
        self.port = int(ready["port"])
        self.http_port = int(ready["http_port"])
        # The addresses of --listen, as they are printed.
        self.further = ready["further"].split()

    def stop(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """The exit code, and everything it wrote after it was ready."""
        self.process.send_signal(by)
        output, errors = self.process.communicate(timeout=TIME_LIMIT_S)
        return self.process.returncode, output, errors


@contextlib.contextmanager
def serving(
    data_dir: Path, *arguments: str | Path, prelude: str = "", picks_http_port: bool = True, **variables: str
) -> Iterator[Serving]:
    """On free ports. It is gone on the way out, whatever happens. The prelude is Python to run before it, and the
    variables are added to its environment."""
    http_port = ["--http-port", "0"] if picks_http_port else []
    command = ["serve", "--data-dir", data_dir, "--port", "0", *http_port, *arguments]
    process = subprocess.Popen(
        [sys.executable, "-c", f"{prelude}\n{MAIN}", *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )
    with process:
        try:
            yield Serving(process)
        finally:
            process.kill()
