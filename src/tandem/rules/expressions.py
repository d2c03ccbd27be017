"""The tree of an expression: parsed once, evaluated for every message.

`evaluate` gives a value, or for a predicate True, False or None, which is unknown. Evaluation goes from left to right
and stops where the outcome is certain. `str` gives the canonical text, which parses to an equal tree.

All operands of one level that are written in a row are in one node (`a AND b AND c`, `1 + 2 - 3`), so that the depth of
a tree is that of its parentheses and not the length of its text.
"""

# Longer than 650 lines: every kind of node is here, and a grammar is read as a whole.

from __future__ import annotations

import uuid
from typing import Final

from tandem.rules.arithmetic import combine, negate
from tandem.rules.errors import RuleEvaluationError
from tandem.rules.like import MAKING_WORK, Pattern
from tandem.rules.subject import Subject
from tandem.rules.system import NAMES
from tandem.rules.tokens import is_regular_name
from tandem.rules.values import INCOMPARABLE, UNORDERED, fold, is_equal, order, shown, type_name

__all__ = [
    "ADDITIVE",
    "AND",
    "COMPARISON",
    "MULTIPLICATIVE",
    "NOT",
    "OR",
    "PRIMARY",
    "RESERVED_WORDS",
    "UNARY",
    "Arithmetic",
    "Comparison",
    "Conjunction",
    "Constant",
    "Disjunction",
    "Exists",
    "In",
    "IsNull",
    "Junction",
    "Like",
    "Negation",
    "NewId",
    "Node",
    "Parameter",
    "Property",
    "PropertyFunction",
    "Sign",
    "SystemProperty",
    "Truth",
    "UserProperty",
    "name_text",
]

# How tightly operators bind, from the loosest to the tightest.
OR: Final = 1
AND: Final = 2
NOT: Final = 3
COMPARISON: Final = 4
ADDITIVE: Final = 5
MULTIPLICATIVE: Final = 6
UNARY: Final = 7
PRIMARY: Final = 8

# Units of work, as `RULE_WORK_PER_TURN` has them, for long strings: characters that are joined, or compared, for one
# unit, as powers of two; and for each character of a name that is put into lower case.
_JOINED_SHIFT: Final = 3
_COMPARED_SHIFT: Final = 4
_FOLDED_WORK: Final = 2

# Words that cannot be names without brackets. SET and REMOVE could: only an action knows them, and only at the
# beginning of a statement. They are printed in brackets all the same.
RESERVED_WORDS: Final = frozenset(
    ("and", "or", "not", "in", "is", "null", "like", "escape", "exists", "true", "false"),
)
_PRINTED_IN_BRACKETS: Final = RESERVED_WORDS | {"set", "remove"}

_EQUAL: Final = 0
_NOT_EQUAL: Final = 1
_LESS: Final = 2
_LESS_OR_EQUAL: Final = 3
_GREATER: Final = 4
_GREATER_OR_EQUAL: Final = 5
_COMPARISONS: Final = {
    "=": _EQUAL,
    "<>": _NOT_EQUAL,
    "!=": _NOT_EQUAL,
    "<": _LESS,
    "<=": _LESS_OR_EQUAL,
    ">": _GREATER,
    ">=": _GREATER_OR_EQUAL,
}
_COMPARISON_TEXTS: Final = ("=", "<>", "<", "<=", ">", ">=")


def name_text(name: str) -> str:
    """A property's name as it is printed: in brackets where it needs them."""
    if is_regular_name(name) and name.lower() not in _PRINTED_IN_BRACKETS:
        return name
    return f"[{name.replace(']', ']]')}]"


class Node:
    """A part of an expression."""

    __slots__ = ()

    def evaluate(self, subject: Subject) -> object:
        raise NotImplementedError

    def level(self) -> int:
        return PRIMARY

    def is_predicate(self) -> bool:
        """Whether the node is true, false or unknown, rather than a value."""
        return False

    def children(self) -> list[Node]:
        return []

    def parts(self) -> tuple[object, ...]:
        """All that makes two nodes of a class equal."""
        raise NotImplementedError

    def text(self) -> str:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and type(self) is type(other) and self.parts() == other.parts()

    def __hash__(self) -> int:
        return hash(self.text())

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.text()}>"


def _enclosed(node: Node, level: int) -> str:
    """The text of an operand, in parentheses if it binds less tightly than `level`."""
    return node.text() if node.level() >= level else f"({node.text()})"


