"""Single faults in files, as disks, file systems and people make them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["KINDS", "Fault", "draw_fault"]

# Bytes of the blocks that are zeroed.
BLOCKS: Final = (512, 4_096, 8_192)
KINDS: Final = ("flip", "zero-512", "zero-4096", "zero-8192", "cut", "missing")

# How often each kind is drawn: there is one way to lose a file, and there are many to flip a bit of it.
_WEIGHTS: Final = (50, 15, 15, 10, 8, 2)


@dataclass(frozen=True)
class Fault:
    """One fault in one file. Bytes from `start` to `end` are affected; `bit` is the one that is flipped."""

    file: str
    kind: str
    start: int
    end: int
    bit: int = 0

    def __str__(self) -> str:
        return f"{self.kind} in {self.file} at {self.start:,}"

    def inject(self, directory: Path) -> None:
        path = directory / self.file
        if self.kind == "missing":
            path.unlink()
            return
        with path.open("r+b") as file:
            if self.kind == "cut":
                file.truncate(self.start)
            elif self.kind == "flip":
                file.seek(self.start)
                byte = file.read(1)[0]
                file.seek(self.start)
                file.write(bytes([byte ^ 1 << self.bit]))
            else:
                file.seek(self.start)
                file.write(bytes(self.end - self.start))


def draw_fault(chance: random.Random, path: Path, name: str) -> Fault:
    """Draw a fault in a file that is not empty."""
    size_bytes = path.stat().st_size
    (kind,) = chance.choices(KINDS, _WEIGHTS)
    if kind == "missing":
        return Fault(name, kind, 0, size_bytes)
    if kind == "cut":
        return Fault(name, kind, chance.randrange(size_bytes), size_bytes)
    if kind == "flip":
        start = chance.randrange(size_bytes)
        return Fault(name, kind, start, start + 1, chance.randrange(8))
    block = int(kind.removeprefix("zero-"))
    start = chance.randrange(0, size_bytes, block)
    return Fault(name, kind, start, min(start + block, size_bytes))
