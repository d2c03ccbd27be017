"""Routing keys and their patterns, as properties of messages and filters of subscriptions.

An exchange is a topic, and a binding is a rule. The broker routes, so that a binding made anywhere counts at once for
everybody who publishes. A message carries its routing key as its label. For patterns it also carries the words of the
key, counted from the front and from the back:

    stock.usd.nyse    kombu_words = 3, kombu_w1 = 'stock', kombu_w2 = 'usd', kombu_w3 = 'nyse',
                      kombu_e1 = 'nyse', kombu_e2 = 'usd', kombu_e3 = 'stock'
    stock.*.nyse      kombu_words = 3 AND kombu_w1 = 'stock' AND kombu_w3 = 'nyse'
    stock.#.nyse      kombu_words >= 2 AND kombu_w1 = 'stock' AND kombu_e1 = 'nyse'
"""

from __future__ import annotations

from typing import Final

from tandem.errors import UsageError
from tandem.rules import CorrelationFilter, Filter, SqlFilter, TrueFilter

__all__ = ["DIRECT", "FANOUT", "OWN_PREFIX", "TOPIC", "filter_of", "properties_of_key"]

DIRECT: Final = "direct"
FANOUT: Final = "fanout"
TOPIC: Final = "topic"

# All properties that are not headers of the message begin with it.
OWN_PREFIX: Final = "kombu"
_COUNT: Final = f"{OWN_PREFIX}_words"
_FROM_FRONT: Final = f"{OWN_PREFIX}_w"
_FROM_BACK: Final = f"{OWN_PREFIX}_e"

# Words of a key that a pattern can be about, from each end: properties have a size, and keys have a handful of words.
_MAX_WORDS: Final = 16

_ANY_WORD: Final = "*"
_ANY_WORDS: Final = "#"


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def properties_of_key(routing_key: str) -> dict[str, object]:
    """Return the properties by which filters of topic exchanges find a message."""
    words = _words(routing_key)
    properties: dict[str, object] = {_COUNT: len(words)}
    for number, word in enumerate(words[:_MAX_WORDS], start=1):
        properties[f"{_FROM_FRONT}{number}"] = word
    for number, word in enumerate(reversed(words[-_MAX_WORDS:]), start=1):
        properties[f"{_FROM_BACK}{number}"] = word
    return properties


def filter_of(exchange_type: str, binding_key: str) -> Filter:
    """Return the filter that selects the messages of a binding."""
    if exchange_type == FANOUT:
        return TrueFilter()
    if exchange_type == TOPIC:
        return _pattern_filter(binding_key)
    if exchange_type != DIRECT:
        raise UsageError(f"the exchange type is '{exchange_type}'; this transport has {DIRECT}, {TOPIC} and {FANOUT}")
    # A label that is empty is none.
    return CorrelationFilter(label=binding_key) if binding_key else SqlFilter(f"{_COUNT} = 0")


def _pattern_filter(pattern: str) -> Filter:
    words = _words(pattern)
    wildcards = words.count(_ANY_WORDS)
    if not wildcards and _ANY_WORD not in words:
        return filter_of(DIRECT, pattern)
    if wildcards > 1:
        raise UsageError(f"the binding key '{pattern}' has '#' more than once; this transport routes by one")
    if not wildcards:
        return _sql(pattern, f"{_COUNT} = {len(words)}", words, [])
    at = words.index(_ANY_WORDS)
    front, back = words[:at], words[at + 1 :]
    if not front and not back:
        return TrueFilter()
    return _sql(pattern, f"{_COUNT} >= {len(words) - 1}", front, back)


def _sql(pattern: str, count: str, front: list[str], back: list[str]) -> Filter:
    if max(len(front), len(back)) > _MAX_WORDS:
        raise UsageError(f"the binding key '{pattern}' is about more than {_MAX_WORDS} words of a routing key")
    conditions = [count]
    for name, words in ((_FROM_FRONT, front), (_FROM_BACK, back[::-1])):
        for number, word in enumerate(words, start=1):
            if word != _ANY_WORD:
                quoted = word.replace("'", "''")
                conditions.append(f"{name}{number} = '{quoted}'")
    return SqlFilter(" AND ".join(conditions))
