"""Which subscriptions of a topic get a message.

    true filters          select every message, unseen; so does the SQL filter `1 = 1`
    correlation filters   one index for the whole topic: rules that do not match cost nothing
    SQL filters           each is evaluated

So the cost of a message grows with the rules that match and with the number of SQL filters, and with nothing else. It
can be paid in parts: evaluating stops when the work that it may take is used up, and goes on later. The actions of the
rules that match are evaluated in the same way, once all filters are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from tandem.amqp.stored import Stored
from tandem.engine.rule import Rule
from tandem.engine.rule_action import Acted, Acting
from tandem.rules import CorrelationFilter, CorrelationIndex, RuleEvaluationError, Subject

if TYPE_CHECKING:
    from tandem.engine.subscription import Subscription

__all__ = ["Selecting", "Selection", "Selector"]

# Units of work, as `RULE_WORK_PER_TURN` has them: a filter, beside what it does to long texts, and a look into the
# index for a set of properties that correlation filters name.
_EVALUATION_WORK: Final = 500
_LOOK_UP_WORK: Final = 300


class Selection:
    """What one subscription gets of one message."""

    __slots__ = ("acted", "errors", "is_plain", "next_action", "rules")

    def __init__(self) -> None:
        # A rule without an action matched, or several: that is one copy.
        self.is_plain = False
        # Rules with an action that matched, and how many of the actions are evaluated.
        self.rules: list[Rule] = []
        self.next_action = 0
        # What actions made of the message: a copy each.
        self.acted: list[Acted] = []
        self.errors: list[RuleEvaluationError] = []


class Selecting:
    """A message whose rules are being evaluated."""

    __slots__ = (
        "acting",
        "found",
        "is_done",
        "next_rule",
        "scheduled_number",
        "sequence_number",
        "stored",
        "subject",
        "version",
    )

    def __init__(self, subject: Subject, stored: Stored, sequence_number: int) -> None:
        self.subject = subject
        self.stored = stored
        # Made when the first action is evaluated.
        self.acting: Acting | None = None
        # The number that the message gets in its topic, and by which it is known while it waits.
        self.sequence_number = sequence_number
        self.scheduled_number = 0
        self.found: dict[Subscription, Selection] = {}
        # How many of the SQL filters are evaluated, of which state of the rules.
        self.next_rule = 0
        self.version = 0
        self.is_done = False


class Selector:
    """The rules of all subscriptions of one topic, sorted by what it takes to evaluate them."""

    __slots__ = ("_correlated", "_correlation", "_judged", "_unconditional", "_version")

    def __init__(self) -> None:
        self._correlated: dict[Rule, Subscription] = {}
        self._unconditional: dict[Rule, Subscription] = {}
        self._correlation = CorrelationIndex()
        self._judged: dict[Rule, Subscription] = {}
        # Counts changes of the rules. Selecting begins at 0, so that it finds every state to be new.
        self._version = 1

    @property
    def judged_count(self) -> int:
        """How many filters are evaluated for each message."""
        return len(self._judged)

    @property
    def correlation_count(self) -> int:
        return len(self._correlated)

    def add(self, subscription: Subscription, rule: Rule) -> None:
        self._version += 1
        condition = rule.filter
        verdict = condition.verdict()
        if verdict is True:
            self._unconditional[rule] = subscription
        elif isinstance(condition, CorrelationFilter):
            self._correlation.add((subscription, rule), condition)
            self._correlated[rule] = subscription
        elif verdict is None:
            self._judged[rule] = subscription

    def remove(self, subscription: Subscription, rule: Rule) -> None:
        self._version += 1
        condition = rule.filter
        verdict = condition.verdict()
        if verdict is True:
            del self._unconditional[rule]
        elif isinstance(condition, CorrelationFilter):
            self._correlation.remove((subscription, rule))
            del self._correlated[rule]
        elif verdict is None:
            del self._judged[rule]

    def go_on(self, selecting: Selecting, work: int) -> int:
        """Find who gets the message, and by which rules; and whose rules cannot be evaluated for it.

        Stops when so much work is done: `is_done` says whether that was all. Returns what is left. When the rules have
        changed since the last call it begins anew.
        """
        subject = selecting.subject
        subject.work = 0
        if selecting.version != self._version:
            selecting.version = self._version
            selecting.found = self._select_by_index(subject)
            selecting.next_rule = 0
            selecting.acting = None
        found = selecting.found
        index = 0
        for rule, subscription in self._judged.items():
            index += 1
            if index <= selecting.next_rule:
                continue
            if subject.work >= work:
                return work - subject.work
            selecting.next_rule = index
            subject.work += _EVALUATION_WORK
            try:
                is_match = rule.filter.matches(subject)
            except RuleEvaluationError as error:
                _selection(found, subscription).errors.append(error)
                continue
            if is_match:
                _note(found, subscription, rule)
        selecting.is_done = _act(selecting, work)
        return work - subject.work

    def _select_by_index(self, subject: Subject) -> dict[Subscription, Selection]:
        """Who gets the message without any filter being evaluated."""
        found: dict[Subscription, Selection] = {}
        for rule, subscription in self._unconditional.items():
            _note(found, subscription, rule)
        subject.work += _LOOK_UP_WORK * self._correlation.group_count
        try:
            keys = self._correlation.find(subject)
        except RuleEvaluationError as error:
            # Its properties are no AMQP: which of these rules it meets, nobody can say.
            keys = []
            for subscription in self._correlated.values():
                _selection(found, subscription).errors.append(error)
        for key in keys:
            subscription, rule = cast("tuple[Subscription, Rule]", key)
            _note(found, subscription, rule)
        return found


def _act(selecting: Selecting, work: int) -> bool:
    """Evaluate actions while there is work left for them. Return whether all are evaluated."""
    subject = selecting.subject
    for selection in selecting.found.values():
        while selection.next_action < len(selection.rules):
            if subject.work >= work:
                return False
            rule = selection.rules[selection.next_action]
            selection.next_action += 1
            acting = selecting.acting
            if acting is None:
                acting = selecting.acting = Acting(selecting.stored)
            try:
                selection.acted.append(acting.act(subject, rule))
            except RuleEvaluationError as error:
                selection.errors.append(error)
    return True


def _selection(found: dict[Subscription, Selection], subscription: Subscription) -> Selection:
    selection = found.get(subscription)
    if selection is None:
        selection = found[subscription] = Selection()
    return selection


def _note(found: dict[Subscription, Selection], subscription: Subscription, rule: Rule) -> None:
    selection = _selection(found, subscription)
    if rule.action is None:
        selection.is_plain = True
    else:
        selection.rules.append(rule)
