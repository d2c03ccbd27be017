"""What clients were told about one queue, and what they saw of it.

A client knows a send or a completion to be done only when the call has returned. A call that ended in an error is in
doubt: what it asked for may have happened or not, and either is right. So a message may be stored twice (its send was
in doubt, and was tried again) and be received twice (its completion was in doubt), and nothing else may happen.

Messages are known by the number that their producer gave them, and by the sequence number that the broker gave them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["Ledger", "OnceLedger", "ScheduleLedger", "SessionLedger", "TransactionLedger"]

# How many examples of a broken promise are kept: the first ones tell what to look for.
EXAMPLES: Final = 20


class Ledger:
    """The account of a queue whose messages are received with peek-lock and completed."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.lock = threading.Lock()
        self._taken = 0
        self.acknowledged: set[int] = set()
        self.doubted: set[int] = set()
        # By sequence number: the number of the message, and how often it was received.
        self.numbers: dict[int, int] = {}
        self.receipts: dict[int, int] = defaultdict(int)
        # By sequence number: the life of the broker in which the completion was acknowledged.
        self.completed: dict[int, int] = {}
        self.completions_attempted: set[int] = set()
        self.attempted_numbers: set[int] = set()
        self.broken: dict[str, list[str]] = defaultdict(list)
        self.broken_counts: dict[str, int] = defaultdict(int)

    def break_promise(self, promise: str, what: str) -> None:
        """Note that something happened which never may. The caller holds the lock."""
        self.broken_counts[promise] += 1
        if len(self.broken[promise]) < EXAMPLES:
            self.broken[promise].append(what)

    # --- sends ------------------------------------------------------------------------------------------------------

    def take_numbers(self, count: int) -> list[int]:
        """Numbers that no other message of the queue has."""
        with self.lock:
            self._taken += count
            return list(range(self._taken - count, self._taken))

    def acknowledge(self, numbers: Iterable[int]) -> None:
        """The call that sent these has returned."""
        with self.lock:
            self.acknowledged.update(numbers)

    def doubt(self, numbers: Iterable[int]) -> None:
        """The call that sent these ended in an error."""
        with self.lock:
            self.doubted.update(numbers)

    @property
    def waiting_count(self) -> int:
        """Messages that wait for a consumer, as far as is known."""
        return len(self.acknowledged) - len(self.attempted_numbers)

    # --- receipts ---------------------------------------------------------------------------------------------------

    def receive(self, sequence_number: int, number: int, life: int) -> None:
        """A message came over a connection that was made in this life of the broker, or in a later one."""
        with self.lock:
            self._note_receipt(sequence_number, number)
            completed_in = self.completed.get(sequence_number)
            # A message from a connection of an earlier life may have lain in the client since before its completion.
            if completed_in is not None and life >= completed_in:
                self.break_promise(
                    "completed_and_seen_again",
                    f"sequence number {sequence_number}, completed in life {completed_in}, came in life {life}",
                )

    def _note_receipt(self, sequence_number: int, number: int) -> None:
        self.receipts[sequence_number] += 1
        known = self.numbers.setdefault(sequence_number, number)
        if known != number:
            self.break_promise(
                "sequence_number_used_twice", f"{sequence_number} was message {known}, and is message {number}"
            )
        if number >= self._taken:
            self.break_promise("never_sent", f"message {number}")

    def attempt(self, sequence_number: int, number: int) -> None:
        """The message is about to be completed."""
        with self.lock:
            self.completions_attempted.add(sequence_number)
            self.attempted_numbers.add(number)

    def complete(self, sequence_number: int, life: int) -> None:
        """The call that completed it has returned, in this life of the broker."""
        with self.lock:
            self.completed[sequence_number] = life

    # --- the account ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """To be called when the queue is empty: whatever was acknowledged must have come to a completion."""
        for number in sorted(self.acknowledged - self.attempted_numbers):
            self.break_promise("lost", f"message {number}")

    def figures(self) -> dict[str, int]:
        stored = set(self.numbers.values())
        return {
            "acknowledged_sends": len(self.acknowledged),
            "sends_in_doubt": len(self.doubted),
            "sends_in_doubt_that_were_stored": len(self.doubted & stored),
            "stored_more_than_once": len(self.numbers) - len(stored),
            "received": sum(self.receipts.values()),
            "received_again": sum(count - 1 for count in self.receipts.values()),
            "acknowledged_completions": len(self.completed),
            "completions_in_doubt": len(self.completions_attempted - set(self.completed)),
        }


