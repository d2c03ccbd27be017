"""What the machine itself can do: how long its disk takes to keep a message, and a message to come back over loopback.

A broker that acknowledges after an fsync cannot be faster than these two one after the other.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tandem.bench.load.job import latencies
from tandem.errors import TandemError

__all__ = [
    "MemoryUnknown",
    "allow_open_files",
    "anonymous_bytes",
    "child_pids",
    "cpu_seconds",
    "fdatasync_latency",
    "loopback_latency",
    "peak_resident_bytes",
    "resident_bytes",
]

HOST: Final = "127.0.0.1"

# Bytes. What a broker answers to a send: a disposition's frame.
ANSWER_BYTES: Final = 32


class MemoryUnknown(TandemError):
    """Memory and CPU time of another process can be read on Linux only, from /proc."""


def fdatasync_latency(folder: Path, count: int, body_bytes: int) -> dict[str, float]:
    """One message after the other appended to a file and forced to disk: the least that keeping it costs."""
    # macOS has no fdatasync; its fsync is the nearest.
    sync = getattr(os, "fdatasync", os.fsync)
    path = folder / "fdatasync"
    body = b"x" * body_bytes
    spent_s: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            started_at = time.perf_counter()
            file.write(body)
            sync(file.fileno())
            spent_s.append(time.perf_counter() - started_at)
    path.unlink()
    return latencies("fdatasync", spent_s)


def loopback_latency(count: int, body_bytes: int) -> dict[str, float]:
    """A message over loopback to another process, and its short answer back, with nothing but sockets between."""
    body = b"x" * body_bytes
    spent_s: list[float] = []
    with _answering(body_bytes) as connection:
        for _ in range(count):
            started_at = time.perf_counter()
            connection.sendall(body)
            connection.recv(ANSWER_BYTES, socket.MSG_WAITALL)
            spent_s.append(time.perf_counter() - started_at)
    return latencies("loopback", spent_s)


@contextlib.contextmanager
def _answering(body_bytes: int) -> Iterator[socket.socket]:
    command = [sys.executable, "-m", "tandem.bench.measuring.machine", str(body_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with socket.create_connection((HOST, int(process.stdout.readline()))) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection
        # It ends by itself when the connection does.


def _answer(body_bytes: int) -> None:
    with socket.create_server((HOST, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(connection.recv(body_bytes, socket.MSG_WAITALL)) == body_bytes:
            connection.sendall(b"x" * ANSWER_BYTES)


def resident_bytes(pid: int) -> int:
    """Physical memory that a process holds."""
    return _memory_bytes(pid, "VmRSS:")


def peak_resident_bytes(pid: int) -> int:
    """The most physical memory that a process ever held."""
    return _memory_bytes(pid, "VmHWM:")


def anonymous_bytes(pid: int) -> int:
    """Physical memory that a process holds, without what is mapped of files."""
    return _memory_bytes(pid, "RssAnon:")


def _memory_bytes(pid: int, field: str) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except FileNotFoundError:
        raise MemoryUnknown(f"the memory of process {pid} cannot be read: there is no /proc/{pid}/status") from None
    # VmRSS:     12345 kB
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(field))


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have had of the cores so far."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        raise MemoryUnknown(f"the CPU time of process {pid} cannot be read: there is no /proc/{pid}/stat") from None
    # pid (command) state ... utime stime: the 14th and 15th. The command may hold blanks, so the last bracket ends it.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def child_pids(pid: int) -> list[int]:
    """The processes that a process has started, by any of its threads."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for children in found for child in children.read_text().split()]


def allow_open_files(count: int) -> None:
    """Let this process and its children have so many files open, as far as the system lets us: each connection is
    one, and the usual limit is 1,024."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


if __name__ == "__main__":
    _answer(int(sys.argv[1]))
