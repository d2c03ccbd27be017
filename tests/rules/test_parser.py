"""From text to tree and back: grammar, precedence, limits, and mistakes that are pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given

from tandem.errors import ArgumentError, Scope
from tandem.limits import MAX_EXPRESSION_CHARACTERS, MAX_PROPERTY_NAME_CHARACTERS, MAX_RULE_DEPTH, MAX_RULE_STATEMENTS
from tandem.rules import RuleArgumentError, RuleSyntaxError, SqlFilter, parse, parse_statements
from tandem.rules.expressions import (
    Arithmetic,
    Comparison,
    Conjunction,
    Constant,
    Disjunction,
    In,
    IsNull,
    Like,
    Negation,
    Node,
    Parameter,
    Sign,
    SystemProperty,
    Truth,
    UserProperty,
)
from tandem.rules.system import CODES, NAMES
from tests.rules.strategies import predicates, values

# A text, and its canonical form.
CANONICAL = [
    ("1=1", "1 = 1"),
    ("StoreName='Store1'", "StoreName = 'Store1'"),
    ("a!=1", "a <> 1"),
    ("a<>1 and b>=2 or not c<=3", "a <> 1 AND b >= 2 OR NOT c <= 3"),
    ("(a = 1)", "a = 1"),
    ("(a = 1 or b = 2) and c = 3", "(a = 1 OR b = 2) AND c = 3"),
    ("a = 1 and (b = 2 and c = 3)", "a = 1 AND (b = 2 AND c = 3)"),
    ("not (a = 1 and b = 2)", "NOT (a = 1 AND b = 2)"),
    ("NOT NOT a = 1", "NOT NOT a = 1"),
    ("1 + 2 * 3 = 7", "1 + 2 * 3 = 7"),
    ("(1 + 2) * 3 = 9", "(1 + 2) * 3 = 9"),
    ("1 - (2 - 3) = 2", "1 - (2 - 3) = 2"),
    ("(1 - 2) - 3 = -4", "(1 - 2) - 3 = -4"),
    ("a * -b = - - 5", "a * -b = - -5"),
    ("-(5) = +a", "-(5) = +a"),
    ("a is null", "a IS NULL"),
    ("a Is Not Null", "a IS NOT NULL"),
    ("a in('x','y')", "a IN ('x', 'y')"),
    ("a not in (1)", "a NOT IN (1)"),
    ("a like '%x'", "a LIKE '%x'"),
    ("a not like b escape '!'", "a NOT LIKE b ESCAPE '!'"),
    ("exists(a)", "EXISTS(a)"),
    ("exists (sys.Label)", "EXISTS(sys.Label)"),
    ("SYS.label = 'x'", "sys.Label = 'x'"),
    ("sys.subject = 'x'", "sys.Label = 'x'"),
    ("sys.[to] = 'x'", "sys.To = 'x'"),
    ("user.color = 'x'", "color = 'x'"),
    ("sys = 1 and user = 2", "sys = 1 AND user = 2"),
    ("[a b] = 1", "[a b] = 1"),
    ('"a b" = 1', "[a b] = 1"),
    ('"say ""x""" = 1', '[say "x"] = 1'),
    ("[x]]y] = 1", "[x]]y] = 1"),
    ("[color] = 1", "color = 1"),
    ("[and] = 1", "[and] = 1"),
    ("set = 1", "[set] = 1"),
    ("p('a') = 1", "property('a') = 1"),
    ("property(a + 'x') = 1", "property(a + 'x') = 1"),
    ("p = newid()", "p = newid()"),
    ("a = 'it''s'", "a = 'it''s'"),
    ("a = 1.5 and b = .5 and c = 1. and d = 101.5E5", "a = 1.5 AND b = 0.5 AND c = 1.0 AND d = 10150000.0"),
    ("a = 0.5e-2 and b = 1E+3", "a = 0.005 AND b = 1000.0"),
    ("a = 007", "a = 7"),
    ("a = -9223372036854775808", "a = -9223372036854775808"),
    ("flag", "flag"),
    ("flag and not (other)", "flag AND NOT other"),
    ("TRUE", "TRUE"),
    ("a = null", "a = NULL"),
    ("größe = 1", "größe = 1"),
    ("a=1\r\n\tAND b=2", "a = 1 AND b = 2"),
]


@pytest.mark.parametrize("text, canonical", CANONICAL)
def test_a_text_has_a_canonical_form_that_parses_to_the_same_tree(text: str, canonical: str) -> None:
    tree = parse(text)
    assert str(tree) == canonical
    assert parse(canonical) == tree
    assert hash(parse(canonical)) == hash(tree)


@given(predicates)
def test_every_tree_is_printed_as_a_text_that_parses_to_it(tree: Node) -> None:
    text = str(tree)
    if len(text) <= MAX_EXPRESSION_CHARACTERS:
        assert parse(text) == tree


