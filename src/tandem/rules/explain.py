"""Why a message was selected or not, and what an action would change: for people, and as a dict for JSON.

The sub-expressions that decided are those of which one other value would have made another outcome: of `a AND b` that
is false the first that is false, of one that is true both.
"""

from __future__ import annotations

import math

from tandem.rules.actions import SqlAction
from tandem.rules.changes import REMOVED, Changes
from tandem.rules.errors import RuleEvaluationError
from tandem.rules.expressions import (
    Junction,
    Negation,
    Node,
    Parameter,
    Property,
    PropertyFunction,
)
from tandem.rules.filters import CorrelationFilter, FalseFilter, Filter, SqlFilter, TrueFilter
from tandem.rules.subject import Subject, system_value
from tandem.rules.system import NAMES, SETTABLE
from tandem.rules.values import fold, rule_value, shown, typed_key

__all__ = ["Explanation", "Reason", "explain"]


class Reason:
    """One sub-expression that decided: its text, what became of it, and the values that it saw."""

    __slots__ = ("expression", "outcome", "values")

    def __init__(self, expression: str, outcome: str, values: list[tuple[str, object]]) -> None:
        self.expression = expression
        self.outcome = outcome
        self.values = values


class Explanation:
    """`outcome` is "true", "false", "unknown" or "error"; `is_match` says whether the rule selects the message.

    For an action `changes` has the name, the value before and the value after of each property that it changes, and
    `is_match` is whether it can be carried out.
    """

    __slots__ = ("changes", "error", "is_match", "outcome", "reasons")

    def __init__(self, outcome: str, reasons: list[Reason], error: str | None = None) -> None:
        self.outcome = outcome
        self.is_match: bool = outcome == "true"
        self.reasons = reasons
        self.error = error
        self.changes: list[tuple[str, object, object]] | None = None

    def lines(self) -> list[str]:
        """A line with the outcome, and below it what led there."""
        if self.changes is not None:
            return ["changes:" if self.changes else "changes nothing", *_change_lines(self.changes)]
        lines = ["match" if self.is_match else "no match"]
        if self.error is not None:
            lines = [f"error: {self.error}"]
        for reason in self.reasons:
            lines.append(f"  {reason.expression} is {reason.outcome}")
            lines += [f"    {name} is {_said(value)}" for name, value in reason.values]
        return lines

    def to_dict(self) -> dict[str, object]:
        result: dict[str, object] = {"match": self.is_match, "outcome": self.outcome}
        if self.error is not None:
            result["error"] = self.error
        if self.changes is not None:
            result["changes"] = [
                {"property": name, "before": _plain(before), "after": _plain(after)}
                for name, before, after in self.changes
            ]
        else:
            result["reasons"] = [
                {
                    "expression": reason.expression,
                    "outcome": reason.outcome,
                    "values": {name: _plain(value) for name, value in reason.values},
                }
                for reason in self.reasons
            ]
        return result

    def __str__(self) -> str:
        return "\n".join(self.lines())


def explain(rule: Filter | SqlAction, subject: Subject) -> Explanation:
    """Decide again, slowly, and keep what decided."""
    if isinstance(rule, SqlAction):
        return _explain_action(rule, subject)
    if isinstance(rule, SqlFilter):
        return _explain_tree(rule.tree, subject)
    if isinstance(rule, CorrelationFilter):
        return _explain_correlation(rule, subject)
    if isinstance(rule, TrueFilter):
        return Explanation("true", [Reason("every message", "selected", [])])
    assert isinstance(rule, FalseFilter)
    return Explanation("false", [Reason("every message", "refused", [])])


def _explain_tree(tree: Node, subject: Subject) -> Explanation:
    reasons: list[Reason] = []
    try:
        outcome = tree.evaluate(subject)
    except RuleEvaluationError as error:
        _collect_error(tree, subject, reasons)
        return Explanation("error", reasons, str(error))
    _collect(tree, outcome, subject, reasons)
    return Explanation(_word(outcome), reasons)


