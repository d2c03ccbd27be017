"""Counts add up while messages move. The long form is `python -m tests.load.counts`."""

from __future__ import annotations

from tandem.testing import Broker
from tests.load.counts import CountTest

READS = 400

MOVES = frozenset(
    (
        *("abandon", "dead-letter", "defer", "expire", "move", "resubmit", "roll back", "schedule", "undefer"),
        *(f"send to {part}" for part in ("closed", "mortal", "news", "relay", "shelf")),
    )
)


async def test_every_read_counts_each_message_once_while_messages_move(broker: Broker) -> None:
    test = CountTest(broker, messages=40, reads=READS, kinds=MOVES)
    await test.run()
    assert test.wrong == []
    assert sum(test.read_counts.values()) >= READS
    assert {"GET /counts, with topics", "GET /queues", "Atom feed of queues"} <= test.read_counts.keys()
