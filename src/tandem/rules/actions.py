"""Actions: what a rule changes in the copy of a message that it selected.

Statements run one after the other, and later ones see what earlier ones did. They work on a draft, so that an action
that fails half way has changed nothing.
"""

from __future__ import annotations

import decimal
import struct
import uuid
from collections.abc import Mapping
from typing import Final

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
from tandem.errors import EncodeError
from tandem.limits import MAX_ID_CHARACTERS
from tandem.rules.changes import REMOVED, Changes
from tandem.rules.errors import RuleEvaluationError
from tandem.rules.expressions import Node, SystemProperty, UserProperty
from tandem.rules.parser import Assignment, parse_statements
from tandem.rules.subject import Subject
from tandem.rules.system import (
    CONTENT_TYPE,
    MESSAGE_ID,
    NAMES,
    PARTITION_KEY,
    REPLY_TO_SESSION_ID,
    SCHEDULED_ENQUEUE_TIME,
    SESSION_ID,
    SETTABLE,
    TIME_TO_LIVE,
)
from tandem.rules.values import (
    DATETIME_OFFSET,
    MAX_DATETIME_TICKS,
    MAX_INT64,
    MIN_INT64,
    URI,
    DateTime,
    TimeSpan,
    amqp_value,
    rule_value,
    shown,
    type_name,
)

__all__ = ["SqlAction"]

_NOTHING: Final[dict[str, object]] = {}

# Those that are keys of indexes have the length of an id; the others what a property may have. Service: 128.
_ID_CODES: Final = (MESSAGE_ID, SESSION_ID, REPLY_TO_SESSION_ID, PARTITION_KEY)

_LARGEST_FLOAT: Final = 3.4028234663852886e38
_FLOAT: Final = struct.Struct(">f")


class SqlAction:
    """SET and REMOVE statements, parsed once."""

    __slots__ = ("expression", "parameters", "statements")

    def __init__(self, expression: str, parameters: Mapping[str, object] = _NOTHING) -> None:
        self.expression = expression
        self.parameters: dict[str, object] = dict(parameters)
        self.statements: list[Assignment] = parse_statements(expression, parameters)

    def apply(self, subject: Subject) -> Changes:
        """What the action changes in this message. RuleEvaluationError if it cannot: then it changes nothing."""
        draft = subject.draft()
        changes = Changes()
        try:
            for statement in self.statements:
                target = statement.target
                if isinstance(target, UserProperty):
                    _change_user(draft, changes, target, statement.value)
                else:
                    assert isinstance(target, SystemProperty)
                    value = None if statement.value is None else statement.value.evaluate(draft)
                    _change_system(draft, changes, target.code, value)
        finally:
            subject.work += draft.work
        return changes

    def __str__(self) -> str:
        return "; ".join([str(statement) for statement in self.statements])

    def __repr__(self) -> str:
        return f"SqlAction({self.expression!r})"


def _change_user(draft: Subject, changes: Changes, target: UserProperty, expression: Node | None) -> None:
    folded = target.folded
    spellings = draft.spellings(folded, target.name)
    for spelling in spellings:
        changes.user[spelling] = REMOVED
    if expression is None:
        draft.remove_user(folded)
        return
    if isinstance(expression, UserProperty):
        # A copy keeps its type, also one that rules cannot compute with.
        raw = draft.raw_user(expression.folded)
        value = rule_value(raw)
    else:
        value = expression.evaluate(draft)
        try:
            raw = amqp_value(value)
        except EncodeError as error:
            raise RuleEvaluationError(f"{target}: {error}") from error
    converted = _converted(value, draft.raw_user(folded))
    if converted is not None:
        raw = converted
    changes.user[spellings[0]] = raw
    draft.set_user(folded, raw)


def _converted(value: object, existing: object) -> object:
    """The value in the type that the property has now, or None where C# has no such conversion and none is needed."""
    if isinstance(value, bool) or value is None or existing is None:
        return None
    if isinstance(value, int):
        return _converted_integer(value, existing)
    if isinstance(value, float):
        return _single(value) if isinstance(existing, Float) and abs(value) <= _LARGEST_FLOAT else None
    if isinstance(value, str):
        if isinstance(existing, Symbol):
            return Symbol(value) if value.isascii() else None
        if isinstance(existing, Char):
            return Char(value) if len(value) == 1 else None
        if isinstance(existing, Described) and existing.descriptor == URI:
            return Described(existing.descriptor, value)
        return None
    if isinstance(value, DateTime):
        if isinstance(existing, Described) and existing.descriptor == DATETIME_OFFSET:
            return Described(existing.descriptor, value.ticks)
        return Timestamp(value.to_ms()) if isinstance(existing, Timestamp) else None
    return None


