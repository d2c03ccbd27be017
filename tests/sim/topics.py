"""What managers do with topics: make them, their subscriptions and rules, change and delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.addresses import subscription_path
from tandem.engine.description import EntityStatus
from tandem.engine.rule import Rule
from tandem.engine.subscription import DEFAULT_RULE, Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import EntityAlreadyExists, NotFound
from tests.sim.clients import Ask
from tests.sim.ledger import Book, Violation
from tests.sim.vocabulary import CONDITIONS, SimRule, draw_rule

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = [
    "add_rule",
    "create_subscription",
    "create_topic",
    "describe_subscription",
    "describe_topic",
    "remove_rule",
    "replace_rule",
]

# Rules of one subscription. Each may make a copy, and a subscription may forward all of them to its own topic.
_MAX_RULES: Final = 3

_RULE_NAMES: Final = (DEFAULT_RULE, "one", "Two", "three")
_LOCK_DURATIONS_MS: Final = (1_000, 5_000, 60_000)
_LIMITS: Final = (1, 2, 3, 10)
_LIVES_MS: Final = (1_000, 5_000, 60_000)
_WINDOWS_MS: Final = (20_000, 60_000, 600_000)


def create_topic(world: World) -> None:
    topics = [book for book in world.ledger.books.values() if book.is_topic]
    if len(topics) >= world.profile.topic_count:
        return
    name = f"t-{int(world.random.random() * 3)}"
    if world.ledger.find(name) is not None:
        return
    description = describe_topic(world, name, None)
    world.note(f"create {description.to_fields()}")
    world.auditor.descriptions[name] = description
    world.namespace.create_topic(description)
    world.namespace.effects.reply(Ask(world, f"create {name}"), None)


def describe_topic(world: World, name: str, old: Book | None) -> TopicDescription:
    random = world.random.random
    fixed = old.description if old is not None else None
    status = EntityStatus.ACTIVE
    if random() < 0.05:
        status = (EntityStatus.DISABLED, EntityStatus.SEND_DISABLED)[int(random() * 2)]
    return TopicDescription(
        name,
        max_size_in_megabytes=1 if random() < world.profile.small_share else 1_024,
        requires_duplicate_detection=fixed.requires_duplicate_detection if fixed is not None else random() < 0.4,
        default_message_time_to_live_ms=(
            _LIVES_MS[int(random() * len(_LIVES_MS))] if random() < world.profile.expiring_share / 2 else None
        ),
        duplicate_detection_history_time_window_ms=_WINDOWS_MS[int(random() * len(_WINDOWS_MS))],
        status=status,
        auto_delete_on_idle_ms=300_000 if random() < 0.03 else None,
        enable_partitioning=fixed.enable_partitioning if fixed is not None else random() < 0.15,
    )


def create_subscription(world: World) -> None:
    topic = world.pick_book("topic")
    if topic is None or len(world.ledger.subscriptions(topic)) >= world.profile.subscription_count:
        return
    random = world.random.random
    name = f"{'s' if random() < world.profile.session_share else 'p'}{int(random() * 5)}"
    description = describe_subscription(world, topic.description.name, name)
    if any(one.description.name == description.name for one in world.ledger.books.values()):
        return
    rules = None
    if random() < 0.8:
        names = sorted(_RULE_NAMES, key=lambda _: random())[: int(random() * (_MAX_RULES + 1))]
        rules = [draw_rule(world.random, one) for one in names]
    world.note(f"create {description.to_fields()} with {rules}")
    world.auditor.descriptions[description.name] = description
    for rule in [SimRule(DEFAULT_RULE, CONDITIONS[0], None)] if rules is None else rules:
        world.auditor.rules[description.name, rule.name.lower()] = rule
    made = None if rules is None else [Rule.from_fields(one.name, one.fields, world.now_ms) for one in rules]
    world.namespace.create_subscription(description, made)
    topic.accessed_ms = world.now_ms
    world.namespace.effects.reply(Ask(world, f"create {description.name}"), None)


def describe_subscription(world: World, topic_name: str, name: str) -> SubscriptionDescription:
    """Whether it has sessions is in its name, so that a new one of the same name is of the same kind."""
    random = world.random.random
    requires_session = name.startswith("s")
    path = subscription_path(topic_name, name)
    others = [
        book.description.name
        for book in world.ledger.books.values()
        if book.topic_name is None and not book.description.requires_session
    ]
    is_taken = any(
        book.topic_name is not None and book.description.name != path and _forwards_to_a_topic(world, book)
        for book in world.ledger.books.values()
    )
    if is_taken:
        # Copies of copies of copies: one subscription that brings them about is enough.
        others = [one for one in others if not one.startswith("t-")]
    forward_to = dead_to = None
    if others and random() < world.profile.forwarding_share:
        other = others[int(random() * len(others))]
        if random() < 0.6 and not requires_session:
            forward_to = other
        else:
            dead_to = other
    status = EntityStatus.ACTIVE
    if random() < 0.05:
        status = (EntityStatus.DISABLED, EntityStatus.RECEIVE_DISABLED)[int(random() * 2)]
    return SubscriptionDescription(
        topic_name,
        name,
        lock_duration_ms=_LOCK_DURATIONS_MS[int(random() * len(_LOCK_DURATIONS_MS))],
        requires_session=requires_session,
        default_message_time_to_live_ms=(
            _LIVES_MS[int(random() * len(_LIVES_MS))] if random() < world.profile.expiring_share / 2 else None
        ),
        dead_lettering_on_message_expiration=random() < 0.5,
        dead_lettering_on_filter_evaluation_exceptions=random() < 0.7,
        max_delivery_count=_LIMITS[int(random() * len(_LIMITS))],
        status=status,
        auto_delete_on_idle_ms=300_000 if random() < 0.03 else None,
        forward_to=forward_to,
        forward_dead_lettered_messages_to=dead_to,
    )


def _forwards_to_a_topic(world: World, book: Book) -> bool:
    description = book.description
    targets = (description.forward_to, description.forward_dead_lettered_messages_to)
    return any(target is not None and target.startswith("t-") for target in targets)


# --- rules ----------------------------------------------------------------------------------------------------------


def _subscription(world: World, book: Book) -> Subscription:
    subscription = world.queue(book)
    assert isinstance(subscription, Subscription)
    return subscription


def add_rule(world: World) -> None:
    """Under a name that may be taken, in any spelling."""
    book = world.pick_book("subscription")
    if book is None:
        return
    random = world.random
    name = _RULE_NAMES[int(random.random() * len(_RULE_NAMES))]
    rule = draw_rule(random, name if random.random() < 0.7 else name.upper())
    rules = world.ledger.rules_of(book)
    is_taken = any(one.name.lower() == rule.name.lower() for one in rules)
    if len(rules) >= _MAX_RULES and not is_taken:
        return
    world.note(f"add {rule} to {book.description.name}")
    if not is_taken:
        world.auditor.rules[book.description.name, rule.name.lower()] = rule
    try:
        _subscription(world, book).add_rule(Rule.from_fields(rule.name, rule.fields, world.now_ms))
    except EntityAlreadyExists:
        if not is_taken:
            raise
        return
    if is_taken:
        raise Violation("rules are what they were made", f"{rule.name} was added twice to {book.description.name}")
    book.accessed_ms = world.now_ms
    world.namespace.effects.reply(Ask(world, f"add rule {rule.name}"), None)


def remove_rule(world: World) -> None:
    book = world.pick_book("subscription")
    if book is None:
        return
    name = _RULE_NAMES[int(world.random.random() * len(_RULE_NAMES))]
    is_there = any(one.name.lower() == name.lower() for one in world.ledger.rules_of(book))
    world.note(f"remove {name} from {book.description.name}")
    if is_there:
        world.auditor.rules[book.description.name, name.lower()] = None
    try:
        _subscription(world, book).remove_rule(name)
    except NotFound:
        if is_there:
            raise
        return
    book.accessed_ms = world.now_ms
    world.namespace.effects.reply(Ask(world, f"remove rule {name}"), None)


def replace_rule(world: World) -> None:
    """The same name, perhaps in another spelling."""
    book = world.pick_book("subscription")
    rules = world.ledger.rules_of(book) if book is not None else []
    if book is None or not rules:
        return
    random = world.random
    old = rules[int(random.random() * len(rules))]
    asked = old.name if random.random() < 0.5 else old.name.upper()
    rule = draw_rule(random, old.name)
    world.note(f"replace {asked} of {book.description.name} by {rule}")
    world.auditor.rules[book.description.name, old.name.lower()] = rule
    _subscription(world, book).replace_rule(Rule.from_fields(asked, rule.fields, world.now_ms))
    book.accessed_ms = world.now_ms
    world.namespace.effects.reply(Ask(world, f"replace rule {asked}"), None)
