"""Where messages go, in a time that passes only where it is slept: each line of the contract without a network."""

from __future__ import annotations

import pytest

from tandem.client.errors import (
    InvalidOperationError,
    MessageSizeExceededError,
    MessagingCommunicationError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    MessagingError,
    OperationTimeoutError,
    QuotaExceededError,
    ServerBusyError,
    UnauthorizedAccessError,
)
from tandem.errors import UsageError
from tandem.pairing.detour import Outcome, Ping, Sleep, Tried
from tandem.pairing.failover import FailoverInput, FailoverState
from tandem.pairing.judging import judge_primary
from tests.markers import mission
from tests.pairing.course import OPERATION_TIMEOUT_S, Pair, broken, busy, lost, takes, timed_out

FAILED_OVER, HEALTHY, FAILING = FailoverState.FAILED_OVER, FailoverState.HEALTHY, FailoverState.FAILING


def failed_over(ping_interval_s: float = 60.0, backlog_queue_count: int = 10) -> Pair:
    """A pair whose primary is away, with one entity that has failed over."""
    pair = Pair(0.0, ping_interval_s, backlog_queue_count)
    pair.primary = broken
    pair.send(pair.sender(), "first")
    assert pair.entity().state is FAILED_OVER
    return pair


@mission("M18", "M22")
def test_while_the_primary_is_healthy_the_secondary_is_never_touched() -> None:
    pair = Pair()
    for number in range(100):
        pair.send(pair.sender(), str(number))
    assert pair.taken == [("orders", str(number)) for number in range(100)]
    assert pair.diverted == []
    assert pair.told == []


@mission("M16", "M22")
@pytest.mark.parametrize("error", [lost, timed_out, broken, lambda: QuotaExceededError("full")])
def test_a_send_that_fails_for_the_whole_interval_takes_the_detour(error: object) -> None:
    pair = Pair(failover_interval_s=10.0)
    pair.primary = error  # type: ignore[assignment] # one of the verdicts above
    started_s = pair.now_s
    sender = pair.sender()
    pair.send(sender, "first")
    assert [message for _, message in pair.diverted] == ["first"]
    first_failure_s = started_s + (10.0 if error is timed_out else 0.0)
    assert pair.now_s == pytest.approx(first_failure_s + 10.0, abs=1.1)
    tried = len(pair.attempts)
    pair.send(sender, "second")
    assert len(pair.attempts) == tried, "sends to the primary have stopped"
    assert pair.events() == ["failing", "failed-over", "diverted", "diverted"]


@mission("M25")
@pytest.mark.parametrize("ping_interval_s, timeout_s", [(0.1, 3.0), (5.0, 5.0), (60.0, 10.0)])
def test_a_ping_has_time_to_connect_however_often_it_is_sent(ping_interval_s: float, timeout_s: float) -> None:
    pair = failed_over(ping_interval_s)
    watch = pair.watches[0].watch()
    assert next(watch) == Sleep(ping_interval_s)
    assert watch.send(Outcome()) == Ping(timeout_s)


@mission("M22")
def test_a_send_with_a_short_time_of_its_own_has_time_for_the_detour() -> None:
    pair = Pair(failover_interval_s=1.0)
    pair.primary = timed_out
    started_s = pair.now_s
    pair.send(pair.sender(), "hurried", timeout_s=6.0)
    assert [message for _, message in pair.diverted] == ["hurried"]
    assert pair.now_s - started_s < 6.0, "an attempt is given up after a third of it"


@mission("M22")
def test_an_entity_that_recovers_within_the_interval_does_not_fail_over() -> None:
    pair = Pair(failover_interval_s=10.0)
    pair.primary = broken

    def recover() -> None:
        if pair.now_s > 1_005.0:
            pair.primary = takes

    pair.on_sleep = recover
    pair.send(pair.sender(), "first")
    assert pair.taken == [("orders", "first")]
    assert pair.diverted == []
    assert pair.entity().state is HEALTHY
    assert pair.events() == ["failing"]


