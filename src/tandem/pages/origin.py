"""When, on which machine and by which version a page was made."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime

import tandem

__all__ = ["Origin", "machine_text"]


@dataclass(frozen=True)
class Origin:
    """What stands at the foot of a page."""

    made_at: datetime
    machine: str
    version: str

    @classmethod
    def here(cls) -> Origin:
        return cls(datetime.now(UTC), machine_text(), tandem.__version__)


def machine_text() -> str:
    """Return the machine in a few words, beside which every figure has to be read. Without its name: pages travel."""
    return f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
