"""Seeds that once broke a promise, and which. They are run again with every test.

A seed stands for the same run only as long as the simulation itself does not change. So what each of them showed is a
plain test of the engine as well, in tests/engine.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COUNTEREXAMPLES", "Counterexample"]


class Counterexample(NamedTuple):
    """One run."""

    seed: int
    steps: int
    invariant: str


COUNTEREXAMPLES: Final = (
    # Two questions of one batch were answered without writing in between what the first answer had decided.
    Counterexample(189, 300, "every message has one place"),
    Counterexample(35, 300, "the sessions that are listed are those that are there"),
    Counterexample(226, 1_000, "session state is what was set"),
    Counterexample(243, 300, "nothing completed and acknowledged is seen again"),
    Counterexample(252, 700, "nothing acknowledged is lost"),
    Counterexample(150, 700, "counts are exact"),
    # A message that expired before its commit was passed over; and a lock taken after the duration was lowered.
    Counterexample(5, 300, "what is due is done"),
    Counterexample(11, 300, "what is due is done"),
    Counterexample(21, 300, "what is due is done"),
    # A lock that was renewed in the millisecond in which it was taken expired twice.
    Counterexample(258, 300, "no exception is unexpected"),
    # Messages read from disk used up the credit of a drain.
    Counterexample(17, 300, "drain is always answered"),
    # A message that had moved was overtaken for good by one sent in the same batch.
    Counterexample(289, 300, "first in, first out"),
    # A message that could not be forwarded was a dead letter before it was on disk.
    Counterexample(128, 400, "no message is visible before its commit"),
    # A message that was there before its queue began to forward took its failures and its old expiry along.
    Counterexample(67, 300, "the delivery count is exact"),
    Counterexample(4, 300, "a dead letter keeps its number"),
    # A queue was deleted while a question about it was under way; any session was asked for, and the one that was
    # found was accepted by name meanwhile; numbers of dropped messages stayed in memory.
    Counterexample(108, 600, "counts are exact"),
    Counterexample(26, 700, "a receiver that waits for a session is answered"),
    Counterexample(112, 1_700, "memory is bounded"),
    # A rule was replaced under another spelling of its name, and after a restart there were both.
    Counterexample(23, 600, "rules are what they were made"),
    Counterexample(3, 600, "every subscription gets what its rules select"),
    # The state of a session was part of its subscription and not of the topic; nor was what a topic could not send on.
    Counterexample(15, 600, "counts are exact"),
    Counterexample(32, 600, "counts are exact"),
    # A copy was completed and its subscription deleted in one batch: the body that it shared lost two copies.
    Counterexample(108, 1_000, "no exception is unexpected"),
    Counterexample(91, 1_000, "counts are exact"),
    # Ids of messages were kept for ever if something nearer than forgetting them was to be done.
    Counterexample(1146, 500, "ids are forgotten in time"),
    # A message was forwarded after the clock had been set back: it was scheduled once more, for the same time.
    Counterexample(3094, 700, "no scheduled message appears early"),
)