@mission("M22")
def test_another_entity_of_the_same_namespace_is_not_touched() -> None:
    pair = Pair()
    pair.entity_verdicts["orders"] = broken
    pair.send(pair.sender("orders"), "a")
    pair.send(pair.sender("invoices"), "b", path="invoices")
    assert pair.entity("orders").state is FAILED_OVER
    assert pair.entity("invoices").state is HEALTHY
    assert pair.taken == [("invoices", "b")]


@mission("M22")
@pytest.mark.parametrize(
    "error",
    [
        UnauthorizedAccessError("no right"),
        MessagingEntityNotFoundError("no such queue"),
        MessagingEntityDisabledError("disabled"),
        MessageSizeExceededError("too large"),
        InvalidOperationError("no session id"),
        UsageError("a mistake"),
    ],
)
def test_what_people_have_to_mend_is_raised_and_never_fails_over(error: Exception) -> None:
    pair = Pair(failover_interval_s=0.0)
    pair.primary = lambda: error
    for _ in range(20):
        with pytest.raises(type(error)):
            pair.send(pair.sender(), "x")
        pair.now_s += 100.0
    assert pair.entity().state is HEALTHY
    assert pair.diverted == []


@mission("M13", "M22")
def test_after_server_busy_a_sender_waits_ten_seconds_and_sends_again() -> None:
    pair = Pair(failover_interval_s=0.0)
    verdicts = [busy(), busy(), None]
    pair.primary = lambda: verdicts.pop(0)
    pair.send(pair.sender(), "patient")
    assert pair.attempts == [1_000.0, 1_010.0, 1_020.0]
    assert pair.taken == [("orders", "patient")]
    assert pair.entity().state is HEALTHY


@mission("M13", "M22")
def test_a_server_that_stays_busy_is_an_error_in_the_end_and_no_failover() -> None:
    pair = Pair(failover_interval_s=0.0)
    pair.primary = busy
    with pytest.raises(ServerBusyError):
        pair.send(pair.sender(), "x")
    assert pair.now_s < 1_000.0 + OPERATION_TIMEOUT_S
    assert pair.entity().state is HEALTHY
    assert pair.diverted == []


@mission("M15", "M22")
def test_one_connection_that_is_lost_does_not_count_if_the_next_one_works() -> None:
    pair = Pair(failover_interval_s=0.0)
    verdicts = [lost(), None]
    pair.primary = lambda: verdicts.pop(0)
    pair.send(pair.sender(), "x")
    assert pair.taken == [("orders", "x")]
    assert pair.told == []


@mission("M22")
def test_a_timeout_is_old_news_if_others_have_sent_since_its_attempt_began() -> None:
    pair = Pair(failover_interval_s=0.0)
    other = pair.sender()

    def answer_others_only() -> Exception:
        pair.primary = takes
        pair.now_s += 1.0
        pair.send(other, "quick")
        return timed_out()

    pair.primary = answer_others_only
    pair.send(pair.sender(), "slow")
    assert pair.taken == [("orders", "quick"), ("orders", "slow")]
    assert pair.told == []


@mission("M22")
def test_an_attempt_that_was_made_ahead_is_the_first_of_the_course() -> None:
    pair = Pair(failover_interval_s=0.0)
    sender = pair.sender()
    assert sender.attempt_timeout_s is not None
    error = broken()
    pair.send(sender, "x", tried=Tried(pair.now_s, Outcome(judge_primary(error), error=error)))
    assert (pair.attempts, len(pair.diverted)) == ([], 1)
    assert sender.attempt_timeout_s is None, "nothing is tried ahead while the entity is failed over"


def test_the_rest_of_what_was_tried_ahead_is_sent() -> None:
    pair = Pair()
    pair.send(pair.sender(), *"abc", tried=Tried(pair.now_s, Outcome(count=1)))
    assert [message for _, message in pair.taken] == ["b", "c"]


