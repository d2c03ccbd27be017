"""What the programs that make the load are told, and what they all need: credentials, a durable message, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tandem.amqp import Settings
from tandem.amqp.message import Header, encode_message
from tandem.errors import TandemError

__all__ = ["DEFAULT_CREDIT", "Job", "LoadFailed", "Peer", "durable", "latencies", "percentile", "settings"]

# Deliveries. What a receiver lets come ahead of its settlements.
DEFAULT_CREDIT: Final = 500


class LoadFailed(TandemError):
    """The broker refused or dropped something that the load depends on."""


class Peer(msgspec.Struct, frozen=True):
    """Where the load goes, and as whom; without a user, as anybody."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job. What a kind of job has no use for, it ignores."""

    kind: str
    peer: Peer
    addresses: list[str]
    mode: str = "send"
    count: int = 0
    body_bytes: int = 1024
    connections: int = 1
    credit: int = DEFAULT_CREDIT
    # Completions are confirmed by the broker (rcv-settle-mode second), as the official SDKs ask for.
    is_confirmed: bool = False
    rate_per_second: int = 0
    # Application properties of every message that is sent.
    properties: dict[str, str] = {}


def settings(peer: Peer, name: str) -> Settings:
    return Settings(f"bench-{name}", hostname=peer.host, user=peer.user, password=peer.password)


def durable(body: bytes, properties: Mapping[str, str] | None = None) -> bytes:
    """RabbitMQ keeps on disk only what says so itself; Tandem keeps everything."""
    return encode_message(header=Header(durable=True), application_properties=properties or None, data=body)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of the values that so many percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def latencies(name: str, spent_s: Sequence[float]) -> dict[str, float]:
    return {
        f"{name}_p50_ms": percentile(spent_s, 50) * 1000,
        f"{name}_p99_ms": percentile(spent_s, 99) * 1000,
        f"{name}_max_ms": max(spent_s) * 1000,
    }
