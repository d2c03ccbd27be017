"""What clients were told about one topic, and which copies came out of its subscriptions.

What a message holds follows from its number, and so does who wants it. It is written down here a second time, beside
the rules that the broker gets, so that the broker's own idea of its rules decides nothing.

A copy is known by the number of its message and by the rule that made it. A send that was in doubt and tried again is
published twice; whatever number of times that is, it is the same for every copy, or the send was done in part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.crash.ledger import Ledger, TransactionLedger

__all__ = ["WISHES", "SubscriptionLedger", "TopicLedger", "properties_of"]

COLOURS: Final = ("red", "green", "blue")
SIZES: Final = 7

# Who may have made a copy: rules without an action together, or one rule with an action.
PLAIN: Final = ""
MAKERS: Final = (PLAIN, "blue", "small")


def colour_of(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def size_of(number: int) -> int:
    return number % SIZES


def properties_of(number: int) -> dict[str, str | int]:
    """The application properties of a message."""
    return {"colour": colour_of(number), "size": size_of(number)}


def properties_of_copy(number: int, maker: str) -> dict[str, str | int]:
    """And those of a copy of it."""
    properties = properties_of(number)
    if maker == "blue":
        properties["mark"] = size_of(number) * 10
    elif maker == "small":
        properties["mark"] = size_of(number) * 100
        del properties["colour"]
    return {**properties, "RuleName": maker} if maker else properties


@dataclass(frozen=True)
class Wish:
    """A subscription: what it tells the broker, and who makes copies of a message in it."""

    name: str
    rules: Sequence[Mapping[str, Any]] | None
    makers: Callable[[int], Sequence[str]]


def _makers_in_actions(number: int) -> list[str]:
    is_wanted = {
        PLAIN: colour_of(number) == "red",
        "blue": colour_of(number) == "blue",
        "small": size_of(number) < 3,
    }
    return [maker for maker in MAKERS if is_wanted[maker]]


WISHES: Final = (
    Wish("everything", None, lambda _: [PLAIN]),
    Wish(
        "by-sql",
        [{"name": "large", "filter": {"kind": "sql", "expression": "size > 4 OR colour = 'blue'"}}],
        lambda number: [PLAIN] if size_of(number) > 4 or colour_of(number) == "blue" else [],
    ),
    Wish(
        "by-correlation",
        [{"name": "red", "filter": {"kind": "correlation", "properties": {"colour": "red"}}}],
        lambda number: [PLAIN] if colour_of(number) == "red" else [],
    ),
    Wish(
        "with-actions",
        [
            {"name": "red", "filter": {"kind": "correlation", "properties": {"colour": "red"}}},
            {
                "name": "blue",
                "filter": {"kind": "sql", "expression": "colour LIKE 'bl%'"},
                "action": {"expression": "SET mark = size * 10"},
            },
            {
                "name": "small",
                "filter": {"kind": "sql", "expression": "size < 3"},
                "action": {"expression": "SET mark = size * 100; REMOVE colour"},
            },
        ],
        _makers_in_actions,
    ),
)


class SubscriptionLedger(Ledger):
    """The account of one subscription: what comes are copies, each with a number of its own."""

    def __init__(self, topic: str, wish: Wish) -> None:
        super().__init__(f"{topic}/Subscriptions/{wish.name}")
        self.topic = topic
        self.wish = wish

    def copies_of(self, number: int) -> list[int]:
        return [number * len(MAKERS) + MAKERS.index(maker) for maker in self.wish.makers(number)]

    def number_of_copy(self, number: int, properties: Mapping[str, object]) -> int:
        """The number of a copy that came."""
        maker = properties.get("RuleName", PLAIN)
        return number * len(MAKERS) + (MAKERS.index(str(maker)) if maker in MAKERS else 0)

    def check_copy(self, number: int, properties: Mapping[str, object]) -> None:
        """The copy holds what its rule made of it, and nothing that another one did."""
        expected = properties_of_copy(number, str(properties.get("RuleName", PLAIN)))
        if dict(properties) != expected:
            with self.lock:
                self.break_promise("changed", f"message {number} has {dict(properties)}, and should have {expected}")

    def know(self, number_count: int) -> None:
        """So many messages may have been sent by now. Two workers may say so in either order."""
        with self.lock:
            self._taken = max(self._taken, number_count * len(MAKERS))


class TopicLedger(TransactionLedger):
    """The account of a topic: a message is in exactly the subscriptions that want it, or it was not published."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.subscriptions = [SubscriptionLedger(topic, wish) for wish in WISHES]

    def take_numbers(self, count: int) -> list[int]:
        numbers = super().take_numbers(count)
        for subscription in self.subscriptions:
            subscription.know(self._taken)
        return numbers

    def acknowledge(self, numbers: Iterable[int]) -> None:
        numbers = list(numbers)
        super().acknowledge(numbers)
        for subscription in self.subscriptions:
            subscription.acknowledge(copy for number in numbers for copy in subscription.copies_of(number))

    def doubt(self, numbers: Iterable[int]) -> None:
        numbers = list(numbers)
        super().doubt(numbers)
        for subscription in self.subscriptions:
            subscription.doubt(copy for number in numbers for copy in subscription.copies_of(number))

    @property
    def waiting_count(self) -> int:
        return max(subscription.waiting_count for subscription in self.subscriptions)

    def close(self) -> None:
        """Copies that are lost are for the subscriptions to tell; this is about what there must not be."""
        everything = self.subscriptions[0]
        for sequence_number, copy in everything.numbers.items():
            self.numbers[sequence_number] = copy // len(MAKERS)
            self.receipts[sequence_number] = everything.receipts[sequence_number]
        self.attempted_numbers = set(self.numbers.values())
        super().close()
        stored = [Counter(subscription.numbers.values()) for subscription in self.subscriptions]
        seen = {copy // len(MAKERS) for counts in stored for copy in counts}
        for number in sorted(seen | self.acknowledged):
            self._check_copies(number, stored)

    def _check_copies(self, number: int, stored: Sequence[Counter[int]]) -> None:
        times: dict[str, int] = {}
        for subscription, counts in zip(self.subscriptions, stored, strict=True):
            wanted = subscription.copies_of(number)
            for index, maker in enumerate(MAKERS):
                copy = number * len(MAKERS) + index
                if copy in wanted:
                    times[f"{subscription.wish.name} {maker}".strip()] = counts[copy]
                elif counts[copy]:
                    self.break_promise("not_selected", f"message {number} in {subscription.queue} by {maker!r}")
        if len(set(times.values())) > 1:
            self.break_promise("published_in_part", f"message {number}: {times}")

    def figures(self) -> dict[str, int]:
        copies = sum(len(subscription.numbers) for subscription in self.subscriptions)
        return {**super().figures(), "copies": copies}
