"""Processes below a program, as /proc shows them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

__all__ = ["Process", "below"]


class Process(NamedTuple):
    """A process that runs, the name of its program, and its memory in MB."""

    number: int
    name: str
    memory_mb: float


def below(process: int) -> list[Process]:
    """Return all processes that a process has started, and those that these have. One that has ended is left out."""
    found: list[Process] = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text(encoding="utf-8").split()):
                with contextlib.suppress(OSError, KeyError):
                    found.append(_look_at(child))
                found += below(child)
    return found


def _look_at(process: int) -> Process:
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return Process(process, fields["Name"].strip(), int(fields["VmRSS"].split()[0]) / 1_024)
