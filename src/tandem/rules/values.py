"""The values that rules compute with, and how they are compared.

A rule does not see AMQP's types but what C# would make of them, because the service's rules follow C#:

    boolean                        bool                 decimal32 64 128               decimal.Decimal
    byte ... ulong                 int                  timestamp, datetime-offset     DateTime
    float, double                  float                timespan                       TimeSpan
    string, symbol, char, uri      str                  uuid, binary                   uuid.UUID, bytes

None is null, and also what is unknown: rules make no difference, except that EXISTS sees a property that is null. Any
other value (a list, a map, an unknown described type) is kept as it is, equals nothing and can be copied.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Final

from tandem.amqp.types import (
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Symbol,
    Timestamp,
    ULong,
)
from tandem.wire_names import DATETIME_OFFSET, TICKS_OF_1970, TICKS_PER_MS, TICKS_PER_SECOND, TIMESPAN, URI

__all__ = [
    "DATETIME_OFFSET",
    "INCOMPARABLE",
    "MAX_DATETIME_TICKS",
    "MAX_INT64",
    "MIN_INT64",
    "TIMESPAN",
    "UNORDERED",
    "URI",
    "DateTime",
    "TimeSpan",
    "Written",
    "amqp_value",
    "fold",
    "is_equal",
    "order",
    "rule_value",
    "shown",
    "type_name",
    "typed_key",
]

MAX_INT64: Final = (1 << 63) - 1
MIN_INT64: Final = -(1 << 63)

_TICKS_PER_DAY: Final = 864_000_000_000
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_YEAR_ONE: Final = datetime.datetime(1, 1, 1)  # noqa: DTZ001 - the origin of .NET's ticks has no zone
_MICROSECOND: Final = datetime.timedelta(microseconds=1)

# .NET's DateTime ends with the year 9999. Peers may send later ones, which can be compared and copied.
MAX_DATETIME_TICKS: Final = 3_155_378_975_999_999_999

# What `order` answers beside -1, 0 and 1: types that have no order, and NaN, which is not even equal to itself.
INCOMPARABLE: Final = 2
UNORDERED: Final = 3

_SHOWN_CHARACTERS: Final = 80


def fold(name: str) -> str:
    """The form of a property's name that its spellings share."""
    return name.lower()


