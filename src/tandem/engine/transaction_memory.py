"""The memory that open transactions hold, bounded for a transaction, for a connection and for the broker.

Nothing of a transaction is on disk before its commit is, so whatever it sends stays in memory until then. A commit
gives its bytes back when it is durable, and a rollback at once.
"""

from __future__ import annotations

from tandem.errors import QuotaExceeded
from tandem.limits import (
    MAX_TRANSACTION_BYTES,
    MAX_TRANSACTION_BYTES_PER_BROKER,
    MAX_TRANSACTION_BYTES_PER_CONNECTION,
)

__all__ = ["BrokerTransactionMemory", "TransactionMemory"]


class BrokerTransactionMemory:
    """Bytes that the transactions of all namespaces of a broker hold."""

    __slots__ = ("held_bytes",)

    def __init__(self) -> None:
        self.held_bytes = 0


class TransactionMemory:
    """Bytes that the transactions of one namespace hold, by the connection that owns them."""

    __slots__ = ("_by_owner", "broker", "held_bytes")

    def __init__(self) -> None:
        self.held_bytes = 0
        # Shared by all namespaces of a broker.
        self.broker = BrokerTransactionMemory()
        self._by_owner: dict[object, int] = {}

    def held_by(self, owner: object) -> int:
        """Return how many bytes the transactions of an owner hold."""
        return self._by_owner.get(owner, 0)

    def take(self, owner: object, held_bytes: int, by_bytes: int) -> None:
        """Let a transaction that holds `held_bytes` hold more, or raise QuotaExceeded."""
        held_by_owner = self.held_by(owner)
        _check("A transaction", held_bytes + by_bytes, MAX_TRANSACTION_BYTES)
        _check("The open transactions of a connection", held_by_owner + by_bytes, MAX_TRANSACTION_BYTES_PER_CONNECTION)
        _check(
            "The open transactions of the broker", self.broker.held_bytes + by_bytes, MAX_TRANSACTION_BYTES_PER_BROKER
        )
        self._by_owner[owner] = held_by_owner + by_bytes
        self.held_bytes += by_bytes
        self.broker.held_bytes += by_bytes

    def give_back(self, owner: object, by_bytes: int) -> None:
        """Release what a transaction, or a part of one, held."""
        left_bytes = self.held_by(owner) - by_bytes
        if left_bytes > 0:
            self._by_owner[owner] = left_bytes
        else:
            self._by_owner.pop(owner, None)
        self.held_bytes -= by_bytes
        self.broker.held_bytes -= by_bytes

    def give_up(self) -> None:
        """Release everything: the memory of the namespace is given up."""
        self.broker.held_bytes -= self.held_bytes
        self.held_bytes = 0
        self._by_owner.clear()


def _check(whose: str, size_bytes: int, limit_bytes: int) -> None:
    if size_bytes > limit_bytes:
        raise QuotaExceeded(
            f"{whose} can hold {limit_bytes} bytes; this operation would make it {size_bytes}. The transaction can "
            "only be rolled back. Send fewer or smaller messages in it, or discharge other transactions first."
        )
