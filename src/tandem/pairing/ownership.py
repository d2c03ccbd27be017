"""Which backlog queues of a secondary belong to a primary: by their names, and by the marks on them.

A primary that was reached is known by the id that it reports, or by its address if it reports none. One that cannot be
reached when a program starts is known provisionally: by what the marks on the secondary remember of its address, or by
a name made from the address. Its queues are marked with the id as soon as the primary answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tandem.client.entities.generated import QueueDescription
from tandem.connection_string import ServiceAddress
from tandem.errors import ConfigurationError
from tandem.hosts import is_cloud_host, is_loopback
from tandem.namespace_identity import NamespaceIdentity
from tandem.pairing.marks import BacklogMark
from tandem.pairing.primary_address import address_key, local_key, name_from_address

__all__ = [
    "TRANSFER",
    "BacklogOwner",
    "BacklogQueue",
    "ForeignBacklogError",
    "Reached",
    "backlog_place",
    "backlog_queues_of",
    "message_counts",
    "resolve_owner",
]

TRANSFER: Final = "x-servicebus-transfer"

_PATH: Final = re.compile(rf"(?P<name>.+)/{TRANSFER}/(?P<index>[0-9]{{1,9}})", re.IGNORECASE)


def backlog_place(path: str) -> tuple[str, int] | None:
    """Return the name of the primary and the index in the path of a backlog queue. None for any other path."""
    found = _PATH.fullmatch(path)
    return None if found is None else (found["name"], int(found["index"]))


class ForeignBacklogError(ConfigurationError):
    """The backlog queues of that name belong to another primary."""


@dataclass(frozen=True)
class Reached:
    """What is known of a primary: whether it answered, and the identity that it reports."""

    is_reached: bool
    identity: NamespaceIdentity | None = None


@dataclass(frozen=True)
class BacklogQueue:
    """A queue of the secondary whose name is that of a backlog queue."""

    name: str
    index: int
    mark: BacklogMark | None
    description: QueueDescription

    @staticmethod
    def of(queue: QueueDescription) -> BacklogQueue | None:
        place = backlog_place(queue.path)
        return None if place is None else BacklogQueue(*place, BacklogMark.parse(queue.user_metadata), queue)


@dataclass(frozen=True)
class BacklogOwner:
    """A primary as its secondary knows it."""

    name: str
    # None while the primary has not been reached, and nothing is remembered of it.
    id: str | None
    # How clients call it; the first is the address that this program uses.
    addresses: tuple[str, ...]
    # The name was chosen with `primary_namespace`: queues of other names are not looked for.
    is_name_given: bool = False

    def owns(self, queue: BacklogQueue) -> bool:
        """Return whether a queue is marked as this primary's, or not marked at all. A queue whose maker has not reached
        its primary yet belongs to whoever has its address, or was given its name."""
        mark = queue.mark
        if mark is None:
            return True
        is_called_so = any(address in mark.addresses for address in self.addresses)
        if mark.id is None:
            return is_called_so or (self.is_name_given and self.has_name(queue))
        if self.id is None:
            return is_called_so
        return mark.id == self.id or mark.id in self.addresses

    def has_name(self, queue: BacklogQueue) -> bool:
        return queue.name.lower() == self.name.lower()

    @property
    def mark(self) -> BacklogMark:
        """The mark of queues that are made for this primary."""
        return BacklogMark(self.name, self.id, self.addresses[:1])

    def require_own(self, queues: Iterable[BacklogQueue], secondary: str) -> None:
        """Raise ForeignBacklogError if a queue of this name is marked as another primary's."""
        if self.id is None:
            return
        for queue in queues:
            if self.has_name(queue) and not self.owns(queue):
                raise ForeignBacklogError(self._foreign_text(queue, secondary))

    def _foreign_text(self, queue: BacklogQueue, secondary: str) -> str:
        mark = queue.mark
        assert mark is not None
        known_as = ", ".join(mark.addresses) or "an address that is not remembered"
        if mark.id is None:
            whose = (
                f"was made by a program that could not reach its primary at {known_as}, which may be another namespace"
            )
        else:
            whose = f"belongs to another namespace, with the id {mark.id}, known as {known_as}"
        return (
            f"the backlog queue '{queue.description.path}' at {secondary} {whose}; this primary is {self.addresses[0]} "
            f"with the id {self.id}. Choose another name for its backlog queues with primary_namespace "
            "(--primary-namespace on the command line); or, if this primary takes the place of the other one, remove "
            "the mark from each queue of that name: tandem queue update QUEUE --user-metadata ''"
        )

    def select(self, queues: Iterable[BacklogQueue], count: int) -> list[BacklogQueue]:
        """Return the queues that a syphon of this primary empties: those of its name with an index below `count`, and
        those that are marked as its own, also under a name that a program gave them provisionally."""
        own = [queue for queue in queues if self.owns(queue)]
        named = [queue for queue in own if self.has_name(queue) and (queue.index < count or queue.mark is not None)]
        if self.is_name_given:
            return named
        return named + self._marked(own)

    def unwatched(self, queues: Iterable[BacklogQueue]) -> dict[str, int]:
        """Return the names of this primary's backlog queues that a syphon with a chosen name does not empty, with the
        number of messages in them."""
        if not self.is_name_given or self.id is None:
            return {}
        return message_counts(self._marked(queue for queue in queues if self.owns(queue)))

    def _marked(self, own: Iterable[BacklogQueue]) -> list[BacklogQueue]:
        return [queue for queue in own if not self.has_name(queue) and queue.mark is not None]


