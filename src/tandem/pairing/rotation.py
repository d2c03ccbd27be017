"""Which backlog queues of the secondary are in use, and which one a client sends to."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["BacklogRotation"]


class BacklogRotation:
    """The backlog queues of one factory, by their index: all of its senders share it, and learn from each other.

    A queue to which a send failed is taken out for all of them. When the last one is out they are all put back, for the
    sends that come later: a secondary that was away for a moment is not given up for good.
    """

    def __init__(self, count: int, choose: Callable[[int], int]) -> None:
        """`choose(n)` draws a number from 0 to n - 1."""
        self._choose = choose
        self._all = tuple(range(count))
        self._usable = list(self._all)
        # Counts how often all were put back, so that one send does not try the same queues for ever.
        self.rounds = 0

    @property
    def usable(self) -> tuple[int, ...]:
        """The queues that are in rotation."""
        return tuple(self._usable)

    def draw(self, current: int | None) -> int:
        """The queue of a client: the one that it has as long as that is in rotation, else another one at random."""
        if current in self._usable:
            assert current is not None
            return current
        return self._usable[self._choose(len(self._usable))]

    def remove(self, index: int) -> bool:
        """Take a queue out for all senders. False if another one had done so already."""
        if index not in self._usable:
            return False
        self._usable.remove(index)
        if not self._usable:
            self._usable = list(self._all)
            self.rounds += 1
        return True