@mission("M13")
def test_nothing_is_tried_ahead_for_ten_seconds_after_server_busy() -> None:
    pair = Pair()
    sender = pair.sender()
    pair.primary = busy
    with pytest.raises(ServerBusyError):
        pair.send(sender, "x")
    assert sender.attempt_timeout_s is None
    pair.now_s += 10.0
    assert sender.attempt_timeout_s is not None


@mission("M22")
def test_a_timeout_counts_if_the_last_success_was_before_it() -> None:
    pair = Pair(failover_interval_s=0.0)
    sender = pair.sender()
    pair.send(sender, "well")
    pair.primary = timed_out
    pair.send(sender, "silence")
    assert pair.entity().state is FAILED_OVER


@mission("M22")
def test_an_interval_longer_than_an_operation_raises_and_fails_over_in_its_time() -> None:
    pair = Pair(failover_interval_s=100.0)
    pair.primary = broken
    sender = pair.sender()
    with pytest.raises(MessagingError, match="an error inside"):
        pair.send(sender, "x")
    assert pair.entity().state is FAILING
    pair.primary = takes
    pair.watch()
    assert "failed-over" in pair.events(), "nobody sent anything in the rest of the interval"
    assert pair.entity().state is HEALTHY, "and the first ping brought it back"


@mission("M23")
def test_a_backlog_queue_that_fails_is_replaced_for_all_senders() -> None:
    pair = failed_over()
    one = pair.sender()
    pair.send(one, "before")
    broken_queue, _ = pair.diverted[-1]
    pair.backlog[broken_queue] = broken
    pair.send(one, "after")
    assert broken_queue not in pair.rotation.usable
    for number in range(50):
        pair.send(pair.sender(), str(number))
    (first_after,) = (index for index, (_, message) in enumerate(pair.diverted) if message == "after")
    assert broken_queue not in {queue for queue, _ in pair.diverted[first_after:]}
    assert pair.events("backlog-queue-removed") == ["backlog-queue-removed"], "all of them learned of it from the first"


@mission("M23")
def test_each_client_draws_a_queue_and_stays_with_it() -> None:
    pair = failed_over()
    senders = [pair.sender() for _ in range(100)]
    for sender in senders:
        pair.send(sender, "x")
        pair.send(sender, "y")
    queues = [queue for queue, _ in pair.diverted[1:]]
    assert queues[0::2] == queues[1::2]
    assert set(queues) == set(range(10))


@mission("M20", "M23")
@pytest.mark.parametrize("count", [1, 3])
def test_when_no_backlog_queue_is_left_the_sender_is_told(count: int) -> None:
    pair = failed_over(backlog_queue_count=count)
    pair.backlog = dict.fromkeys(range(count), broken)
    began_s = pair.now_s
    with pytest.raises(MessagingCommunicationError, match="neither the primary nor any backlog queue"):
        pair.send(pair.sender(), "x", timeout_s=20.0)
    assert 15.0 < pair.now_s - began_s < 20.0, "they were tried for as long as the sender has time"
    assert len(pair.events("backlog-queue-removed")) >= 2 * count
    pair.backlog.clear()
    pair.send(pair.sender(), "later")
    assert pair.diverted[-1][1] == "later", "a secondary that comes back is used again"


@mission("M23")
@pytest.mark.parametrize("comes_back", ["primary", "secondary"])
def test_a_send_waits_for_whichever_namespace_comes_back_first(comes_back: str) -> None:
    pair = failed_over(backlog_queue_count=2)
    pair.backlog = dict.fromkeys(range(2), broken)

    def recover() -> None:
        if comes_back == "secondary":
            pair.backlog.clear()
        else:
            pair.primary = takes
            pair.entity().happened(FailoverInput.PING_SUCCEEDED)

    pair.on_sleep = recover
    pair.send(pair.sender(), "x")
    taken, diverted = pair.taken[-1:] == [("orders", "x")], [message for _, message in pair.diverted][-1:] == ["x"]
    assert (taken, diverted) == (comes_back == "primary", comes_back == "secondary")


