"""The language of rules: filters that select messages, and actions that change them. Pure: no IO, clock or randomness.

subject = Subject.of_message(bare)
SqlFilter("StoreName = 'Store1'").matches(subject)
apply_changes(bare, SqlAction("SET Priority = 1").apply(subject))
"""

from __future__ import annotations

from tandem.rules.actions import SqlAction
from tandem.rules.changes import REMOVED, Changes, apply_changes
from tandem.rules.correlation_index import CorrelationIndex
from tandem.rules.errors import RuleArgumentError, RuleEvaluationError, RuleSyntaxError
from tandem.rules.explain import Explanation, explain
from tandem.rules.filters import CorrelationFilter, FalseFilter, Filter, SqlFilter, TrueFilter
from tandem.rules.jms_selectors import jms_filter
from tandem.rules.parser import parse, parse_statements
from tandem.rules.subject import Subject

__all__ = [
    "REMOVED",
    "Changes",
    "CorrelationFilter",
    "CorrelationIndex",
    "Explanation",
    "FalseFilter",
    "Filter",
    "RuleArgumentError",
    "RuleEvaluationError",
    "RuleSyntaxError",
    "SqlAction",
    "SqlFilter",
    "Subject",
    "TrueFilter",
    "apply_changes",
    "explain",
    "jms_filter",
    "parse",
    "parse_statements",
]
