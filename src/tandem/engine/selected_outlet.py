"""Where the messages of a line go out that a selector picks: consumers with the same selector share one of these.

    line       1  2  3  4  5  6  7  8  9        o = the selector picks it
    selected         o        o     |           cursor of the selection: everything up to here was looked at, once
                     ^^^^^^^^^^ in its head

Each message is read and judged once for each selector, when the cursor passes it, and again only if it came back. So a
message costs the same whatever waits before it. A message is in the head of its line and in those of all selections
that pick it; whoever takes it has it dropped from the others.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Final

from tandem.engine.head import Head, HeadMemory
from tandem.engine.message import BrokeredMessage
from tandem.engine.outlet import Outlet
from tandem.engine.rule import subject_of
from tandem.rules import RuleEvaluationError, SqlFilter

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace
    from tandem.engine.subqueue import SubQueue

__all__ = ["SelectedOutlet", "is_selected"]

# Units of work, as `RULE_WORK_PER_TURN` has them: a filter beside what it does to long texts.
_EVALUATION_WORK: Final = 500

# Messages. Read at once, whether or not the selector picks them.
_MAX_READ_MESSAGES: Final = 500


def is_selected(condition: SqlFilter, message: BrokeredMessage, namespace: Namespace) -> bool:
    """Return whether a selector picks a message that has its bytes, and count the work of this turn."""
    subject = subject_of(message)
    try:
        is_match = condition.matches(subject)
    except RuleEvaluationError:
        # What cannot be judged is not picked, as in JMS.
        is_match = False
    namespace.rule_work_left -= _EVALUATION_WORK + subject.work
    return is_match


class SelectedHead(Head):
    """A head that has some of the available messages up to its cursor, and knows which."""

    __slots__ = ("_members",)

    def __init__(self, memory: HeadMemory) -> None:
        super().__init__(False, memory)
        self._members: set[int] = set()

    def clear(self) -> None:
        """Forget the messages, and remember that the selector picks none before the first of them."""
        first = self.first()
        self.floor = self.cursor if first is None else first.sequence_number - 1
        super().clear()
        self._members.clear()

    def add_out_of_order(self, message: BrokeredMessage) -> None:
        number = message.sequence_number
        super().add_out_of_order(message)
        if number <= self.cursor:
            self._members.add(number)
        elif number <= self.floor:
            # There was no room, so that everything was forgotten, and this message is before the first of it.
            self.floor = number - 1
            self.cursor = self.floor

    def fill(self, messages: list[BrokeredMessage], taken: Container[int] | None, is_all: bool) -> None:
        super().fill(messages, taken, is_all)
        for message in messages:
            if taken is None or message.sequence_number not in taken:
                self._members.add(message.sequence_number)

    def take(self, message: BrokeredMessage) -> None:
        super().take(message)
        self._members.discard(message.sequence_number)

    def drop(self, sequence_number: int) -> None:
        if sequence_number in self._members:
            super().drop(sequence_number)


class SelectedOutlet(Outlet):
    """The messages that one selector picks, and the consumers that have it."""

    __slots__ = ("condition",)

    def __init__(self, subqueue: SubQueue, condition: SqlFilter) -> None:
        super().__init__(subqueue, None)
        self.condition = condition
        self.head = SelectedHead(subqueue.namespace.heads)
        # A message is locked for whoever has it: there is one table for the line.
        self.locks = subqueue.outlet.locks

    def pump(self) -> None:
        head = self.head
        if head.is_complete and self.subqueue.tail > head.cursor:
            head.is_complete = False
        super().pump()

    def load(self, limit: int) -> None:
        super().load(min(limit, _MAX_READ_MESSAGES))

    def fill(self, messages: list[BrokeredMessage], taken: Container[int] | None, is_all: bool, up_to: int) -> None:
        """Judge messages until the work of this turn is used up, and go on from there with the next query."""
        namespace = self.subqueue.namespace
        head = self.head
        selected: list[BrokeredMessage] = []
        judged_up_to = head.cursor
        judged_count = 0
        for message in messages:
            judged_up_to = message.sequence_number
            judged_count += 1
            if is_selected(self.condition, message, namespace):
                selected.append(message)
            if namespace.rule_work_left <= 0:
                break
        is_all = is_all and judged_count == len(messages)
        head.fill(selected, taken, is_all)
        head.cursor = max(head.cursor, up_to if is_all else judged_up_to)

    def judge(self, messages: list[BrokeredMessage]) -> None:
        namespace = self.subqueue.namespace
        for message in messages:
            if message.stored is not None and not is_selected(self.condition, message, namespace):
                self.head.drop(message.sequence_number)

    def offer(self, message: BrokeredMessage) -> None:
        """Put a message in line that came back, or from another line. Its bytes are judged when they are read."""
        if message.stored is None or is_selected(self.condition, message, self.subqueue.namespace):
            self.head.add_out_of_order(message)
            if not self.has_consumers:
                # Only the place is remembered from which to read.
                self.head.clear()
