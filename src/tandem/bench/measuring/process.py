"""Servers of others that a benchmark starts beside Tandem: free ports for them, and an end of all their processes."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Final

from tandem.testing.ports import PortReservation

__all__ = ["HOST", "end_process", "free_ports"]

HOST: Final = "127.0.0.1"

# Seconds. How long a server may take to end when it is asked to.
STOP_LIMIT_S: Final = 10.0


def free_ports(count: int) -> list[int]:
    """Return ports that are free, and reserved until this process ends."""
    reservation = PortReservation(count)
    atexit.register(reservation.close)
    return reservation.ports


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a process and its descendants, gently if it takes the hint."""
    # Helpers may have process groups of their own and outlive their parent, so they are named while it lives.
    family = _descendants(process.pid)
    process.terminate()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_LIMIT_S)
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()


def _descendants(ancestor: int) -> list[int]:
    """All children of a process and theirs, parents first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # pid (command) state parent ...: the command may hold blanks and brackets, so the last bracket ends it.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [ancestor]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found[1:]