@given(values)
def test_every_value_is_printed_as_a_text_that_parses_to_it(tree: Node) -> None:
    text = f"SET x = {tree}"
    if len(text) <= MAX_EXPRESSION_CHARACTERS:
        (statement,) = parse_statements(text)
        assert statement.value == tree


def test_not_binds_tighter_than_and_which_binds_tighter_than_or() -> None:
    a, b, c = [Truth(UserProperty(name)) for name in "abc"]
    assert parse("NOT a AND b OR c") == Disjunction([Conjunction([Negation(a), b]), c])
    assert parse("a OR NOT b AND c") == Disjunction([a, Conjunction([Negation(b), c])])


def test_arithmetic_binds_tighter_than_comparison_and_goes_from_left_to_right() -> None:
    one, two, three = [Constant(number) for number in (1, 2, 3)]
    product = Arithmetic([two, three], ["*"])
    assert parse("1 + 2 * 3 - 1 < 2") == Comparison("<", Arithmetic([one, product, one], ["+", "-"]), two)
    assert parse("-a * 2 = 1") == Comparison("=", Arithmetic([Sign("-", UserProperty("a")), two], ["*"]), one)


def test_nodes_are_equal_by_structure_and_type_and_not_by_the_case_of_names() -> None:
    assert parse("Color = 1") == parse("COLOR = 1")
    assert parse("a = 1") != parse("a = 1.0")
    assert parse("a = 1") != parse("a = TRUE")
    assert parse("a = '1'") != parse("a = 1")
    assert parse("a = 1") != parse("a <> 1")
    assert parse("a = 1") != "a = 1"
    assert parse_statements("SET a = 1") != parse_statements("SET a = 2")
    assert parse_statements("SET a = 1")[0] != "SET a = 1"
    assert repr(parse("a = 1")) == "<Comparison a = 1>"


@pytest.mark.parametrize("name", sorted(CODES))
def test_every_system_name_is_known_in_any_case(name: str) -> None:
    tree = parse(f"sys.{name.upper()} IS NULL")
    assert tree == parse(f"SYS.[{name}] IS NULL")
    assert str(tree).startswith(f"sys.{NAMES[CODES[name]]} ")


MISTAKES = [
    ("", 0, "the text ends where a value is expected"),
    ("   ", 3, "the text ends"),
    ("a =", 3, "the text ends where a value is expected"),
    ("a = = 1", 4, "= stands where a value"),
    ("a = 1 b = 2", 6, "b stands where the end, AND or OR"),
    ("a = 1)", 5, ") stands where the end"),
    ("(a = 1", 6, ") to close the parenthesis"),
    ("a BETWEEN 1 AND 2", 2, "BETWEEN stands"),
    ("a = 'x", 4, "this string has no closing '"),
    ("[a = 1", 0, "this name has no closing ]"),
    ('"a = 1', 0, 'this name has no closing "'),
    ("[] = 1", 0, "a name must not be empty"),
    ("sys.Colour = 1", 4, "there is no system property Colour"),
    ("sys. = 1", 5, "name of a property"),
    ("other.a = 1", 0, "there is no scope other"),
    ("[sys].Label = 1", 0, "there is no scope sys"),
    ("_a = 1", 0, "'_' has no meaning here; write a name that begins so in brackets"),
    ("a = #", 4, "'#' has no meaning"),
    ("a & b", 2, "'&' has no meaning"),
    ("a = 1x", 5, "must not run into a name"),
    ("a = 1e", 4, "an exponent must have digits"),
    ("a = 1e+", 4, "an exponent must have digits"),
    ("a = 1e999", 4, "beyond the range of a double"),
    ("a = 9223372036854775808", 4, "beyond the range of a 64-bit integer"),
    ("a = -9223372036854775809", 5, "beyond the range of a 64-bit integer"),
    (f"a = {'9' * 500}", 4, "beyond the range of a 64-bit integer"),
    ("a = @x", 4, "there is no parameter @x"),
    ("a = @", 4, "@ must be followed by the name of a parameter"),
    ("a = @1", 4, "@ must be followed by the name of a parameter"),
    ("a IS 1", 5, "NULL or NOT NULL"),
    ("a IS NOT 1", 9, "where NULL is expected"),
    ("a NOT 1", 6, "IN or LIKE"),
    ("a IN 1", 5, "( behind IN"),
    ("a IN ()", 6, "a value is expected"),
    ("a IN (1", 7, ") behind the list"),
    ("a IN (1,)", 8, "a value is expected"),
    ("a LIKE 1", 7, "a LIKE pattern must be a string"),
    ("a LIKE 'x!' ESCAPE '!'", 7, "must not end with its escape character"),
    ("a LIKE 'x' ESCAPE 'ab'", 7, "ESCAPE must be a string of one character"),
    ("a LIKE 'x' ESCAPE 1", 7, "ESCAPE must be a string of one character"),
    ("EXISTS a", 7, "( behind EXISTS"),
    ("EXISTS(1)", 7, "the name of a property"),
    ("EXISTS(a", 8, ") behind the property"),
    ("newid(1) = 1", 6, ") behind newid("),
    ("p(1", 3, ") behind the name"),
    ("and = 1", 0, "a keyword is written in brackets, as [and]"),
    ("user.and = 1", 5, "a keyword is written in brackets, as [and]"),
    ("5", 0, "5 is a value, not a condition"),
    ("'x'", 0, "'x' is a value, not a condition"),
    ("a = 1 AND 5", 10, "5 is a value, not a condition"),
    ("NOT a + 1", 4, "a + 1 is a value, not a condition"),
    ("-a", 0, "-a is a value"),
    ("newid()", 0, "newid() is a value"),
    ("(a = 1) = TRUE", 0, "a = 1 is a condition, not a value"),
    ("a = 1 = 2", 0, "a = 1 is a condition, not a value"),
    ("a = NOT b", 4, "NOT b is a condition, not a value"),
    ("1 + (a = 1) = 2", 4, "a = 1 is a condition, not a value"),
    ("a = \ud800", 4, "half of a surrogate pair"),
]


