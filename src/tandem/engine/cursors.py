"""The cursors of one line beside its head: selectors, each shared by the consumers that have it, and browsers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.engine.browsing_outlet import BrowsingOutlet
from tandem.engine.consumer import Consumer
from tandem.engine.message import BrokeredMessage
from tandem.engine.outlet import Outlet
from tandem.engine.selected_outlet import SelectedOutlet
from tandem.errors import QuotaExceeded
from tandem.limits import MAX_SELECTORS_PER_ENTITY
from tandem.rules import SqlFilter

if TYPE_CHECKING:
    from tandem.engine.subqueue import SubQueue

__all__ = ["Cursors"]

# Selectors that nobody has at present and whose cursors are kept: a client that opens a consumer for each message goes
# on where the last one stopped, rather than reading the line from its beginning.
_MAX_IDLE_SELECTORS: Final = 16


class Cursors:
    """Selections by the text of their selectors, those without consumers in the order in which these left."""

    __slots__ = ("_browsing", "_selected", "_subqueue")

    def __init__(self, subqueue: SubQueue) -> None:
        self._subqueue = subqueue
        self._selected: dict[str, SelectedOutlet] = {}
        self._browsing: dict[BrowsingOutlet, None] = {}

    def select(self, condition: SqlFilter) -> SelectedOutlet:
        """Return the outlet of a selector, which goes on where it was if it is known."""
        outlet = self._selected.pop(condition.expression, None)
        if outlet is None:
            if len(self._selected) >= MAX_SELECTORS_PER_ENTITY:
                raise QuotaExceeded(
                    f"'{self._subqueue.path}' has receivers with {len(self._selected)} different selectors, as many as "
                    "are allowed. Close some of them, or publish to a topic and give its subscriptions rules."
                )
            outlet = SelectedOutlet(self._subqueue, condition)
        self._selected[condition.expression] = outlet
        return outlet

    def browse(self, condition: SqlFilter | None) -> BrowsingOutlet:
        outlet = BrowsingOutlet(self._subqueue, condition)
        self._browsing[outlet] = None
        return outlet

    def close(self, consumer: Consumer) -> bool:
        """The consumer leaves, if it has one of these cursors."""
        outlet = consumer.outlet
        if isinstance(outlet, BrowsingOutlet):
            outlet.close(consumer)
            del self._browsing[outlet]
            return True
        if not isinstance(outlet, SelectedOutlet):
            return False
        outlet.close(consumer)
        if not outlet.has_consumers:
            self._keep_idle(outlet)
        return True

    def _keep_idle(self, outlet: SelectedOutlet) -> None:
        text = outlet.condition.expression
        self._selected[text] = self._selected.pop(text)
        idle = [one for one, other in self._selected.items() if not other.has_consumers]
        for text in idle[:-_MAX_IDLE_SELECTORS]:
            del self._selected[text]

    def offer(self, message: BrokeredMessage) -> None:
        """Put a message in line that came back, or from another line."""
        for outlet in self._selected.values():
            outlet.offer(message)

    def drop(self, sequence_number: int, by: Outlet) -> None:
        """A message that was available is gone: from this outlet, which knows it, and so from all others."""
        line = self._subqueue.outlet
        if by is not line and isinstance(by, SelectedOutlet):
            line.head.drop(sequence_number)
        for outlet in self._selected.values():
            if outlet is not by:
                outlet.head.drop(sequence_number)

    def pump(self) -> None:
        for selected in list(self._selected.values()):
            selected.pump()
        for browsing in list(self._browsing):
            browsing.grow()
            browsing.pump()

    def forget_heads(self) -> None:
        """The memory of the entity is given up."""
        for outlet in self._selected.values():
            outlet.head.clear()
