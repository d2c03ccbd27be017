"""The identity of a namespace: a name that people chose, and an id that no other namespace has.

A broker reports both in the properties of its AMQP `open`, which every client receives before it proves or sends
anything. Clients that do not know the properties ignore them (AMQP 1.0 part 2.7.1).
"""

from __future__ import annotations

from typing import Final

from tandem.amqp.types import Symbol
from tandem.hosts import DEFAULT_NAMESPACE

__all__ = ["NamespaceIdentity"]

_NAME: Final = "tandem:namespace"
_ID: Final = "tandem:namespace-id"
_IS_DEFAULT: Final = "tandem:default-namespace"

# Characters of the id that are enough to keep apart the namespaces that share one secondary.
_SHORT_ID_CHARACTERS: Final = 8


class NamespaceIdentity:
    """Name and id of one namespace. `is_default` is whether its broker has it for hosts that name no namespace."""

    __slots__ = ("id", "is_default", "name")

    def __init__(self, name: str, identifier: str, is_default: bool = False) -> None:
        self.name = name
        self.id = identifier
        self.is_default = is_default

    @property
    def unique_name(self) -> str:
        """The name as chosen; the default name, which many namespaces have, followed by a part of the id."""
        if self.name.lower() != DEFAULT_NAMESPACE:
            return self.name
        return f"{self.name}-{self.id[:_SHORT_ID_CHARACTERS]}"

    def to_properties(self) -> dict[object, object]:
        """Return the properties of an `open` that report this identity."""
        return {Symbol(_NAME): self.name, Symbol(_ID): self.id, Symbol(_IS_DEFAULT): self.is_default}

    @staticmethod
    def from_properties(properties: dict[object, object] | None) -> NamespaceIdentity | None:
        """Return what a peer reported in its `open`; None if it reports no identity."""
        name, identifier = (properties or {}).get(_NAME), (properties or {}).get(_ID)
        if not isinstance(name, str) or not isinstance(identifier, str) or not name or not identifier:
            return None
        return NamespaceIdentity(name, identifier, (properties or {}).get(_IS_DEFAULT) is True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamespaceIdentity) and (self.name, self.id) == (other.name, other.id)

    def __hash__(self) -> int:
        return hash((self.name, self.id))

    def __repr__(self) -> str:
        return f"NamespaceIdentity({self.name!r}, {self.id!r})"
