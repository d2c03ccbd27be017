"""Entities as they are to be: a plan of steps that lead there, and the steps performed.

A start with a configuration, a reload, an import and the pytest plugin all work in this way. The plan finds whatever is
not possible before anything is changed. Entities forward to each other, in any order and in a ring: each is made first
without those targets that do not exist yet, and given them at the end.

Nothing is ever deleted except, where all of a subscription or a hub is stated, rules and consumer groups that are not.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tandem.arrow import require_arrow
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.stored_description import description_of
from tandem.engine.subscription import Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.tier_checks import check_entity, check_hub
from tandem.engine.tiers import TierLimits
from tandem.engine.topic_description import TopicDescription
from tandem.entity_settings import HUB, NAME_FIELDS, RULES_FIELD, Form, fixed_change, settings_of
from tandem.errors import ArgumentError, ArrowUnavailable, ProtocolError

__all__ = ["Outcome", "Planner", "Step", "Wanted", "apply", "finish", "make", "plan"]

Description = QueueDescription | EventHubDescription

_GROUPS: Final = "consumer_groups"


class Outcome(enum.Enum):
    """What becomes of an entity."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    KEPT = "kept"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An entity as it is to be."""

    description: Description
    # Of a subscription. None leaves those that exist, and gives a new one the rule that selects everything.
    rules: list[Rule] | None = None
    # The settings that are stated; others stay as they are, as do rules and consumer groups. None states everything.
    given: frozenset[str] | None = None


@dataclass(slots=True)
class Step:
    """What becomes of one entity, and what has to be done for it."""

    wanted: Wanted
    outcome: Outcome
    error: ProtocolError | None = None
    # The description to create it with, or to give it; None if it has that already.
    description: Description | None = None
    # The settings that change.
    names: list[str] = field(default_factory=list)
    # Rules to put, and the names of rules to remove.
    rules: list[Rule] = field(default_factory=list)
    gone_rules: list[str] = field(default_factory=list)
    # In words, once they are done: a verb and the rule.
    rule_changes: list[tuple[str, Rule]] = field(default_factory=list)
    # Some targets are still to be set.
    is_unfinished: bool = False

    def fail(self, error: ProtocolError) -> None:
        self.outcome, self.error = Outcome.FAILED, error


# --- planning -------------------------------------------------------------------------------------------------------


def plan(
    namespace: Namespace, wanted: Sequence[Wanted], *, updates: bool, limits: TierLimits | None = None
) -> list[Step]:
    """Return a step for each entity. What is not possible has the outcome FAILED, and its error."""
    planner = Planner({one.description.name: one.description.kind for one in wanted}, updates=updates, limits=limits)
    return [planner.step(namespace, one) for one in wanted]


