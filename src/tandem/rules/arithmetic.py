"""Arithmetic of rules, which is C#'s: integers of 64 bits that must not overflow, and conversion to the wider type.

Where a comparison of unlike types merely does not match, their arithmetic is an error: it has no result to go on with.
"""

from __future__ import annotations

import decimal
import math
from typing import Final

from tandem.limits import MAX_COMPUTED_CHARACTERS
from tandem.rules.errors import RuleEvaluationError
from tandem.rules.values import MAX_DATETIME_TICKS, MAX_INT64, MIN_INT64, DateTime, TimeSpan, shown, type_name

__all__ = ["combine", "negate"]

# AMQP's decimal128, so that every result can be written. Used by its methods only, never as the context of a thread.
_DECIMAL128: Final = decimal.Context(
    prec=34,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=-6143,
    Emax=6144,
    clamp=1,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)


def combine(operator: str, left: object, right: object) -> object:
    """`left operator right` for one of + - * / %. Null on either side gives null."""
    if left is None or right is None:
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        raise _mismatch(operator, left, right)
    if isinstance(left, int) and isinstance(right, int):
        return _combine_integers(operator, left, right)
    if isinstance(left, (int, float, decimal.Decimal)) and isinstance(right, (int, float, decimal.Decimal)):
        if isinstance(left, float) or isinstance(right, float):
            return _combine_doubles(operator, float(left), float(right))
        return _combine_decimals(operator, decimal.Decimal(left), decimal.Decimal(right))
    if isinstance(left, str) and isinstance(right, str) and operator == "+":
        if len(left) + len(right) > MAX_COMPUTED_CHARACTERS:
            raise RuleEvaluationError(
                f"a string of {len(left) + len(right)} characters, a rule makes at most {MAX_COMPUTED_CHARACTERS}"
            )
        return left + right
    if isinstance(right, TimeSpan) and operator in ("+", "-"):
        ticks = right.ticks if operator == "+" else -right.ticks
        if isinstance(left, DateTime):
            return _datetime(left.ticks + ticks)
        if isinstance(left, TimeSpan):
            return _timespan(left.ticks + ticks)
    if isinstance(left, DateTime) and isinstance(right, DateTime) and operator == "-":
        return _timespan(left.ticks - right.ticks)
    raise _mismatch(operator, left, right)


def negate(operator: str, value: object) -> object:
    """`+value` or `-value`."""
    if value is None:
        return None
    if isinstance(value, (int, float, decimal.Decimal, TimeSpan)) and not isinstance(value, bool):
        if operator == "+":
            return value
        if isinstance(value, TimeSpan):
            return _timespan(-value.ticks)
        if isinstance(value, int):
            return _integer(-value, operator, value)
        # Not `-value`, which would round to the context of the thread.
        return value.copy_negate() if isinstance(value, decimal.Decimal) else -value
    raise RuleEvaluationError(f"{operator}{shown(value)}: {operator} is not defined for {type_name(value)}")


def _combine_integers(operator: str, left: int, right: int) -> int:
    if operator == "+":
        return _integer(left + right, operator, left, right)
    if operator == "-":
        return _integer(left - right, operator, left, right)
    if operator == "*":
        return _integer(left * right, operator, left, right)
    if right == 0:
        raise RuleEvaluationError(f"{left} {operator} 0: division by zero")
    # Towards zero, as in C#; Python's own // and % go towards minus infinity.
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    if operator == "/":
        return _integer(quotient, operator, left, right)
    return left - right * quotient


def _integer(result: int, operator: str, left: int, right: int | None = None) -> int:
    if MIN_INT64 <= result <= MAX_INT64:
        return result
    terms = f"{operator}{left}" if right is None else f"{left} {operator} {right}"
    raise RuleEvaluationError(f"{terms}: the result is beyond the range of a 64-bit integer")


def _combine_doubles(operator: str, left: float, right: float) -> float:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/":
        if right != 0.0:
            return left / right
        # IEEE 754 has a result, where Python raises.
        if left == 0.0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    if right == 0.0 or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


def _combine_decimals(operator: str, left: decimal.Decimal, right: decimal.Decimal) -> decimal.Decimal:
    try:
        if operator == "+":
            return _DECIMAL128.add(left, right)
        if operator == "-":
            return _DECIMAL128.subtract(left, right)
        if operator == "*":
            return _DECIMAL128.multiply(left, right)
        if operator == "/":
            return _DECIMAL128.divide(left, right)
        return _DECIMAL128.remainder(left, right)
    except decimal.DecimalException:
        raise RuleEvaluationError(f"{left} {operator} {right}: no decimal is the result") from None


def _datetime(ticks: int) -> DateTime:
    if 0 <= ticks <= MAX_DATETIME_TICKS:
        return DateTime(ticks)
    raise RuleEvaluationError("the result is a date outside the years 1 to 9999")


def _timespan(ticks: int) -> TimeSpan:
    if MIN_INT64 <= ticks <= MAX_INT64:
        return TimeSpan(ticks)
    raise RuleEvaluationError("the result is beyond the range of a TimeSpan")


def _mismatch(operator: str, left: object, right: object) -> RuleEvaluationError:
    types = f"{type_name(left)} and {type_name(right)}"
    return RuleEvaluationError(f"{shown(left)} {operator} {shown(right)}: {operator} is not defined for {types}")
