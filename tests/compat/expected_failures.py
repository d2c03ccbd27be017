"""The steps of the programs in Java and Go that fail today, each with the item of issue 17 that mends it.

A step that passes although it is listed here fails the run, so that its line is removed together with the fault.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from tests.compat.programs import Step

# Language; group, transport and feature, each of them perhaps a pattern; item of the issue.
EXPECTED_FAILURES: Final = (
)


def item_of(language: str, step: Step) -> int | None:
    """Return the item of the issue that makes this step fail today, or None for a step that has to pass."""
    return next(
        (
            item
            for of_language, pattern, item in EXPECTED_FAILURES
            if of_language == language and fnmatchcase("/".join(step), pattern)
        ),
        None,
    )
