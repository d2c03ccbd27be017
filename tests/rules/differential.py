"""Random expressions of what rules and SQLite share, decided by both: `python -m tests.rules.differential N`.

Expressions are well typed, since SQLite converts between types where rules do not. They have few parentheses, so that
the precedence of operators is compared as well. Where the languages differ in words, each has its own text:

    rules                      SQLite
    t1 + 'x'                   (t1 || 'x')
    EXISTS(i1)                 has_i1

Out of the common part, and left out: division by zero (an error here, NULL there), integers that overflow (an error
here, a real number there), `%` of doubles (an integer there), a pattern that ends with its escape character.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Final

import apsw

from tandem.rules import SqlFilter, Subject

__all__ = ["Generator", "Oracle", "compare"]

INTEGERS: Final = ("i1", "i2", "i3")
DOUBLES: Final = ("d1", "d2")
TEXTS: Final = ("t1", "t2")
BOOLEANS: Final = ("b1", "b2")
NAMES: Final = (*INTEGERS, *DOUBLES, *TEXTS, *BOOLEANS)

_LETTERS: Final = "abAB%_!é"
_COMPARISONS: Final = ("=", "<>", "!=", "<", "<=", ">", ">=")
_ROWS: Final = 6

# The same expression in the two languages.
Pair = tuple[str, str]


class Generator:
    """Makes pairs of texts from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def row(self) -> dict[str, object]:
        """Some properties are missing, some are null."""
        values: dict[str, object] = {}
        for name in NAMES:
            if self.random.random() < 0.85:
                values[name] = None if self.random.random() < 0.12 else self._value(name)
        return values

    def _value(self, name: str) -> object:
        if name in INTEGERS:
            return self.random.randint(-20, 20)
        if name in DOUBLES:
            return self.random.randint(-40, 40) / 4
        return self._text() if name in TEXTS else self.random.random() < 0.5

    def _text(self) -> str:
        return "".join(self.random.choices(_LETTERS, k=self.random.randint(0, 5)))

    def predicate(self, depth: int = 3) -> Pair:
        """A row of conditions with AND and OR between them, as they come."""
        ours, theirs = self._condition(depth)
        for _ in range(self.random.choice((0, 0, 1, 1, 2, 3))):
            word = self.random.choice((" AND ", " OR ", " and ", " oR "))
            right = self._condition(depth)
            ours, theirs = ours + word + right[0], theirs + word + right[1]
        return ours, theirs

    def _condition(self, depth: int) -> Pair:
        if self.random.random() < 0.2:
            ours, theirs = self._condition(depth)
            return f"NOT {ours}", f"NOT {theirs}"
        if depth and self.random.random() < 0.3:
            return _enclosed(self.predicate(depth - 1))
        makers = (self._comparison, self._comparison, self._in, self._like, self._null, self._boolean)
        return self.random.choice(makers)(depth)

    def _comparison(self, depth: int) -> Pair:
        operator = f" {self.random.choice(_COMPARISONS)} "
        kind = self.random.choice((self.integer, self.number, self.text))
        return _joined(operator, kind(depth), kind(depth))

    def _in(self, depth: int) -> Pair:
        kind = self.random.choice((self.integer, self.number, self.text))
        operator = self.random.choice((" IN ", " NOT IN "))
        members = [kind(0) for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.1:
            members.append(("NULL", "NULL"))
        listed = (", ".join([ours for ours, _ in members]), ", ".join([theirs for _, theirs in members]))
        return _joined(operator, kind(depth), _enclosed(listed))

    def _like(self, depth: int) -> Pair:
        operator = self.random.choice((" LIKE ", " NOT LIKE "))
        left = self.text(depth)
        if self.random.random() < 0.3:
            return _joined(operator, left, self.text(0))
        pattern = "".join(self.random.choices(_LETTERS + "%_", k=self.random.randint(0, 6)))
        if self.random.random() < 0.6:
            return _joined(operator, left, _same(_quoted(pattern)))
        # The escape character only before others: twice it stands for itself.
        pattern = "".join([f"!{letter}" if letter == "!" else letter for letter in pattern])
        return _joined(operator, left, _same(f"{_quoted(pattern)} ESCAPE '!'"))

    def _null(self, depth: int) -> Pair:
        kind = self.random.choice((self.integer, self.number, self.text))
        word = self.random.choice((" IS NULL", " IS NOT NULL"))
        ours, theirs = kind(0)
        return ours + word, theirs + word

    def _boolean(self, depth: int) -> Pair:
        name = self.random.choice(BOOLEANS)
        choice = self.random.random()
        if choice < 0.2:
            name = self.random.choice(NAMES)
            return f"EXISTS({name})", f"has_{name}"
        if choice < 0.4:
            return _same(self.random.choice((name, "TRUE", "false", "1=1", "1 = 0")))
        return _same(f"{name} {self.random.choice(('=', '<>'))} {self.random.choice(('TRUE', 'FALSE', *BOOLEANS))}")

    def integer(self, depth: int) -> Pair:
        """A row of terms with + - * / % between them; the divisors are numbers other than 0."""
        ours, theirs = self._integer_term(depth)
        for _ in range(self.random.choice((0, 0, 0, 1, 2)) if depth else 0):
            operator = self.random.choice((" + ", " - ", " * ", " / ", " % "))
            right = self._integer_term(depth - 1)
            if operator in (" / ", " % "):
                right = _same(str(self.random.choice((1, 2, 3, 7))))
            ours, theirs = _joined(operator, (ours, theirs), right)
        return ours, theirs

    def _integer_term(self, depth: int) -> Pair:
        choice = self.random.random()
        if choice < 0.45:
            return _same(self.random.choice(INTEGERS))
        if choice < 0.8 or not depth:
            return _same(str(self.random.randint(-9, 30)))
        if choice < 0.9:
            return _same(self.random.choice(("-", "+")) + self.random.choice(INTEGERS))
        return _enclosed(self.integer(depth - 1))

    def number(self, depth: int) -> Pair:
        """Doubles, and integers among them."""
        ours, theirs = self._number_term()
        for _ in range(self.random.choice((0, 0, 1, 2)) if depth else 0):
            operator = self.random.choice((" + ", " - ", " * ", " / "))
            right = _same(self.random.choice(("2.0", "0.5", "4e0"))) if operator == " / " else self._number_term()
            ours, theirs = _joined(operator, (ours, theirs), right)
        return ours, theirs

    def _number_term(self) -> Pair:
        if self.random.random() < 0.6:
            return _same(self.random.choice((*DOUBLES, *INTEGERS)))
        return _same(str(self.random.choice((0.25, 1.5, -2.5, 1e2, 3, 7))))

    def text(self, depth: int) -> Pair:
        choice = self.random.random()
        if choice < 0.6:
            return _same(self.random.choice(TEXTS))
        if choice < 0.85 or not depth:
            return _same(_quoted(self._text()))
        left, right = self.text(depth - 1), self.text(depth - 1)
        return f"({left[0]} + {right[0]})", f"({left[1]} || {right[1]})"


def _same(text: str) -> Pair:
    return text, text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _enclosed(pair: Pair) -> Pair:
    return f"({pair[0]})", f"({pair[1]})"


def _joined(operator: str, left: Pair, right: Pair) -> Pair:
    return left[0] + operator + right[0], left[1] + operator + right[1]


class Oracle:
    """SQLite, with a table of some rows."""

    def __init__(self, rows: list[dict[str, object]]) -> None:
        self.connection = apsw.Connection(":memory:")
        # Columns without a type have no affinity: nothing is converted.
        columns = ["id", *NAMES, *[f"has_{name}" for name in NAMES]]
        self.connection.execute(f"CREATE TABLE t ({', '.join(columns)})")
        self.connection.execute("PRAGMA case_sensitive_like = ON")
        places = ", ".join("?" * len(columns))
        for index, row in enumerate(rows):
            values = [index, *[row.get(name) for name in NAMES], *[name in row for name in NAMES]]
            self.connection.execute(f"INSERT INTO t VALUES ({places})", values)

    def decide(self, expression: str) -> list[bool | None]:
        answers = self.connection.execute(f"SELECT ({expression}) FROM t ORDER BY id")
        return [None if answer is None else bool(answer) for (answer,) in answers]


def compare(count: int, seed: int) -> int:
    """Compare `count` expressions, each on several rows, and return how many decisions that were."""
    generator = Generator(seed)
    decisions = 0
    oracle: Oracle | None = None
    subjects: list[Subject] = []
    for number in range(count):
        if oracle is None or number % 500 == 0:
            rows = [generator.row() for _ in range(_ROWS)]
            oracle = Oracle(rows)
            subjects = [Subject.of_values({}, row) for row in rows]
        ours, theirs = generator.predicate()
        while len(ours) > 1_024:
            ours, theirs = generator.predicate()
        tree = SqlFilter(ours).tree
        expected = oracle.decide(theirs)
        for subject, answer in zip(subjects, expected, strict=True):
            decision = tree.evaluate(subject)
            assert decision is answer, f"{ours}\nrules: {decision}, SQLite: {answer} for\n{subject._user}"
            decisions += 1
    return decisions


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    started = time.monotonic()
    decisions = compare(count, seed)
    print(f"{count} expressions, {decisions} decisions, no difference, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