class Constant(Node):
    """A number, string or boolean that is written in the rule, or NULL."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def evaluate(self, subject: Subject) -> object:
        return self.value

    def parts(self) -> tuple[object, ...]:
        return (type_name(self.value), self.value)

    def text(self) -> str:
        value = self.value
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        return repr(value) if isinstance(value, float) else shown(value)


class Parameter(Node):
    """A value that was given beside the text."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.value = value

    def evaluate(self, subject: Subject) -> object:
        return self.value

    def parts(self) -> tuple[object, ...]:
        return (fold(self.name), type_name(self.value), self.value)

    def text(self) -> str:
        return f"@{self.name}"


class Property(Node):
    """A property of the message. EXISTS, SET and REMOVE can be said of it."""

    __slots__ = ()

    def exists(self, subject: Subject) -> bool:
        raise NotImplementedError


class UserProperty(Property):
    """One that the sender made up. If it is missing, its value is unknown."""

    __slots__ = ("folded", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.folded: str = fold(name)

    def evaluate(self, subject: Subject) -> object:
        return subject.user(self.folded)

    def exists(self, subject: Subject) -> bool:
        return subject.has_user(self.folded)

    def parts(self) -> tuple[object, ...]:
        return (self.folded,)

    def text(self) -> str:
        return name_text(self.name)


class SystemProperty(Property):
    """One that the service knows. If the message does not have it, its value is unknown."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code

    def evaluate(self, subject: Subject) -> object:
        return subject.system_at(self.code)

    def exists(self, subject: Subject) -> bool:
        return subject.system_at(self.code) is not None

    def parts(self) -> tuple[object, ...]:
        return (self.code,)

    def text(self) -> str:
        return f"sys.{NAMES[self.code]}"


class PropertyFunction(Node):
    """`property(e)`: the user property whose name is the value of an expression."""

    __slots__ = ("name",)

    def __init__(self, name: Node) -> None:
        self.name = name

    def evaluate(self, subject: Subject) -> object:
        name = self.name.evaluate(subject)
        if name is None:
            return None
        if not isinstance(name, str):
            raise RuleEvaluationError(f"{self}: the name must be a string, got {shown(name)}")
        subject.work += _FOLDED_WORK * len(name)
        return subject.user(fold(name))

    def children(self) -> list[Node]:
        return [self.name]

    def parts(self) -> tuple[object, ...]:
        return (self.name,)

    def text(self) -> str:
        return f"property({self.name.text()})"


class NewId(Node):
    """`newid()`: a GUID that nobody has seen before."""

    __slots__ = ()

    def evaluate(self, subject: Subject) -> object:
        if subject.new_id is None:
            raise RuleEvaluationError("newid(): nothing here makes new ids")
        made: uuid.UUID = subject.new_id()
        return made

    def parts(self) -> tuple[object, ...]:
        return ()

    def text(self) -> str:
        return "newid()"


class Sign(Node):
    """`+e` or `-e`."""

    __slots__ = ("operand", "operator")

    def __init__(self, operator: str, operand: Node) -> None:
        self.operator = operator
        self.operand = operand

    def evaluate(self, subject: Subject) -> object:
        return negate(self.operator, self.operand.evaluate(subject))

    def level(self) -> int:
        return UNARY

    def children(self) -> list[Node]:
        return [self.operand]

    def parts(self) -> tuple[object, ...]:
        return (self.operator, self.operand)

    def text(self) -> str:
        text = _enclosed(self.operand, UNARY)
        if self.operator == "-":
            # A minus right before a number is part of the number.
            if isinstance(self.operand, Constant) and isinstance(self.operand.value, (int, float)) and text[0] != "-":
                return f"-({text})"
            if text[0] == "-":
                return f"- {text}"
        return self.operator + text


class Arithmetic(Node):
    """`a + b - c`, or `a * b / c % d`: operands of one level, from left to right, with the operators between them."""

    __slots__ = ("_level", "operands", "operators")

    def __init__(self, operands: list[Node], operators: list[str]) -> None:
        self.operands = operands
        self.operators = operators
        self._level: int = ADDITIVE if operators[0] in ("+", "-") else MULTIPLICATIVE

    def evaluate(self, subject: Subject) -> object:
        result = self.operands[0].evaluate(subject)
        for index in range(len(self.operators)):
            result = combine(self.operators[index], result, self.operands[index + 1].evaluate(subject))
            if isinstance(result, str):
                subject.work += len(result) >> _JOINED_SHIFT
        return result

    def level(self) -> int:
        return self._level

    def children(self) -> list[Node]:
        return self.operands

    def parts(self) -> tuple[object, ...]:
        return (self.operators, self.operands)

    def text(self) -> str:
        pieces = [_enclosed(self.operands[0], self._level + 1)]
        for index in range(len(self.operators)):
            pieces.append(self.operators[index])
            pieces.append(_enclosed(self.operands[index + 1], self._level + 1))
        return " ".join(pieces)


class Predicate(Node):
    """A node that is true, false or unknown."""

    __slots__ = ()

    def is_predicate(self) -> bool:
        return True


class Truth(Predicate):
    """A value where a predicate is needed: `flag` is `flag = TRUE`. What is not a boolean is unknown."""

    __slots__ = ("operand",)

    def __init__(self, operand: Node) -> None:
        self.operand = operand

    def evaluate(self, subject: Subject) -> object:
        value = self.operand.evaluate(subject)
        return value if isinstance(value, bool) else None

    def children(self) -> list[Node]:
        return [self.operand]

    def parts(self) -> tuple[object, ...]:
        return (self.operand,)

    def text(self) -> str:
        return self.operand.text()


class Comparison(Predicate):
    """Two values beside each other. Unknown if one of them is, or if their types have no such comparison."""

    __slots__ = ("_code", "left", "right")

    def __init__(self, operator: str, left: Node, right: Node) -> None:
        self._code: int = _COMPARISONS[operator]
        self.left = left
        self.right = right

    def evaluate(self, subject: Subject) -> object:
        left = self.left.evaluate(subject)
        if left is None:
            return None
        right = self.right.evaluate(subject)
        if right is None:
            return None
        code = self._code
        if code <= _NOT_EQUAL:
            # Nearly every filter compares a property with a string.
            if isinstance(left, str) and isinstance(right, str):
                if len(left) == len(right):
                    subject.work += len(left) >> _COMPARED_SHIFT
                return (left == right) == (code == _EQUAL)
            equal = is_equal(left, right)
            return None if equal is None else equal == (code == _EQUAL)
        relation = order(left, right)
        if isinstance(left, str):
            subject.work += len(left) >> _COMPARED_SHIFT
        if relation == INCOMPARABLE:
            return None
        if relation == UNORDERED:
            return False
        if code == _LESS:
            return relation < 0
        if code == _LESS_OR_EQUAL:
            return relation <= 0
        return relation > 0 if code == _GREATER else relation >= 0

    def level(self) -> int:
        return COMPARISON

    def children(self) -> list[Node]:
        return [self.left, self.right]

    def parts(self) -> tuple[object, ...]:
        return (self._code, self.left, self.right)

    def text(self) -> str:
        left, right = _enclosed(self.left, ADDITIVE), _enclosed(self.right, ADDITIVE)
        return f"{left} {_COMPARISON_TEXTS[self._code]} {right}"


class IsNull(Predicate):
    """`e IS [NOT] NULL`. Never unknown."""

    __slots__ = ("is_negated", "operand")

    def __init__(self, operand: Node, is_negated: bool) -> None:
        self.operand = operand
        self.is_negated = is_negated

    def evaluate(self, subject: Subject) -> object:
        return (self.operand.evaluate(subject) is None) != self.is_negated

    def level(self) -> int:
        return COMPARISON

    def children(self) -> list[Node]:
        return [self.operand]

    def parts(self) -> tuple[object, ...]:
        return (self.is_negated, self.operand)

    def text(self) -> str:
        return f"{_enclosed(self.operand, ADDITIVE)} IS {'NOT ' if self.is_negated else ''}NULL"


class Exists(Predicate):
    """`EXISTS(property)`: whether the message has it, be it null. Never unknown."""

    __slots__ = ("operand",)

    def __init__(self, operand: Property) -> None:
        self.operand = operand

    def evaluate(self, subject: Subject) -> object:
        return self.operand.exists(subject)

    def children(self) -> list[Node]:
        return [self.operand]

    def parts(self) -> tuple[object, ...]:
        return (self.operand,)

    def text(self) -> str:
        return f"EXISTS({self.operand.text()})"


class In(Predicate):
    """`e [NOT] IN (e, …)`: true if one is equal; else unknown if a comparison with one is; else false."""

    __slots__ = ("is_negated", "members", "operand")

    def __init__(self, operand: Node, members: list[Node], is_negated: bool) -> None:
        self.operand = operand
        self.members = members
        self.is_negated = is_negated

    def evaluate(self, subject: Subject) -> object:
        value = self.operand.evaluate(subject)
        if value is None:
            return None
        is_unknown = False
        if isinstance(value, str):
            subject.work += (len(value) >> _COMPARED_SHIFT) * len(self.members)
        for member in self.members:
            equal = is_equal(value, member.evaluate(subject))
            if equal is None:
                is_unknown = True
            elif equal:
                return not self.is_negated
        return None if is_unknown else self.is_negated

    def level(self) -> int:
        return COMPARISON

    def children(self) -> list[Node]:
        return [self.operand, *self.members]

    def parts(self) -> tuple[object, ...]:
        return (self.is_negated, self.operand, self.members)

    def text(self) -> str:
        members = ", ".join([member.text() for member in self.members])
        return f"{_enclosed(self.operand, ADDITIVE)} {'NOT ' if self.is_negated else ''}IN ({members})"


class Like(Predicate):
    """`e [NOT] LIKE pattern [ESCAPE e]`. Unknown if one of them is, or is not a string."""

    __slots__ = ("_pattern", "escape", "is_negated", "operand", "pattern")

    def __init__(self, operand: Node, pattern: Node, escape: Node | None, is_negated: bool) -> None:
        """RuleEvaluationError if the pattern and its escape character are constants, and wrong."""
        self.operand = operand
        self.pattern = pattern
        self.escape = escape
        self.is_negated = is_negated
        # A constant pattern, which is the usual one, is taken apart once.
        self._pattern: Pattern | None = None
        if isinstance(pattern, (Constant, Parameter)) and isinstance(pattern.value, str):
            if escape is None:
                self._pattern = Pattern(pattern.value)
            elif isinstance(escape, (Constant, Parameter)) and escape.value is not None:
                self._pattern = Pattern(pattern.value, _checked_escape(escape.value))

    def evaluate(self, subject: Subject) -> object:
        text = self.operand.evaluate(subject)
        if not isinstance(text, str):
            return None
        pattern = self._pattern
        if pattern is None:
            escape = ""
            if self.escape is not None:
                value = self.escape.evaluate(subject)
                if value is None:
                    return None
                escape = _checked_escape(value)
            source = self.pattern.evaluate(subject)
            if not isinstance(source, str):
                return None
            pattern = Pattern(source, escape)
            subject.work += MAKING_WORK * len(source)
        subject.work += pattern.work_per_character * len(text)
        return pattern.matches(text) != self.is_negated

    def level(self) -> int:
        return COMPARISON

    def children(self) -> list[Node]:
        operands = [self.operand, self.pattern]
        return operands if self.escape is None else [*operands, self.escape]

    def parts(self) -> tuple[object, ...]:
        return (self.is_negated, self.operand, self.pattern, self.escape)

    def text(self) -> str:
        keyword = "NOT LIKE" if self.is_negated else "LIKE"
        text = f"{_enclosed(self.operand, ADDITIVE)} {keyword} {_enclosed(self.pattern, ADDITIVE)}"
        return text if self.escape is None else f"{text} ESCAPE {_enclosed(self.escape, ADDITIVE)}"


def _checked_escape(value: object) -> str:
    if isinstance(value, str) and len(value) == 1:
        return value
    raise RuleEvaluationError(f"ESCAPE must be a string of one character, got {shown(value)}")


class Negation(Predicate):
    """`NOT p`. What is unknown stays so."""

    __slots__ = ("operand",)

    def __init__(self, operand: Node) -> None:
        self.operand = operand

    def evaluate(self, subject: Subject) -> object:
        value = self.operand.evaluate(subject)
        return None if value is None else value is False

    def level(self) -> int:
        return NOT

    def children(self) -> list[Node]:
        return [self.operand]

    def parts(self) -> tuple[object, ...]:
        return (self.operand,)

    def text(self) -> str:
        return f"NOT {_enclosed(self.operand, NOT)}"


class Junction(Predicate):
    """Predicates that are joined by the same word: `decisive` if one is that; else unknown if one is; else not."""

    __slots__ = ("decisive", "operands")

    def __init__(self, operands: list[Node], decisive: bool) -> None:
        self.operands = operands
        self.decisive = decisive

    def evaluate(self, subject: Subject) -> object:
        decisive: object = self.decisive
        is_unknown = False
        for operand in self.operands:
            value = operand.evaluate(subject)
            if value is decisive:
                return value
            if value is None:
                is_unknown = True
        return None if is_unknown else not self.decisive

    def level(self) -> int:
        return OR if self.decisive else AND

    def children(self) -> list[Node]:
        return self.operands

    def parts(self) -> tuple[object, ...]:
        return (self.operands,)

    def text(self) -> str:
        level = self.level()
        return (" OR " if self.decisive else " AND ").join([_enclosed(operand, level + 1) for operand in self.operands])


class Conjunction(Junction):
    """`p AND q AND …`: false if one is false; else unknown if one is unknown; else true."""

    __slots__ = ()

    def __init__(self, operands: list[Node]) -> None:
        super().__init__(operands, False)


class Disjunction(Junction):
    """`p OR q OR …`: true if one is true; else unknown if one is unknown; else false."""

    __slots__ = ()

    def __init__(self, operands: list[Node]) -> None:
        super().__init__(operands, True)