def message_counts(queues: Iterable[BacklogQueue]) -> dict[str, int]:
    """Return the number of messages in the backlog queues of each name."""
    counts: dict[str, int] = {}
    for queue in queues:
        counts[queue.name] = counts.get(queue.name, 0) + (queue.description.active_message_count or 0)
    return counts


def backlog_queues_of(queues: Iterable[QueueDescription]) -> list[BacklogQueue]:
    """Return those of a secondary's queues that are backlog queues, of whatever primary, by name and index."""
    found = [backlog for queue in queues if (backlog := BacklogQueue.of(queue)) is not None]
    return sorted(found, key=lambda queue: (queue.name.lower(), queue.index))


def _spellings(address: ServiceAddress, identity: NamespaceIdentity) -> tuple[str, ...]:
    """Return the address of a primary that was reached, and the others that lead to it on this machine."""
    key = address_key(address)
    if not is_loopback(address.host):
        return (key,)
    named = local_key(identity.name.lower(), address.amqp_port)
    plain = [local_key(None, address.amqp_port)] if identity.is_default else []
    return tuple(dict.fromkeys([key, named, *plain]))


def resolve_owner(
    address: ServiceAddress, reached: Reached, name: str | None, queues: Sequence[BacklogQueue]
) -> BacklogOwner:
    """Find out who the primary at an address is, for its secondary with these backlog queues. A name that was chosen
    stands, and the id is looked for all the same."""
    key = address_key(address)
    is_given = name is not None
    identity = reached.identity
    if identity is not None:
        return BacklogOwner(name or identity.unique_name, identity.id, _spellings(address, identity), is_given)
    if reached.is_reached or is_cloud_host(address.host):
        # Nothing better than the address will ever be known of it.
        return BacklogOwner(name or name_from_address(address), key, (key,), is_given)
    for queue in sorted(queues, key=lambda one: one.mark is None or one.mark.id is None):
        if queue.mark is not None and key in queue.mark.addresses:
            return BacklogOwner(name or queue.name, queue.mark.id, (key,), is_given)
    if name is not None:
        return BacklogOwner(name, None, (key,), True)
    candidate = BacklogOwner(name_from_address(address), None, (key,))
    if all(candidate.owns(queue) for queue in queues if candidate.has_name(queue)):
        return candidate
    return BacklogOwner(name_from_address(address, is_qualified=True), None, (key,))
