"""Arguments that an operation refuses, as data that each surface renders in its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["ARGUMENT_HEADER", "JSON_WORDS", "Argument", "Words", "plain_text"]

# In an answer of the service's own management API, whose errors are sentences: the argument as JSON.
ARGUMENT_HEADER: Final = "Tandem-Argument"

# Characters of a refused text that an error repeats: more than the longest name of an entity, 260, in quotes.
_MAX_SHOWN_CHARACTERS: Final = 264

_REASON: Final = "reason"


class Argument:
    """A refused field with its value and bounds as data, and the sentence in which each surface names them.

    The template has them in braces: `{field} is {value}; it must be between {least} and {most}`. Texts of users belong
    in the values, never in the template. `reason` is a sentence, and rendered as it is.
    """

    __slots__ = ("field", "template", "values")

    def __init__(self, template: str, field: str, values: Mapping[str, object]) -> None:
        self.template = template
        self.field = field
        self.values = {key: value if key == _REASON else _as_json(value) for key, value in values.items()}

    def to_fields(self) -> dict[str, object]:
        """Return the argument as JSON has it."""
        return {"field": self.field, "template": self.template, "values": self.values}

    @staticmethod
    def from_fields(fields: object) -> Argument | None:
        """Return the argument in an answer of another process, or None if that is not one."""
        if not isinstance(fields, dict):
            return None
        field, template, values = fields.get("field"), fields.get("template"), fields.get("values")
        if not isinstance(field, str) or not isinstance(template, str) or not isinstance(values, dict):
            return None
        return Argument(template, field, values)

    @property
    def value(self) -> object:
        """The value that was refused."""
        return self.values.get("value")

    @property
    def least(self) -> object:
        """The least that is allowed."""
        return self.values.get("least")

    @property
    def most(self) -> object:
        """The most that is allowed."""
        return self.values.get("most")

    def sentence(self, name_of: Callable[[str], str], text_of: Callable[[str, object], str]) -> str:
        """Return the sentence with a surface's own name for the field and its own way to write values."""
        text, *rest = self.template.split("{")
        for piece in rest:
            key, _, after = piece.partition("}")
            if key == "field":
                text += name_of(self.field) + after
            elif key == _REASON:
                text += str(self.values.get(key)) + after
            else:
                text += text_of(self.field, self.values.get(key)) + after
        return text


def plain_text(value: object) -> str:
    """Return a value as JSON would have it, strings in Python's quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value!r:.{_MAX_SHOWN_CHARACTERS}}" if isinstance(value, str) else str(value)


def _as_json(value: object) -> object:
    if isinstance(value, str):
        return value[:_MAX_SHOWN_CHARACTERS]
    return value if value is None or isinstance(value, bool | int | float) else f"{value!r:.80}"


class Words:
    """How a surface writes the field, the value and the bounds of a refused argument.

    A field whose name ends in `_ms` holds a duration.
    """

    def __init__(self, name_of: Callable[[str], str], duration_of: Callable[[int | None], str] | None = None) -> None:
        self._name_of = name_of
        self._duration_of = duration_of

    def sentence(self, argument: Argument) -> str:
        return argument.sentence(self._name_of, self._text)

    def _text(self, field: str, value: object) -> str:
        if self._duration_of is None or not field.endswith("_ms") or isinstance(value, bool):
            return plain_text(value)
        if value is None or isinstance(value, int):
            return self._duration_of(value)
        return plain_text(value)


JSON_WORDS: Final = Words(str)