def test_a_secondary_that_does_not_answer_is_told_as_a_timeout() -> None:
    pair = failed_over(backlog_queue_count=1)
    pair.backlog = {0: timed_out}
    with pytest.raises(OperationTimeoutError):
        pair.send(pair.sender(), "x")


@mission("M24")
def test_a_message_too_large_for_the_detour_is_an_error_and_costs_no_queue_its_place() -> None:
    pair = failed_over()
    pair.backlog = dict.fromkeys(range(10), lambda: MessageSizeExceededError("too large"))
    with pytest.raises(MessageSizeExceededError):
        pair.send(pair.sender(), "huge")
    assert len(pair.rotation.usable) == 10


@mission("M25")
def test_an_entity_is_pinged_every_minute_until_it_answers() -> None:
    pair = failed_over(ping_interval_s=60.0)

    def recover() -> None:
        if pair.now_s >= 1_000.0 + 5 * 60.0:
            pair.primary = takes

    pair.on_sleep = recover
    pair.watch()
    assert pair.pings == [(1_000.0 + 60.0 * number, "orders") for number in range(1, 6)]
    assert pair.entity().state is HEALTHY
    assert pair.events("ping", "restored") == ["ping"] * 5 + ["restored"]
    pair.send(pair.sender(), "back")
    assert pair.taken == [("orders", "back")]


@mission("M25")
def test_all_senders_return_at_once() -> None:
    pair = failed_over()
    senders = [pair.sender() for _ in range(10)]
    for sender in senders:
        pair.send(sender, "away")
    pair.primary = takes
    pair.watch()
    for sender in senders:
        pair.send(sender, "back")
    assert [message for _, message in pair.taken] == ["back"] * 10


@mission("M25")
def test_there_is_one_watch_for_an_entity_however_many_senders_fail() -> None:
    pair = Pair()
    pair.primary = broken
    for _ in range(5):
        pair.send(pair.sender(), "x")
    assert len(pair.watches) == 1


@mission("M25")
def test_an_entity_that_fails_again_while_it_is_watched_gets_no_second_watch() -> None:
    pair = Pair(failover_interval_s=10.0)
    verdicts = [broken(), None, broken(), None]
    pair.primary = lambda: verdicts.pop(0)
    pair.send(pair.sender(), "a")
    pair.send(pair.sender(), "b")
    assert pair.events() == ["failing", "failing"]
    assert len(pair.watches) == 1
    pair.primary = takes
    pair.watch()
    assert pair.entity().state is HEALTHY
    pair.primary = broken
    pair.send(pair.sender(), "c")
    assert len(pair.watches) == 1, "the watch is over, and the next failure starts another one"


@mission("M25")
def test_a_ping_that_is_found_fault_with_is_an_answer() -> None:
    pair = failed_over()
    pair.primary = lambda: InvalidOperationError("the session id is missing")
    pair.watch()
    assert pair.entity().state is HEALTHY


@mission("M25")
@pytest.mark.parametrize("error", [busy, lost, timed_out, lambda: UnauthorizedAccessError("no right")])
def test_any_other_answer_to_a_ping_changes_nothing(error: object) -> None:
    pair = failed_over()
    pair.primary = error  # type: ignore[assignment] # one of the verdicts above

    def recover() -> None:
        if len(pair.pings) == 3:
            pair.primary = takes

    pair.on_sleep = recover
    pair.watch()
    assert len(pair.pings) == 4
    assert pair.diverted == [pair.diverted[0]]


@mission("M23")
def test_the_rest_of_a_batch_takes_the_detour_and_none_goes_both_ways() -> None:
    pair = Pair(failover_interval_s=0.0)
    pair.primary = broken
    pair.send(pair.sender(), *"abcdef")
    assert [message for _, message in pair.diverted] == list("abcdef")
    assert pair.taken == []
