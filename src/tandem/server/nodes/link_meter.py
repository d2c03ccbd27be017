"""Counts what a client does on one link, for the stream of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.engine.metering import OK, Tally
from tandem.errors import ProtocolError

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["LinkMeter", "outcome_of"]


def outcome_of(error: ProtocolError) -> str:
    """`com.microsoft:server-busy` is counted as `server-busy`."""
    return error.condition.rpartition(":")[2]


class LinkMeter:
    """The tallies of a link. Most links do one or two things: these are looked up once, and kept by who uses them."""

    __slots__ = ("_entity", "_entity_kind", "_peer", "_tallies")

    def __init__(self, peer: Peer, entity: str, entity_kind: str) -> None:
        self._peer = peer
        self._entity = entity
        self._entity_kind = entity_kind
        self._tallies: dict[tuple[str, str], Tally] = {}

    def tally(self, operation: str, outcome: str = OK) -> Tally:
        key = (operation, outcome)
        tally = self._tallies.get(key)
        if tally is None:
            peer = self._peer
            meter = peer.services.namespace.meter
            tally = meter.tally(self._entity, self._entity_kind, operation, peer.client_name, peer.is_syphon, outcome)
            self._tallies[key] = tally
        return tally

    def refused(self, operation: str, error: ProtocolError, size_bytes: int = 0) -> None:
        self.tally(operation, outcome_of(error)).add(size_bytes)
