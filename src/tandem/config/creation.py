"""The entities of a configuration: planned together, then created and, on a reload, changed as the file says."""

from __future__ import annotations

from collections.abc import Sequence

from tandem.config.configuration import NamespaceSettings
from tandem.desired_state import Outcome, Step, Wanted, apply, plan
from tandem.engine.namespace import Namespace
from tandem.engine.tiers import limits_of
from tandem.errors import ConfigurationError

__all__ = ["apply_entities", "plan_entities"]


def plan_entities(namespace: Namespace, settings: NamespaceSettings, *, updates: bool) -> list[Step]:
    """Plan to create what is missing; with `updates`, also to change what the file says otherwise.

    Settings, rules and consumer groups that the file does not have stay as they are. Raises ConfigurationError for what
    is not possible, before anything is done.
    """
    given = settings.given
    topics = [topic.description for topic in settings.topics]
    subscriptions = [one for topic in settings.topics for one in topic.subscriptions]
    wanted = [Wanted(one, given=given.get(one.name.lower(), frozenset())) for one in [*settings.queues, *topics]]
    wanted += [
        Wanted(one.description, one.rules, given.get(one.description.name.lower(), frozenset()))
        for one in subscriptions
    ]
    wanted += [Wanted(one, given=given.get(one.name.lower(), frozenset())) for one in settings.hubs]
    limits = namespace.limits if settings.tier is None else limits_of(settings.tier)
    steps = plan(namespace, wanted, updates=updates, limits=limits)
    for step in steps:
        if step.error is not None:
            description = step.wanted.description
            raise ConfigurationError(f"the {description.kind} {description.name!r}: {step.error}") from step.error
    return steps


def apply_entities(namespace: Namespace, steps: Sequence[Step]) -> list[str]:
    """Perform a plan, and say what was done: what was created, then what was changed."""
    apply(namespace, steps)
    created = [f"created {_title(namespace, step)}" for step in steps if step.outcome is Outcome.CREATED]
    changed: list[str] = []
    for step in steps:
        if step.outcome is Outcome.UPDATED:
            title = _title(namespace, step)
            changed += [f"updated {title}: {', '.join(step.names)}"] if step.names else []
            changed += [f"{verb} the rule {rule.name} of {title}" for verb, rule in step.rule_changes]
    return created + changed


def _title(namespace: Namespace, step: Step) -> str:
    """Return the entity as it spells itself."""
    name = step.wanted.description.name
    entity = namespace.find_any(name) or namespace.hubs.get(name)
    return f"the {entity.description.kind} {entity.name}"
