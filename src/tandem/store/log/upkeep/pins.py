"""Files that somebody reads in another thread, and that must not be deleted meanwhile."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Pins"]


class Pins:
    """How many read each file. Taken on the event loop, given back from any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._counts: Counter[Path] = Counter()

    def take(self, paths: Iterable[Path]) -> None:
        with self._mutex:
            self._counts.update(paths)

    def give_back(self, paths: Iterable[Path]) -> None:
        with self._mutex:
            for path in paths:
                self._counts[path] -= 1
                if not self._counts[path]:
                    del self._counts[path]

    def __contains__(self, path: Path) -> bool:
        with self._mutex:
            return path in self._counts

    def has_any_below(self, folder: Path) -> bool:
        with self._mutex:
            return any(folder in path.parents for path in self._counts)
