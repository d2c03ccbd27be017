"""One plan for start-up, reload, import and tests: it finds what is not possible before anything is changed."""

from __future__ import annotations

from tandem.desired_state import Outcome, Step, Wanted, apply, plan
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.namespace import Namespace
from tandem.engine.rule import Rule
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.tiers import Tier, limits_of
from tandem.engine.topic_description import TopicDescription
from tandem.ids import Nonces


def empty_namespace() -> Namespace:
    return Namespace("test", Nonces(lambda: bytes(8)), 1_000)


def outcomes(steps: list[Step]) -> dict[str, str]:
    return {step.wanted.description.name: step.outcome.value for step in steps}


def test_a_plan_changes_nothing_and_its_performance_everything() -> None:
    namespace = empty_namespace()
    wanted = [
        Wanted(QueueDescription("a", forward_to="t")),
        Wanted(TopicDescription("t")),
        Wanted(SubscriptionDescription("T", "s", forward_to="A"), [Rule.from_fields("r", {}, 0)]),
        Wanted(EventHubDescription("h")),
    ]
    steps = plan(namespace, wanted, updates=True)
    assert set(outcomes(steps).values()) == {"created"}
    assert (namespace.queues, namespace.topics, namespace.hubs.all) == ([], [], [])
    apply(namespace, steps)
    assert namespace.get("a").description.forward_to == "t"
    subscription = namespace.subscription("t", "s")
    assert (subscription.name, subscription.description.forward_to) == ("t/Subscriptions/s", "A")
    assert [(rule.name, rule.created_at_ms) for rule in subscription.rules.values()] == [("r", 1_000)]
    assert set(outcomes(plan(namespace, wanted, updates=True)).values()) == {"unchanged"}
    assert set(outcomes(plan(namespace, wanted, updates=False)).values()) == {"kept"}


def test_settings_that_are_not_stated_stay_and_those_of_a_whole_description_do_not() -> None:
    namespace = empty_namespace()
    namespace.create_queue(QueueDescription("Orders", lock_duration_ms=5_000, max_delivery_count=3))
    changed = QueueDescription("orders", max_delivery_count=7)
    (step,) = plan(namespace, [Wanted(changed, given=frozenset({"max_delivery_count"}))], updates=True)
    assert (step.outcome, step.names) == (Outcome.UPDATED, ["max_delivery_count"])
    apply(namespace, [step])
    description = namespace.get("orders").description
    assert (description.name, description.lock_duration_ms, description.max_delivery_count) == ("Orders", 5_000, 7)
    (step,) = plan(namespace, [Wanted(changed)], updates=True)
    assert step.names == ["lock_duration_ms"]
    apply(namespace, [step])
    assert namespace.get("orders").description.lock_duration_ms == 60_000


def test_rules_and_groups_go_only_where_everything_is_stated() -> None:
    namespace = empty_namespace()
    namespace.create_topic(TopicDescription("t"))
    namespace.create_subscription(SubscriptionDescription("t", "s"), [Rule.from_fields("old", {}, 0)])
    namespace.hubs.create(EventHubDescription("h", consumer_groups=["theirs"]))
    subscription, hub = SubscriptionDescription("t", "s"), EventHubDescription("h", consumer_groups=["mine"])
    for given, rules, groups in (
        (frozenset({"consumer_groups"}), ["new", "old"], ["$Default", "theirs", "mine"]),
        (None, ["new"], ["$Default", "mine"]),
    ):
        wanted = [Wanted(subscription, [Rule.from_fields("new", {}, 0)], given), Wanted(hub, given=given)]
        apply(namespace, plan(namespace, wanted, updates=True))
        assert sorted(namespace.subscription("t", "s").rules) == rules
        assert namespace.hubs.get("h").description.consumer_groups == groups


def test_each_impossible_entity_has_its_reason() -> None:
    namespace = empty_namespace()
    namespace.create_queue(QueueDescription("q", requires_session=True))
    wanted = [
        Wanted(QueueDescription("q")),
        Wanted(TopicDescription("Q")),
        Wanted(SubscriptionDescription("Q", "s")),
        Wanted(SubscriptionDescription("nowhere", "s")),
        Wanted(QueueDescription("lost", forward_to="nowhere")),
        Wanted(EventHubDescription("q")),
        Wanted(QueueDescription("large", max_delivery_count=5_000)),
    ]
    steps = plan(namespace, wanted, updates=True, limits=limits_of(Tier.STANDARD))
    assert {step.outcome for step in steps} == {Outcome.FAILED}
    reasons = [str(step.error) for step in steps]
    for reason, part in zip(
        reasons,
        (
            "requires_session is true and cannot be changed to false: delete the queue",
            "a queue of this name exists already",
            "could not be found",
            "could not be found",
            "forward_to is 'nowhere', which neither exists nor is about to be created",
            "a queue of this name exists already",
            "max_delivery_count is 5000; in the tier standard of this namespace it must be at most 2000",
        ),
        strict=True,
    ):
        assert part in reason
