"""Binding keys as filters: the broker selects what AMQP 0-9-1 says that a topic exchange routes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.message import Properties, encode_message
from tandem.celery.routing_keys import DIRECT, FANOUT, TOPIC, filter_of, properties_of_key
from tandem.errors import UsageError
from tandem.rules.subject import Subject


def selects(exchange_type: str, binding_key: str, routing_key: str) -> bool:
    """Whether the broker's own evaluation of the filter selects a message with this key."""
    encoded = encode_message(
        properties=Properties(subject=routing_key or None), application_properties=properties_of_key(routing_key)
    )
    return filter_of(exchange_type, binding_key).matches(Subject.of_message(encoded))


def routes(pattern: list[str], words: list[str]) -> bool:
    """What the specification says: * is one word, # is any number of them."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(routes(pattern[1:], words[count:]) for count in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and routes(pattern[1:], words[1:])


WORDS = st.sampled_from(["a", "b", "it's"])


@given(
    st.lists(st.one_of(WORDS, st.just("*"), st.just("#")), max_size=6).filter(lambda one: one.count("#") < 2),
    st.lists(WORDS, max_size=7),
)
def test_a_pattern_selects_what_the_specification_says(pattern: list[str], words: list[str]) -> None:
    assert selects(TOPIC, ".".join(pattern), ".".join(words)) == routes(pattern, words), (pattern, words)


@pytest.mark.parametrize("key, is_selected", [("orders", True), ("Orders", False), ("", False), ("orders.x", False)])
def test_a_direct_exchange_compares_whole_keys(key: str, is_selected: bool) -> None:
    assert selects(DIRECT, "orders", key) is is_selected
    assert selects(FANOUT, "orders", key)
    assert selects(DIRECT, "", key) is (key == "")


@pytest.mark.parametrize(
    "exchange_type, key, reason",
    [
        (TOPIC, "#.a.#", "more than once"),
        (TOPIC, ".".join(["*"] * 17), "more than 16 words"),
        ("headers", "a", "direct, topic and fanout"),
    ],
)
def test_what_cannot_be_routed_is_refused_when_it_is_bound(exchange_type: str, key: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        filter_of(exchange_type, key)
