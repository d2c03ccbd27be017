"""The fuzz target of `tandem.rules`: a rule, a message, and whether what is said about the two agrees.

The input is the length of a message in one byte, the message, and a rule. The rule is read twice: as text, in which
each byte from 0x80 on stands for a word of the language, and as choices between the constructs of the language. The
message is read as one, and as choices of values for the properties that the rules name.
"""

from __future__ import annotations

import json
import uuid
from typing import Final

from tandem.amqp.encode import encode
from tandem.amqp.message import Message, Properties, encode_message
from tandem.amqp.types import Decimal128, Described, Float, Int, Symbol, Timestamp, UByte, ULong
from tandem.errors import EncodeError
from tandem.limits import MAX_EXPRESSION_CHARACTERS
from tandem.rules import (
    REMOVED,
    Changes,
    RuleEvaluationError,
    RuleSyntaxError,
    SqlAction,
    SqlFilter,
    Subject,
    apply_changes,
    explain,
    parse,
    parse_statements,
)
from tandem.rules.like import Pattern
from tandem.rules.values import fold, rule_value, typed_key
from tests.fuzz.promises import promise
from tests.fuzz.reader import Reader

__all__ = ["BARE", "WORDS", "fuzz_rules", "input_of", "text_of"]

WORDS: Final = (
    *(
        " AND ",
        " OR ",
        " NOT ",
        " IN (",
        " IS NULL",
        " IS NOT NULL",
        " LIKE ",
        " ESCAPE ",
        " EXISTS(",
        " TRUE ",
        " FALSE ",
    ),
    *(" NULL ", " = ", " <> ", " != ", " >= ", " <= ", " < ", " > ", " + ", " - ", " * ", " / ", " % ", "(", ")", ", "),
    *("; ", " SET ", " REMOVE ", "sys.", "user.", "newid()", "property(", "p(", "@s", "@i", "@t", "@none"),
    *("text", "integer", "double", "decimal", "flag", "nothing", "guid", "moment", "span", "list", "missing", "[a b]"),
    *("MessageId", "Label", "To", "SessionId", "TimeToLive", "ScheduledEnqueueTimeUtc", "EnqueuedTimeUtc", "Size"),
    *(
        "'x'",
        "'%a_'",
        "'!'",
        "''",
        "'it''s'",
        "1",
        "0",
        "-1",
        "9223372036854775807",
        "1.5",
        "1e308",
        ".5",
        '"q"',
        "é",
        "ß",
    ),
)
_FIRST_WORD: Final = 0x80

_OPERANDS: Final = (
    *("text", "integer", "small", "big", "double", "single", "decimal", "flag", "Nothing", "guid", "moment", "span"),
    *("list", "[a b]", "missing", "sys.Label", "sys.TimeToLive", "sys.EnqueuedTimeUtc", "sys.Size", "newid()"),
    *("@s", "@i", "@t", "@none", "1", "0", "-1", "9223372036854775807", "1.5", "-0.0", "'x'", "'%'", "'text'", "TRUE"),
    *("NULL", "''"),
)
_ESCAPES: Final = ("'!'", "'x'", "text", "@none", "'ab'", "integer")
_SETTABLE: Final = (
    *("text", "integer", "small", "big", "single", "decimal", "moment", "[A B]", "new", "missing", "list", "flag"),
    *(
        "sys.MessageId",
        "sys.Label",
        "sys.ContentType",
        "sys.SessionId",
        "sys.TimeToLive",
        "sys.ScheduledEnqueueTimeUtc",
    ),
)

_PARAMETERS: Final[dict[str, object]] = {
    "s": "a%",
    "i": 5,
    "t": Described(Symbol("com.microsoft:timespan"), 2**62),
    "none": None,
}
_GUID: Final = uuid.UUID(int=5)
_BODY: Final = b"\x00\x53\x75\xa0\x04body"
# A property of every type that rules know, and one that they do not.
BARE: Final = (
    encode_message(
        properties=Properties("m", b"u", "to", "label", "reply", 5, "text/plain", None, 1, 2, "session", 3, "rs"),
        application_properties={
            "text": "xax",
            "integer": Int(-7),
            "big": ULong(2**64 - 1),
            "small": UByte(255),
            "double": 2.5,
            "single": Float(0.1),
            "decimal": Decimal128(bytes(16)),
            "flag": True,
            "Nothing": None,
            "guid": _GUID,
            "moment": Timestamp(10**12),
            "span": Described(Symbol("com.microsoft:timespan"), -5),
            "list": Described(Symbol("a:b"), [1, [2]]),
            "a b": Symbol("s"),
            "A B": b"\x00",
        },
    )
    + _BODY
)


