"""Actions: what they change, and how it is written into a message."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal

import pytest
from hypothesis import given

from tandem.amqp.decode import decode_all
from tandem.amqp.encode import encode
from tandem.amqp.message import Message, Properties, encode_message
from tandem.amqp.sections import DATA
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
from tandem.rules import REMOVED, Changes, RuleEvaluationError, SqlAction, Subject, apply_changes
from tests.markers import mission
from tests.rules.strategies import application_properties

GUID = uuid.UUID(int=9)
TIMESPAN = Symbol("com.microsoft:timespan")


def changed(text: str, user: dict[str, object] | None = None, system: dict[str, object] | None = None) -> Changes:
    return SqlAction(text).apply(Subject.of_values(system or {}, user or {}, lambda: GUID))


def is_same(left: object, right: object) -> bool:
    """Equal in AMQP type too."""
    return encode(left) == encode(right)


@mission("M8")
def test_set_and_remove_change_user_properties() -> None:
    changes = changed("SET Priority = 1; SET color = 'blue'; REMOVE Draft", {"Color": "red", "draft": True})
    assert changes.user == {"Priority": 1, "Color": "blue", "draft": REMOVED}
    assert changes.system == {}
    assert changes


def test_statements_see_what_earlier_ones_did() -> None:
    changes = changed("SET a = a + 1; SET b = a * 2; REMOVE a; SET c = a; SET d = p('b'); SET e = 'x'", {"a": 1})
    assert changes.user == {"a": REMOVED, "b": 4, "c": None, "d": 4, "e": "x"}
    changes = changed("SET sys.Label = sys.Label + '!'; SET sys.To = sys.Label", {}, {"Label": "hey"})
    assert changes.system == {"label": "hey!", "to": "hey!"}
    assert changed("REMOVE a SET a = 5", {"A": 1}).user == {"A": 5}
    assert changed("SET a = 5 REMOVE a").user == {"a": REMOVED}


def test_an_action_that_fails_half_way_changes_nothing() -> None:
    subject = Subject.of_values({"Label": "l"}, {"a": 1, "s": "x"})
    with pytest.raises(RuleEvaluationError):
        SqlAction("SET a = 2; SET sys.Label = 'm'; REMOVE s; SET b = a / 0").apply(subject)
    assert (subject.user("a"), subject.system("label"), subject.user("s")) == (1, "l", "x")


def test_applying_an_action_leaves_the_message_as_it_is() -> None:
    subject = Subject.of_values({"Label": "l"}, {"a": 1})
    SqlAction("SET a = 2; SET sys.Label = 'm'; SET b = 1; REMOVE a").apply(subject)
    assert (subject.user("a"), subject.system("label"), subject.has_user("b")) == (1, "l", False)


@pytest.mark.parametrize(
    "before, value, after",
    [
        (UByte(1), "7", UByte(7)),
        (UByte(1), "256", 256),
        (UByte(1), "-1", -1),
        (UShort(1), "7", UShort(7)),
        (UShort(1), "65536", 65536),
        (UInt(1), "7", UInt(7)),
        (UInt(1), "4294967296", 4294967296),
        (ULong(1), "7", ULong(7)),
        (ULong(1), "-7", -7),
        (Byte(1), "-128", Byte(-128)),
        (Byte(1), "128", 128),
        (Short(1), "7", Short(7)),
        (Short(1), "32768", 32768),
        (Int(1), "7", Int(7)),
        (Int(1), "2147483648", 2147483648),
        (1, "7", 7),
        (1.5, "7", 7.0),
        (Float(1.5), "7", Float(7.0)),
        (Float(1.5), "2.5", Float(2.5)),
        (Float(1.5), "1e300", 1e300),
        (Float(1.5), "0.1", Float(0.10000000149011612)),
        (1.5, "2.5", 2.5),
        (1, "2.5", 2.5),
        (Decimal32.from_decimal(Decimal(1)), "7", Decimal32.from_decimal(Decimal(7))),
        (Decimal32.from_decimal(Decimal(1)), "12345678", Decimal128.from_decimal(Decimal(12345678))),
        (Decimal64.from_decimal(Decimal(1)), "7", Decimal64.from_decimal(Decimal(7))),
        (Decimal128.from_decimal(Decimal(1)), "7", Decimal128.from_decimal(Decimal(7))),
        (Decimal128.from_decimal(Decimal("1.5")), "a + 1", Decimal128.from_decimal(Decimal("2.5"))),
        (Symbol("s"), "'t'", Symbol("t")),
        (Symbol("s"), "'é'", "é"),
        (Char("s"), "'t'", Char("t")),
        (Char("s"), "'tu'", "tu"),
        (Described(Symbol("com.microsoft:uri"), "x:y"), "'x:z'", Described(Symbol("com.microsoft:uri"), "x:z")),
        (Timestamp(5), "at", Timestamp(9)),
        (Described(Symbol("com.microsoft:datetime-offset"), 5), "at", None),
        ("text", "7", 7),
        (7, "'text'", "text"),
        (True, "7", 7),
        (Timestamp(5), "7", 7),
        (None, "7", 7),
        (7, "NULL", None),
        (7, "TRUE", True),
        (7, "newid()", GUID),
        (7, "at - at", Described(TIMESPAN, 0)),
        (b"x", "7", 7),
    ],
)
def test_set_converts_to_the_type_that_the_property_has_where_it_can(before: object, value: str, after: object) -> None:
    if isinstance(before, Described) and before.descriptor == "com.microsoft:datetime-offset":
        after = Described(before.descriptor, 621_355_968_000_090_000)
    changes = changed(f"SET a = {value}", {"a": before, "at": Timestamp(9)})
    assert is_same(changes.user["a"], after), changes


@pytest.mark.parametrize(
    "value",
    [
        *[kind(5) for kind in (UByte, UShort, UInt, ULong, Byte, Short, Int, int, Timestamp)],
        *[Float(1.5), 1.5, True, None, "s", Symbol("s"), Char("s"), b"b", GUID],
        *[kind.from_decimal(Decimal(5)) for kind in (Decimal32, Decimal64, Decimal128)],
        *[Described(TIMESPAN, 5), Described(Symbol("a:b"), [1]), [1, "x"], {"a": 1}],
        ULong(2**64 - 1),
    ],
)
def test_a_copy_keeps_its_type(value: object) -> None:
    assert is_same(changed("SET b = a", {"a": value}).user["b"], value)


def test_values_of_python_are_written_in_types_of_amqp() -> None:
    user: dict[str, object] = {"t": datetime.datetime(1970, 1, 1, 0, 0, 1), "s": datetime.timedelta(1), "d": Decimal(5)}  # noqa: DTZ001
    changes = changed("SET a = t SET b = s SET c = d SET e = u + 0", {**user, "u": ULong(5)})
    assert is_same(changes.user["a"], Timestamp(1_000))
    assert is_same(changes.user["b"], Described(TIMESPAN, 864_000_000_000))
    assert is_same(changes.user["c"], Decimal128.from_decimal(Decimal(5)))
    assert is_same(changes.user["e"], 5)


def test_an_unsigned_number_beyond_the_signed_ones_stays_unsigned() -> None:
    assert is_same(changed("SET b = +a", {"a": ULong(2**64 - 1)}).user["b"], ULong(2**64 - 1))


def test_a_property_that_an_action_makes_has_one_spelling() -> None:
    assert changed("SET Color = 1 SET COLOR = 2 SET color = color + 1").user == {"Color": 3}
    assert changed("SET Color = 1 REMOVE COLOR").user == {"Color": REMOVED}
    assert changed("REMOVE Color SET COLOR = 1").user == {"Color": 1}


def test_later_statements_see_a_float_in_the_precision_that_is_written() -> None:
    changes = changed("SET f = 0.1 SET d = f + 0 SET f = 16777217 SET e = f + 0", {"f": Float(1.5)})
    assert (changes.user["d"], changes.user["e"]) == (0.10000000149011612, 16777216.0)


def test_a_decimal_that_cannot_be_written_fails_the_action() -> None:
    action = SqlAction("SET d = @long", {"long": Decimal("1." + "1" * 40)})
    with pytest.raises(RuleEvaluationError, match=r"^d: "):
        action.apply(Subject.of_values())


def test_names_that_differ_in_case_only_become_one() -> None:
    user: dict[str, object] = {"Color": 1, "color": 2, "COLOR": 3}
    assert changed("SET color = 5", user).user == {"Color": 5, "color": REMOVED, "COLOR": REMOVED}
    assert changed("REMOVE color", user).user == {"Color": REMOVED, "color": REMOVED, "COLOR": REMOVED}


@pytest.mark.parametrize(
    "name", ["CorrelationId", "ContentType", "Label", "To", "ReplyTo", "SessionId", "PartitionKey"]
)
def test_text_properties_of_the_system_can_be_set_and_removed(name: str) -> None:
    (key,) = changed(f"SET sys.{name} = 'x'").system
    assert changed(f"SET sys.{name} = 'x'").system == {key: "x"}
    assert changed(f"SET sys.{name} = newid()").system == {key: str(GUID)}
    assert changed(f"SET sys.{name} = missing").system == {key: None}
    assert changed(f"REMOVE sys.{name}").system == {key: None}
    with pytest.raises(RuleEvaluationError, match=f"sys.{name} must be a string, got the integer 5"):
        changed(f"SET sys.{name} = 5")


def test_times_of_the_system_can_be_set_in_milliseconds() -> None:
    system: dict[str, object] = {"TimeToLive": 60_000, "EnqueuedTimeUtc": 5_000}
    changes = changed(
        "SET sys.TimeToLive = sys.TimeToLive + sys.TimeToLive"
        " SET sys.ScheduledEnqueueTimeUtc = sys.EnqueuedTimeUtc + sys.TimeToLive",
        {},
        system,
    )
    assert changes.system == {"time_to_live_ms": 120_000, "scheduled_enqueue_time_ms": 125_000}
    changes = changed("REMOVE sys.TimeToLive; REMOVE sys.ScheduledEnqueueTime", {}, system)
    assert changes.system == {"time_to_live_ms": None, "scheduled_enqueue_time_ms": None}


@pytest.mark.parametrize(
    "text, problem",
    [
        ("SET sys.MessageId = NULL", "sys.MessageId cannot be null"),
        ("REMOVE sys.MessageId", "sys.MessageId cannot be null, and cannot be removed"),
        ("SET sys.MessageId = long", "sys.MessageId has at most 128 characters, got 129"),
        ("SET sys.SessionId = long", "sys.SessionId has at most 128 characters"),
        ("SET sys.PartitionKey = long", "sys.PartitionKey has at most 128 characters"),
        ("SET sys.ContentType = 'é'", "sys.ContentType must be in ASCII"),
        ("SET sys.TimeToLive = 5", "sys.TimeToLive must be a TimeSpan, got the integer 5"),
        ("SET sys.TimeToLive = sys.EnqueuedTimeUtc", "sys.TimeToLive must be a TimeSpan, got the DateTime"),
        ("SET sys.TimeToLive = sys.EnqueuedTimeUtc - sys.EnqueuedTimeUtc", "sys.TimeToLive must be positive"),
        ("SET sys.ScheduledEnqueueTimeUtc = never", "sys.ScheduledEnqueueTimeUtc must be in the years 1 to 9999"),
        ("SET sys.ScheduledEnqueueTimeUtc = 'x'", "sys.ScheduledEnqueueTimeUtc must be a DateTime, got the string 'x'"),
    ],
)
def test_a_value_that_a_system_property_cannot_have_fails_the_action(text: str, problem: str) -> None:
    with pytest.raises(RuleEvaluationError, match=problem):
        changed(text, {"long": "x" * 129, "never": Timestamp(2**62)}, {"EnqueuedTimeUtc": 5_000})


def test_an_action_keeps_its_text_and_prints_its_statements() -> None:
    action = SqlAction("set a=@x remove b", {"x": 5})
    assert (action.expression, action.parameters) == ("set a=@x remove b", {"x": 5})
    assert str(action) == "SET a = @x; REMOVE b"
    assert repr(action) == "SqlAction('set a=@x remove b')"
    assert action.apply(Subject.of_values()).user == {"a": 5, "b": REMOVED}


# --- written into a message ---------------------------------------------------------------------------------------

PROPERTIES = Properties(
    GUID, b"u", "to", "label", "reply", 5, "text/plain", "gzip", 1_000, 2_000, "session", 7, "reply-session"
)
BODIES = {
    "data": encode_message(data=[b"one", b"", b"x" * 300]),
    "value": encode_message(value={"a": [1, None]}),
    "sequence": encode_message(sequence=[1, "x"]),
    "nothing": b"",
    # An amqp-value that no decoder could read: a map whose size is right and whose content is not.
    "unreadable": b"\x00\x53\x77\xc1\x03\x02\xff\xff",
}
FOOTER = encode_message(footer={"x-opt-check": b"\x00"})


def written(bare: bytes, text: str) -> bytes:
    return apply_changes(bare, SqlAction(text).apply(Subject.of_message(bare, new_id=lambda: GUID)))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_changes_are_written_into_the_message_and_its_body_is_not_touched(body: bytes) -> None:
    head = encode_message(properties=PROPERTIES, application_properties={"a": UByte(1), "keep": Float(1.5), "b": "x"})
    bare = written(
        head + body + FOOTER,
        "SET a = 2 REMOVE b SET new = 'n' SET sys.Label = 'changed' REMOVE sys.To SET sys.PartitionKey = 'k'",
    )
    assert bare.endswith(body + FOOTER)
    message = Message(bare)
    assert message.sections.is_canonical
    assert message.application_properties == {"keep": 1.5, "a": 2, "new": "n"}
    assert type(message.application_properties["a"]) is UByte
    assert type(message.application_properties["keep"]) is Float
    expected = Properties(
        GUID, b"u", None, "changed", "reply", 5, "text/plain", "gzip", 1_000, 2_000, "session", 7, "reply-session"
    )
    assert message.properties == expected


def test_every_text_property_is_written_into_its_field() -> None:
    names = ("MessageId", "CorrelationId", "ContentType", "Label", "To", "ReplyTo", "SessionId", "ReplyToSessionId")
    bare = written(BODIES["data"], " ".join([f"SET sys.{name} = '{name}'" for name in names]))
    message = Message(bare)
    assert message.data_sections == [b"one", b"", b"x" * 300]
    expected = Properties(
        message_id="MessageId",
        correlation_id="CorrelationId",
        content_type="ContentType",
        subject="Label",
        to="To",
        reply_to="ReplyTo",
        group_id="SessionId",
        reply_to_group_id="ReplyToSessionId",
    )
    assert message.properties == expected
    subject = Subject.of_message(bare)
    assert [subject.system(name.lower()) for name in names] == list(names)


def test_sections_that_are_missing_are_put_where_they_belong() -> None:
    only_user = encode_message(application_properties={"a": 1}, data=b"x")
    both = written(only_user, "SET sys.Label = 'l'")
    assert both == encode_message(properties=Properties(subject="l"), application_properties={"a": 1}, data=b"x")
    only_properties = encode_message(properties=Properties("m"), data=b"x")
    both = written(only_properties, "SET a = 1")
    assert both == encode_message(properties=Properties("m"), application_properties={"a": 1}, data=b"x")
    nothing = encode_message(data=b"x")
    both = written(nothing, "SET a = 1 SET sys.Label = 'l'")
    assert both == encode_message(properties=Properties(subject="l"), application_properties={"a": 1}, data=b"x")


def test_the_last_user_property_takes_its_section_with_it() -> None:
    bare = encode_message(properties=Properties("m"), application_properties={"a": 1}, data=b"x")
    assert written(bare, "REMOVE a") == encode_message(properties=Properties("m"), data=b"x")


def test_changes_outside_the_bare_message_leave_it_as_it_is() -> None:
    # Nothing is decoded that is not changed: these properties could not be.
    bare = b"\x00\x53\x73\xc0\x02\x01\x41" + encode_message(data=b"x")
    changes = Changes()
    changes.system = {"time_to_live_ms": 5_000, "scheduled_enqueue_time_ms": None, "partition_key": "k"}
    assert apply_changes(bare, changes) == bare
    assert apply_changes(bare, Changes()) == bare
    assert not Changes()


def test_a_message_that_cannot_be_changed_is_an_error_of_evaluation() -> None:
    changes = Changes()
    changes.system["label"] = "x"
    with pytest.raises(RuleEvaluationError, match=r"cannot be written into the message: properties\.message-id"):
        apply_changes(b"\x00\x53\x73\xc0\x02\x01\x41", changes)
    changes = Changes()
    changes.user["a"] = 2**70
    changes.system["time_to_live_ms"] = 5
    with pytest.raises(RuleEvaluationError, match="cannot be written into the message"):
        apply_changes(b"", changes)


def test_changes_can_be_compared_and_shown() -> None:
    first, second = changed("SET a = 1 REMOVE b"), changed("SET a = 1 REMOVE b")
    assert first == second
    assert hash(first) == hash(second)
    assert first != changed("SET a = 2")
    assert first != "changes"
    assert repr(first) == "Changes(user={'a': 1, 'b': REMOVED}, system={})"


@given(application_properties)
def test_what_was_not_named_keeps_its_bytes(user: dict[str, object]) -> None:
    bare = encode_message(application_properties=user, data=b"body")
    after = Message(written(bare, "SET unheard = 1 REMOVE never"))
    properties = after.application_properties
    assert properties is not None
    assert properties.pop("unheard") == 1
    assert encode(properties) == encode(Message(bare).application_properties or {})
    assert after.sections.raw(DATA) == encode_message(data=b"body")
    assert decode_all(encode(properties)) is not None
