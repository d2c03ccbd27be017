"""What a rule does with a message of given properties. The command line asks this too: nothing of HTTP is in here."""

from __future__ import annotations

import uuid
from typing import Final

from tandem.engine.rule import typed_values
from tandem.errors import ArgumentError
from tandem.rules import REMOVED, Explanation, Filter, SqlAction, Subject, explain
from tandem.rules.values import fold

__all__ = ["explain_rule", "subject_of"]

# The property that the copy of a rule with an action has beside what the action says.
_RULE_NAME: Final = "RuleName"


def subject_of(fields: dict[str, object]) -> Subject:
    """A message of nothing but properties: `properties` are the user's, `system` has Label, MessageId and so on."""
    unknown = sorted(fields.keys() - {"properties", "system"})
    if unknown:
        raise ArgumentError(f"{unknown[0]} is not known; allowed are properties, system and subscription")
    return Subject.of_values(typed_values("system", fields), typed_values("properties", fields), new_id=uuid.uuid4)


def explain_rule(
    condition: Filter, action: SqlAction | None, subject: Subject, name: str | None = None
) -> dict[str, object]:
    """Whether a filter selects the message, what decided, and what the action makes of the copy; also in words.

    `changes` is null if there is no action, or none that would be carried out.
    """
    judged = explain(condition, subject)
    explained: dict[str, object] = {
        "matches": judged.is_match,
        "outcome": judged.outcome,
        "error": judged.error,
        "reasons": judged.to_dict()["reasons"],
        "reason_lines": _below_the_first(judged),
        "changes": None,
        "change_lines": [],
    }
    if action is not None and judged.is_match:
        acted = explain(action, subject)
        explained["error"] = acted.error
        if acted.changes is not None:
            if name is not None:
                is_there = subject.has_user(fold(_RULE_NAME))
                before = subject.user(fold(_RULE_NAME)) if is_there else REMOVED
                acted.changes.append((_RULE_NAME, before, name))
            explained["changes"] = acted.to_dict()["changes"]
            explained["change_lines"] = _below_the_first(acted)
    return explained


def _below_the_first(explanation: Explanation) -> list[str]:
    """The first line is the outcome; the others are indented below it."""
    return [line.removeprefix("  ") for line in explanation.lines()[1:]]
