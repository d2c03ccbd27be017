"""The account of a topic sees copies that are missing, too many or changed, and forgives what is in doubt."""

from __future__ import annotations

import pytest

from tests.crash.ledger import Ledger
from tests.crash.topic_ledger import PLAIN, SubscriptionLedger, TopicLedger, properties_of_copy

# Blue and small: it is in three subscriptions, in one of them twice.
NUMBER = 8


def broken(topic: TopicLedger) -> dict[str, dict[str, int]]:
    accounts: list[Ledger] = [topic, *topic.subscriptions]
    for ledger in accounts:
        ledger.close()
    return {ledger.queue: dict(ledger.broken_counts) for ledger in accounts if ledger.broken_counts}


def made() -> TopicLedger:
    """A topic to which as many messages may have been sent as there are numbers below."""
    topic = TopicLedger("topic")
    topic.take_numbers(NUMBER + 1)
    return topic


def passed(subscription: SubscriptionLedger, sequence_number: int, number: int, maker: str) -> None:
    """A copy comes, and its completion is acknowledged."""
    properties = properties_of_copy(number, maker)
    subscription.check_copy(number, properties)
    copy = subscription.number_of_copy(number, properties)
    subscription.receive(sequence_number, copy, 1)
    subscription.attempt(sequence_number, copy)
    subscription.complete(sequence_number, 1)


def pass_all(topic: TopicLedger, number: int, sequence_number: int = 1) -> None:
    """Every copy of a message that is wanted comes."""
    for subscription in topic.subscriptions:
        for offset, maker in enumerate(subscription.wish.makers(number)):
            passed(subscription, sequence_number + offset, number, maker)


def test_the_message_of_these_tests_has_copies_of_every_kind() -> None:
    by_name = {one.wish.name: one.wish.makers(NUMBER) for one in TopicLedger("topic").subscriptions}
    assert by_name == {
        "everything": [PLAIN],
        "by-sql": [PLAIN],
        "by-correlation": [],
        "with-actions": ["blue", "small"],
    }


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_a_message_in_all_the_subscriptions_that_want_it_is_right(is_acknowledged: bool) -> None:
    topic = made()
    (topic.acknowledge if is_acknowledged else topic.doubt)([NUMBER])
    pass_all(topic, NUMBER)
    assert broken(topic) == {}


def test_a_send_in_doubt_may_be_in_no_subscription_or_twice_in_each() -> None:
    topic = made()
    topic.doubt([NUMBER, 0])
    pass_all(topic, NUMBER, 1)
    pass_all(topic, NUMBER, 11)
    assert broken(topic) == {}


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_a_message_that_one_subscription_misses_was_published_in_part(is_acknowledged: bool) -> None:
    topic = made()
    (topic.acknowledge if is_acknowledged else topic.doubt)([NUMBER])
    everything, by_sql, _, with_actions = topic.subscriptions
    passed(everything, 1, NUMBER, PLAIN)
    passed(by_sql, 1, NUMBER, PLAIN)
    passed(with_actions, 1, NUMBER, "blue")
    expected = {"topic": {"published_in_part": 1}}
    if is_acknowledged:
        expected["topic/Subscriptions/with-actions"] = {"lost": 1}
    assert broken(topic) == expected


def test_a_copy_that_one_subscription_has_twice_was_published_in_part_too() -> None:
    topic = made()
    topic.acknowledge([NUMBER])
    pass_all(topic, NUMBER)
    passed(topic.subscriptions[1], 2, NUMBER, PLAIN)
    assert broken(topic) == {"topic": {"published_in_part": 1}}


def test_an_acknowledged_message_that_is_nowhere_is_lost() -> None:
    topic = made()
    topic.acknowledge([NUMBER])
    found = broken(topic)
    assert found["topic"] == {"lost": 1}
    assert found["topic/Subscriptions/with-actions"] == {"lost": 2}


def test_a_copy_that_no_rule_wants_is_noticed() -> None:
    topic = made()
    topic.acknowledge([NUMBER])
    pass_all(topic, NUMBER)
    by_correlation, with_actions = topic.subscriptions[2:]
    passed(by_correlation, 1, NUMBER, PLAIN)
    passed(with_actions, 3, NUMBER, PLAIN)
    assert broken(topic) == {"topic": {"not_selected": 2}}


@pytest.mark.parametrize(
    "properties",
    [
        {"colour": "blue", "size": 1, "mark": 10},
        {"colour": "blue", "size": 1, "mark": 100, "RuleName": "blue"},
        {"colour": "red", "size": 1},
        {},
    ],
)
def test_a_copy_that_holds_what_another_rule_made_of_it_is_noticed(properties: dict[str, object]) -> None:
    topic = made()
    topic.subscriptions[3].check_copy(NUMBER, properties)
    assert broken(topic) == {"topic/Subscriptions/with-actions": {"changed": 1}}


def test_half_a_transaction_of_publications_is_noticed() -> None:
    topic = made()
    topic.declare([7, NUMBER])
    topic.doubt([7, NUMBER])
    pass_all(topic, NUMBER)
    assert broken(topic) == {"topic": {"half_a_transaction": 1}}


def test_a_publication_that_was_rolled_back_must_not_come() -> None:
    topic = made()
    topic.declare([NUMBER])
    topic.roll_back([NUMBER])
    pass_all(topic, NUMBER)
    assert broken(topic) == {"topic": {"rolled_back_and_seen": 1}}
