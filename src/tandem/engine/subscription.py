"""A subscription: a queue that a topic fills, by rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.effects import DropRule, PutRule
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.errors import EntityAlreadyExists, NotFound, QuotaExceeded
from tandem.limits import MAX_CORRELATION_FILTERS_PER_TOPIC, MAX_RULES_PER_SUBSCRIPTION, MAX_SQL_FILTERS_PER_TOPIC
from tandem.rules import CorrelationFilter, SqlFilter

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace
    from tandem.engine.topic import Topic

__all__ = ["DEFAULT_RULE", "Subscription"]

# The rule that a new subscription has, if none was given: everything.
DEFAULT_RULE: Final = "$Default"


class Subscription(Queue):
    """What one party wants of a topic, and what it has not received yet."""

    __slots__ = ("rules",)

    def __init__(
        self,
        namespace: Namespace,
        number: int,
        topic: Topic,
        description: SubscriptionDescription,
        created_at_ms: int,
    ) -> None:
        super().__init__(namespace, number, description, created_at_ms, topic)
        # By name in lower case.
        self.rules: dict[str, Rule] = {}

    @property
    def subscription_description(self) -> SubscriptionDescription:
        description = self.description
        assert isinstance(description, SubscriptionDescription)
        return description

    @property
    def parent(self) -> Topic:
        topic = self.topic
        assert topic is not None
        return topic

    def check_room(self, size_bytes: int) -> None:
        """All subscriptions share the room of their topic."""
        self.parent.check_room(size_bytes)

    # --- rules ----------------------------------------------------------------------------------------------

    def add_rule(self, rule: Rule) -> None:
        """From the next message on. What is in the subscription stays."""
        if rule.name.lower() in self.rules:
            raise EntityAlreadyExists(
                f"SubCode=40900. Conflict. The rule '{rule.name}' exists already in the subscription '{self.name}'."
            )
        self._check_count(rule)
        self.restore_rule(rule)
        self.touch()
        effects = self.namespace.effects
        effects.changes.append(PutRule(self.number, rule.name, rule.stored_fields(), rule.created_at_ms))

    def restore_rule(self, rule: Rule) -> None:
        self.rules[rule.name.lower()] = rule
        self.parent.selector.add(self, rule)

    def _check_count(self, rule: Rule) -> None:
        if len(self.rules) >= MAX_RULES_PER_SUBSCRIPTION:
            raise QuotaExceeded(
                f"The subscription '{self.name}' has {len(self.rules)} rules; at most {MAX_RULES_PER_SUBSCRIPTION} "
                "are allowed."
            )
        topic = self.parent
        selector = topic.selector
        is_judged = isinstance(rule.filter, SqlFilter) and rule.filter.verdict() is None
        if is_judged and selector.judged_count >= MAX_SQL_FILTERS_PER_TOPIC:
            raise QuotaExceeded(
                f"The topic '{topic.name}' has {selector.judged_count} SQL filters; at most "
                f"{MAX_SQL_FILTERS_PER_TOPIC} are allowed."
            )
        if (
            isinstance(rule.filter, CorrelationFilter)
            and selector.correlation_count >= MAX_CORRELATION_FILTERS_PER_TOPIC
        ):
            raise QuotaExceeded(
                f"The topic '{topic.name}' has {selector.correlation_count} correlation filters; at most "
                f"{MAX_CORRELATION_FILTERS_PER_TOPIC} are allowed."
            )

    def rule(self, name: str) -> Rule:
        rule = self.rules.get(name.lower())
        if rule is None:
            raise NotFound(f"The messaging entity '{self.name}/rules/{name}' could not be found.")
        return rule

    def remove_rule(self, name: str) -> None:
        rule = self.rule(name)
        del self.rules[name.lower()]
        self.parent.selector.remove(self, rule)
        self.touch()
        self.namespace.effects.changes.append(DropRule(self.number, rule.name))

    def replace_rule(self, rule: Rule) -> None:
        """The same name, another filter or action; in one step, so that no message falls between the two."""
        old = self.rule(rule.name)
        # One spelling of the name: rules are stored by it.
        rule.name = old.name
        rule.created_at_ms = old.created_at_ms
        self.parent.selector.remove(self, old)
        del self.rules[old.name.lower()]
        try:
            self._check_count(rule)
        except QuotaExceeded:
            self.restore_rule(old)
            raise
        self.restore_rule(rule)
        self.touch()
        effects = self.namespace.effects
        effects.changes.append(PutRule(self.number, rule.name, rule.stored_fields(), rule.created_at_ms))

    def forget_rules(self) -> None:
        """The subscription is being deleted."""
        for rule in self.rules.values():
            self.parent.selector.remove(self, rule)
        self.rules.clear()
