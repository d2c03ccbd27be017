"""The memory of this process, and how much it may have."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Final

__all__ = ["DEFAULT_SHARE", "available_bytes", "default_max_memory_megabytes", "give_back", "used_bytes"]

# Of the memory that the machine or the container has. Where a broker uses more, the system is about to end it.
DEFAULT_SHARE: Final = 0.75

_STATUS: Final = Path("/proc/self/statm")
# What a container may have, in the two forms in which Linux says it.
_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def used_bytes() -> int:
    """Return the resident memory of this process; 0 where the system does not say."""
    try:
        return int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def available_bytes(limits: tuple[Path, ...] = _LIMITS) -> int:
    """Return what the container may have, or the machine has, whichever is less."""
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in limits:
        try:
            # The text is `max` where there is no limit.
            return min(machine_bytes, int(path.read_text()))
        except (OSError, ValueError):
            continue
    return machine_bytes


def default_max_memory_megabytes() -> int:
    return max(1, int(available_bytes() * DEFAULT_SHARE) // 1_048_576)


def give_back() -> None:
    """Let the allocator return to the system what is free, in a thread: by itself it keeps much of it."""
    threading.Thread(target=_trim, name="memory", daemon=True).start()


def _trim() -> None:
    # glibc's; others return memory by themselves.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
