"""What can be wrong with a rule, when it is made and when it meets a message.

ArgumentError
├── RuleSyntaxError          when it is made: the text cannot be understood, or is beyond a limit
├── RuleArgumentError        when it is made: a parameter or a field of a correlation filter cannot be used
└── RuleEvaluationError      when it meets a message: arithmetic that has no result, a message that cannot be read
"""

from __future__ import annotations

from typing import Final

from tandem.errors import ArgumentError

__all__ = ["RuleArgumentError", "RuleEvaluationError", "RuleSyntaxError"]

# Characters. How much of the text is shown around the place of a mistake: it fits a terminal of 80 columns.
_WINDOW_CHARACTERS: Final = 72


class RuleSyntaxError(ArgumentError):
    """The text of a filter or an action that is not in the language of rules. The caret shows where it goes wrong.

    `problem` is the complaint alone, `position` counts characters of `text` from 0.
    """

    def __init__(self, problem: str, text: str, position: int) -> None:
        super().__init__(f"{problem} (at character {position + 1})\n{_with_caret(text, position)}")
        self.problem = problem
        self.text = text
        self.position = position


class RuleArgumentError(ArgumentError):
    """A parameter of a rule, or a field of a correlation filter, that cannot be used. The description names it."""


class RuleEvaluationError(ArgumentError):
    """A rule that cannot be decided for this message. The description shows the values that stood in the way."""


def _with_caret(text: str, position: int) -> str:
    """The line of the mistake and a caret below it; of a long line only what is around it."""
    start = max(0, position - _WINDOW_CHARACTERS * 2 // 3)
    line = text[start : start + _WINDOW_CHARACTERS]
    # One column for each character, or the caret would stand elsewhere.
    shown = "".join([character if character.isprintable() else " " for character in line])
    before = "…" if start else ""
    behind = "…" if start + _WINDOW_CHARACTERS < len(text) else ""
    return f"  {before}{shown}{behind}\n  {' ' * (len(before) + position - start)}^"
