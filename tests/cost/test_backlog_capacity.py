"""The outage that backlog queues absorb, counted by hand."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tandem.cost.backlog_capacity import DETOUR_BYTES, BacklogCapacity
from tandem.errors import ConfigurationError
from tests.markers import mission

QUEUE_BYTES = 5 * 1024**3

# With what rewriting adds, 5,120 of these fill a megabyte of a queue 5,120 times: one for each 1,024 bytes.
MESSAGE_BYTES = 1_024 - DETOUR_BYTES


@mission("M20", "M29")
def test_ten_queues_of_five_gigabytes_absorb_as_many_messages_as_their_bytes_allow() -> None:
    capacity = BacklogCapacity.of_new_queues(10, MESSAGE_BYTES, Decimal(1_000))
    assert capacity.messages == 10 * QUEUE_BYTES // 1_024 == 52_428_800
    assert capacity.outage_s == 52_428, "14 hours and a half"
    assert capacity.queues_for(52_428) == 10
    assert capacity.queues_for(52_429) == 11


@pytest.mark.parametrize("outage_s, queues", [(0, 0), (1, 1), (5_242, 1), (5_243, 2), (52_428, 10), (1_000_000, 191)])
def test_an_outage_needs_as_many_queues_as_its_messages_fill(outage_s: int, queues: int) -> None:
    capacity = BacklogCapacity.of_new_queues(10, MESSAGE_BYTES, Decimal(1_000))
    assert capacity.queues_for(outage_s) == queues
    assert (BacklogCapacity.of_new_queues(queues, MESSAGE_BYTES, Decimal(1_000)).outage_s >= outage_s) or not queues


def test_what_existing_queues_hold_already_and_their_own_size_count() -> None:
    capacity = BacklogCapacity([1_024 * 100, 0, -5, 1_024 * 50 + 1_023], MESSAGE_BYTES, Decimal("0.5"))
    assert (capacity.messages, capacity.outage_s) == (150, 300)
    assert capacity.queues_for(300) == 4
    assert capacity.queues_for(301) == 5, "and one more, of the usual size"


def test_a_message_that_has_begun_counts() -> None:
    capacity = BacklogCapacity([1_024], MESSAGE_BYTES, Decimal("0.3"))
    assert [capacity.messages_of(outage_s) for outage_s in (0, 1, 3, 4, 10)] == [0, 1, 1, 2, 3]


def test_a_rate_or_a_size_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="messages_per_second is 0; it must be more than 0"):
        BacklogCapacity([1], 1, Decimal(0))
    with pytest.raises(ConfigurationError, match="message_bytes is -1; it must be from 0 to 104,857,600"):
        BacklogCapacity([1], -1, Decimal(1))
