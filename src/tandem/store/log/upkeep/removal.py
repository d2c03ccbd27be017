"""Files that nobody needs any more, deleted a few at a time so that the event loop does not stand still."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

from tandem.errors import StoreFailed
from tandem.store.descriptors import is_out_of_descriptors, with_descriptors
from tandem.store.log.files import Files
from tandem.store.log.upkeep.pins import Pins

__all__ = ["Removal"]


class Removal:
    """Single files, and the folders of hubs that were dropped. What is being read stays until it is not."""

    def __init__(self, directory: Path, files: Files, pins: Pins, at_once: int) -> None:
        self._directory = directory
        self._files = files
        self._pins = pins
        self._at_once = at_once
        self._paths: deque[Path] = deque()
        self._hubs: deque[int] = deque()

    def add(self, paths: Iterable[Path]) -> None:
        self._paths.extend(paths)

    def add_hub(self, hub_number: int) -> None:
        self._hubs.append(hub_number)

    def run(self) -> None:
        """Delete a few files."""
        for _ in range(min(self._at_once, len(self._paths))):
            path = self._paths.popleft()
            if path in self._pins:
                self._paths.append(path)
            else:
                self._unlink(path)

    def sweep(self, busy_hub: int | None) -> bool:
        """Delete some of what dropped hubs left. True if there is more to do now."""
        for _ in range(len(self._hubs)):
            hub_number = self._hubs.popleft()
            folder = self._directory / str(hub_number)
            if hub_number == busy_hub or self._pins.has_any_below(folder):
                self._hubs.append(hub_number)
                continue
            if not self._sweep_hub(folder):
                self._hubs.append(hub_number)
            return bool(self._hubs)
        return False

    def _sweep_hub(self, folder: Path) -> bool:
        """Whether nothing is left of it."""
        left = self._at_once
        try:
            for partition in _entries(folder) if folder.exists() else ():
                found = _entries(partition)[:left]
                for path in found:
                    self._files.unlink(path)
                left -= len(found)
                if not left:
                    return False
                self._files.remove_folder(partition)
            self._files.remove_folder(folder)
        except OSError as error:
            if is_out_of_descriptors(error):
                # Nothing is wrong with the disk: there is another sweep.
                return False
            raise StoreFailed(f"{folder} could not be removed: {error}") from error
        return True

    def _unlink(self, path: Path) -> None:
        try:
            self._files.unlink(path)
        except OSError as error:
            raise StoreFailed(f"{path} could not be deleted: {error}") from error


def _entries(folder: Path) -> list[Path]:
    return with_descriptors(lambda: list(folder.iterdir()))
