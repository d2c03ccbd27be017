"""Rules on their way through Atom: whatever went in comes out, in value and in type."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.engine.rule import Rule
from tandem.management.atom.rules import read_rule_xml, rule_xml
from tandem.management.atom.xml import read_xml
from tandem.store.connection import connect
from tandem.store.sqlite import DATABASE_NAME
from tests.management.atom.documents import INSTANCE, SERVICE_BUS, put
from tests.management.http_api import Http, Reply, serving
from tests.markers import mission

SCHEMA: Final = "http://www.w3.org/2001/XMLSchema"
SERIALIZATION: Final = "http://schemas.microsoft.com/2003/10/Serialization/"
RULE: Final = "/t/subscriptions/s/rules/r"

Value = tuple[str, str]

# --- strategies -----------------------------------------------------------------------------------------------------

# What XML can write, with blanks and ends of lines at any place.
TEXTS: Final = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")) | st.sampled_from("\t\n\r "))
NAMES: Final = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True)
ENDS: Final = st.text(st.sampled_from(" \t\n\r"), max_size=3)


def integers(kind: str, bits: int) -> st.SearchStrategy[Value]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1).map(lambda number: (kind, str(number)))


FRACTIONS: Final = st.from_regex(r"(\.[0-9]{1,7})?", fullmatch=True)
MOMENTS: Final = st.tuples(
    # Not of the first and the last year: a zone could move it beyond what a dateTime can say.
    st.datetimes()
    .filter(lambda moment: 1 < moment.year < 9_999)
    .map(lambda moment: moment.isoformat(timespec="seconds")),
    FRACTIONS,
    st.sampled_from(["", "Z", "+02:00", "-11:30"]),
).map(lambda parts: ("dateTime", "".join(parts)))
DURATIONS: Final = st.from_regex(
    r"-?P([0-9]{1,5}D)?T[0-9]{1,2}H([0-9]{1,2}M)?([0-9]{1,2}(\.[0-9]{1,7})?S)?", fullmatch=True
)
VALUES: Final[st.SearchStrategy[Value]] = st.one_of(
    TEXTS.map(lambda text: ("string", text)),
    integers("int", 32),
    integers("long", 64),
    integers("short", 16),
    integers("byte", 8),
    st.integers(0, (1 << 64) - 1).map(lambda number: ("unsignedLong", str(number))),
    st.sampled_from([("int", text) for text in ("+5", " 7 ", "007")]),
    st.sampled_from([("boolean", text) for text in ("true", "false", "1", "0")]),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda number: ("double", repr(number))),
    st.sampled_from([("double", text) for text in ("3", "3.0", "2.50", "1E5", "INF", "-INF")]),
    st.sampled_from([("float", text) for text in ("1.5", "-.5", "1e-3")]),
    TEXTS.map(lambda text: ("anyURI", text)),
    MOMENTS,
    DURATIONS.map(lambda text: ("duration", text)),
)
PAIRS: Final = st.dictionaries(NAMES.map(str.lower), VALUES, max_size=4)
EXPRESSIONS: Final = st.tuples(ENDS, st.sampled_from(["1 = 1", "1=1", "a = @a", "sys.Label LIKE 'x%'"]), ENDS).map(
    "".join
)


# --- documents ------------------------------------------------------------------------------------------------------


def written(text: str) -> str:
    return escape(text, {"\r": "&#13;"})


def pairs_xml(name: str, pairs: dict[str, Value]) -> str:
    inner = "".join(
        f"<KeyValueOfstringanyType><Key>{key}</Key>"
        f'<Value i:type="x:{kind}" xmlns:x="{SCHEMA}">{written(text)}</Value></KeyValueOfstringanyType>'
        for key, (kind, text) in pairs.items()
    )
    return f"<{name}>{inner}</{name}>"


def sql_xml(element: str, kind: str, expression: str, pairs: dict[str, Value]) -> str:
    inner = f"<SqlExpression>{written(expression)}</SqlExpression>{pairs_xml('Parameters', pairs)}"
    return f'<{element} i:type="{kind}">{inner}</{element}>'


def correlation_xml(texts: dict[str, str], pairs: dict[str, Value]) -> str:
    inner = "".join(f"<{name}>{written(text)}</{name}>" for name, text in texts.items())
    return f'<Filter i:type="CorrelationFilter">{inner}{pairs_xml("Properties", pairs)}</Filter>'


def document(content: str) -> str:
    return (
        f'<RuleDescription xmlns="{SERVICE_BUS[1:-1]}" xmlns:i="{INSTANCE[1:-1]}">{content}'
        "<Name>r</Name></RuleDescription>"
    )


def parts(element: ET.Element, name: str) -> tuple[str, dict[str, str], dict[str, Value]]:
    """Return the type of a filter or an action, its texts, and its values with their types."""
    part = element.find(f".//{SERVICE_BUS}{name}")
    assert part is not None
    texts: dict[str, str] = {}
    values: dict[str, Value] = {}
    for child in part:
        local = child.tag.removeprefix(SERVICE_BUS)
        if local not in {"Parameters", "Properties"}:
            texts[local] = child.text or ""
        for pair in child.findall(f"{SERVICE_BUS}KeyValueOfstringanyType"):
            value = pair.find(f"{SERVICE_BUS}Value")
            assert value is not None
            kind = value.get(f"{INSTANCE}type", "").removeprefix("d6p1:")
            values[pair.findtext(f"{SERVICE_BUS}Key") or ""] = kind, value.text or ""
    return part.get(f"{INSTANCE}type", ""), texts, values


def through_the_store(content: str) -> ET.Element:
    """Return the document of a rule that was read from another, stored, and restored."""
    rule = read_rule_xml("r", read_xml(document(content).encode()), 0)
    stored = json.loads(json.dumps(rule.stored_fields()))
    return ET.fromstring(rule_xml(Rule.from_fields("r", stored, 0)))


# --- any rule -------------------------------------------------------------------------------------------------------


@mission("M8")
@given(EXPRESSIONS, PAIRS, PAIRS)
@example("1 = 1", {}, {})
@example(" a = @a ", {"a": ("long", "3"), "b": ("double", "3"), "c": ("dateTime", "2020-07-05T11:12:13")}, {})
@example("a = @a", {"a": ("dateTime", "2026-01-31T12:00:00.1234567Z")}, {"a": ("int", "3")})
def test_an_sql_rule_comes_out_as_it_went_in(expression: str, given: dict[str, Value], acts: dict[str, Value]) -> None:
    given = {"@a": ("int", "1"), **{f"@{name}": value for name, value in given.items()}}
    acts = {f"@{name}": value for name, value in acts.items()}
    statement = " SET Priority = 1 ;\n"
    came = through_the_store(
        sql_xml("Filter", "SqlFilter", expression, given) + sql_xml("Action", "SqlRuleAction", statement, acts)
    )
    level = {"CompatibilityLevel": "20"}
    assert parts(came, "Filter") == ("SqlFilter", {"SqlExpression": expression, **level}, given)
    assert parts(came, "Action") == ("SqlRuleAction", {"SqlExpression": statement, **level}, acts)


@mission("M8")
@given(
    st.dictionaries(
        st.sampled_from(
            ["CorrelationId", "MessageId", "To", "ReplyTo", "Label", "SessionId", "ReplyToSessionId", "ContentType"]
        ),
        TEXTS.filter(bool),
        min_size=1,
    ),
    PAIRS,
)
def test_a_correlation_rule_comes_out_as_it_went_in(texts: dict[str, str], given: dict[str, Value]) -> None:
    came = through_the_store(correlation_xml(texts, given))
    assert parts(came, "Filter") == ("CorrelationFilter", texts, given)


@mission("M8")
@pytest.mark.parametrize("kind, expression", [("TrueFilter", "1=1"), ("FalseFilter", "1=0")])
def test_the_simplest_filters_keep_their_kind(kind: str, expression: str) -> None:
    came = through_the_store(sql_xml("Filter", kind, expression, {}))
    assert parts(came, "Filter")[:2] == (kind, {"SqlExpression": expression, "CompatibilityLevel": "20"})


@pytest.mark.parametrize("text", ["-9223372036854775808", "2147483648"])
def test_an_int_of_64_bits_stays_an_int(text: str) -> None:
    """The SDK of Go calls every integer an int, and cannot read a long; that of Python does so below 32 bits."""
    came = through_the_store(sql_xml("Filter", "SqlFilter", "a = @a", {"@a": ("int", text)}))
    assert parts(came, "Filter")[2] == {"@a": ("int", text)}


@pytest.mark.parametrize(
    "kind, text, words",
    [
        ("int", "9223372036854775808", "it must be from -9223372036854775808 to 9223372036854775807"),
        ("unsignedLong", "-1", "it must be from 0 to 18446744073709551615"),
        ("long", "1_0", "it must be a whole number"),
        ("double", "1_0", "it must be a number"),
        ("double", "nan", "it must be a number"),
        ("boolean", "yes", "it must be true or false"),
        ("dateTime", "2026-01-31", "it must be a date such as"),
        ("dateTime", "2026-02-30T00:00:00Z", "it must be a date of the years 1 to 9999"),
        ("dateTime", "0001-01-01T00:00:00+01:00", "it must be a date of the years 1 to 9999"),
        ("duration", "1 day", "it must be a duration such as PT1M"),
        ("int", " " * 100 + "1", "a int has at most 100"),
        ("decimal", "1", "it must be string, int, long, boolean, double, dateTime or duration"),
    ],
)
async def test_a_value_that_is_not_of_its_type_is_refused(http: Http, kind: str, text: str, words: str) -> None:
    await make_subscription(http)
    reply = await put(http, RULE, "RuleDescription", sql_xml("Filter", "SqlFilter", "a = @a", {"@a": (kind, text)}))
    assert reply.status == 400
    assert words in reply.detail
    assert "Parameters.@a" in reply.detail


# --- through a broker -----------------------------------------------------------------------------------------------


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[Http]:
    async with serving(tmp_path / "data") as http:
        yield http


async def make_subscription(http: Http) -> None:
    await put(http, "/t", "TopicDescription")
    await put(http, "/t/subscriptions/s", "SubscriptionDescription")


def rule_of(reply: Reply) -> tuple[str, dict[str, str], dict[str, Value]]:
    return parts(ET.fromstring(reply.body), "Filter")


@mission("M8")
async def test_a_rule_is_the_same_after_a_restart_and_when_it_is_sent_back(tmp_path: Path) -> None:
    values = {
        "@long": ("long", "3"),
        "@double": ("double", "3"),
        "@date": ("dateTime", "2020-07-05T11:12:13"),
        "@ticks": ("dateTime", "2020-07-05T11:12:13.1234567Z"),
        "@span": ("duration", "P1DT2H3M"),
    }
    expected = ("SqlFilter", {"SqlExpression": " 1 = 1 ", "CompatibilityLevel": "20"}, values)
    async with serving(tmp_path / "data") as http:
        await make_subscription(http)
        created = await put(http, RULE, "RuleDescription", sql_xml("Filter", "SqlFilter", " 1 = 1 ", values))
        assert (created.status, rule_of(created)) == (201, expected)
        # The recordings of the service have the type duration in the namespace of .NET's serializer.
        assert created.body.count(f'i:type="d6p1:duration" xmlns:d6p1="{SERIALIZATION}"'.encode()) == 1
    async with serving(tmp_path / "data") as http:
        found = await http.ask("GET", RULE)
        assert rule_of(found) == expected
        again = await http.ask("PUT", RULE, found.body, {"If-Match": "*"})
        assert (again.status, rule_of(again)) == (200, expected)
        await http.send("t")
        assert http.subqueue("t/Subscriptions/s").active_count == 1


async def test_rules_that_an_older_broker_stored_are_read(tmp_path: Path) -> None:
    """The fields are those of the commit before this one, which stored values without how they were written."""
    async with serving(tmp_path / "data") as http:
        await make_subscription(http)
        await put(http, RULE, "RuleDescription", sql_xml("Filter", "SqlFilter", "a = @a", {"@a": ("int", "1")}))
    old = {
        "filter": {
            "kind": "sql",
            "expression": "a = @n OR b = @d",
            "parameters": {"@n": 3, "@d": {"datetime": 637_295_515_330_000_001}, "@t": {"timespan": 10_000_000}},
        },
        "action": None,
    }
    with contextlib.closing(connect(tmp_path / "data" / DATABASE_NAME)) as database:
        database.execute("UPDATE rule SET fields = ? WHERE name = 'r'", (json.dumps(old),))
    async with serving(tmp_path / "data") as http:
        kind, texts, values = rule_of(await http.ask("GET", RULE))
        assert (kind, texts["SqlExpression"]) == ("SqlFilter", "a = @n OR b = @d")
        assert values == {
            "@n": ("int", "3"),
            "@d": ("dateTime", "2020-07-05T13:12:13.0000001Z"),
            "@t": ("duration", "PT0H0M1S"),
        }
