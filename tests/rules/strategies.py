"""Trees, texts and messages of rules, for Hypothesis."""

from __future__ import annotations

import uuid
from typing import Final

from hypothesis import strategies as st

from tandem.amqp.types import Byte, Float, Int, Symbol, Timestamp, UInt, ULong
from tandem.rules.expressions import (
    Arithmetic,
    Comparison,
    Conjunction,
    Constant,
    Disjunction,
    Exists,
    In,
    IsNull,
    Like,
    Negation,
    NewId,
    Node,
    PropertyFunction,
    Sign,
    SystemProperty,
    Truth,
    UserProperty,
)
from tandem.rules.system import SYSTEM_COUNT

__all__ = ["application_properties", "predicates", "values"]

NAMES: Final = ("color", "Quantity", "a b", "select", "AND", "set", "x]y", 'q"q', "é", "_x", "1", "sys", "p", "a.b")

# A few of every kind: all of Unicode takes Hypothesis more than a second to list when it runs for the first time.
LETTERS: Final = "aB1'\"[]%_! .;é\u00df\u4e2d\U0001f600\n\x00"

names = st.sampled_from(NAMES)
properties = st.one_of(names.map(UserProperty), st.integers(0, SYSTEM_COUNT - 1).map(SystemProperty))
constants = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(LETTERS, max_size=6),
).map(Constant)
leaves: st.SearchStrategy[Node] = st.one_of(constants, properties, st.just(NewId()))


def _arithmetic(operands: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def made(level: tuple[str, ...]) -> st.SearchStrategy[Node]:
        return st.lists(st.tuples(operands, st.sampled_from(level)), min_size=2, max_size=4).map(
            lambda pairs: Arithmetic([node for node, _ in pairs], [operator for _, operator in pairs[1:]])
        )

    return st.one_of(made(("+", "-")), made(("*", "/", "%")))


values: st.SearchStrategy[Node] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        _arithmetic(inner),
        st.builds(Sign, st.sampled_from("+-"), inner),
        st.builds(PropertyFunction, inner),
    ),
    max_leaves=6,
)

patterns = st.one_of(properties, st.text("ab%_", max_size=5).map(Constant))
conditions: st.SearchStrategy[Node] = st.one_of(
    st.builds(Comparison, st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), values, values),
    st.builds(IsNull, values, st.booleans()),
    st.builds(In, values, st.lists(values, min_size=1, max_size=3), st.booleans()),
    st.builds(Like, values, patterns, st.none() | st.just(Constant("!")), st.booleans()),
    st.builds(Exists, properties),
    st.builds(Truth, properties | st.sampled_from((None, True, False)).map(Constant)),
)
predicates: st.SearchStrategy[Node] = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds(Negation, inner),
        st.builds(Conjunction, st.lists(inner, min_size=2, max_size=3)),
        st.builds(Disjunction, st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=6,
)

application_properties = st.dictionaries(
    names,
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**64 - 1).map(ULong),
        st.integers(0, 2**32 - 1).map(UInt),
        st.integers(-(2**31), 2**31 - 1).map(Int),
        st.integers(-128, 127).map(Byte),
        st.floats(),
        st.floats(width=32).map(Float),
        st.text(LETTERS, max_size=8),
        st.text("abc", max_size=3).map(Symbol),
        st.integers(-(2**40), 2**42).map(Timestamp),
        st.uuids() | st.just(uuid.UUID(int=0)),
        st.binary(max_size=4),
    ),
    max_size=6,
)
