"""A disk that fails on purpose, and a sealer that works on it.

It writes through to real files, so that everything is real but the failure, and remembers what was not synced: bytes,
new names, renamings, deletions. When the power is lost each of these survives or not, as the seed wills.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tandem.errors import TandemError
from tandem.store.log.damage_log import RecordsDamaged
from tandem.store.log.files import Bytes, DiskFiles
from tandem.store.log.sealing.job import SealJob, SealResult
from tandem.store.log.sealing.segment_writer import seal

# Bytes. What a disk writes whole or not at all.
SECTOR_BYTES: Final = 512


class PowerLost(OSError):
    """Nothing works any more."""


class _Name(NamedTuple):
    """A change of a folder that may not survive, and how it is undone."""

    folder: Path
    undo: Callable[[], None]


class FaultyFiles(DiskFiles):
    """Files that lose their power after some operations. `graveyard` is a folder outside of what is tested."""

    def __init__(self, graveyard: Path, seed: int = 0) -> None:
        self._graveyard = graveyard
        self._random = random.Random(seed)
        self._paths: dict[int, Path] = {}
        # What a file has on disk for sure, of those that have more.
        self._synced: dict[Path, bytes] = {}
        self._names: list[_Name] = []
        self._operations_left: int | None = None
        self.operation_count = 0
        self.has_power = True
        self.are_syncs_failing = False
        self.are_writes_failing = False

    def lose_power_after(self, operations: int) -> None:
        self._operations_left = operations

    def restore_power(self) -> None:
        """Leave what survived. Everything must be closed."""
        # Nothing, a random half, or everything: each teaches something of its own.
        probability = self._random.choice((0.0, 0.5, 1.0))
        for path, synced in self._synced.items():
            if path.exists():
                path.write_bytes(self._survived(synced, path.read_bytes(), probability))
        for name in reversed(self._names):
            if self._random.random() >= probability:
                name.undo()
        self._synced.clear()
        self._names.clear()
        self._paths.clear()
        self.has_power = True
        self._operations_left = None

    def _survived(self, synced: bytes, written: bytes, probability: float) -> bytes:
        image = bytearray(synced)
        for start in range(0, len(written), SECTOR_BYTES):
            piece = written[start : start + SECTOR_BYTES]
            if piece != image[start : start + SECTOR_BYTES] and self._random.random() < probability:
                image.extend(bytes(max(0, start - len(image))))
                image[start : start + len(piece)] = piece
        return bytes(image)

    def _operate(self) -> None:
        self.operation_count += 1
        if self._operations_left is not None:
            self._operations_left -= 1
            if self._operations_left < 0:
                self.has_power = False
        if not self.has_power:
            raise PowerLost(5, "the power is lost")

    # --- files ----------------------------------------------------------------------------------------------

    def make_folder(self, path: Path) -> None:
        self._operate()
        super().make_folder(path)

    def open(self, path: Path) -> int:
        self._operate()
        if not path.exists():
            self._names.append(_Name(path.parent, lambda: path.unlink(missing_ok=True)))
        descriptor = super().open(path)
        self._paths[descriptor] = path
        return descriptor

    def write(self, descriptor: int, position: int, pieces: Sequence[Bytes]) -> None:
        path = self._paths[descriptor]
        self._synced.setdefault(path, path.read_bytes())
        if self.are_writes_failing:
            raise OSError(5, "input/output error")
        try:
            self._operate()
        except PowerLost:
            # It was under way.
            super().write(descriptor, position, pieces)
            raise
        super().write(descriptor, position, pieces)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self._operate()
        path = self._paths[descriptor]
        self._synced.setdefault(path, path.read_bytes())
        super().truncate(descriptor, size_bytes)

    def sync(self, descriptor: int) -> None:
        self._operate()
        if self.are_syncs_failing:
            raise OSError(5, "input/output error")
        self._synced.pop(self._paths[descriptor], None)

    # --- names ----------------------------------------------------------------------------------------------

    def rename(self, source: Path, target: Path) -> None:
        self._operate()
        super().rename(source, target)
        if source in self._synced:
            self._synced[target] = self._synced.pop(source)
        self._names.append(_Name(target.parent, lambda: _move_back(target, source)))

    def sync_folder(self, path: Path) -> None:
        self._operate()
        self._names = [name for name in self._names if name.folder != path]

    def unlink(self, path: Path) -> None:
        self._operate()
        if not path.exists():
            return
        self._synced.pop(path, None)
        self._graveyard.mkdir(exist_ok=True)
        grave = self._graveyard / str(self.operation_count)
        shutil.move(path, grave)
        self._names.append(_Name(path.parent, lambda: _move_back(grave, path)))

    def remove_folder(self, path: Path) -> None:
        self._operate()
        super().remove_folder(path)
        # A folder that is gone has no names that could come back.
        self._names = [name for name in self._names if name.folder != path]


def _move_back(source: Path, target: Path) -> None:
    if source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, target)


class InlineSealer:
    """Seals at once, on the files that it is given. `is_failing` makes it answer that it could not."""

    def __init__(self, files: DiskFiles) -> None:
        self._files = files
        self.result: SealResult | None = None
        self.is_failing = False
        self.job_count = 0

    @property
    def is_busy(self) -> bool:
        return self.result is not None

    def start(self, job: SealJob) -> None:
        self.job_count += 1
        if self.is_failing:
            self.result = SealResult("it does not work")
            return
        try:
            seal(job, self._files)
            self.result = SealResult()
        except RecordsDamaged as error:
            self.result = SealResult(str(error), error.first_numbers)
        except TandemError as error:
            self.result = SealResult(str(error))

    def poll(self) -> SealResult | None:
        result, self.result = self.result, None
        return result

    def close(self) -> None:
        """There is nothing to wait for."""
