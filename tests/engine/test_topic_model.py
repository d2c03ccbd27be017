"""One topic against a naive model of it: each subscription is a list of messages, each rule a line of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tandem.engine.subscription import Subscription
from tandem.errors import EntityAlreadyExists
from tests.drawing import examples
from tests.engine.desk import body, properties_of
from tests.engine.topic_desk import TopicDesk, colored, correlation, sql
from tests.engine.topic_desk import rule as make_rule

NAMES: Final = ("one", "two", "three")
RULE_NAMES: Final = ("first", "Second")
SOURCES: Final = ("news", "source")
# A quarter of an hour: no message id is forgotten while the model runs, unless it waits.
WINDOW_MS: Final = 900_000


class Sent(NamedTuple):
    """What the model knows of a message or of a copy."""

    text: str
    color: str | None
    # The name of the rule whose action made it, and whether that failed.
    rule_name: str | None = None
    is_dead: bool = False
    size_bytes: int = 0


class ModelRule(NamedTuple):
    """A rule: whether it selects a message, or fails, and what color its action gives."""

    name: str
    condition: dict[str, object] | None
    selects: Callable[[Sent], bool | None]
    paint: str | None


CONDITIONS: Final[list[tuple[dict[str, object] | None, Callable[[Sent], bool | None]]]] = [
    (None, lambda _: True),
    ({"kind": "false"}, lambda _: False),
    (correlation(properties={"color": "red"}), lambda one: one.color == "red"),
    (sql("color = 'blue' OR color IS NULL"), lambda one: one.color in {"blue", None}),
    # Colors are not to be divided; nothing divided by two is unknown.
    (sql("color / 2 = 1"), lambda one: None if one.color is not None else False),
]


class TopicModel(RuleBasedStateMachine):
    """The engine and the model get the same commands; whatever can be seen must be the same."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = TopicDesk()
        self.topic = self.desk.topic(
            requires_duplicate_detection=True, duplicate_detection_history_time_window_ms=WINDOW_MS
        )
        self.source = self.desk.queue("source", forward_to="news")
        self.rules_of: dict[str, dict[str, ModelRule]] = {}
        self.held: dict[str, list[Sent]] = {}
        self.dead: dict[str, list[Sent]] = {}
        self.seen: dict[str, int] = {}
        # When each is due, and whether it has to be forwarded then: that takes a turn more.
        self.scheduled: list[tuple[int, bool, Sent]] = []
        self.sent_count = 0

    def _subscription(self, name: str) -> Subscription:
        return self.desk.namespace.subscription("news", name)

    # --- the model ------------------------------------------------------------------------------------------

    def _is_new(self, message_id: str) -> bool:
        now_ms = self.desk.now_ms
        if self.seen.get(message_id, 0) > now_ms - WINDOW_MS:
            return False
        self.seen[message_id] = now_ms
        return True

    def _publish(self, message: Sent) -> None:
        for name, rules in self.rules_of.items():
            verdicts = [(one, one.selects(message)) for one in rules.values()]
            if any(verdict and one.paint is None for one, verdict in verdicts):
                self.held[name].append(message)
            for one, verdict in verdicts:
                if verdict and one.paint is not None:
                    self.held[name].append(message._replace(color=one.paint, rule_name=one.name))
            if any(verdict is None for _, verdict in verdicts):
                self.dead[name].append(message._replace(is_dead=True))

    # --- commands -------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), data=st.data())
    def subscribe(self, name: str, data: st.DataObject) -> None:
        names = data.draw(st.lists(st.sampled_from(RULE_NAMES), unique=True), label="rules")
        rules = [self._draw_rule(data, one) for one in names]
        if name in self.rules_of:
            self.desk.namespace.delete(self._subscription(name))
        self.desk.subscription(self.topic, name)
        self.rules_of[name], self.held[name], self.dead[name] = {}, [], []
        subscription = self._subscription(name)
        subscription.remove_rule("$Default")
        for one in rules:
            subscription.add_rule(make_rule(one.name, one.condition, _action(one)))
            self.rules_of[name][one.name] = one
        self.desk.flush()

    def _draw_rule(self, data: st.DataObject, name: str) -> ModelRule:
        condition, selects = data.draw(st.sampled_from(CONDITIONS), label="condition")
        return ModelRule(name, condition, selects, data.draw(st.sampled_from([None, None, "green"]), label="paint"))

    @precondition(lambda self: self.rules_of)
    @rule(data=st.data(), rule_name=st.sampled_from(RULE_NAMES), how=st.sampled_from(["add", "replace", "remove"]))
    def change_rule(self, data: st.DataObject, rule_name: str, how: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.rules_of)), label="subscription")
        subscription, rules = self._subscription(name), self.rules_of[name]
        if how == "remove" and rule_name in rules:
            subscription.remove_rule(rule_name.upper())
            del rules[rule_name]
        elif how != "remove":
            one = self._draw_rule(data, rule_name)
            made = make_rule(one.name.lower() if rule_name in rules else one.name, one.condition, _action(one))
            if rule_name not in rules:
                subscription.add_rule(made)
                rules[rule_name] = one
            elif how == "replace":
                subscription.replace_rule(made)
                rules[rule_name] = one
            else:
                try:
                    subscription.add_rule(made)
                except EntityAlreadyExists:
                    return
                raise AssertionError(f"{rule_name} was added twice")
        self.desk.flush()

    @precondition(lambda self: self.rules_of)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.rules_of)), label="subscription")
        self.desk.namespace.delete(self._subscription(name))
        del self.rules_of[name], self.held[name], self.dead[name]
        self.desk.flush()

    @rule(
        color=st.sampled_from([None, "red", "blue"]),
        message_id=st.sampled_from([None, None, "x", "y"]),
        delay_ms=st.sampled_from([0, 0, 3_000]),
        source=st.sampled_from(SOURCES),
    )
    def send(self, color: str | None, message_id: str | None, delay_ms: int, source: str) -> None:
        """To the topic, or to a queue that forwards to it."""
        text = f"{self.sent_count}"
        self.sent_count += 1
        identifier = message_id or f"id-{text}"
        due_ms = self.desk.now_ms + delay_ms if delay_ms else None
        message = colored(text, color, message_id=identifier, due_ms=due_ms)
        self.desk.send(self.desk.namespace.get(source), message)
        self.desk.advance(0)
        # A message that moves from one queue to another is not judged again.
        is_judged = source == "news" or due_ms is None
        if is_judged and not self._is_new(identifier):
            return
        sent = Sent(text, color, size_bytes=len(message))
        if due_ms is None:
            self._publish(sent)
        else:
            self.scheduled.append((due_ms, source != "news", sent))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), count=st.integers(1, 3))
    def receive(self, data: st.DataObject, count: int) -> None:
        name = data.draw(st.sampled_from([one for one in sorted(self.held) if self.held[one]]), label="subscription")
        subqueue = self._subscription(name).main
        consumer = self.desk.receiver(subqueue, credit=count)
        locks = self.desk.take()
        taken, self.held[name] = self.held[name][:count], self.held[name][count:]
        # Copies of one message have no order among them.
        expected = sorted([(one.text, one.color, one.rule_name) for one in taken], key=repr)
        found = [(body(lock), properties_of(lock).get("color"), properties_of(lock).get("RuleName")) for lock in locks]
        assert sorted([text for text, _, _ in found]) == sorted([text for text, _, _ in expected])
        for lock in locks:
            subqueue.complete(lock)
        subqueue.close_consumer(consumer)
        self.desk.flush()
        if sorted(found, key=repr) != expected:
            self._swap(name, taken, found)

    def _swap(self, name: str, taken: list[Sent], found: list[tuple[str, object, object]]) -> None:
        """The page ended between copies of one message: what was taken for the others is still there."""
        pool = taken + self.held[name]
        for text, color, rule_name in found:
            pool.remove(next(one for one in pool if (one.text, one.color, one.rule_name) == (text, color, rule_name)))
        self.held[name] = pool

    @rule(by_ms=st.sampled_from([1, 3_000, 1_000_000]))
    def wait(self, by_ms: int) -> None:
        until_ms = self.desk.now_ms + by_ms
        due = sorted([entry for entry in self.scheduled if entry[0] <= until_ms], key=lambda one: one[:2])
        self.scheduled = [entry for entry in self.scheduled if entry[0] > until_ms]
        # Moment by moment: what one leap makes due in two places has no order between them.
        for due_ms, _, message in due:
            self.desk.advance(due_ms - self.desk.now_ms)
            self._publish(message)
            self.desk.advance(0)
        self.desk.advance(until_ms - self.desk.now_ms)

    @rule()
    def restart(self) -> None:
        self.desk.restart()
        self.desk.advance(0)
        self.topic = self.desk.namespace.topic("news")
        self.source = self.desk.namespace.get("source")

    # --- what must be the same ------------------------------------------------------------------------------

    @invariant()
    def subscriptions_hold_what_their_rules_selected(self) -> None:
        assert sorted(self.topic.subscriptions) == sorted(self.rules_of)
        for name, held in self.held.items():
            subscription = self._subscription(name)
            assert sorted(self.desk.peek(subscription.main, 1_000)) == sorted([one.text for one in held])
            dead = subscription.dead_letter_queue
            assert sorted(self.desk.peek(dead, 1_000)) == sorted([one.text for one in self.dead[name]])
            assert (subscription.main.active_count, dead.active_count) == (len(held), len(self.dead[name]))
        waiting = self.topic.main.scheduled_count + self.source.main.scheduled_count
        assert waiting == len(self.scheduled)

    @invariant()
    def a_body_is_there_as_long_as_two_were_made_of_it_and_one_is_left(self) -> None:
        shared = [kept for stream in self.desk.store._streams.values() for kept in stream.messages.values()]
        counts: dict[int, int] = {}
        for kept in shared:
            if kept.body_number:
                counts[kept.body_number] = counts.get(kept.body_number, 0) + 1
        assert self.desk.bodies_in_store() == counts
        copies = [one for lists in (self.held, self.dead) for held in lists.values() for one in held]
        assert len(copies) + len(self.scheduled) == len(shared)


def _action(one: ModelRule) -> str | None:
    return None if one.paint is None else f"SET color = '{one.paint}'"


TestTopicModel = TopicModel.TestCase
TestTopicModel.settings = settings(max_examples=examples(100), stateful_step_count=40)