class OnceLedger(Ledger):
    """The account of a queue whose messages are received and deleted in one: at most once."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        # What may be under way to a consumer when the broker dies, over all of its connections.
        self.allowance = 0

    @property
    def waiting_count(self) -> int:
        return len(self.acknowledged) - len(self.numbers)

    def allow(self, credit: int) -> None:
        """A consumer connects, and may have so many messages under way when it loses its connection."""
        with self.lock:
            self.allowance += credit

    def receive(self, sequence_number: int, number: int, life: int) -> None:
        with self.lock:
            self._note_receipt(sequence_number, number)
            if self.receipts[sequence_number] > 1:
                self.break_promise("received_and_deleted_twice", f"sequence number {sequence_number}")

    def close(self) -> None:
        vanished = self.acknowledged - set(self.numbers.values())
        if len(vanished) > self.allowance:
            self.break_promise("lost", f"{len(vanished)} messages, of which {self.allowance} may have been under way")

    def figures(self) -> dict[str, int]:
        vanished = len(self.acknowledged - set(self.numbers.values()))
        return {
            "acknowledged_sends": len(self.acknowledged),
            "sends_in_doubt": len(self.doubted),
            "received": sum(self.receipts.values()),
            "under_way_when_the_broker_died": vanished,
        }


class ScheduleLedger(Ledger):
    """The account of a queue whose messages are scheduled: none may come before it is due."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self._due_at: dict[int, float] = {}

    def schedule(self, numbers: Iterable[int], due_at: float) -> None:
        """These are about to be scheduled for that moment."""
        with self.lock:
            self._due_at.update(dict.fromkeys(numbers, due_at))

    def check_due(self, number: int, now: float) -> None:
        with self.lock:
            early_s = self._due_at.get(number, 0.0) - now
            if early_s > 0:
                self.break_promise("too_early", f"message {number}, by {early_s:.3f} s")


class SessionLedger(Ledger):
    """The account of a queue with sessions: nothing overtakes what was acknowledged before it in its session."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        # By session, in the order of sending: what was acknowledged and not yet completed.
        self._waiting: dict[str, list[int]] = defaultdict(list)

    def acknowledge_in(self, session_id: str, numbers: Sequence[int]) -> None:
        with self.lock:
            self.acknowledged.update(numbers)
            self._waiting[session_id].extend(numbers)

    def check_order(self, session_id: str, number: int, on_this_link: set[int]) -> None:
        """Everything acknowledged before `number` was completed, or came over the same link before it."""
        with self.lock:
            waiting = self._waiting[session_id]
            while waiting and waiting[0] in self.attempted_numbers:
                waiting.pop(0)
            for earlier in waiting:
                if earlier >= number:
                    break
                if earlier not in self.attempted_numbers and earlier not in on_this_link:
                    self.break_promise("overtaken", f"message {number} came before {earlier} in {session_id}")


class TransactionLedger(Ledger):
    """The account of a queue that is sent to in transactions: all of one or nothing."""

    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.transactions: list[list[int]] = []
        self.rolled_back: set[int] = set()

    def declare(self, numbers: list[int]) -> None:
        with self.lock:
            self.transactions.append(numbers)

    def roll_back(self, numbers: Iterable[int]) -> None:
        """The roll-back of these is acknowledged."""
        with self.lock:
            self.rolled_back.update(numbers)

    def close(self) -> None:
        super().close()
        stored = set(self.numbers.values())
        for numbers in self.transactions:
            found = [number for number in numbers if number in stored]
            if found and len(found) < len(numbers):
                self.break_promise("half_a_transaction", f"of {numbers} only {found}")
        for number in sorted(self.rolled_back & stored):
            self.break_promise("rolled_back_and_seen", f"message {number}")

    def figures(self) -> dict[str, int]:
        return {**super().figures(), "transactions": len(self.transactions), "rolled_back": len(self.rolled_back)}