def text_of(data: bytes) -> str:
    return "".join(
        [WORDS[(octet - _FIRST_WORD) % len(WORDS)] if octet >= _FIRST_WORD else chr(octet) for octet in data]
    )


def input_of(text: str, message: bytes = b"") -> bytes:
    """The input that is this rule, written out, and this message."""
    return bytes((len(message),)) + message + text.encode("ascii")


class _Writer:
    """Writes rules that are in the language, from bytes that choose: the text alone seldom is."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def filter(self) -> str:
        return self._predicate(0)

    def action(self) -> str:
        return self.reader.pick(("; ", " ")).join([self._statement() for _ in range(1 + self.reader.below(4))])

    def _statement(self) -> str:
        target = self.reader.pick(_SETTABLE)
        return f"SET {target} = {self._value(0)}" if self.reader.below(4) else f"REMOVE {target}"

    def _predicate(self, depth: int) -> str:
        choice = self.reader.below(12)
        if depth < 5 and choice >= 8:
            if choice == 8:
                return f"NOT {self._predicate(depth + 1)}"
            if choice == 9:
                return f"({self._predicate(depth + 1)})"
            operator = " AND " if choice == 10 else " OR "
            return operator.join([self._predicate(depth + 1) for _ in range(2 + self.reader.below(2))])
        left = self._value(depth)
        if choice < 3:
            return f"{left} {self.reader.pick(('=', '<>', '<', '<=', '>', '>='))} {self._value(depth)}"
        negated = self.reader.pick(("", "NOT "))
        if choice == 3:
            return f"{left} IS {negated}NULL"
        if choice == 4:
            members = ", ".join([self._value(depth) for _ in range(1 + self.reader.below(3))])
            return f"{left} {negated}IN ({members})"
        if choice == 5:
            return f"{left} {negated}LIKE {self._value(depth)}"
        if choice == 6:
            pattern = self.reader.pick(("'%x_x%'", "text", "'!%!!'", "@s", "'_%'"))
            return f"{left} {negated}LIKE {pattern} ESCAPE {self.reader.pick(_ESCAPES)}"
        return self.reader.pick(("flag", "EXISTS(nothing)", "EXISTS(sys.Label)", "TRUE", "NULL", "p(text)", "@none"))

    def _value(self, depth: int) -> str:
        choice = self.reader.below(16)
        if depth >= 5 or choice < 10:
            return self.reader.pick(_OPERANDS)
        if choice == 10:
            return f"{self.reader.pick('+-')}{self._value(depth + 1)}"
        if choice == 11:
            return f"property({self._value(depth + 1)})"
        if choice == 12:
            return f"({self._value(depth + 1)})"
        return f"{self._value(depth + 1)} {self.reader.pick('+-*/%')} {self._value(depth + 1)}"


def fuzz_rules(data: bytes) -> None:
    """Only errors of rules escape; a rule prints as itself; what is explained is what is decided; bodies stay."""
    size = data[0] if data else 0
    message, rest = data[1 : 1 + size], data[1 + size :]
    text = text_of(rest)
    written = _Writer(Reader(rest))
    payloads = (BARE, message, _message_of(Reader(message)))
    for rule in (text, written.filter()):
        _try_filter(rule, payloads, rule is not text)
    for rule in (text, written.action()):
        _try_action(rule, payloads, rule is not text)
    _like(text_of(message)[:40], text[:24])


def _message_of(reader: Reader) -> bytes:
    """The properties that the writer names, with values of any type."""
    values = {name: reader.value() for name in ("text", "integer", "double", "flag", "A b", "list")}
    try:
        return encode_message(application_properties=values) + _BODY
    except EncodeError:
        return b""


def _subject(payload: bytes) -> Subject:
    return Subject.of_message(payload, time_to_live_ms=5, enqueued_time_ms=6, sequence_number=7, new_id=lambda: _GUID)


def _try_filter(text: str, payloads: tuple[bytes, ...], is_valid: bool) -> None:
    try:
        filter_ = SqlFilter(text, _PARAMETERS)
    except RuleSyntaxError as error:
        _check_refusal(error, text, is_valid)
        return
    printed = str(filter_.tree)
    if len(printed) <= MAX_EXPRESSION_CHARACTERS:
        promise(parse(printed, _PARAMETERS) == filter_.tree, f"{text!r} is printed as {printed!r}")
    for payload in payloads:
        _decide(filter_, _subject(payload))


def _try_action(text: str, payloads: tuple[bytes, ...], is_valid: bool) -> None:
    try:
        action = SqlAction(text, _PARAMETERS)
    except RuleSyntaxError as error:
        _check_refusal(error, text, is_valid)
        return
    printed = str(action)
    if len(printed) <= MAX_EXPRESSION_CHARACTERS:
        again = parse_statements(printed, _PARAMETERS)
        promise(again == action.statements, f"{text!r} is printed as {printed!r}")
    for payload in payloads:
        _act(action, _subject(payload), payload)


def _check_refusal(error: RuleSyntaxError, text: str, is_valid: bool) -> None:
    """What is in the language is refused for a limit, or for a LIKE that could never work."""
    is_expected = len(text) > MAX_EXPRESSION_CHARACTERS or "ESCAPE" in error.problem or "LIKE" in error.problem
    promise(is_expected or not is_valid, f"{text!r} is refused: {error}")
    promise(0 <= error.position <= len(text), f"a mistake at {error.position} of {len(text)} characters")
    line, caret = str(error).split("\n")[-2:]
    promise(caret.strip() == "^" and len(caret) <= len(line) + 1, f"a caret that points nowhere: {error}")


def _decide(filter_: SqlFilter, subject: Subject) -> None:
    explanation = explain(filter_, subject)
    json.dumps(explanation.to_dict(), allow_nan=False)
    promise(bool(explanation.lines()), "an explanation without a word")
    try:
        is_match = filter_.matches(subject)
    except RuleEvaluationError:
        promise(explanation.outcome == "error", f"an error is explained as {explanation}")
    else:
        promise(explanation.is_match is is_match, f"{is_match} is explained as {explanation}")


def _act(action: SqlAction, subject: Subject, bare: bytes) -> None:
    json.dumps(explain(action, subject).to_dict(), allow_nan=False)
    try:
        changes = action.apply(subject)
        promise(_is_equal(action.apply(subject), changes), "an action changed the message that it looked at")
        changed = apply_changes(bare, changes)
    except RuleEvaluationError:
        return
    promise(_body(bare) == _body(changed), "an action changed a body")
    reread = Subject.of_message(changed)
    for name, raw in changes.user.items():
        if raw is REMOVED:
            promise(name not in (Message(changed).application_properties or {}), f"{name} is still there")
        else:
            promise(reread.has_user(fold(name)), f"{name} is not there")
            value = typed_key(rule_value(raw))
            promise(typed_key(reread.user(fold(name))) == value, f"{name} is not {value!r:.80}")


def _body(bare: bytes) -> bytes:
    sections = Message(bare).sections
    return sections.raw(sections.body_code) if sections.body_code else b""


def _is_equal(left: Changes, right: Changes) -> bool:
    """By what is written, since a NaN is not equal to itself."""
    return left.system == right.system and _written(left) == _written(right)


def _written(changes: Changes) -> bytes:
    return encode({name: "(removed)" if raw is REMOVED else raw for name, raw in changes.user.items()})


def _like(text: str, pattern: str) -> None:
    promise(Pattern(pattern).matches(text) == _matches(text, pattern), f"{text!r} LIKE {pattern!r}")


def _matches(text: str, pattern: str) -> bool:
    """Which beginnings of the text the pattern matches, one character of the pattern after the other."""
    reached = {0}
    for letter in pattern:
        if letter == "%":
            reached = set(range(min(reached), len(text) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(text) and letter in ("_", text[at])}
    return len(text) in reached
