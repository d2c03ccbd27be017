"""What messages say, what rules ask of them, and what becomes of them: a small fixed vocabulary.

Each condition and each action stands here twice: as its text or fields, which the broker gets, and as a few lines of
Python, written by hand from the specification of the rule language. The ledger uses the latter only, so that it decides
without the broker what every subscription has to get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final, NamedTuple

from tandem.amqp.message import Message, Properties, encode_message

__all__ = ["ACTIONS", "CONDITIONS", "Action", "CannotSay", "Condition", "Content", "SimRule", "draw_rule"]


class CannotSay(Exception):
    """A condition or an action that cannot be evaluated for a message."""


class Content:
    """The properties of a message that rules can see. It is never changed: a change makes another one."""

    __slots__ = ("correlation_id", "group_id", "label", "message_id", "user")

    def __init__(
        self,
        message_id: str,
        label: str | None = None,
        correlation_id: str | None = None,
        group_id: str | None = None,
        user: Mapping[str, object] | None = None,
    ) -> None:
        self.message_id = message_id
        self.label = label
        self.correlation_id = correlation_id
        self.group_id = group_id
        self.user: dict[str, object] = dict(user or {})

    @staticmethod
    def of_bare(bare: bytes) -> Content:
        """What the bytes say."""
        message = Message(bare)
        properties = message.properties or Properties()
        user = {str(name): value for name, value in (message.application_properties or {}).items()}
        return Content(
            str(properties.message_id), properties.subject, _text(properties.correlation_id), properties.group_id, user
        )

    @staticmethod
    def draw(random: Random, message_id: str, group_id: str | None) -> Content:
        draw = random.random()
        user: dict[str, object] = {}
        if draw < 0.7:
            user["color"] = _COLORS[int(draw * 100) % len(_COLORS)]
        size = _SIZES[int(random.random() * len(_SIZES))]
        if size is not None:
            user["size"] = size
        label = _LABELS[int(draw * 1_000) % len(_LABELS)]
        correlation_id = _CORRELATION_IDS[int(draw * 10_000) % len(_CORRELATION_IDS)]
        return Content(message_id, label, correlation_id, group_id, user)

    @property
    def properties(self) -> Properties:
        return Properties(
            message_id=self.message_id,
            subject=self.label,
            correlation_id=self.correlation_id,
            group_id=self.group_id,
        )

    @property
    def front_bytes(self) -> int:
        """How long the part before the body is."""
        return len(encode_message(properties=self.properties, application_properties=self.user or None))

    def with_user(self, changes: Mapping[str, object] | None) -> Content:
        if not changes:
            return self
        user = {**self.user, **{str(name): value for name, value in changes.items()}}
        return Content(self.message_id, self.label, self.correlation_id, self.group_id, user)

    def without(self, name: str) -> Content:
        user = {key: value for key, value in self.user.items() if key != name}
        return Content(self.message_id, self.label, self.correlation_id, self.group_id, user)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal only if everything is, types included: 2, 2.0 and '2' are three values."""
        user = tuple(sorted([(name, repr(value)) for name, value in self.user.items()]))
        return (self.message_id, self.label, self.correlation_id, self.group_id, user)

    def __repr__(self) -> str:
        return f"<{self.message_id} {self.label} {self.correlation_id} {self.group_id} {self.user}>"


def _text(value: object) -> str | None:
    return None if value is None else str(value)


_COLORS: Final = ("red", "red", "blue", "Red")
_SIZES: Final = (None, 1, 2, 2, 10, 2.0, "2")
_LABELS: Final = (None, "a", "a", "b")
_CORRELATION_IDS: Final = (None, None, "c1", "c2")


# --- conditions -----------------------------------------------------------------------------------------------------


class Condition(NamedTuple):
    """A filter: what the broker is given, and what it means."""

    fields: dict[str, object]
    is_met: Callable[[Content], bool]


def _number(value: object) -> int | float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _sum(content: Content, summand: int) -> int | float | None:
    """Unknown stays unknown, and a text has no sum with a number."""
    value = content.user.get("size")
    if value is None:
        return None
    number = _number(value)
    if number is None:
        raise CannotSay("a text and a number have no sum")
    return number + summand


def _is_larger(content: Content, than: int) -> bool:
    number = _number(content.user.get("size"))
    return number is not None and number > than


def _has_sum_above_two(content: Content) -> bool:
    total = _sum(content, 1)
    return total is not None and total > 2


def _has_quotient(content: Content) -> bool:
    """By zero: whole numbers and texts have none, that of a double is infinite."""
    value = content.user.get("size")
    if value is not None and not isinstance(value, float):
        raise CannotSay("division by zero")
    return False


def _is_reddish(content: Content) -> bool:
    """A size that is unknown, or is a text and so not to be compared with a number, makes the negation unknown, too."""
    color, size = content.user.get("color"), _number(content.user.get("size"))
    return isinstance(color, str) and color.startswith("r") and size is not None and size != 1


