"""The mark of a backlog queue: which primary it belongs to, in the UserMetadata of the queue.

    {"tandem-backlog": {"namespace": "sales", "id": "5c2f…", "addresses": ["machine:5672"]}}

`id` is missing while the client that made the queue has not reached its primary yet. `addresses` are those by which
clients called the primary: a client that starts in the middle of an outage finds the backlog of its primary by them.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Final

from tandem.limits import MAX_PRIMARY_ADDRESSES, MAX_USER_METADATA_CHARACTERS

__all__ = ["BacklogMark"]

_KEY: Final = "tandem-backlog"


@dataclass(frozen=True)
class BacklogMark:
    """The owner of a backlog queue."""

    namespace: str
    id: str | None
    addresses: tuple[str, ...] = ()

    def with_address(self, address: str) -> BacklogMark:
        """Return the mark that also remembers this address, as the newest."""
        others = [known for known in self.addresses if known != address]
        return dataclasses.replace(self, addresses=(*others, address)[-MAX_PRIMARY_ADDRESSES:])

    def without_address(self, address: str) -> BacklogMark:
        """Return the mark that does not remember this address."""
        return dataclasses.replace(self, addresses=tuple(known for known in self.addresses if known != address))

    def to_text(self) -> str:
        """Return the text for the UserMetadata of a queue."""
        fields: dict[str, object] = {"namespace": self.namespace, "addresses": list(self.addresses)}
        if self.id is not None:
            fields["id"] = self.id
        text = json.dumps({_KEY: fields})
        if len(text) > MAX_USER_METADATA_CHARACTERS and self.addresses:
            return dataclasses.replace(self, addresses=self.addresses[1:]).to_text()
        return text

    @staticmethod
    def parse(text: str | None) -> BacklogMark | None:
        """Return the mark in a queue's UserMetadata; None if the text is the owner's own."""
        try:
            fields = json.loads(text or "")[_KEY]
            namespace, owner_id, addresses = fields["namespace"], fields.get("id"), fields.get("addresses", [])
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            return None
        if not isinstance(namespace, str) or not isinstance(owner_id, str | None) or not isinstance(addresses, list):
            return None
        return BacklogMark(namespace, owner_id, tuple(str(address) for address in addresses))
