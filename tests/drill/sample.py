"""A drill that was made up: what its figures, its page and its picture are tested with."""

from __future__ import annotations

from typing import Any

from tandem.drill.account import Account, Arrival, Ending
from tandem.drill.chronicle import Chronicle
from tandem.drill.figures import combine_figures, make_figures
from tandem.drill.formula import Operations
from tandem.drill.plan import DrillPlan
from tandem.pairing import FailoverState

__all__ = ["arrive", "sample_chronicle", "sample_figures"]


def arrive(account: Account, number: int, sequence_number: int, at_s: float = 0.0) -> None:
    account.note_received(Arrival(f"drill-{number}", sequence_number, "lane", number), at_s)


def sample_chronicle() -> Chronicle:
    """A minute on a clock that stood at 100 when it started: `orders` is away from 110 to 130."""
    chronicle = Chronicle(started_s=100.0, began_s=110.0, returned_s=130.0, ended_s=140.0)
    chronicle.note_states({"orders": FailoverState.HEALTHY, "news": FailoverState.HEALTHY}, 100.0)
    chronicle.note_event({"event": "failing", "entity": "orders"}, 110.5)
    chronicle.note_states({"orders": FailoverState.FAILING}, 110.5)
    chronicle.note_event({"event": "failed-over", "entity": "orders"}, 112.5)
    chronicle.note_states({"orders": FailoverState.FAILED_OVER}, 112.5)
    chronicle.note_event({"event": "ping", "entity": "orders", "outcome": "lost"}, 120.0)
    chronicle.note_event({"event": "diverted", "entity": "orders", "count": 7, "queue": 0}, 121.05)
    chronicle.note_event({"event": "ping", "entity": "orders", "outcome": "ok"}, 131.0)
    chronicle.note_event({"event": "restored", "entity": "orders"}, 131.0)
    chronicle.note_states({"orders": FailoverState.HEALTHY}, 131.0)
    chronicle.note_event({"event": "syphoned", "entity": "orders", "count": 7, "queue": 0}, 133.0)
    return chronicle


# Any: figures are JSON.
def sample_figures(**changed: Any) -> dict[str, Any]:
    account = Account()
    for number in range(20):
        account.note_sent(f"drill-{number}", 101.0 + number)
        arrive(account, number, number + 1, 101.5 + number)
    chronicle = sample_chronicle()
    ending = Ending(chronicle.failed_over, (), 0, 0)
    figures = make_figures(DrillPlan(), account, chronicle, ending)
    metered = Operations(7, 7, 0, 7, 20, 1, 10, 0)
    return {**combine_figures([figures], metered, []), **changed}