def _sql(expression: str, is_met: Callable[[Content], bool], parameters: dict[str, object] | None = None) -> Condition:
    return Condition({"kind": "sql", "expression": expression, "parameters": parameters or {}}, is_met)


def _correlation(is_met: Callable[[Content], bool], **fields: object) -> Condition:
    return Condition({"kind": "correlation", **fields}, is_met)


def _is_exactly(value: object, wanted: object) -> bool:
    return type(value) is type(wanted) and value == wanted


CONDITIONS: Final = (
    Condition({"kind": "true"}, lambda _: True),
    Condition({"kind": "true"}, lambda _: True),
    Condition({"kind": "false"}, lambda _: False),
    _correlation(lambda one: one.label == "a", label="a"),
    _correlation(lambda one: one.correlation_id == "c1", correlation_id="c1"),
    _correlation(lambda one: one.group_id == "s0", session_id="s0"),
    _correlation(lambda one: _is_exactly(one.user.get("color"), "red"), properties={"color": "red"}),
    _correlation(lambda one: _is_exactly(one.user.get("size"), 2), properties={"size": 2}),
    _correlation(
        lambda one: one.label == "a" and _is_exactly(one.user.get("color"), "red"),
        label="a",
        properties={"color": "red"},
    ),
    _sql("1 = 1", lambda _: True),
    _sql("color = 'red'", lambda one: one.user.get("color") == "red"),
    _sql("size > 1", lambda one: _is_larger(one, 1)),
    _sql("size = @wanted", lambda one: _number(one.user.get("size")) == 2, {"@wanted": 2}),
    _sql("sys.Label = 'a' OR color IS NULL", lambda one: one.label == "a" or one.user.get("color") is None),
    _sql("color LIKE 'r%' AND NOT (size = 1)", _is_reddish),
    _sql(
        "color IN ('red', 'blue') AND EXISTS(size)",
        lambda one: one.user.get("color") in {"red", "blue"} and "size" in one.user,
    ),
    _sql("EXISTS(RuleName)", lambda one: "RuleName" in one.user),
    _sql("size + 1 > 2", _has_sum_above_two),
    _sql("size / 0 = 1", _has_quotient),
)


# --- actions --------------------------------------------------------------------------------------------------------


class Action(NamedTuple):
    """What a rule does to its copy: to what it says, and to its time to live and its scheduled time, if to these."""

    fields: dict[str, object]
    change: Callable[[Content], Content]
    time_to_live_ms: int | None = None
    scheduled_ms: int | None = None


def _action(expression: str, change: Callable[[Content], Content]) -> Action:
    return Action({"expression": expression, "parameters": {}}, change)


def _grown(content: Content) -> Content:
    return content.with_user({"size": _sum(content, 1)})


def _relabelled(content: Content) -> Content:
    """The second statement sees what the first one did."""
    user = {**content.user, "color": "b"}
    return Content(content.message_id, "b", content.correlation_id, content.group_id, user)


def _of_session(content: Content) -> Content:
    return Content(content.message_id, content.label, content.correlation_id, "s1", content.user)


def _of_no_session(content: Content) -> Content:
    return Content(content.message_id, content.label, content.correlation_id, None, content.user)


def _of_one_id(content: Content) -> Content:
    return Content("fixed", content.label, content.correlation_id, content.group_id, content.user)


ACTIONS: Final = (
    _action("SET color = 'green'", lambda one: one.with_user({"color": "green"})),
    _action("SET size = size + 1", _grown),
    _action("REMOVE color; SET touched = TRUE", lambda one: one.without("color").with_user({"touched": True})),
    _action("SET sys.Label = 'b'; SET color = sys.Label", _relabelled),
    _action("SET sys.SessionId = 's1'", _of_session),
    _action("REMOVE sys.SessionId", _of_no_session),
    _action("SET sys.MessageId = 'fixed'", _of_one_id),
    Action(
        # A time span is written in ticks of 100 nanoseconds.
        {"expression": "SET sys.TimeToLive = @life", "parameters": {"@life": {"timespan": 50_000_000}}},
        lambda one: one,
        time_to_live_ms=5_000,
    ),
    Action(
        # And a time in ticks since the year 1: a few seconds after the simulation begins.
        {
            "expression": "SET sys.ScheduledEnqueueTimeUtc = @due",
            "parameters": {"@due": {"datetime": (1_800_000_004_000 + 62_135_596_800_000) * 10_000}},
        },
        lambda one: one,
        scheduled_ms=1_800_000_004_000,
    ),
)


# --- rules ----------------------------------------------------------------------------------------------------------


class SimRule(NamedTuple):
    """A rule of a subscription."""

    name: str
    condition: Condition
    action: Action | None

    @property
    def fields(self) -> dict[str, object]:
        return {
            "filter": dict(self.condition.fields),
            "action": None if self.action is None else dict(self.action.fields),
        }


def draw_rule(random: Random, name: str) -> SimRule:
    condition = CONDITIONS[int(random.random() * len(CONDITIONS))]
    action = ACTIONS[int(random.random() * len(ACTIONS))] if random.random() < 0.35 else None
    return SimRule(name, condition, action)
