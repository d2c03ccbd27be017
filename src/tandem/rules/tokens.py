"""The text of a rule cut into tokens, each with its place, so that every complaint can point at it."""

from __future__ import annotations

from typing import Final

from tandem.limits import MAX_EXPRESSION_CHARACTERS, MAX_PROPERTY_NAME_CHARACTERS
from tandem.rules.errors import RuleSyntaxError

__all__ = [
    "DOUBLE",
    "END",
    "INTEGER",
    "NAME",
    "PARAMETER",
    "STRING",
    "SYMBOL",
    "WORD",
    "Token",
    "is_regular_name",
    "tokenize",
]

# Kinds of token. A WORD may be a keyword, a NAME is one in brackets or double quotation marks and never is.
END: Final = 0
WORD: Final = 1
NAME: Final = 2
PARAMETER: Final = 3
INTEGER: Final = 4
DOUBLE: Final = 5
STRING: Final = 6
SYMBOL: Final = 7

_DIGITS: Final = "0123456789"
_TWO_CHARACTER_SYMBOLS: Final = ("<>", "!=", ">=", "<=")
_SYMBOLS: Final = "=<>+-*/%(),.;"
_MAX_INT64: Final = (1 << 63) - 1
_INFINITY: Final = float("inf")


class Token:
    """`text` is a word, name, parameter or symbol, or the value of a string; numbers are in `integer` and `double`.

    `folded` is a word in lower case. An integer may be 2^63, one too many, which only a minus in front makes right.
    """

    __slots__ = ("double", "folded", "integer", "kind", "position", "text")

    def __init__(self, kind: int, text: str, position: int, integer: int = 0, double: float = 0.0) -> None:
        self.kind = kind
        self.text = text
        self.folded: str = text.lower() if kind == WORD else ""
        self.position = position
        self.integer = integer
        self.double = double


def is_regular_name(name: str) -> bool:
    """Whether a name can stand in a rule without brackets, keywords aside: a letter, then letters, digits and _."""
    return bool(name) and name[0].isalpha() and _end_of_word(name, 0) == len(name)


def tokenize(text: str) -> list[Token]:
    """All tokens of the text, with an END behind them."""
    if len(text) > MAX_EXPRESSION_CHARACTERS:
        problem = f"the text has {len(text)} characters, a rule has at most {MAX_EXPRESSION_CHARACTERS}"
        raise RuleSyntaxError(problem, text, MAX_EXPRESSION_CHARACTERS)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RuleSyntaxError("half of a surrogate pair is not a character", text, error.start) from None
    tokens: list[Token] = []
    end = len(text)
    at = 0
    while at < end:
        character = text[at]
        if character.isspace():
            at += 1
        elif character.isalpha():
            stop = _end_of_word(text, at)
            tokens.append(Token(WORD, _checked_name(text, text[at:stop], at), at))
            at = stop
        elif character in _DIGITS or (character == "." and text[at + 1 : at + 2] in _DIGITS and at + 1 < end):
            at = _read_number(text, at, tokens)
        elif character == "'":
            value, stop = _read_quoted(text, at, "'", "string")
            tokens.append(Token(STRING, value, at))
            at = stop
        elif character == "[" or character == '"':
            name, stop = _read_quoted(text, at, "]" if character == "[" else '"', "name")
            if not name:
                raise RuleSyntaxError("a name must not be empty", text, at)
            tokens.append(Token(NAME, _checked_name(text, name, at), at))
            at = stop
        elif character == "@":
            stop = _end_of_word(text, at + 1)
            if stop == at + 1 or not text[at + 1].isalpha():
                raise RuleSyntaxError("@ must be followed by the name of a parameter", text, at)
            tokens.append(Token(PARAMETER, _checked_name(text, text[at + 1 : stop], at), at))
            at = stop
        else:
            at = _read_symbol(text, at, tokens)
    tokens.append(Token(END, "", end))
    return tokens


def _end_of_word(text: str, at: int) -> int:
    end = len(text)
    while at < end:
        character = text[at]
        # Letters and decimal digits of Unicode, as the service has them; isalnum() would also take ½ and ².
        if not (character.isalpha() or character == "_" or character.isdecimal()):
            break
        at += 1
    return at


def _checked_name(text: str, name: str, at: int) -> str:
    if len(name) > MAX_PROPERTY_NAME_CHARACTERS:
        problem = f"a name of {len(name)} characters, a name has at most {MAX_PROPERTY_NAME_CHARACTERS}"
        raise RuleSyntaxError(problem, text, at)
    return name


def _read_quoted(text: str, at: int, quote: str, what: str) -> tuple[str, int]:
    """What stands between the quotation mark at `at` and the closing one, and the place behind; twice means itself."""
    pieces: list[str] = []
    start = at + 1
    while True:
        stop = text.find(quote, start)
        if stop < 0:
            raise RuleSyntaxError(f"this {what} has no closing {quote}", text, at)
        pieces.append(text[start:stop])
        if text[stop + 1 : stop + 2] != quote:
            return quote.join(pieces), stop + 1
        start = stop + 2


def _end_of_digits(text: str, at: int) -> int:
    end = len(text)
    while at < end and text[at] in _DIGITS:
        at += 1
    return at


def _read_number(text: str, at: int, tokens: list[Token]) -> int:
    """An integer, or a double if there is a decimal point or an exponent."""
    stop = _end_of_digits(text, at)
    is_double = False
    if text[stop : stop + 1] == ".":
        is_double = True
        stop = _end_of_digits(text, stop + 1)
    if text[stop : stop + 1] in ("e", "E"):
        is_double = True
        digits = stop + 2 if text[stop + 1 : stop + 2] in ("+", "-") else stop + 1
        stop = _end_of_digits(text, digits)
        if stop == digits:
            raise RuleSyntaxError("an exponent must have digits", text, at)
    if stop < len(text) and (text[stop].isalpha() or text[stop] == "_"):
        raise RuleSyntaxError("a number must not run into a name; put a space or an operator between", text, stop)
    number = text[at:stop]
    if is_double:
        double = float(number)
        if double == _INFINITY:
            raise RuleSyntaxError(f"{number:.40} is beyond the range of a double", text, at)
        tokens.append(Token(DOUBLE, number, at, 0, double))
    else:
        # The length first: int() of a thousand digits is work for nothing.
        significant = number.lstrip("0")
        integer = int(significant or "0") if len(significant) < 20 else _MAX_INT64 + 2
        if integer > _MAX_INT64 + 1:
            raise RuleSyntaxError(f"{number:.40} is beyond the range of a 64-bit integer", text, at)
        tokens.append(Token(INTEGER, number, at, integer))
    return stop


def _read_symbol(text: str, at: int, tokens: list[Token]) -> int:
    pair = text[at : at + 2]
    if pair in _TWO_CHARACTER_SYMBOLS:
        tokens.append(Token(SYMBOL, pair, at))
        return at + 2
    if text[at] not in _SYMBOLS:
        hint = "; write a name that begins so in brackets, as [_name]" if text[at] == "_" else ""
        raise RuleSyntaxError(f"{text[at]!r} has no meaning here{hint}", text, at)
    tokens.append(Token(SYMBOL, text[at], at))
    return at + 1
