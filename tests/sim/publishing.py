"""What a topic has to make of a message: decided here from the rules alone, subscription by subscription."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tandem.engine.message import NEVER_MS, BrokeredMessage
from tests.sim.ledger import DEAD, MAIN, Book, DuplicateKey, Entry, Ledger, Stop, Violation
from tests.sim.vocabulary import Action, CannotSay, Content

__all__ = ["WHOLE", "Copy", "Match", "Publication"]

_FILTER_ERROR: Final = "FilterEvaluationException"
_NO_SESSION: Final = "Session ID is null"
WHOLE: Final = "every subscription gets what its rules select"


class Copy(NamedTuple):
    """A copy that must come of a message."""

    subscription: Book
    content: Content
    size_bytes: int
    time_to_live_ms: int
    scheduled_ms: int
    # Why it is dead from the start, if it is.
    reason: str | None
    # Where it may be, the expected place first.
    stops: list[Stop]

    def place_of(self, message: BrokeredMessage) -> Stop | None:
        """Two ways of equal length may end in one place: they are told apart by who looks for duplicates on them."""
        asked = [number for number, _, _ in message.duplicate_keys or ()]
        for stop in self.stops:
            passed = [one.number for one in stop.passed[1:] if one.description.requires_duplicate_detection]
            # A queue that it comes back to does not ask again.
            on_the_way = list(dict.fromkeys(passed))
            if (stop.stream, stop.hops, on_the_way) == (message.stream, message.hop_count, asked):
                return stop
        return None

    def is_like(self, message: BrokeredMessage, content: Content) -> bool:
        """Whether the broker's copy is this one."""
        stop = self.place_of(message)
        if stop is None or (message.size_bytes, message.time_to_live_ms) != (self.size_bytes, self.time_to_live_ms):
            return False
        if stop.kind == MAIN:
            return content.key == self.content.key
        reason = content.user.get("DeadLetterReason")
        if reason is None or (self.reason is not None and reason != self.reason):
            return False
        # A message may have been dead before, elsewhere.
        return _without_reason(content).key == _without_reason(self.content).key


def _without_reason(content: Content) -> Content:
    return content.without("DeadLetterReason").without("DeadLetterErrorDescription")


class Match(NamedTuple):
    """A copy that must come, and the message that it is."""

    copy: Copy
    message: BrokeredMessage
    content: Content
    stop: Stop


class Publication:
    """A message that a topic passes on, and what has to come of it."""

    def __init__(self, ledger: Ledger, topic: Book, original: Entry, keys: list[DuplicateKey], now_ms: int) -> None:
        self._now_ms = now_ms
        self.topic = topic
        self.original = original
        # What tells whether it was there before; nothing, if that was asked when it came to wait in its topic.
        self.keys = keys
        default_ms = topic.description.default_message_time_to_live_ms
        self._life_ms = min(original.time_to_live_ms, NEVER_MS if default_ms is None else default_ms)
        self.copies: list[Copy] = []
        for subscription in ledger.subscriptions(topic):
            self._select(ledger, subscription)

    def _select(self, ledger: Ledger, subscription: Book) -> None:
        """One copy for all rules without an action that are met, one for each with an action, one for a failure."""
        original = self.original
        content = original.content
        is_plain = is_failed = False
        for rule in ledger.rules_of(subscription):
            try:
                if not rule.condition.is_met(content):
                    continue
                if rule.action is None:
                    is_plain = True
                    continue
                changed = rule.action.change(content).with_user({"RuleName": rule.name})
            except CannotSay:
                is_failed = True
                continue
            size_bytes = original.size_bytes + changed.front_bytes - content.front_bytes
            self._add(ledger, subscription, changed, size_bytes, rule.action)
        if is_plain:
            self._add(ledger, subscription, content, original.size_bytes, None)
        fields = subscription.description.to_fields()
        if is_failed and fields["dead_lettering_on_filter_evaluation_exceptions"]:
            dead = [Stop(subscription, DEAD, original.hops, [subscription])]
            self.copies.append(
                Copy(
                    subscription,
                    content,
                    original.size_bytes,
                    self._life_ms,
                    original.scheduled_ms,
                    _FILTER_ERROR,
                    dead,
                )
            )

    def _add(
        self, ledger: Ledger, subscription: Book, content: Content, size_bytes: int, action: Action | None
    ) -> None:
        reason = None
        life_ms, scheduled_ms = self._life_ms, self.original.scheduled_ms
        if action is not None:
            life_ms, scheduled_ms = action.time_to_live_ms or life_ms, action.scheduled_ms or scheduled_ms
        hops = self.original.hops
        if not subscription.description.requires_session:
            probe = Entry(0, content)
            probe.session_id = content.group_id
            probe.size_bytes = size_bytes
            probe.hops = hops
            probe.scheduled_ms = scheduled_ms
            stops = ledger.stops(subscription, probe, self._now_ms)
        elif content.group_id is not None:
            stops = [Stop(subscription, MAIN, hops, [subscription])]
        else:
            reason = _NO_SESSION
            stops = [Stop(subscription, DEAD, hops, [subscription])]
        self.copies.append(Copy(subscription, content, size_bytes, life_ms, scheduled_ms, reason, stops))

    def match(self, messages: Sequence[BrokeredMessage]) -> list[Match]:
        """Which of the broker's copies is which of those that must be. There must be all of them and no other."""
        contents = [_content(message) for message in messages]
        taken: dict[int, int] = {}

        def find(at: int, tried: set[int]) -> bool:
            for index, copy in enumerate(self.copies):
                if index in tried or not copy.is_like(messages[at], contents[at]):
                    continue
                tried.add(index)
                if index not in taken or find(taken[index], tried):
                    taken[index] = at
                    return True
            return False

        for at, message in enumerate(messages):
            if not find(at, set()):
                raise Violation(
                    WHOLE,
                    f"a copy of message {self.original.sent} in stream {message.stream} after {message.hop_count} hops "
                    f"with {message.size_bytes} bytes, {contents[at]}, which none of these is: {self.copies}",
                )
        matches: list[Match] = []
        for index, at in sorted(taken.items(), key=lambda pair: pair[1]):
            stop = self.copies[index].place_of(messages[at])
            assert stop is not None
            matches.append(Match(self.copies[index], messages[at], contents[at], stop))
        return matches


def _content(message: BrokeredMessage) -> Content:
    assert message.stored is not None
    return Content.of_bare(message.stored.bare)
