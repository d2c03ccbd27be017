"""From text to tree: a hand-written precedence parser (Pratt's), whose depth has a limit of its own.

predicate  := NOT predicate | predicate AND predicate | predicate OR predicate | ( predicate ) | value
            | value (= | <> | != | > | >= | < | <=) value | value IS [NOT] NULL
            | value [NOT] IN ( value, … ) | value [NOT] LIKE value [ESCAPE value] | EXISTS ( property )
value      := constant | @parameter | newid() | property(value) | p(value) | property
            | value (+ | - | * | / | %) value | (+ | -) value | ( value )
property   := [sys. | user.] name
statement  := (SET property = value | REMOVE property) [;]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.limits import MAX_EXPRESSION_CHARACTERS, MAX_RULE_DEPTH, MAX_RULE_STATEMENTS
from tandem.rules.errors import RuleArgumentError, RuleEvaluationError, RuleSyntaxError
from tandem.rules.expressions import (
    ADDITIVE,
    AND,
    COMPARISON,
    MULTIPLICATIVE,
    NOT,
    OR,
    RESERVED_WORDS,
    UNARY,
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
    Parameter,
    Property,
    PropertyFunction,
    Sign,
    SystemProperty,
    Truth,
    UserProperty,
)
from tandem.rules.system import CODES, NAMES, SETTABLE
from tandem.rules.tokens import (
    DOUBLE,
    END,
    INTEGER,
    NAME,
    PARAMETER,
    STRING,
    SYMBOL,
    WORD,
    Token,
    tokenize,
)
from tandem.rules.values import MAX_INT64, MIN_INT64, fold, rule_value

__all__ = ["Assignment", "parse", "parse_statements", "read_parameters"]

_NO_PARAMETERS: Final[dict[str, object]] = {}
_COMPARISON_SYMBOLS: Final = ("=", "<>", "!=", ">", ">=", "<", "<=")
_COMPARISON_WORDS: Final = ("is", "in", "like", "not")
_COMPARISON_WORDS_OF_JMS: Final = ("is", "in", "like", "not", "between")


class Assignment:
    """One statement of an action: SET, or REMOVE if `value` is None."""

    __slots__ = ("target", "value")

    def __init__(self, target: Property, value: Node | None) -> None:
        self.target = target
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Assignment) and self.target == other.target and self.value == other.value

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"REMOVE {self.target}" if self.value is None else f"SET {self.target} = {self.value}"

    def __repr__(self) -> str:
        return f"<Assignment {self}>"


def parse(text: str, parameters: Mapping[str, object] = _NO_PARAMETERS, allows_between: bool = False) -> Node:
    """The tree of a filter's expression. RuleSyntaxError says where the text is wrong.

    Selectors of JMS have BETWEEN. Rules have not: to them it is a word like others, which may name a property.
    """
    parser = _Parser(text, read_parameters(parameters), allows_between)
    start = parser.next
    tree = parser.condition(parser.expression(0), start)
    if parser.next.kind != END:
        raise parser.unexpected("the end, AND or OR")
    return tree


def parse_statements(text: str, parameters: Mapping[str, object] = _NO_PARAMETERS) -> list[Assignment]:
    """The statements of an action."""
    parser = _Parser(text, read_parameters(parameters))
    statements: list[Assignment] = []
    while parser.next.kind != END:
        if len(statements) == MAX_RULE_STATEMENTS:
            problem = f"one more statement than the {MAX_RULE_STATEMENTS} that an action may have"
            raise RuleSyntaxError(problem, text, parser.next.position)
        statements.append(parser.statement())
        parser.take_symbol(";")
    if not statements:
        raise RuleSyntaxError("an action must have a statement: SET property = value, or REMOVE property", text, 0)
    return statements


def read_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """Folded name to value as rules see it. The SDKs write the names with their @."""
    values: dict[str, object] = {}
    for name, given in parameters.items():
        value = rule_value(given)
        if isinstance(value, str) and len(value) > MAX_EXPRESSION_CHARACTERS:
            raise RuleArgumentError(
                f"parameter {name:.80} has {len(value)} characters, one has at most {MAX_EXPRESSION_CHARACTERS}"
            )
        if isinstance(value, int) and not MIN_INT64 <= value <= MAX_INT64:
            raise RuleArgumentError(f"parameter {name:.80} is {value}, beyond the range of a 64-bit integer")
        values[fold(name.removeprefix("@"))] = value
    return values


class _Parser:
    """Reads tokens from left to right. `next` is the one that was not taken yet."""

    __slots__ = ("_at", "_comparison_words", "_depth", "_parameters", "_text", "_tokens", "next")

    def __init__(self, text: str, parameters: dict[str, object], allows_between: bool = False) -> None:
        self._text = text
        self._comparison_words = _COMPARISON_WORDS_OF_JMS if allows_between else _COMPARISON_WORDS
        self._parameters = parameters
        self._tokens: list[Token] = tokenize(text)
        self._at: int = 0
        self._depth: int = 0
        self.next: Token = self._tokens[0]

    # --- tokens ---------------------------------------------------------------------------------------------------

    def take(self) -> Token:
        """The next token, which the caller has seen to be another than the END."""
        token = self.next
        self._at += 1
        self.next = self._tokens[self._at]
        return token

    def take_symbol(self, symbol: str) -> bool:
        if self.next.kind == SYMBOL and self.next.text == symbol:
            self.take()
            return True
        return False

    def take_word(self, word: str) -> bool:
        if self.next.folded == word:
            self.take()
            return True
        return False

    def expect_symbol(self, symbol: str, purpose: str) -> None:
        if not self.take_symbol(symbol):
            raise self.unexpected(f"{symbol} {purpose}")

    def unexpected(self, expected: str) -> RuleSyntaxError:
        token = self.next
        found = "the text ends" if token.kind == END else f"{self._shown(token)} stands"
        return self.wrong(f"{found} where {expected} is expected", token)

    def wrong(self, problem: str, token: Token) -> RuleSyntaxError:
        return RuleSyntaxError(problem, self._text, token.position)

    def _shown(self, token: Token) -> str:
        """The token as it is written, from its place to that of the next."""
        index = self._tokens.index(token)
        return f"{self._text[token.position : self._tokens[index + 1].position].strip():.40}"

    # --- operators ------------------------------------------------------------------------------------------------

    def expression(self, floor: int) -> Node:
        """The longest expression from here on whose operators all bind more tightly than `floor`."""
        start = self.next
        left = self._operand()
        while True:
            level = self._level_of_operator()
            if level <= floor:
                return left
            if level <= AND:
                left = self._logical(left, start, level)
            elif level == COMPARISON:
                left = self._comparison(self._value(left, start))
            else:
                left = self._arithmetic(self._value(left, start), level)

    def condition(self, node: Node, start: Token) -> Node:
        """A node where a predicate is needed. A value can be one if it can be a boolean."""
        if node.is_predicate():
            return node
        is_possible = not isinstance(node, (Arithmetic, Sign, NewId))
        if isinstance(node, Constant):
            is_possible = node.value is None or isinstance(node.value, bool)
        if not is_possible:
            raise self.wrong(f"{node.text():.60} is a value, not a condition: compare it with something", start)
        return Truth(node)

    def _value(self, node: Node, start: Token) -> Node:
        if node.is_predicate():
            raise self.wrong(f"{node.text():.60} is a condition, not a value", start)
        return node

    def _level_of_operator(self) -> int:
        """How tightly the operator that comes next binds; 0 if there is none."""
        token = self.next
        if token.kind == SYMBOL:
            if token.text == "+" or token.text == "-":
                return ADDITIVE
            if token.text in _COMPARISON_SYMBOLS:
                return COMPARISON
            return MULTIPLICATIVE if token.text in ("*", "/", "%") else 0
        if token.kind == WORD:
            if token.folded == "and":
                return AND
            if token.folded == "or":
                return OR
            return COMPARISON if token.folded in self._comparison_words else 0
        return 0

    def _logical(self, left: Node, start: Token, level: int) -> Node:
        operands = [self.condition(left, start)]
        while self._level_of_operator() == level:
            self.take()
            start = self.next
            operands.append(self.condition(self.expression(level), start))
        return Conjunction(operands) if level == AND else Disjunction(operands)

    def _arithmetic(self, left: Node, level: int) -> Node:
        operands = [left]
        operators: list[str] = []
        while self._level_of_operator() == level:
            operators.append(self.take().text)
            operands.append(self._value_above(level))
        return Arithmetic(operands, operators)

    def _value_above(self, floor: int) -> Node:
        start = self.next
        return self._value(self.expression(floor), start)

    def _comparison(self, left: Node) -> Node:
        operator = self.take()
        if operator.kind == SYMBOL:
            return Comparison(operator.text, left, self._value_above(COMPARISON))
        if operator.folded == "is":
            is_negated = self.take_word("not")
            if not self.take_word("null"):
                raise self.unexpected("NULL" if is_negated else "NULL or NOT NULL")
            return IsNull(left, is_negated)
        is_negated = operator.folded == "not"
        if is_negated:
            if self.next.folded in ("is", "not") or self.next.folded not in self._comparison_words:
                raise self.unexpected("IN or LIKE")
            operator = self.take()
        if operator.folded == "between":
            return self._between(left, is_negated)
        if operator.folded == "in":
            self.expect_symbol("(", "behind IN")
            return In(left, self._members(), is_negated)
        return self._like(left, is_negated)

    def _between(self, left: Node, is_negated: bool) -> Node:
        low = self._value_above(COMPARISON)
        if not self.take_word("and"):
            raise self.unexpected("AND and the upper bound")
        high = self._value_above(COMPARISON)
        within = Conjunction([Comparison(">=", left, low), Comparison("<=", left, high)])
        return Negation(within) if is_negated else within

    def _members(self) -> list[Node]:
        self._enter()
        members = [self._value_above(0)]
        while self.take_symbol(","):
            members.append(self._value_above(0))
        self._leave("behind the list")
        return members

    def _like(self, left: Node, is_negated: bool) -> Node:
        start = self.next
        pattern = self._value_above(COMPARISON)
        if isinstance(pattern, Constant) and not isinstance(pattern.value, str) and pattern.value is not None:
            raise self.wrong(f"a LIKE pattern must be a string, got {pattern}", start)
        escape = self._value_above(COMPARISON) if self.take_word("escape") else None
        try:
            return Like(left, pattern, escape, is_negated)
        except RuleEvaluationError as error:
            raise self.wrong(str(error), start) from None

    # --- operands -------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_RULE_DEPTH:
            problem = f"an expression nested deeper than the {MAX_RULE_DEPTH} levels that a rule may have"
            raise self.wrong(problem, self.next)

    def _leave(self, place: str) -> None:
        self.expect_symbol(")", place)
        self._depth -= 1

    def _operand(self) -> Node:
        token = self.next
        kind = token.kind
        if kind == WORD:
            return self._word()
        if kind == NAME:
            return self.property()
        if kind == INTEGER:
            if token.integer > MAX_INT64:
                raise self.wrong(f"{token.text} is beyond the range of a 64-bit integer", token)
            self.take()
            return Constant(token.integer)
        if kind == DOUBLE:
            self.take()
            return Constant(token.double)
        if kind == STRING:
            self.take()
            return Constant(token.text)
        if kind == PARAMETER:
            return self._parameter()
        if token.text == "(":
            self.take()
            self._enter()
            inner = self.expression(0)
            self._leave("to close the parenthesis")
            return inner
        if token.text == "+" or token.text == "-":
            return self._sign()
        raise self.unexpected("a value")

    def _sign(self) -> Node:
        operator = self.take().text
        number = self.next
        if operator == "-" and number.kind == INTEGER:
            self.take()
            return Constant(-number.integer)
        if operator == "-" and number.kind == DOUBLE:
            self.take()
            return Constant(-number.double)
        self._enter()
        operand = self._value_above(UNARY)
        self._depth -= 1
        return Sign(operator, operand)

    def _parameter(self) -> Node:
        token = self.next
        folded = fold(token.text)
        if folded not in self._parameters:
            raise self.wrong(f"there is no parameter @{token.text}", token)
        self.take()
        return Parameter(token.text, self._parameters[folded])

    def _word(self) -> Node:
        """A keyword, a function or a property."""
        word = self.next.folded
        if word == "not":
            self.take()
            self._enter()
            start = self.next
            operand = self.condition(self.expression(NOT), start)
            self._depth -= 1
            return Negation(operand)
        if word == "true" or word == "false":
            self.take()
            return Constant(word == "true")
        if word == "null":
            self.take()
            return Constant(None)
        if word == "exists":
            self.take()
            self.expect_symbol("(", "behind EXISTS")
            operand = self.property()
            self.expect_symbol(")", "behind the property")
            return Exists(operand)
        if word in ("newid", "property", "p") and self._is_call():
            return self._function(word)
        return self.property()

    def _is_call(self) -> bool:
        behind = self._tokens[self._at + 1]
        return behind.kind == SYMBOL and behind.text == "("

    def _function(self, word: str) -> Node:
        self.take()
        self.take()
        if word == "newid":
            self.expect_symbol(")", "behind newid(")
            return NewId()
        self._enter()
        name = self._value_above(0)
        self._leave("behind the name")
        return PropertyFunction(name)

    def property(self) -> Property:
        """`[sys.|user.] name`. Which names `sys` has is known, so that a wrong one is refused here."""
        token = self._name("the name of a property")
        if not (self.next.kind == SYMBOL and self.next.text == "."):
            return UserProperty(token.text)
        if token.folded != "sys" and token.folded != "user":
            problem = f"there is no scope {token.text:.60}, only sys and user; a name with a dot is written in brackets"
            raise self.wrong(problem, token)
        self.take()
        name = self._name("the name of a property")
        if token.folded == "user":
            return UserProperty(name.text)
        code = CODES.get(fold(name.text))
        if code is None:
            raise self.wrong(f"there is no system property {name.text:.60}, only {', '.join(sorted(NAMES))}", name)
        return SystemProperty(code)

    def _name(self, expected: str) -> Token:
        token = self.next
        if token.kind == NAME:
            return self.take()
        if token.kind != WORD:
            raise self.unexpected(expected)
        if token.folded in RESERVED_WORDS:
            raise self.unexpected(f"{expected} (a keyword is written in brackets, as [{token.text}])")
        return self.take()

    # --- statements -----------------------------------------------------------------------------------------------

    def statement(self) -> Assignment:
        is_removal = self.take_word("remove")
        if not is_removal and not self.take_word("set"):
            raise self.unexpected("SET or REMOVE")
        start = self.next
        target = self.property()
        if isinstance(target, SystemProperty) and target.code not in SETTABLE:
            allowed = ", ".join([NAMES[code] for code in SETTABLE])
            raise self.wrong(f"an action cannot change {target}, only {allowed}", start)
        if is_removal:
            return Assignment(target, None)
        self.expect_symbol("=", "behind the property")
        return Assignment(target, self._value_above(0))
