"""Transactions: sends and settlements that happen together, at the discharge, or not at all.

Nothing is on disk before the discharge: a transaction is a list of things to do, and the locks of the messages that it
settles are kept for it. At the discharge all is done in one step, so that it is part of one batch, which the store
writes as one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tandem.engine.intake import Draft
from tandem.engine.lock_table import Lock
from tandem.engine.message import NEVER_MS
from tandem.errors import (
    NotAllowed,
    ProtocolError,
    QuotaExceeded,
    Scope,
    TransactionRollback,
    TransactionTimeout,
    TransactionUnknownId,
)
from tandem.limits import MAX_MESSAGES_PER_TRANSACTION, MAX_TRANSACTIONS_PER_CONNECTION, TRANSACTION_TIMEOUT_MS

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace
    from tandem.engine.queue import Queue

__all__ = ["Transaction", "Transactions"]

# Transactions. An owner that asks later than that many others is told that there is no such transaction.
_MAX_TIMED_OUT: Final = 10_000


class Transaction:
    """One that is open."""

    __slots__ = ("deadline_ms", "identifier", "locks", "message_count", "owner", "sends", "settlements")

    def __init__(self, identifier: bytes, owner: object, deadline_ms: int) -> None:
        self.identifier = identifier
        self.owner = owner
        self.deadline_ms = deadline_ms
        self.message_count = 0
        self.sends: list[tuple[Queue, list[Draft]]] = []
        self.locks: list[Lock] = []
        self.settlements: list[Callable[[], None]] = []

    def _count(self, messages: int) -> None:
        self.message_count += messages
        if self.message_count > MAX_MESSAGES_PER_TRANSACTION:
            raise NotAllowed(
                f"A transaction has at most {MAX_MESSAGES_PER_TRANSACTION} messages, this one {self.message_count}.",
                Scope.DELIVERY,
            )

    def send(self, queue: Queue, drafts: list[Draft]) -> None:
        self._count(len(drafts))
        self.sends.append((queue, drafts))

    def settle(self, lock: Lock, settlement: Callable[[], None]) -> None:
        """Keep the lock until the discharge, and do this then. It must not fail while the lock holds."""
        lock.outlet.subqueue.check(lock)
        if lock.is_enlisted:
            raise NotAllowed("The message is settled by a transaction already.", Scope.DELIVERY)
        self._count(1)
        lock.is_enlisted = True
        self.locks.append(lock)
        self.settlements.append(settlement)


class Transactions:
    """The open transactions of a namespace, by identifier."""

    __slots__ = ("_by_identifier", "_namespace", "_next_number", "_timed_out")

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._by_identifier: dict[bytes, Transaction] = {}
        self._next_number = 1
        # The last identifiers that were rolled back for their age, so that their owners can be told why.
        self._timed_out: dict[bytes, object] = {}

    def declare(self, owner: object) -> Transaction:
        count = sum([1 for one in self._by_identifier.values() if one.owner is owner])
        if count >= MAX_TRANSACTIONS_PER_CONNECTION:
            raise QuotaExceeded(
                f"The connection has {count} open transactions; at most {MAX_TRANSACTIONS_PER_CONNECTION} are allowed. "
                "Discharge one first."
            )
        number = self._next_number
        self._next_number = number + 1
        # The nonce keeps one connection from meeting the transactions of another.
        identifier = number.to_bytes(4, "big") + self._namespace.nonces.next()
        transaction = Transaction(identifier, owner, self._namespace.now_ms + TRANSACTION_TIMEOUT_MS)
        self._by_identifier[identifier] = transaction
        return transaction

    def find(self, identifier: bytes, owner: object) -> Transaction:
        transaction = self._by_identifier.get(identifier)
        if transaction is None or transaction.owner is not owner:
            if self._timed_out.get(identifier) is owner:
                raise TransactionTimeout(
                    f"The transaction was open for more than {TRANSACTION_TIMEOUT_MS} ms and has been rolled back."
                )
            raise TransactionUnknownId(f"There is no open transaction {identifier.hex()} on this connection.")
        return transaction

    def discharge(self, identifier: bytes, owner: object, is_failed: bool) -> None:
        """Do everything, or nothing. Raises if nothing was done though it was asked for."""
        try:
            transaction = self.find(identifier, owner)
        finally:
            self._timed_out.pop(identifier, None)
        del self._by_identifier[identifier]
        if is_failed:
            self._roll_back(transaction)
            return
        try:
            self._check(transaction)
        except ProtocolError as error:
            self._roll_back(transaction)
            raise TransactionRollback(f"The transaction was rolled back: {error}") from None
        for lock in transaction.locks:
            # A settlement checks its lock: from here on time does not pass.
            lock.is_enlisted = True
        for settlement in transaction.settlements:
            settlement()
        for queue, drafts in transaction.sends:
            for draft in drafts:
                draft.message.enqueued_time_ms = self._namespace.now_ms
            queue.take(drafts)

    def _check(self, transaction: Transaction) -> None:
        for lock in transaction.locks:
            lock.outlet.subqueue.check(lock)
        for queue, drafts in transaction.sends:
            if queue.is_dropped:
                raise NotAllowed(f"The messaging entity '{queue.name}' was deleted.")
            queue.check_room(sum([draft.message.size_bytes for draft in drafts]))

    def _roll_back(self, transaction: Transaction) -> None:
        now_ms = self._namespace.now_ms
        for lock in transaction.locks:
            lock.is_enlisted = False
            if lock.is_held and lock.locked_until_ms <= now_ms and lock.outlet.session is None:
                lock.outlet.subqueue.fail(lock)

    def abandon(self, identifier: bytes) -> None:
        """Its controller is gone. One that was discharged or timed out needs nothing more."""
        self._timed_out.pop(identifier, None)
        transaction = self._by_identifier.pop(identifier, None)
        if transaction is not None:
            self._roll_back(transaction)

    def roll_back_of(self, owner: object) -> None:
        """The owner has left."""
        for transaction in [one for one in self._by_identifier.values() if one.owner is owner]:
            del self._by_identifier[transaction.identifier]
            self._roll_back(transaction)
        for identifier in [key for key, one in self._timed_out.items() if one is owner]:
            del self._timed_out[identifier]

    def roll_back_with(self, queues: list[Queue]) -> None:
        """The memory of these queues is given up: what was to happen to their messages cannot happen any more."""
        for transaction in list(self._by_identifier.values()):
            touched = [queue for queue, _ in transaction.sends]
            touched += [lock.outlet.subqueue.queue for lock in transaction.locks]
            if [queue for queue in touched if queue in queues]:
                del self._by_identifier[transaction.identifier]
                for lock in transaction.locks:
                    if lock.outlet.subqueue.queue in queues:
                        lock.is_held = False
                self._roll_back(transaction)

    def on_time(self, now_ms: int) -> None:
        for transaction in [one for one in self._by_identifier.values() if one.deadline_ms <= now_ms]:
            del self._by_identifier[transaction.identifier]
            if len(self._timed_out) >= _MAX_TIMED_OUT:
                del self._timed_out[next(iter(self._timed_out))]
            self._timed_out[transaction.identifier] = transaction.owner
            self._roll_back(transaction)

    def next_deadline_ms(self) -> int:
        # They all last equally long: the first one is the oldest.
        for transaction in self._by_identifier.values():
            return transaction.deadline_ms
        return NEVER_MS
