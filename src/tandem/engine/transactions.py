"""Transactions: operations that happen together, at the discharge, or not at all.

Nothing is on disk before the discharge: a transaction is a list of things to do, and the locks of the messages that it
settles are kept for it. At the discharge all is done in one step, so that it is part of one batch, which the store
writes as one. Where the store has to be asked first, that step is taken with the last of its answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.message import NEVER_MS
from tandem.engine.open_transaction import Transaction
from tandem.engine.transaction_memory import TransactionMemory
from tandem.errors import ProtocolError, QuotaExceeded, TransactionRollback, TransactionTimeout, TransactionUnknownId
from tandem.limits import MAX_TRANSACTIONS_PER_CONNECTION, TRANSACTION_TIMEOUT_MS

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace
    from tandem.engine.queue import Queue

__all__ = ["Transaction", "Transactions"]

# Transactions. An owner that asks later than that many others is told that there is no such transaction.
_MAX_TIMED_OUT: Final = 10_000


class Transactions:
    """The open transactions of a namespace, by identifier."""

    __slots__ = ("_by_identifier", "_by_owner", "_namespace", "_next_number", "_timed_out", "memory")

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self.memory = TransactionMemory()
        self._by_identifier: dict[bytes, Transaction] = {}
        self._by_owner: dict[object, list[Transaction]] = {}
        self._next_number = 1
        # The last identifiers that were rolled back for their age, so that their owners can be told why.
        self._timed_out: dict[bytes, object] = {}

    def open_transactions(self) -> list[Transaction]:
        """Return all that are open, the oldest first."""
        return list(self._by_identifier.values())

    def count_of(self, owner: object) -> int:
        """Return how many transactions an owner has open."""
        return len(self._by_owner.get(owner, []))

    def declare(self, owner: object) -> Transaction:
        count = self.count_of(owner)
        if count >= MAX_TRANSACTIONS_PER_CONNECTION:
            raise QuotaExceeded(
                f"The connection has {count} open transactions; at most {MAX_TRANSACTIONS_PER_CONNECTION} are allowed. "
                "Discharge one first."
            )
        number = self._next_number
        self._next_number = number + 1
        # The nonce keeps one connection from meeting the transactions of another.
        identifier = number.to_bytes(4, "big") + self._namespace.nonces.next()
        transaction = Transaction(identifier, owner, self._namespace.now_ms + TRANSACTION_TIMEOUT_MS, self.memory)
        self._by_identifier[identifier] = transaction
        self._by_owner.setdefault(owner, []).append(transaction)
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

    def fail(self, identifier: bytes, owner: object, error: ProtocolError) -> None:
        """Let a transaction only be rolled back, since one of its operations was refused.

        For operations whose refusal a client may not notice: those that it has settled itself, and those of clients
        that do not look at the outcome. Such a client would commit the rest.
        """
        transaction = self._by_identifier.get(identifier)
        if transaction is not None and transaction.owner is owner:
            transaction.fail(error)

    def _close(self, transaction: Transaction) -> None:
        """Take it out of those that are open."""
        transaction.is_open = False
        del self._by_identifier[transaction.identifier]
        mine = self._by_owner[transaction.owner]
        mine.remove(transaction)
        if not mine:
            del self._by_owner[transaction.owner]

    def discharge(self, identifier: bytes, owner: object, is_failed: bool, asker: object) -> None:
        """Do everything, or nothing. Answered with None, or with why nothing was done though it was asked for."""
        effects = self._namespace.effects
        try:
            transaction = self.find(identifier, owner)
        except ProtocolError as error:
            self._timed_out.pop(identifier, None)
            effects.reply(asker, error)
            return
        self._close(transaction)
        if is_failed:
            self._roll_back(transaction)
            effects.reply(asker, None)
        else:
            self._ask_store(transaction, asker)

    def _ask_store(self, transaction: Transaction, asker: object) -> None:
        """Commit when the store has answered whatever it has to be asked; at once if that is nothing.

        Queries are answered in the order in which they were asked, and whoever changes what these are about asks one:
        nothing changes between the first answer and the last.
        """
        unanswered_count = 1

        def answered() -> None:
            nonlocal unanswered_count
            unanswered_count -= 1
            if not unanswered_count:
                self._commit(transaction, asker)

        for enlistment in transaction.enlistments:
            query = enlistment.question(answered)
            if query is not None:
                unanswered_count += 1
                self._namespace.effects.queries.append(query)
        answered()

    def _commit(self, transaction: Transaction, asker: object) -> None:
        namespace = self._namespace
        try:
            transaction.check()
        except ProtocolError as error:
            self._roll_back(transaction)
            namespace.effects.reply(asker, TransactionRollback(f"The transaction was rolled back: {error}"))
            return
        transaction.commit(namespace.now_ms)
        # The store has its messages from now on, and has to keep them in memory until the commit is durable.
        namespace.effects.discharged.append((transaction.owner, transaction.held_bytes))
        namespace.effects.reply(asker, None)

    def committed(self, discharged: list[tuple[object, int]]) -> None:
        """Commits of these owners, which held so many bytes, are durable."""
        for owner, held_bytes in discharged:
            self.memory.give_back(owner, held_bytes)

    def _roll_back(self, transaction: Transaction) -> None:
        transaction.roll_back(self._namespace.now_ms)
        self.memory.give_back(transaction.owner, transaction.held_bytes)

    def abandon(self, identifier: bytes) -> None:
        """Its controller is gone. One that was discharged or timed out needs nothing more."""
        self._timed_out.pop(identifier, None)
        transaction = self._by_identifier.get(identifier)
        if transaction is not None:
            self._close(transaction)
            self._roll_back(transaction)

    def roll_back_of(self, owner: object) -> None:
        """The owner has left."""
        for transaction in list(self._by_owner.get(owner, [])):
            self._close(transaction)
            self._roll_back(transaction)
        for identifier in [key for key, one in self._timed_out.items() if one is owner]:
            del self._timed_out[identifier]

    def roll_back_with(self, queues: list[Queue]) -> None:
        """The memory of these queues is given up: what was to happen to their messages cannot happen any more."""
        for transaction in list(self._by_identifier.values()):
            if [queue for queue in transaction.queues if queue in queues]:
                self._close(transaction)
                for lock in transaction.locks:
                    if lock.outlet.subqueue.queue in queues:
                        lock.is_held = False
                self._roll_back(transaction)

    def on_time(self, now_ms: int) -> None:
        for transaction in [one for one in self._by_identifier.values() if one.deadline_ms <= now_ms]:
            self._close(transaction)
            if len(self._timed_out) >= _MAX_TIMED_OUT:
                del self._timed_out[next(iter(self._timed_out))]
            self._timed_out[transaction.identifier] = transaction.owner
            self._roll_back(transaction)

    def next_deadline_ms(self) -> int:
        # They all last equally long: the first one is the oldest.
        for transaction in self._by_identifier.values():
            return transaction.deadline_ms
        return NEVER_MS
