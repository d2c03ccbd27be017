"""Features of local transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proton import Delivery, Message

from tests.interop.peers.proton_client.peer import Link, Peer, require_left, send, wait_for


class Transaction:
    """Proton's transaction with calls that wait for the answer. It is declared when this returns."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._answers: list[str] = []
        self._transaction = connection.container.declare_transaction(connection.conn, handler=self)
        answer = self._wait_for_answer()
        assert answer == "declared", f"the server answered the declare: {answer}"

    def commit(self) -> None:
        answer = self.discharge(self._transaction.commit)
        assert answer == "committed", f"the server answered the commit: {answer}"

    def roll_back(self) -> None:
        answer = self.discharge(self._transaction.abort)
        assert answer == "aborted", f"the server answered the rollback: {answer}"

    def commit_as(self, transaction_id: bytes) -> str:
        """Commit under a made-up id."""
        self._transaction.id = transaction_id
        return self.discharge(self._transaction.commit)

    def discharge(self, ask: Callable[[], None]) -> str:
        ask()
        return self._wait_for_answer()

    def send(self, sender: Any, message: Any) -> None:
        delivery = self._transaction.send(sender.link, message)
        wait_for(self._connection, lambda: bool(delivery.settled), "waiting for the provisional outcome")
        delivery.settle()

    def accept(self, delivery: Any) -> None:
        self._transaction.accept(delivery)

    def _wait_for_answer(self) -> str:
        wait_for(self._connection, lambda: bool(self._answers), "waiting for the coordinator")
        return self._answers.pop(0)

    # What Proton calls.

    def on_transaction_declared(self, event: Any) -> None:
        self._answered("declared")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self._answered(f"rejected: {event.delivery.remote.condition}")

    def on_transaction_committed(self, event: Any) -> None:
        self._answered("committed")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._answered(f"rejected: {event.delivery.remote.condition}")

    def on_transaction_aborted(self, event: Any) -> None:
        self._answered("aborted")

    def _answered(self, answer: str) -> None:
        self._answers.append(answer)
        self._connection.container.yield_()


def transaction_commit(peer: Peer) -> None:
    with peer.connection() as connection:
        sender = connection.create_sender(peer.address)
        transaction = Transaction(connection)
        for number in range(3):
            transaction.send(sender, Message(body=number))
        require_left(connection, peer.address)  # nothing is visible before the commit
        transaction.commit()
        require_left(connection, peer.address, 0, 1, 2)


def transaction_rollback(peer: Peer) -> None:
    with peer.connection() as connection:
        sender = connection.create_sender(peer.address)
        transaction = Transaction(connection)
        transaction.send(sender, Message(body="never"))
        transaction.roll_back()
        require_left(connection, peer.address)


def transaction_accept_commit(peer: Peer) -> None:
    with peer.connection() as connection:
        link, transaction = accept_in_transaction(connection, peer.address)
        transaction.commit()
        link.close()
        require_left(connection, peer.address)


def transaction_accept_rollback(peer: Peer) -> None:
    with peer.connection() as connection:
        link, transaction = accept_in_transaction(connection, peer.address)
        # Proton releases the deliveries of a transaction that was rolled back, so that they come again.
        transaction.roll_back()
        link.close()
        require_left(connection, peer.address, "once")


def accept_in_transaction(connection: Any, address: str) -> tuple[Link, Transaction]:
    """A link that has accepted one message in the transaction."""
    send(connection, address, Message(body="once"))
    link = Link(connection, address)
    link.give_credit(1)
    received = link.take_one()
    transaction = Transaction(connection)
    transaction.accept(received.delivery)
    assert received.delivery.local_state != Delivery.ACCEPTED
    return link, transaction


def transaction_unknown(peer: Peer) -> None:
    with peer.connection() as connection:
        answer = Transaction(connection).commit_as(b"no such transaction")
        assert "amqp:transaction:unknown-id" in answer, f"the server answered: {answer}"
