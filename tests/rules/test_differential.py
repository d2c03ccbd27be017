"""What rules and SQLite share, decided by both. More of it: `python -m tests.rules.differential 100000`."""

from __future__ import annotations

from tandem.rules import SqlFilter, Subject
from tests.rules.differential import Generator, Oracle, compare


def test_random_expressions_are_decided_as_sqlite_decides_them() -> None:
    assert compare(3_000, seed=7) == 18_000


def test_the_expressions_have_every_outcome() -> None:
    generator = Generator(3)
    rows = [generator.row() for _ in range(5)]
    oracle = Oracle(rows)
    outcomes = [outcome for _ in range(300) for outcome in oracle.decide(generator.predicate()[1])]
    assert min([outcomes.count(value) for value in (True, False, None)]) > 150


def test_a_difference_would_be_seen() -> None:
    row: dict[str, object] = {"i1": 7}
    for ours, theirs in (("i1 / 2 = 3", "i1 / 2.0 = 3"), ("i2 = 1", "i2 IS 1"), ("i1 = 7", "i1 = 8")):
        assert [SqlFilter(ours).tree.evaluate(Subject.of_values({}, row))] != Oracle([row]).decide(theirs)