class DateTime:
    """A moment in UTC, in ticks since the year 1. DateTimeOffset is one too, its offset left out."""

    __slots__ = ("ticks",)

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks

    @staticmethod
    def of_ms(milliseconds: int) -> DateTime:
        """Of milliseconds since 1970."""
        return DateTime(milliseconds * TICKS_PER_MS + TICKS_OF_1970)

    def to_ms(self) -> int:
        return (self.ticks - TICKS_OF_1970) // TICKS_PER_MS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DateTime) and self.ticks == other.ticks

    def __hash__(self) -> int:
        return hash(self.ticks)

    def __repr__(self) -> str:
        return f"DateTime({self})"

    def __str__(self) -> str:
        try:
            moment = _YEAR_ONE + datetime.timedelta(microseconds=self.ticks // 10)
        except OverflowError:
            return f"{self.to_ms()} ms since 1970"
        # datetime knows six digits of a second, .NET seven.
        tick = self.ticks % 10
        return f"{moment.isoformat(timespec='microseconds')}{tick}Z" if tick else moment.isoformat() + "Z"


class TimeSpan:
    """A length of time in ticks."""

    __slots__ = ("ticks",)

    def __init__(self, ticks: int) -> None:
        self.ticks = ticks

    @staticmethod
    def of_ms(milliseconds: int) -> TimeSpan:
        """At most TimeSpan.MaxValue, which is how "never" is said."""
        return TimeSpan(min(milliseconds * TICKS_PER_MS, MAX_INT64))

    def to_ms(self) -> int:
        return self.ticks // TICKS_PER_MS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TimeSpan) and self.ticks == other.ticks

    def __hash__(self) -> int:
        return hash(self.ticks)

    def __repr__(self) -> str:
        return f"TimeSpan({self})"

    def __str__(self) -> str:
        """As .NET writes it: [-][d.]hh:mm:ss[.fffffff]."""
        ticks = abs(self.ticks)
        days, ticks = ticks // _TICKS_PER_DAY, ticks % _TICKS_PER_DAY
        seconds, fraction = ticks // TICKS_PER_SECOND, ticks % TICKS_PER_SECOND
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        text = f"{days}.{text}" if days else text
        text = f"{text}.{fraction:07}" if fraction else text
        return f"-{text}" if self.ticks < 0 else text


class Written:
    """A value of a rule as a client wrote it: what rules compare, and the type and the text of XML Schema.

    Rules have fewer types than clients: all widths of integers are one, and `2.50` is `2.5`. Whoever asks for the rule
    gets back what was written.
    """

    __slots__ = ("kind", "text", "value")

    def __init__(self, kind: str, text: str, value: object) -> None:
        self.kind = kind
        self.text = text
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and self.kind == other.kind and self.text == other.text

    def __hash__(self) -> int:
        return hash((self.kind, self.text))

    def __repr__(self) -> str:
        return f"Written({self.kind!r}, {self.text!r})"


def rule_value(value: object) -> object:
    """Return an AMQP value, one of Python's own, or a written one as rules see it."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or kind is float or value is None:
        return value
    if isinstance(value, Written):
        return value.value
    if isinstance(value, Timestamp):
        return DateTime.of_ms(int(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (Decimal32, Decimal64, Decimal128)):
        return _finite_decimal(value.to_decimal())
    if isinstance(value, decimal.Decimal):
        return _finite_decimal(value)
    if isinstance(value, Described):
        return _described_value(value)
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return DateTime((moment - _EPOCH) // _MICROSECOND * 10 + TICKS_OF_1970)
    if isinstance(value, datetime.timedelta):
        return TimeSpan(value // _MICROSECOND * 10)
    return value


def _finite_decimal(value: decimal.Decimal) -> object:
    """C#'s decimal has no infinity and no NaN: they are those of double here, where they have an arithmetic."""
    if value.is_finite():
        return value
    return float("nan") if value.is_nan() else float(value)


def _described_value(value: Described) -> object:
    inner = value.value
    if value.descriptor == URI:
        return str(inner) if isinstance(inner, str) else value
    if type(inner) is int:
        if value.descriptor == TIMESPAN:
            return TimeSpan(inner)
        if value.descriptor == DATETIME_OFFSET:
            return DateTime(inner)
    return value


def amqp_value(value: object) -> object:
    """What is written for a value that a rule computed."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value <= MAX_INT64 else ULong(value)
    if isinstance(value, DateTime):
        return Timestamp(value.to_ms())
    if isinstance(value, TimeSpan):
        return Described(Symbol(TIMESPAN), value.ticks)
    if isinstance(value, decimal.Decimal):
        return Decimal128.from_decimal(value)
    return value


def is_equal(left: object, right: object) -> bool | None:
    """Whether two values are equal; None if their types cannot be compared, or one of them is null."""
    if isinstance(left, str):
        return left == right if isinstance(right, str) else None
    if isinstance(left, bool):
        return left is right if isinstance(right, bool) else None
    if isinstance(left, uuid.UUID):
        return left == right if isinstance(right, uuid.UUID) else None
    if isinstance(left, bytes):
        return left == right if isinstance(right, bytes) else None
    relation = order(left, right)
    return None if relation == INCOMPARABLE else relation == 0


def order(left: object, right: object) -> int:
    """-1, 0 or 1 as `left` is less, equal or greater; UNORDERED if one is NaN; INCOMPARABLE if the types have no order.

    The one place that decides which types can be compared. Booleans, GUIDs and bytes are equal or not but have no
    order, as in C#. A number never equals a string that spells it.
    """
    if isinstance(left, str):
        if isinstance(right, str):
            return (left > right) - (left < right)
        return INCOMPARABLE
    if isinstance(left, bool) or isinstance(right, bool):
        return INCOMPARABLE
    if isinstance(left, int) and isinstance(right, int):
        return (left > right) - (left < right)
    if isinstance(left, (int, float, decimal.Decimal)) and isinstance(right, (int, float, decimal.Decimal)):
        if isinstance(left, float) or isinstance(right, float):
            return _order_doubles(float(left), float(right))
        return _order_decimals(decimal.Decimal(left), decimal.Decimal(right))
    if isinstance(left, DateTime) and isinstance(right, DateTime):
        return (left.ticks > right.ticks) - (left.ticks < right.ticks)
    if isinstance(left, TimeSpan) and isinstance(right, TimeSpan):
        return (left.ticks > right.ticks) - (left.ticks < right.ticks)
    return INCOMPARABLE


def _order_doubles(left: float, right: float) -> int:
    if left == right:
        return 0
    if left < right:
        return -1
    return 1 if left > right else UNORDERED


def _order_decimals(left: decimal.Decimal, right: decimal.Decimal) -> int:
    if left == right:
        return 0
    return -1 if left < right else 1


def typed_key(value: object) -> object:
    """A key that two values share if a correlation filter takes them for equal; None for what equals nothing.

    To a dict 1, 1.0 and True are one key: all but strings have their type with them.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int):
        return ("integer", value)
    if isinstance(value, float):
        return ("double", value) if value == value else None  # noqa: PLR0124 - NaN is not equal to itself
    if isinstance(value, (decimal.Decimal, DateTime, TimeSpan, uuid.UUID, bytes)):
        return (type_name(value), value)
    return None


def type_name(value: object) -> str:
    """The type in words for people."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "double"
    if isinstance(value, decimal.Decimal):
        return "decimal"
    if isinstance(value, uuid.UUID):
        return "GUID"
    if isinstance(value, (bytes, DateTime, TimeSpan)):
        return type(value).__name__
    return "value of another type"


def shown(value: object) -> str:
    """A value as it is written in a rule, where it can be; long ones are cut."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        quoted = "'" + value.replace("'", "''")
        return f"{quoted}'" if len(quoted) < _SHOWN_CHARACTERS else f"{quoted[:_SHOWN_CHARACTERS]}…'"
    if isinstance(value, bytes):
        digits = value[:_SHOWN_CHARACTERS].hex()
        return f"0x{digits}" if len(value) <= _SHOWN_CHARACTERS else f"0x{digits}…"
    if isinstance(value, (int, float, decimal.Decimal, uuid.UUID, DateTime, TimeSpan)):
        return str(value)
    return f"{value!r:.80}"