def _converted_integer(value: int, existing: object) -> object:
    """A width that is too small for the value is left, as SET of a property that has no type yet would."""
    if isinstance(existing, (bool, Timestamp)):
        return None
    if isinstance(existing, UByte):
        return UByte(value) if 0 <= value <= 0xFF else None
    if isinstance(existing, UShort):
        return UShort(value) if 0 <= value <= 0xFFFF else None
    if isinstance(existing, UInt):
        return UInt(value) if 0 <= value <= 0xFFFF_FFFF else None
    if isinstance(existing, ULong):
        return ULong(value) if value >= 0 else None
    if isinstance(existing, Byte):
        return Byte(value) if -0x80 <= value <= 0x7F else None
    if isinstance(existing, Short):
        return Short(value) if -0x8000 <= value <= 0x7FFF else None
    if isinstance(existing, Int):
        return Int(value) if -0x8000_0000 <= value <= 0x7FFF_FFFF else None
    if isinstance(existing, int):
        return value if MIN_INT64 <= value <= MAX_INT64 else None
    if isinstance(existing, Float):
        return _single(float(value))
    if isinstance(existing, float):
        return float(value)
    if isinstance(existing, (Decimal32, Decimal64, Decimal128)):
        return _decimal_like(existing, value)
    return None


def _single(value: float) -> Float:
    """In the precision that is written, so that later statements see what a receiver will."""
    return Float(_FLOAT.unpack(_FLOAT.pack(value))[0])


def _decimal_like(existing: Decimal32 | Decimal64 | Decimal128, value: int) -> object:
    number = decimal.Decimal(value)
    try:
        if isinstance(existing, Decimal32):
            return Decimal32.from_decimal(number)
        if isinstance(existing, Decimal64):
            return Decimal64.from_decimal(number)
    except EncodeError:
        pass
    return Decimal128.from_decimal(number)


def _change_system(draft: Subject, changes: Changes, code: int, value: object) -> None:
    if code == TIME_TO_LIVE:
        milliseconds = _milliseconds(code, value, isinstance(value, TimeSpan))
        if milliseconds is not None and milliseconds <= 0:
            raise RuleEvaluationError(f"sys.TimeToLive must be positive, got {shown(value)}")
        changes.system[SETTABLE[code]] = milliseconds
    elif code == SCHEDULED_ENQUEUE_TIME:
        changes.system[SETTABLE[code]] = _milliseconds(code, value, isinstance(value, DateTime))
    else:
        value = _text(code, value)
        changes.system[SETTABLE[code]] = value
    draft.set_system(code, value)


def _milliseconds(code: int, value: object, is_right_type: bool) -> int | None:
    if value is None:
        return None
    if isinstance(value, DateTime) and not 0 <= value.ticks <= MAX_DATETIME_TICKS:
        raise RuleEvaluationError(f"sys.{NAMES[code]} must be in the years 1 to 9999, got {shown(value)}")
    if is_right_type and isinstance(value, (DateTime, TimeSpan)):
        return value.to_ms()
    wanted = "TimeSpan" if code == TIME_TO_LIVE else "DateTime"
    raise RuleEvaluationError(f"sys.{NAMES[code]} must be a {wanted}, got the {type_name(value)} {shown(value)}")


def _text(code: int, value: object) -> str | None:
    if isinstance(value, uuid.UUID):
        value = str(value)
    if value is None:
        if code == MESSAGE_ID:
            raise RuleEvaluationError("sys.MessageId cannot be null, and cannot be removed")
        return None
    if not isinstance(value, str):
        problem = f"sys.{NAMES[code]} must be a string, got the {type_name(value)} {shown(value)}"
        raise RuleEvaluationError(problem)
    if code in _ID_CODES and len(value) > MAX_ID_CHARACTERS:
        raise RuleEvaluationError(
            f"sys.{NAMES[code]} has at most {MAX_ID_CHARACTERS} characters, got {len(value)}: {shown(value)}"
        )
    if code == CONTENT_TYPE and not value.isascii():
        raise RuleEvaluationError(f"sys.ContentType must be in ASCII, got {shown(value)}")
    return value