class Planner:
    """Plans entity by entity, topics before their subscriptions."""

    def __init__(self, kinds: Mapping[str, str], *, updates: bool, limits: TierLimits | None = None) -> None:
        """`kinds` are those of all entities of the plan, by name. `limits` are those of the tier to come."""
        self._updates = updates
        self._limits = limits
        # They can be forwarded to, or have subscriptions, once they are made.
        self._coming = {name.lower(): kind for name, kind in kinds.items() if kind in {"queue", "topic"}}
        self._arrow_error: ArrowUnavailable | None = None

    def forget(self, name: str) -> None:
        """An entity cannot be made."""
        self._coming.pop(name.lower(), None)

    def check_arrow(self) -> None:
        """Find out once whether event hubs can be created. It takes a moment: a server calls it in a thread."""
        if self._arrow_error is None:
            try:
                require_arrow()
            except ArrowUnavailable as error:
                self._arrow_error = error

    def step(self, namespace: Namespace, wanted: Wanted) -> Step:
        try:
            return self._step(namespace, wanted)
        except ProtocolError as error:
            self.forget(wanted.description.name)
            return Step(wanted, Outcome.FAILED, error)

    def _step(self, namespace: Namespace, wanted: Wanted) -> Step:
        description = wanted.description
        existing = _existing(namespace, description)
        if existing is not None and not self._updates:
            return Step(wanted, Outcome.KEPT)
        self._check_targets(namespace, description)
        limits = self._limits or namespace.limits
        if existing is None:
            self._check_parts(namespace, description)
            _check_tier(limits, description, None)
            if isinstance(description, QueueDescription):
                description.choose_message_size(limits.default_message_size_in_kilobytes)
            return Step(wanted, Outcome.CREATED, description=description, rules=wanted.rules or [])
        step = Step(wanted, Outcome.UNCHANGED)
        changes = _changes(existing, wanted)
        if changes:
            step.names = sorted(changes)
            step.description = _described(description.kind, {**existing.description.stored_fields(), **changes})
            _check_tier(limits, step.description, existing.description)
        if isinstance(existing, Subscription) and wanted.rules is not None:
            _plan_rules(step, existing, wanted.rules)
        if changes or step.rules or step.gone_rules:
            step.outcome = Outcome.UPDATED
        return step

    def _check_targets(self, namespace: Namespace, description: Description) -> None:
        for name, target in _targets(description).items():
            if target.lower() not in self._coming and namespace.find(target) is None:
                raise ArgumentError.of(
                    "{field} is {value}, which neither exists nor is about to be created", name, value=target
                )

    def _check_parts(self, namespace: Namespace, description: Description) -> None:
        """Refuse an entity that lacks what it is made of."""
        if isinstance(description, EventHubDescription):
            self.check_arrow()
            if self._arrow_error is not None:
                raise self._arrow_error
        elif isinstance(description, SubscriptionDescription):
            topic = description.topic_name
            if self._coming.get(topic.lower()) != "topic":
                namespace.topic(topic)


def _existing(namespace: Namespace, description: Description) -> Queue | EventHub | None:
    entity = namespace.find_any(description.name)
    hub = namespace.hubs.find(description.name)
    if entity is not None and entity.description.kind != description.kind:
        raise _name_taken(f"a {entity.description.kind}")
    if hub is not None and description.kind != HUB:
        raise _name_taken("an event hub")
    return entity or hub


def _name_taken(existing: str) -> ArgumentError:
    return ArgumentError(f"{existing} of this name exists already: delete it, or choose another name")


def _check_tier(limits: TierLimits, wanted: Description, existing: object) -> None:
    if isinstance(wanted, EventHubDescription):
        check_hub(limits, wanted, existing if isinstance(existing, EventHubDescription) else None)
    else:
        check_entity(limits, wanted, existing if isinstance(existing, QueueDescription) else None)


def _changes(existing: Queue | EventHub, wanted: Wanted) -> dict[str, object]:
    """Return the settings that have to change, with their new values."""
    current, description = existing.description, wanted.description
    if isinstance(description, QueueDescription) and isinstance(current, QueueDescription):
        description.choose_message_size(current.max_message_size_in_kilobytes)
    # An empty list takes the rules back; without one they would stay.
    before = {RULES_FIELD: [], **current.stored_fields()}
    after = {RULES_FIELD: [], **description.stored_fields()}
    stated: Iterable[str] | None = wanted.given
    if stated is None:
        # A description without keys leaves those that there are.
        stated = after.keys() - ({RULES_FIELD} if description.authorization_rules is None else set())
    elif isinstance(current, EventHubDescription) and isinstance(description, EventHubDescription):
        # A group that is not stated belongs to somebody else.
        new = [group for group in description.consumer_groups if current.find_group(group) is None]
        after[_GROUPS] = [*current.consumer_groups, *new]
    names = NAME_FIELDS[description.kind]
    changes = {name: after.get(name) for name in stated if name not in names and before.get(name) != after.get(name)}
    fixed = fixed_change(description.kind, before, {**before, **changes})
    if fixed is not None:
        raise ArgumentError.of(
            f"{{field}} is {{existing}} and cannot be changed to {{value}}: delete the {description.kind} with all it "
            "holds first, or take the setting back",
            fixed.name,
            existing=before[fixed.name],
            value=changes[fixed.name],
        )
    return changes