def _collect(node: Node, outcome: object, subject: Subject, reasons: list[Reason]) -> None:
    """The parts of a predicate that made its outcome."""
    if isinstance(node, Negation):
        _collect(node.operand, None if outcome is None else outcome is False, subject, reasons)
    elif isinstance(node, Junction):
        # The value that decides alone; any other outcome is that of all operands together.
        decisive = node.decisive
        for operand in node.operands:
            value = operand.evaluate(subject)
            if value is outcome:
                _collect(operand, value, subject, reasons)
                if value is decisive:
                    return
    else:
        reasons.append(Reason(node.text(), _word(outcome), _values_seen(node, subject)))


def _collect_error(node: Node, subject: Subject, reasons: list[Reason]) -> None:
    """The innermost part that cannot be evaluated."""
    for child in node.children():
        try:
            child.evaluate(subject)
        except RuleEvaluationError:
            _collect_error(child, subject, reasons)
            return
    reasons.append(Reason(node.text(), "an error", _values_seen(node, subject)))


def _values_seen(node: Node, subject: Subject) -> list[tuple[str, object]]:
    """Every part of the node that had to be looked up, once, with its value."""
    seen: dict[str, object] = {}
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, (Property, PropertyFunction, Parameter)):
            seen.setdefault(part.text(), _attempt(part, subject))
        pending.extend(reversed(part.children()))
    return list(seen.items())


def _attempt(node: Node, subject: Subject) -> object:
    try:
        return node.evaluate(subject)
    except RuleEvaluationError:
        return None


def _explain_correlation(filter: CorrelationFilter, subject: Subject) -> Explanation:
    try:
        is_match = filter.matches(subject)
        reasons = _correlation_reasons(filter, subject, not is_match)
    except RuleEvaluationError as error:
        return Explanation("error", [], str(error))
    return Explanation(_word(is_match), reasons)


def _correlation_reasons(filter: CorrelationFilter, subject: Subject, only_different: bool) -> list[Reason]:
    """All fields of a filter that matches, and those that differ of one that does not."""
    compared: list[tuple[str, object, object]] = []
    for code, wanted in zip(filter.system_codes, filter.keys, strict=False):
        compared.append((f"sys.{NAMES[code]}", wanted, subject.system_at(code)))
    for name, given in filter.properties.items():
        compared.append((name, rule_value(given), subject.user(fold(name))))
    reasons: list[Reason] = []
    for name, wanted, value in compared:
        is_same = typed_key(value) == typed_key(wanted)
        if not (only_different and is_same):
            reasons.append(Reason(f"{name} = {shown(wanted)}", _word(is_same), [(name, value)]))
    return reasons


def _explain_action(action: SqlAction, subject: Subject) -> Explanation:
    try:
        changes = action.apply(subject)
    except RuleEvaluationError as error:
        return Explanation("error", [], str(error))
    explanation = Explanation("true", [])
    explanation.changes = _compared(changes, subject)
    return explanation


def _compared(changes: Changes, subject: Subject) -> list[tuple[str, object, object]]:
    compared: list[tuple[str, object, object]] = []
    for code, name in SETTABLE.items():
        if name in changes.system:
            before = subject.system_at(code)
            compared.append((f"sys.{NAMES[code]}", before, system_value(code, changes.system[name])))
    for name, raw in changes.user.items():
        folded = fold(name)
        before = subject.user(folded) if subject.has_user(folded) else REMOVED
        compared.append((name, before, raw if raw is REMOVED else rule_value(raw)))
    return compared


def _word(outcome: object) -> str:
    if outcome is None:
        return "unknown"
    return "true" if outcome is True else "false"


def _said(value: object) -> str:
    return "null or missing" if value is None else shown(value)


def _change_lines(changes: list[tuple[str, object, object]]) -> list[str]:
    lines: list[str] = []
    for name, before, after in changes:
        was = "(none)" if before is REMOVED else shown(before)
        lines.append(f"  {name}: {was} -> {'(removed)' if after is REMOVED else shown(after)}")
    return lines


def _plain(value: object) -> object:
    """What JSON can say as it is; anything else as text, and what is not there as null."""
    if value is REMOVED:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (str, bool, int, float)) else shown(value)