@pytest.mark.parametrize("text, position, problem", MISTAKES)
def test_a_mistake_is_named_and_pointed_at(text: str, position: int, problem: str) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        SqlFilter(text)
    assert problem in caught.value.problem
    assert caught.value.position == position
    assert caught.value.text == text


def test_the_caret_stands_under_the_mistake() -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        SqlFilter("StoreName =\t= 'Store1'")
    assert str(caught.value).splitlines() == [
        "= stands where a value is expected (at character 13)",
        "  StoreName = = 'Store1'",
        "              ^",
    ]


def test_of_a_long_text_only_the_surroundings_of_the_mistake_are_shown() -> None:
    text = "a = 1 OR " * 30 + "? " + "OR a = 1 " * 30
    with pytest.raises(RuleSyntaxError) as caught:
        SqlFilter(text)
    _, shown, caret = str(caught.value).splitlines()
    assert max(len(shown), len(caret)) <= 80
    assert shown.startswith("  …")
    assert shown.endswith("…")
    assert shown[caret.index("^")] == "?"


def test_an_error_of_a_rule_has_the_wire_form_of_an_argument_error() -> None:
    error = RuleSyntaxError("problem", "text", 1)
    assert isinstance(error, ArgumentError)
    assert (error.condition, error.http_status, error.scope) == ("com.microsoft:argument-error", 400, Scope.DELIVERY)


def test_a_text_has_at_most_1024_characters() -> None:
    text = "a = '" + "x" * (MAX_EXPRESSION_CHARACTERS - 6) + "'"
    assert len(text) == 1024
    parse(text)
    with pytest.raises(RuleSyntaxError, match="1025 characters, a rule has at most 1024"):
        parse(text + " ")


def test_a_name_has_at_most_256_characters() -> None:
    name = "n" * MAX_PROPERTY_NAME_CHARACTERS
    parse(f"{name} = 1 AND [{name}] = @{name}", {name: 1})
    for text in (f"{name}n = 1", f"[{name}n] = 1", f"a = @{name}n"):
        with pytest.raises(RuleSyntaxError, match="a name of 257 characters"):
            parse(text)


@pytest.mark.parametrize("opening, closing", [("(", ")"), ("NOT ", ""), ("NOT (", ")")])
def test_nesting_has_a_limit_that_is_named(opening: str, closing: str) -> None:
    levels = MAX_RULE_DEPTH // len(opening.replace("NOT ", "!"))
    parse(opening * levels + "a = 1" + closing * levels)
    with pytest.raises(RuleSyntaxError, match="nested deeper than the 64 levels"):
        parse(opening * (levels + 1) + "a = 1" + closing * (levels + 1))


@pytest.mark.parametrize("opening, closing", [("-", ""), ("+", ""), ("(", ")"), ("p(", ")")])
def test_values_nest_as_deeply_as_conditions(opening: str, closing: str) -> None:
    parse(opening * MAX_RULE_DEPTH + "a" + closing * MAX_RULE_DEPTH + " = 1")
    with pytest.raises(RuleSyntaxError, match="64 levels"):
        parse(opening * (MAX_RULE_DEPTH + 1) + "a" + closing * (MAX_RULE_DEPTH + 1) + " = 1")