def _plan_rules(step: Step, existing: Subscription, rules: list[Rule]) -> None:
    states_all = step.wanted.given is None
    for rule in rules:
        known = existing.rules.get(rule.name.lower())
        # What is stated in part says nothing about how values are written.
        is_same = known is not None and (
            known.stored_fields() == rule.stored_fields() if states_all else known.to_fields() == rule.to_fields()
        )
        if not is_same:
            step.rules.append(rule)
    if states_all:
        stated = {rule.name.lower() for rule in rules}
        step.gone_rules = [rule.name for name, rule in existing.rules.items() if name not in stated]


def _targets(description: Description) -> dict[str, str]:
    """Return the entities that an entity forwards to, by setting."""
    values = {
        one.name: description.values[one.name] for one in settings_of(description.kind) if one.form is Form.ADDRESS
    }
    return {name: value for name, value in values.items() if isinstance(value, str)}


def _described(kind: str, fields: dict[str, object]) -> Description:
    return EventHubDescription.from_fields(fields) if kind == HUB else description_of(kind, fields)


# --- performing -----------------------------------------------------------------------------------------------------


def apply(namespace: Namespace, steps: Sequence[Step]) -> None:
    """Perform a plan without failed steps."""
    for step in steps:
        make(namespace, step)
    for step in steps:
        finish(namespace, step)


def make(namespace: Namespace, step: Step) -> None:
    """Create or change an entity, without targets of forwarding that do not exist yet."""
    if step.outcome is Outcome.CREATED:
        _create(namespace, step)
    elif step.outcome is Outcome.UPDATED:
        _update(namespace, step)


def finish(namespace: Namespace, step: Step) -> None:
    """Set the targets that were missing: by now everything exists that ever will."""
    if step.is_unfinished and step.outcome is not Outcome.FAILED:
        assert step.description is not None
        entity = namespace.get(step.description.name)
        fields = {**step.description.stored_fields(), **entity.description.name_fields()}
        namespace.update_queue(entity, description_of(step.description.kind, fields))


def _create(namespace: Namespace, step: Step) -> None:
    description = step.description
    if isinstance(description, EventHubDescription):
        namespace.hubs.create(description)
        return
    assert description is not None
    now = _possible(namespace, step, description)
    for rule in step.rules:
        rule.created_at_ms = namespace.now_ms
    if isinstance(now, SubscriptionDescription):
        namespace.create_subscription(now, None if step.wanted.rules is None else step.rules)
    elif isinstance(now, TopicDescription):
        namespace.create_topic(now)
    else:
        namespace.create_queue(now)


def _update(namespace: Namespace, step: Step) -> None:
    wanted = step.wanted.description
    if isinstance(step.description, EventHubDescription):
        namespace.hubs.update(namespace.hubs.get(wanted.name), step.description)
        return
    entity = namespace.get(wanted.name)
    if step.description is not None:
        namespace.update_queue(entity, _possible(namespace, step, step.description))
    if isinstance(entity, Subscription):
        for name in step.gone_rules:
            entity.remove_rule(name)
        for rule in step.rules:
            _put_rule(entity, step, rule)


def _put_rule(subscription: Subscription, step: Step, rule: Rule) -> None:
    if rule.name.lower() in subscription.rules:
        subscription.replace_rule(rule)
        step.rule_changes.append(("updated", rule))
    else:
        rule.created_at_ms = subscription.namespace.now_ms
        subscription.add_rule(rule)
        step.rule_changes.append(("created", rule))


def _possible(namespace: Namespace, step: Step, description: QueueDescription) -> QueueDescription:
    missing = [name for name, target in _targets(description).items() if namespace.find(target) is None]
    if not missing:
        return description
    step.is_unfinished = True
    return description_of(description.kind, {**description.stored_fields(), **dict.fromkeys(missing)})
