"""Failing on purpose: what one entity or the whole namespace refuses for a while, and with which error.

A broker has no faults unless somebody sets some, so that the path of a message asks one question only: is there a
`Faults` at all. Whoever breaks something says by a right what it is: sends need Send, receives need Listen, management
needs Manage.
"""

from __future__ import annotations

from typing import Final

from tandem.addresses import split_subscription
from tandem.auth import Right
from tandem.engine.queue import Queue
from tandem.errors import ProtocolError

__all__ = ["Fault", "Faults"]


class Fault:
    """Operations that need one of these rights fail with this error, on one entity or, with None, on all."""

    __slots__ = ("entity", "error", "rights")

    def __init__(self, rights: Right, entity: str | None, error: type[ProtocolError]) -> None:
        self.rights: Final = rights
        self.entity: Final = None if entity is None else entity.lower()
        self.error: Final = error

    def covers(self, queue: Queue) -> bool:
        return self.covers_path(queue.name)

    def covers_path(self, path: str) -> bool:
        """What is wrong with a topic is wrong with its subscriptions."""
        folded = path.lower()
        names = split_subscription(folded)
        return self.entity is None or self.entity == folded or (names is not None and self.entity == names[0])

    def raise_error(self, what: str) -> None:
        raise self.error(f"'{what}' is broken on purpose.")


class Faults:
    """Those that are set."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = list(faults)

    def check(self, right: Right, queue: Queue) -> None:
        """Raise the error of the first fault that an operation meets."""
        for fault in self._faults:
            if right in fault.rights and fault.covers(queue):
                fault.raise_error(queue.name)

    def check_path(self, right: Right, path: str) -> None:
        """The same for a request that names an entity by its path, or with an empty one the namespace."""
        for fault in self._faults:
            if right in fault.rights and fault.covers_path(path):
                fault.raise_error(path)
