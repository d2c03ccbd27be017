"""Message selectors of JMS, as filters in the language of rules.

Both languages descend from the conditions of SQL. What JMS writes in another way is rewritten here: names that begin
with `_` or `$`, numbers with a suffix or in another base, BETWEEN, and the header fields whose names begin with `JMS`.
The result is an ordinary filter, which can be stored as the rule of a subscription.
"""

from __future__ import annotations

import re
from typing import Final

from tandem.limits import MAX_EXPRESSION_CHARACTERS
from tandem.rules.errors import RuleArgumentError, RuleSyntaxError
from tandem.rules.filters import SqlFilter
from tandem.rules.parser import parse

__all__ = ["jms_filter"]

_KEYWORDS: Final = frozenset(
    ("and", "or", "not", "between", "in", "is", "null", "like", "escape", "true", "false"),
)

# The header fields that selectors can refer to, by the system properties that hold them. JMS compares names with their
# case; the rules do not, and neither does this.
_HEADER_FIELDS: Final = {
    "jmsmessageid": "sys.MessageId",
    "jmscorrelationid": "sys.CorrelationId",
    "jmstype": "sys.Label",
    "jmsxgroupid": "sys.SessionId",
}

_PART: Final = re.compile(
    r"(?P<string>'(?:[^']|'')*')"
    r"|(?P<based>0[xX][0-9a-fA-F]+|0[0-7]+(?![\w.]))[lL]?(?!\w)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?P<suffix>[lLfFdD]?)(?!\w)"
    r"|(?P<name>(?:[^\W\d]|\$)[\w$.]*)"
)


def jms_filter(selector: str) -> SqlFilter:
    """Return the filter that selects what a JMS selector does. RuleSyntaxError shows where the text is wrong."""
    if len(selector) > MAX_EXPRESSION_CHARACTERS:
        problem = f"the selector has {len(selector)} characters, it has at most {MAX_EXPRESSION_CHARACTERS}"
        raise RuleSyntaxError(problem, selector, MAX_EXPRESSION_CHARACTERS)
    tree = parse(_PART.sub(_rewritten, selector), allows_between=True)
    return SqlFilter(tree.text())


def _rewritten(part: re.Match[str]) -> str:
    """Write one part of a selector as rules write it."""
    based, number, name = part["based"], part["number"], part["name"]
    if based is not None:
        return str(int(based, 16) if based[1] in "xX" else int(based, 8))
    if number is not None:
        is_floating = part["suffix"] in ("f", "F", "d", "D") and not set(number) & set(".eE")
        return f"{number}.0" if is_floating else str(number)
    if name is None or name.lower() in _KEYWORDS:
        return part[0]
    folded = name.lower()
    if folded in _HEADER_FIELDS:
        return _HEADER_FIELDS[folded]
    if folded.startswith("jms") and not folded.startswith("jms_"):
        raise RuleArgumentError(
            f"A selector cannot refer to {name:.60}. It can refer to JMSMessageID, JMSCorrelationID, JMSType, "
            "JMSXGroupID and the properties that the sender has set."
        )
    return f"[{name}]"
