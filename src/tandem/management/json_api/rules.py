"""Rules of subscriptions over HTTP."""

from __future__ import annotations

from typing import ClassVar

from tandem.addresses import subscription_path
from tandem.engine.namespace import Namespace
from tandem.engine.rule import Rule
from tandem.engine.subscription import Subscription
from tandem.entity_settings import SUBSCRIPTION
from tandem.management.json_api.entity_handlers import Fields, Handlers, Names, Noun
from tandem.management.json_api.entity_shapes import Rule as ShownRule
from tandem.management.json_api.entity_shapes import RuleList, RuleSettings

__all__ = ["RuleHandlers", "rules_of"]


class RuleOf:
    """A rule, and the subscription that it is of."""

    def __init__(self, subscription: Subscription, rule: Rule) -> None:
        self.subscription = subscription
        self.rule = rule


class RuleHandlers(Handlers[RuleOf]):
    """`/$api/v1/topics/{topic_name}/subscriptions/{subscription_name}/rules`"""

    noun: ClassVar[Noun] = Noun(
        "rule",
        "/topics/{topic_name}/subscriptions/{subscription_name}/rules",
        SUBSCRIPTION,
        ShownRule,
        RuleList,
        RuleSettings,
        list_holder=SUBSCRIPTION,
    )

    def path(self, names: Names) -> str:
        return subscription_path(names["topic_name"], names["subscription_name"])

    def all(self, namespace: Namespace, names: Names) -> list[RuleOf]:
        subscription = _subscription(namespace, names)
        return [RuleOf(subscription, rule) for rule in rules_of(subscription)]

    def find(self, namespace: Namespace, names: Names) -> RuleOf:
        subscription = _subscription(namespace, names)
        return RuleOf(subscription, subscription.rule(names["name"]))

    def make(self, namespace: Namespace, names: Names, fields: Fields) -> RuleOf:
        rule = Rule.from_fields(names["name"], fields, namespace.now_ms)
        subscription = _subscription(namespace, names)
        subscription.add_rule(rule)
        return RuleOf(subscription, rule)

    def change(self, namespace: Namespace, entity: RuleOf, fields: Fields) -> RuleOf:
        old = entity.rule
        rule = Rule.from_fields(old.name, {**old.stored_fields(), **fields}, old.created_at_ms)
        entity.subscription.replace_rule(rule)
        return RuleOf(entity.subscription, rule)

    def remove(self, namespace: Namespace, entity: RuleOf) -> None:
        entity.subscription.remove_rule(entity.rule.name)

    def fields(self, entity: RuleOf) -> Fields:
        rule = entity.rule
        return {"name": rule.name, **rule.to_fields(), "created_at_ms": rule.created_at_ms}


def _subscription(namespace: Namespace, names: Names) -> Subscription:
    return namespace.subscription(names["topic_name"], names["subscription_name"])


def rules_of(subscription: Subscription) -> list[Rule]:
    """In the order of their names."""
    return [subscription.rules[name] for name in sorted(subscription.rules)]
