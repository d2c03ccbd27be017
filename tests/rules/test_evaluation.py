"""What expressions are worth: three-valued logic, comparison and arithmetic of every type."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.types import (
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from tandem.limits import MAX_COMPUTED_CHARACTERS
from tandem.rules import RuleEvaluationError, SqlFilter, Subject, parse, parse_statements
from tandem.rules.expressions import Node
from tandem.rules.values import DateTime, TimeSpan, shown, type_name
from tests.markers import mission
from tests.rules.strategies import application_properties, predicates

GUID = uuid.UUID("12345678-1234-5678-1234-567812345678")

# The three truth values as a rule can write them: FALSE and TRUE, and a property that is not there.
T, F, U = "TRUE", "FALSE", "missing"
TRUTH = {T: True, F: False, U: None}


def decided(text: str, user: dict[str, object] | None = None, system: dict[str, object] | None = None) -> object:
    return parse(text).evaluate(Subject.of_values(system or {}, user or {}))


def computed(text: str, user: dict[str, object] | None = None, parameters: dict[str, object] | None = None) -> object:
    value = parse_statements(f"SET x = {text}", parameters or {})[0].value
    assert value is not None
    return value.evaluate(Subject.of_values({}, user or {}))


@mission("M8")
@pytest.mark.parametrize(
    "left, right, both, either",
    [
        (T, T, T, T),
        (T, F, F, T),
        (T, U, U, T),
        (F, T, F, T),
        (F, F, F, F),
        (F, U, F, U),
        (U, T, U, T),
        (U, F, F, U),
        (U, U, U, U),
    ],
)
def test_and_and_or_have_three_values(left: str, right: str, both: str, either: str) -> None:
    assert decided(f"{left} AND {right}") is TRUTH[both]
    assert decided(f"{left} OR {right}") is TRUTH[either]


@pytest.mark.parametrize("operand, negated", [(T, F), (F, T), (U, U)])
def test_not_of_unknown_is_unknown(operand: str, negated: str) -> None:
    assert decided(f"NOT {operand}") is TRUTH[negated]


@given(st.lists(st.sampled_from((T, F, U)), min_size=2, max_size=6))
def test_long_rows_decide_as_pairs_do(operands: list[str]) -> None:
    values = [TRUTH[operand] for operand in operands]
    conjunction = False if False in values else None if None in values else True
    disjunction = True if True in values else None if None in values else False
    assert decided(" AND ".join(operands)) is conjunction
    assert decided(" OR ".join(operands)) is disjunction


@pytest.mark.parametrize("text", ["missing = 1", "NOT missing = 1", "missing <> 1", "missing", "NOT missing", "NULL"])
def test_a_filter_that_is_unknown_does_not_match(text: str) -> None:
    assert decided(text) is None
    assert not SqlFilter(text).matches(Subject.of_values())


def test_evaluation_stops_where_the_outcome_is_certain() -> None:
    assert decided("FALSE AND 1 / 0 = 1") is False
    assert decided("TRUE OR 1 / 0 = 1") is True
    assert decided("missing = 1 / 0") is None
    assert decided("1 IN (1, 1 / 0)") is True
    with pytest.raises(RuleEvaluationError):
        decided("missing AND 1 / 0 = 1")


def test_is_null_is_true_for_what_is_missing_and_for_what_is_null() -> None:
    user: dict[str, object] = {"nil": None, "a": 1}
    assert decided("missing IS NULL AND nil IS NULL AND a IS NOT NULL AND NULL IS NULL", user) is True
    assert decided("missing IS NOT NULL OR nil IS NOT NULL OR a IS NULL", user) is False
    assert decided("missing + 1 IS NULL AND p('nil') IS NULL AND sys.Label IS NULL", user) is True


def test_exists_sees_a_property_that_is_null() -> None:
    user: dict[str, object] = {"nil": None, "A": 1}
    assert decided("EXISTS(nil) AND EXISTS(a) AND EXISTS(user.NIL)", user) is True
    assert decided("EXISTS(missing)", user) is False
    assert decided("EXISTS(sys.Label)", user, {"Label": "x"}) is True
    assert decided("EXISTS(sys.Label)", user) is False


@pytest.mark.parametrize("value, outcome", [(True, True), (False, False), (1, None), ("TRUE", None), (None, None)])
def test_a_value_alone_is_a_condition_if_it_is_a_boolean(value: object, outcome: bool | None) -> None:
    assert decided("flag", {"flag": value}) is outcome
    assert decided("flag = TRUE", {"flag": value}) is outcome
    assert decided("p('flag')", {"flag": value}) is outcome


def test_names_have_no_case_and_values_have() -> None:
    user: dict[str, object] = {"StoreName": "Store1"}
    assert decided("STORENAME = 'Store1' AND storename LIKE 'S%' AND [StoreName] IN ('Store1')", user) is True
    assert decided("StoreName = 'store1'", user) is False
    assert decided("größe = 1", {"GRÖSSE": 1, "GRÖßE": 1}) is True


def test_of_two_names_that_differ_in_case_the_first_counts() -> None:
    assert decided("color = 'red'", {"Color": "red", "color": "blue"}) is True


# --- comparison ---------------------------------------------------------------------------------------------------

# Values of one group are equal to each other, and have no comparison with values of another group.
EQUALS: list[list[object]] = [
    [
        *[kind(5) for kind in (UByte, UShort, UInt, ULong, Byte, Short, Int, int)],
        *[kind(5.0) for kind in (Float, float)],
        *[kind.from_decimal(Decimal(5)) for kind in (Decimal32, Decimal64, Decimal128)],
        Decimal("5.00"),
    ],
    ["5", Symbol("5"), Char("5"), Described(Symbol("com.microsoft:uri"), "5")],
    [True],
    [b"5"],
    [GUID],
    [
        Timestamp(1_700_000_000_000),
        datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC),
        datetime.datetime(2023, 11, 14, 22, 13, 20),  # noqa: DTZ001 - taken for UTC
        Described(Symbol("com.microsoft:datetime-offset"), 638_355_968_000_000_000),
    ],
    [Described(Symbol("com.microsoft:timespan"), 50_000_000), datetime.timedelta(seconds=5)],
]
# Not even equal to themselves.
STRANGE: list[object] = [[1], {"a": 1}, Described(Symbol("x:y"), 5), Described(Symbol("com.microsoft:timespan"), "5")]
ORDERED = (0, 1, 5)


@pytest.mark.parametrize("group", range(len(EQUALS)))
def test_values_of_one_kind_are_equal_whatever_their_width(group: int) -> None:
    for left in EQUALS[group]:
        for right in EQUALS[group]:
            user = {"l": left, "r": right}
            assert decided("l = r AND NOT l <> r AND l IN (r) AND NOT l NOT IN (r)", user) is True, user
            is_ordered = group in ORDERED
            assert decided("l <= r AND l >= r", user) is (True if is_ordered or group == 6 else None), user
            assert decided("l < r OR l > r", user) is (False if is_ordered or group == 6 else None), user


def test_values_of_different_kinds_do_not_match_whatever_is_asked() -> None:
    kinds = [group[0] for group in EQUALS] + STRANGE
    for left in kinds:
        for right in kinds:
            user = {"l": left, "r": right}
            if left is not right or left in STRANGE:
                for operator in ("=", "<>", "<", "<=", ">", ">="):
                    assert decided(f"l {operator} r", user) is None, user
                    assert decided(f"NOT l {operator} r", user) is None, user
                assert decided("l IN (r)", user) is None
                assert decided("l NOT IN (r)", user) is None


def test_a_string_that_spells_a_number_is_not_a_number() -> None:
    assert decided("Quantity > 10", {"Quantity": "20"}) is None
    assert decided("Quantity > 10", {"Quantity": 20}) is True
    assert decided("Quantity > '10'", {"Quantity": "20"}) is True
    assert decided("Quantity > '10'", {"Quantity": "1"}) is False


@pytest.mark.parametrize(
    "left, right, relation",
    [
        (1, 2, -1),
        (2, 2.5, -1),
        (2.5, 2, 1),
        (ULong(2**64 - 1), 2**63 - 1, 1),
        (-1, ULong(2**64 - 1), -1),
        (Decimal("1.5"), 1, 1),
        (Decimal("1.5"), 1.5, 0),
        (1.25, Decimal("1.5"), -1),
        (2**53 + 1, float(2**53), 0),
        (math.inf, 2**63 - 1, 1),
        (-math.inf, Decimal(-5), -1),
        ("a", "b", -1),
        ("Z", "a", -1),
        ("a", "ab", -1),
        ("", "a", -1),
        ("é", "z", 1),
        (Timestamp(5), Timestamp(6), -1),
        (datetime.timedelta(1), datetime.timedelta(2), -1),
        (Decimal("Infinity"), 5, 1),
        (Decimal(3), Decimal(2), 1),
        (Decimal(2), Decimal(3), -1),
    ],
)
def test_order_of_values(left: object, right: object, relation: int) -> None:
    user = {"l": left, "r": right}
    assert decided("l < r", user) is (relation < 0)
    assert decided("l <= r", user) is (relation <= 0)
    assert decided("l > r", user) is (relation > 0)
    assert decided("l >= r", user) is (relation >= 0)
    assert decided("l = r", user) is (relation == 0)
    assert decided("l <> r", user) is (relation != 0)


@pytest.mark.parametrize("nan", [math.nan, Float(math.nan), Decimal("NaN"), Decimal("sNaN")])
def test_nan_is_unequal_to_everything_and_itself(nan: object) -> None:
    for other in (nan, 1, 1.5, Decimal(1)):
        user = {"n": nan, "o": other}
        assert decided("n <> o AND NOT n = o AND NOT n < o AND NOT n >= o AND NOT o <= n", user) is True


@pytest.mark.parametrize(
    "text, outcome",
    [
        ("1 IN (1, 2)", True),
        ("3 IN (1, 2)", False),
        ("3 NOT IN (1, 2)", True),
        ("1 NOT IN (1, 2)", False),
        ("1 IN (1, NULL)", True),
        ("3 IN (1, NULL)", None),
        ("3 NOT IN (1, NULL)", None),
        ("missing IN (1)", None),
        ("missing NOT IN (1)", None),
        ("3 IN (1, 'a')", None),
        ("'a' IN (1, 'a')", True),
        ("1 + 1 IN (missing, 4 / 2)", True),
    ],
)
def test_in_is_a_row_of_comparisons(text: str, outcome: bool | None) -> None:
    assert decided(text) is outcome


# --- arithmetic ---------------------------------------------------------------------------------------------------

ARITHMETIC: list[tuple[str, object]] = [
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("7 / -2", -3),
    ("-7 / -2", 3),
    ("7 % 3", 1),
    ("-7 % 3", -1),
    ("7 % -3", 1),
    ("-7 % -3", -1),
    ("-9223372036854775808 % -1", 0),
    ("1 - 2 - 3", -4),
    ("12 / 2 / 3", 2),
    ("2 + 3 * 4", 14),
    ("7 / 2.0", 3.5),
    ("1 + 0.5", 1.5),
    ("0.5 - 1", -0.5),
    ("0.5 * 4", 2.0),
    ("7.5 % 2", 1.5),
    ("-7.5 % 2", -1.5),
    ("1 / 0.0", math.inf),
    ("-1 / 0.0", -math.inf),
    ("1 / -0.0", -math.inf),
    ("1e308 * 10", math.inf),
    ("-(5)", -5),
    ("- -5", 5),
    ("+5", 5),
    ("-1.5", -1.5),
    ("'a' + 'b'", "ab"),
    ("-i", -5),
    ("-f", -1.5),
    ("u + 1", 8),
    ("f + i", 6.5),
    ("d + 1", Decimal("3.50")),
    ("d - 1", Decimal("1.50")),
    ("d * d", Decimal("6.2500")),
    ("d / 2", Decimal("1.25")),
    ("-d % 2", Decimal("-0.50")),
    ("+d", Decimal("2.50")),
    ("d + 0.5", 3.0),
    ("t - t", TimeSpan(0)),
    ("t + s - t", TimeSpan(50_000_000)),
    ("t - s + s", DateTime.of_ms(1_000)),
    ("s + s - s", TimeSpan(50_000_000)),
    ("-s", TimeSpan(-50_000_000)),
]
OPERANDS: dict[str, object] = {
    "i": Int(5),
    "u": UByte(7),
    "f": Float(1.5),
    "d": Decimal128.from_decimal(Decimal("2.50")),
    "t": Timestamp(1_000),
    "s": datetime.timedelta(seconds=5),
    "b": True,
    "x": b"x",
    "g": GUID,
    "text": "text",
    "list": [1],
}


@pytest.mark.parametrize("text, result", ARITHMETIC)
def test_arithmetic_is_that_of_c_sharp(text: str, result: object) -> None:
    value = computed(text, OPERANDS)
    assert value == result
    assert type(value) is type(result)


@pytest.mark.parametrize("text", ["0.0 / 0.0", "n / 0.0", "1.5 % 0.0", "h % 2", "h - h", "h * 0"])
def test_doubles_have_nan(text: str) -> None:
    value = computed(text, {"n": math.nan, "h": math.inf})
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("1 / 0", "1 / 0: division by zero"),
        ("1 % 0", "division by zero"),
        ("9223372036854775807 + 1", "beyond the range of a 64-bit integer"),
        ("-9223372036854775808 - 1", "beyond the range of a 64-bit integer"),
        ("9223372036854775807 * 2", "beyond the range of a 64-bit integer"),
        ("-9223372036854775808 / -1", "beyond the range of a 64-bit integer"),
        ("-(-9223372036854775808)", "beyond the range of a 64-bit integer"),
        ("'a' + 1", r"'a' \+ 1: \+ is not defined for string and integer"),
        ("'a' - 'b'", "- is not defined for string and string"),
        ("TRUE + 1", "not defined for boolean and integer"),
        ("1 + TRUE", "not defined for integer and boolean"),
        ("b * b", "not defined for boolean and boolean"),
        ("t + t", "not defined for DateTime and DateTime"),
        ("s - t", "not defined for TimeSpan and DateTime"),
        ("'a' + s", "not defined for string and TimeSpan"),
        ("s * 2", "not defined for TimeSpan and integer"),
        ("x + x", "not defined for bytes and bytes"),
        ("g + 'a'", "not defined for GUID and string"),
        ("list + 1", "not defined for value of another type and integer"),
        ("-'a'", "-'a': - is not defined for string"),
        ("+TRUE", "not defined for boolean"),
        ("-t", "not defined for DateTime"),
        ("d / (1 - 1)", "no decimal is the result"),
        ("p(1)", "the name must be a string, got 1"),
        ("newid()", "nothing here makes new ids"),
        ("t + @long", "outside the years 1 to 9999"),
        ("@long + @long", "beyond the range of a TimeSpan"),
        ("-@least", "beyond the range of a TimeSpan"),
    ],
)
def test_arithmetic_without_a_result_is_an_error(text: str, problem: str) -> None:
    ticks = {"long": 2**63 - 1, "least": -(2**63)}
    parameters: dict[str, object] = {
        name: Described(Symbol("com.microsoft:timespan"), value) for name, value in ticks.items()
    }
    with pytest.raises(RuleEvaluationError, match=problem):
        computed(text, OPERANDS, parameters)


@pytest.mark.parametrize("text", ["missing + 1", "1 - missing", "-missing", "NULL * 'a'", "p(missing)", "p('missing')"])
def test_arithmetic_with_unknown_is_unknown(text: str) -> None:
    assert computed(text) is None


def test_the_context_of_the_thread_does_not_change_decimals() -> None:
    number = Decimal(1234567890123456789012345678901234)
    with decimal.localcontext() as context:
        context.prec = 3
        user: dict[str, object] = {"d": Decimal128.from_decimal(number)}
        assert computed("-d", user) == number.copy_negate()
        assert computed("d + 0", user) == number


def test_a_string_that_is_put_together_has_a_limit() -> None:
    half = "x" * (MAX_COMPUTED_CHARACTERS // 2)
    assert computed("h + h", {"h": half}) == half * 2
    with pytest.raises(RuleEvaluationError, match="a string of 65537 characters, a rule makes at most 65536"):
        computed("h + h + 'x'", {"h": half})


def test_property_finds_a_user_property_by_a_computed_name() -> None:
    user: dict[str, object] = {"Color": "red", "which": "COL"}
    assert computed("property(which + 'or')", user) == "red"
    assert computed("p('sys.Label')", user) is None


def test_newid_asks_for_a_new_id_each_time() -> None:
    made = iter([uuid.UUID(int=1), uuid.UUID(int=2)])
    subject = Subject.of_values(new_id=lambda: next(made))
    assert parse("newid() <> newid()").evaluate(subject) is True


def test_parameters_have_their_types() -> None:
    parameters: dict[str, object] = {"t": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), "n": 5, "b": True}
    tree = parse("at > @t AND count = @n AND @b", parameters)
    assert tree.evaluate(Subject.of_values({}, {"at": Timestamp(1_800_000_000_000), "count": UInt(5)})) is True


def test_like_needs_strings_and_an_escape_of_one_character() -> None:
    user: dict[str, object] = {"a": "50%", "pattern": "%!%", "e": "!", "n": 5, "long": "x" * 1025}
    assert decided("a LIKE pattern ESCAPE e", user) is True
    assert decided("a NOT LIKE pattern ESCAPE e", user) is False
    for text in ("n LIKE '5'", "a LIKE n", "a LIKE missing", "missing LIKE 'x'", "a LIKE 'x' ESCAPE missing"):
        assert decided(text, user) is None
        assert decided(f"NOT {text}", user) is None
    for text, problem in (("ESCAPE n", "got 5"), ("ESCAPE a", "got '50%'")):
        with pytest.raises(RuleEvaluationError, match=problem):
            decided(f"a LIKE 'x' {text}", user)
    with pytest.raises(RuleEvaluationError, match="1025 characters, a pattern has at most 1024"):
        decided("a LIKE long", user)


@given(predicates, application_properties)
def test_every_expression_is_decided_or_refused(tree: Node, user: dict[str, object]) -> None:
    subject = Subject.of_values({"Label": "x", "EnqueuedTimeUtc": 5}, user, lambda: GUID)
    try:
        first = tree.evaluate(subject)
    except RuleEvaluationError:
        return
    assert first is None or isinstance(first, bool)
    assert tree.evaluate(subject) is first


@pytest.mark.parametrize(
    "value, text, name",
    [
        (None, "NULL", "null"),
        (True, "TRUE", "boolean"),
        ("it's", "'it''s'", "string"),
        ("x" * 200, f"'{'x' * 79}…'", "string"),
        (5, "5", "integer"),
        (1.5, "1.5", "double"),
        (Decimal("1.50"), "1.50", "decimal"),
        (b"\x01\xff", "0x01ff", "bytes"),
        (b"x" * 100, f"0x{'78' * 80}…", "bytes"),
        (GUID, str(GUID), "GUID"),
        (DateTime.of_ms(0), "1970-01-01T00:00:00Z", "DateTime"),
        (DateTime.of_ms(10**15), "1000000000000000 ms since 1970", "DateTime"),
        (TimeSpan(0), "00:00:00", "TimeSpan"),
        (TimeSpan(-(864_000_000_000 + 36_610_000_000 + 1)), "-1.01:01:01.0000001", "TimeSpan"),
        ([1], "[1]", "value of another type"),
    ],
)
def test_values_are_shown_to_people(value: object, text: str, name: str) -> None:
    assert shown(value) == text
    assert type_name(value) == name


def test_moments_and_spans_are_values() -> None:
    assert DateTime(5) == DateTime(5) != DateTime(6)
    assert TimeSpan(5) == TimeSpan(5) != TimeSpan(6)
    assert DateTime(5) != TimeSpan(5)
    assert len({DateTime(5), DateTime(5), TimeSpan(5), TimeSpan(5)}) == 2
    assert repr(DateTime.of_ms(0)) == "DateTime(1970-01-01T00:00:00Z)"
    assert repr(TimeSpan.of_ms(1_500)) == "TimeSpan(00:00:01.5000000)"
    assert TimeSpan.of_ms(2**62).ticks == 2**63 - 1


def test_a_decimal_that_a_dotnet_client_wrote_has_its_value() -> None:
    # 1.5 in the layout of Microsoft.Azure.Amqp.
    price = Decimal128(bytes.fromhex("0c3e000000000000000000000000000f"))
    assert decided("price = 1.5 AND price > 1", {"price": price}) is True
