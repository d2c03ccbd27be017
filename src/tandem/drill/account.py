"""What was sent and what came, and what that breaks of the promises."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from tandem.drill.plan import DrillPlan

__all__ = ["OWN_PREFIX", "Account", "Arrival", "Ending", "expectations", "violations"]

# What the message ids of the only pair start with.
OWN_PREFIX: Final = "drill-"


@dataclass(frozen=True)
class Arrival:
    """A message that was received."""

    message_id: str
    sequence_number: int
    # In which order it was sent: within its lane.
    lane: str
    number: int


@dataclass
class Account:
    """The messages of one pair in a drill."""

    # What the message ids of this pair start with.
    prefix: str = OWN_PREFIX
    # Messages of another pair that arrived here.
    foreign: int = 0
    # Deliveries, with each redelivery and each copy.
    delivered: int = 0

    # By message id: when a namespace had taken it.
    sent: dict[str, float] = field(default_factory=dict)
    refused: int = 0
    first_refusal: str | None = None
    # By message id: the sequence numbers under which it came. The same one again is a redelivery, and no duplicate.
    received: dict[str, set[int]] = field(default_factory=dict)
    # When each came for the first time.
    received_s: list[float] = field(default_factory=list)
    out_of_order: int = 0
    redelivered: int = 0
    last_received_s: float = 0.0
    _last_number: dict[str, int] = field(default_factory=dict)

    def note_sent(self, message_id: str, at_s: float) -> None:
        self.sent[message_id] = at_s

    def note_refused(self, reason: str) -> None:
        self.refused += 1
        self.first_refusal = self.first_refusal or reason

    def note_received(self, arrival: Arrival, at_s: float) -> None:
        self.last_received_s = at_s
        self.delivered += 1
        self.foreign += int(not arrival.message_id.startswith(self.prefix))
        numbers = self.received.setdefault(arrival.message_id, set())
        if arrival.sequence_number in numbers:
            self.redelivered += 1
        elif not numbers:
            self.received_s.append(at_s)
            last = self._last_number.get(arrival.lane, -1)
            self.out_of_order += int(arrival.number < last)
            self._last_number[arrival.lane] = max(last, arrival.number)
        numbers.add(arrival.sequence_number)

    @property
    def missing(self) -> set[str]:
        return self.sent.keys() - self.received.keys()

    @property
    def duplicates(self) -> int:
        return sum(len(numbers) - 1 for numbers in self.received.values())


@dataclass(frozen=True)
class Ending:
    """What else is known when all is over."""

    # Entities whose messages took the detour.
    failed_over: Collection[str]
    # Entities whose messages still do.
    away: Collection[str]
    # Messages that were handed over and not answered.
    unanswered: int
    # Messages that are still in the backlog.
    left: int


def expectations(plan: DrillPlan) -> list[str]:
    """What the drill must show, as sentences."""
    expected = ["no message is lost, and none stays in the backlog"]
    expected.append("the metered operations lie within the formula; pings, polls and peeks are exact")
    if plan.pairs > 1:
        expected.append("each pair has backlog queues of its own, and no message arrives at another primary")
    if plan.has_duplicate_detection:
        expected.append("no message comes twice, since the entities detect duplicates")
    else:
        expected.append("a message comes twice only where the outcome of a send was not known")
    if not plan.refuses_sends:
        expected.append("no send fails")
    if not plan.diverted_entities:
        expected.append(f"no entity fails over: {plan.fault.value} is not mended by a detour")
    elif plan.entity is not None:
        expected.append(f"no entity but '{plan.entity}' fails over")
    return expected


def violations(plan: DrillPlan, account: Account, ending: Ending) -> list[str]:
    """What was broken of it, as sentences."""
    broken: list[str] = []
    if account.missing:
        broken.append(f"{_messages(len(account.missing))} lost: {_some(account.missing)}")
    if account.foreign:
        broken.append(f"{account.foreign} messages of another pair arrived here")
    if ending.left:
        broken.append(f"{_messages(ending.left)} still in the backlog")
    broken += [f"'{entity}' is not back, although the primary is" for entity in sorted(ending.away)]
    if plan.has_duplicate_detection and account.duplicates:
        broken.append(f"{account.duplicates} duplicates, although the entities detect them: {_repeated(account)}")
    elif account.duplicates > ending.unanswered:
        broken.append(
            f"{account.duplicates} duplicates, and only {ending.unanswered} sends whose outcome was not known: "
            f"{_repeated(account)}"
        )
    if account.refused and not plan.refuses_sends:
        broken.append(
            f"{account.refused} sends failed, and one namespace or the other should have taken them; "
            f"the first: {account.first_refusal}"
        )
    for entity in sorted(set(ending.failed_over) - set(plan.diverted_entities)):
        if plan.diverted_entities:
            broken.append(f"'{entity}' failed over, and only '{plan.entity}' was away")
        else:
            broken.append(f"'{entity}' failed over at {plan.fault.value}")
    return broken


def _messages(count: int) -> str:
    return "1 message is" if count == 1 else f"{count} messages are"


def _repeated(account: Account) -> str:
    return _some({identifier for identifier, numbers in account.received.items() if len(numbers) > 1})


def _some(identifiers: Collection[str]) -> str:
    """A few of them, so that a line stays one."""
    shown = sorted(identifiers)[:5]
    return ", ".join(shown) + (", …" if len(identifiers) > len(shown) else "")