def test_a_long_row_of_operands_is_not_deep() -> None:
    for text in ("a OR " * 200 + "a", "a AND " * 169 + "a", "1+" * 500 + "1 = 501", "a IN (" + "1," * 500 + "1)"):
        assert parse(text) == parse(text.lower())


def test_an_action_has_at_most_32_statements() -> None:
    assert len(parse_statements("SET a = 1;" * MAX_RULE_STATEMENTS)) == 32
    with pytest.raises(RuleSyntaxError, match="one more statement than the 32") as caught:
        parse_statements("SET a = 1;" * (MAX_RULE_STATEMENTS + 1))
    assert caught.value.position == 320


@pytest.mark.parametrize(
    "text, canonical",
    [
        ("SET a = 1", ["SET a = 1"]),
        ("set a = 1 remove b", ["SET a = 1", "REMOVE b"]),
        ("SET a=b SET b=a;REMOVE sys.Label;", ["SET a = b", "SET b = a", "REMOVE sys.Label"]),
        ("SET set = remove REMOVE remove", ["SET [set] = [remove]", "REMOVE [remove]"]),
        ("SET sys.To = 'x' + [y z]", ["SET sys.To = 'x' + [y z]"]),
    ],
)
def test_statements_need_no_semicolon_between_them(text: str, canonical: list[str]) -> None:
    statements = parse_statements(text)
    assert [str(statement) for statement in statements] == canonical
    assert parse_statements("; ".join(canonical)) == statements
    assert repr(statements[0]) == f"<Assignment {canonical[0]}>"
    assert hash(statements[0]) == hash(parse_statements(canonical[0])[0])


@pytest.mark.parametrize(
    "text, position, problem",
    [
        ("", 0, "an action must have a statement"),
        (";", 0, "SET or REMOVE"),
        ("a = 1", 0, "SET or REMOVE"),
        ("SET a", 5, "= behind the property"),
        ("SET a = ", 8, "a value is expected"),
        ("SET a = b = 1", 8, "b = 1 is a condition, not a value"),
        ("SET a = 1;;SET b = 2", 10, "SET or REMOVE"),
        ("SET a = 1, SET b = 2", 9, "SET or REMOVE"),
        ("REMOVE 1", 7, "the name of a property"),
        ("SET sys.SequenceNumber = 1", 4, "an action cannot change sys.SequenceNumber, only MessageId"),
        ("REMOVE sys.EnqueuedTimeUtc", 7, "an action cannot change sys.EnqueuedTimeUtc"),
        ("SET sys.Foo = 1", 8, "there is no system property Foo"),
    ],
)
def test_a_mistake_in_an_action_is_named_and_pointed_at(text: str, position: int, problem: str) -> None:
    with pytest.raises(RuleSyntaxError) as caught:
        parse_statements(text)
    assert problem in caught.value.problem
    assert caught.value.position == position


def test_parameters_are_found_in_any_case_with_and_without_their_at_sign() -> None:
    tree = parse("a = @Limit AND b = @NAME", {"@limit": 5, "Name": "x"})
    assert tree == Conjunction(
        [
            Comparison("=", UserProperty("a"), Parameter("limit", 5)),
            Comparison("=", UserProperty("b"), Parameter("name", "x")),
        ]
    )
    assert str(tree) == "a = @Limit AND b = @NAME"


@pytest.mark.parametrize(
    "value, problem", [("x" * 1025, "1025 characters"), (2**63, "64-bit"), (-(2**63) - 1, "64-bit")]
)
def test_a_parameter_beyond_its_limits_is_refused(value: object, problem: str) -> None:
    with pytest.raises(RuleArgumentError, match=f"parameter big (has|is).*{problem}"):
        parse("a = @big", {"big": value})


def test_parentheses_are_printed_where_operators_would_bind_otherwise() -> None:
    condition = Comparison("=", UserProperty("a"), Constant(1))
    odd: list[Node] = [
        Negation(Disjunction([IsNull(UserProperty("a"), False), In(UserProperty("a"), [Constant(1)], True)])),
        Conjunction(
            [Disjunction([condition, Like(UserProperty("a"), Constant("x"), None, True)]), Negation(condition)]
        ),
        Negation(Like(UserProperty("a"), Constant("x"), Constant("!"), False)),
        Negation(IsNull(Sign("-", Sign("-", Constant(5))), True)),
        Negation(In(Sign("+", Constant(-5)), [Sign("-", Constant("x")), Sign("-", Constant(1.5))], False)),
    ]
    for tree in odd:
        assert parse(str(tree)) == tree


def test_a_system_property_is_not_a_user_property_of_the_same_name() -> None:
    assert parse("Label = 1") == Comparison("=", UserProperty("label"), Constant(1))
    assert parse("sys.Label = 1") == Comparison("=", SystemProperty(CODES["label"]), Constant(1))
