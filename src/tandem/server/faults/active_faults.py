"""The faults that are set, and what an operation meets.

A namespace has no `Faults` unless somebody sets one, so that the path of a message asks one question only: is there
any. What an operation is, is said by the right that it needs: sends need Send, receives Listen, management Manage.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tandem.auth import Right
from tandem.clock import Clock
from tandem.engine.queue import Queue
from tandem.engine.visibility import Visibility
from tandem.fault_kinds import DEFAULT_ERRORS, FaultKind
from tandem.server.faults.fault import Fault
from tandem.server.faults.stalls import Stalls
from tandem.wire_names import CBS_NODE

__all__ = ["Encounter", "Faults", "Verdict"]


class Verdict(enum.Enum):
    """What becomes of an operation that meets a fault and is not refused."""

    # It is not done, or not yet; there is no answer.
    WITHHELD = 1
    # It is done, and there is no answer.
    MUTED = 2


class Encounter(NamedTuple):
    """A fault that was met."""

    fault: Fault
    verdict: Verdict


class Faults:
    """Those of one namespace."""

    def __init__(self, clock: Clock, stalls: Stalls) -> None:
        self._clock = clock
        self._stalls = stalls
        self._faults: list[Fault] = []
        self.visibility = Visibility(self._delay_ms)

    def __iter__(self) -> Iterator[Fault]:
        return iter(list(self._faults))

    def __len__(self) -> int:
        return len(self._faults)

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)

    def remove(self, fault: Fault) -> None:
        self._faults.remove(fault)

    def next_end_ms(self, default_ms: int) -> int:
        return min([fault.ends_at_ms for fault in self._faults], default=default_ms)

    # --- what an operation meets ----------------------------------------------------------------------------

    def check_path(self, right: Right, path: str) -> None:
        """Raise the error of the first fault that refuses this at an entity, or with an empty path at the namespace."""
        now_ms = self._clock.now_ms()
        for fault in self._faults:
            if fault.kind in DEFAULT_ERRORS:
                if fault.meets(right, path, now_ms):
                    fault.refuse(path)
            elif fault.kind is FaultKind.THROTTLE and fault.meets(right, path, now_ms):
                fault.throttle(now_ms)

    def meet(self, right: Right, path: str, again: Callable[[], None]) -> Encounter | None:
        """The same for an operation that a fault may also leave without an answer. `again` does it later."""
        self.check_path(right, path)
        now_ms = self._clock.now_ms()
        for fault in self._faults:
            if fault.kind in {FaultKind.TIMEOUT, FaultKind.STALL} and fault.meets(right, path, now_ms):
                return self._hold_up(fault, again, now_ms)
        return None

    def check_authentication(self) -> None:
        """A token is put: raise the error of the first fault that refuses it."""
        now_ms = self._clock.now_ms()
        for fault in self._of_authentication(now_ms):
            if fault.kind in DEFAULT_ERRORS:
                fault.refuse(CBS_NODE)
            elif fault.kind is FaultKind.THROTTLE:
                fault.throttle(now_ms)

    def holds_up_authentication(self, again: Callable[[], None]) -> bool:
        """Whether a token is not answered, or later."""
        now_ms = self._clock.now_ms()
        for fault in self._of_authentication(now_ms):
            if fault.kind in {FaultKind.TIMEOUT, FaultKind.STALL}:
                return self._hold_up(fault, again, now_ms) is not None
        return False

    def _of_authentication(self, now_ms: int) -> list[Fault]:
        """Only faults of the namespace that say so cover it."""
        of_namespace = [one for one in self._faults if one.entity is None and one.settings.includes_authentication]
        return [one for one in of_namespace if one.meets(one.rights, "", now_ms)]

    def _hold_up(self, fault: Fault, again: Callable[[], None], now_ms: int) -> Encounter | None:
        if fault.kind is FaultKind.TIMEOUT:
            fault.hit_count += 1
            return Encounter(fault, Verdict.MUTED if fault.settings.is_performed else Verdict.WITHHELD)
        if self._stalls.is_full:
            return None
        fault.hit_count += 1
        self._stalls.add(now_ms + (fault.settings.delay_ms or 0), fault, again)
        return Encounter(fault, Verdict.WITHHELD)

    def starves(self, path: str) -> bool:
        """Return whether a receiver that asks for messages gets neither messages nor an error."""
        now_ms = self._clock.now_ms()
        for fault in self._faults:
            if fault.kind is FaultKind.TIMEOUT and fault.meets(Right.LISTEN, path, now_ms):
                fault.hit_count += 1
                return True
        return False

    def stalls_delivery(self, path: str, again: Callable[[], None]) -> bool:
        """Whether messages on their way to a receiver go on later."""
        now_ms = self._clock.now_ms()
        for fault in self._faults:
            if fault.kind is FaultKind.STALL and fault.meets(Right.LISTEN, path, now_ms):
                return self._hold_up(fault, again, now_ms) is not None
        return False

    def check_everything(self, path: str) -> None:
        """Raise the error of a fault by which nothing at all is answered."""
        now_ms = self._clock.now_ms()
        for fault in self._faults:
            if fault.kind is FaultKind.REFUSE_EVERYTHING and fault.meets(Right.MANAGE, "", now_ms):
                fault.refuse(path)

    # --- visibility -----------------------------------------------------------------------------------------

    @property
    def delays_visibility(self) -> bool:
        return not self.visibility.is_idle or any(fault.kind is FaultKind.DELAY_VISIBILITY for fault in self._faults)

    def end_delays(self) -> None:
        """Show what is held in queues that no fault delays any longer."""
        for queue in self.visibility.holding_queues():
            if self._delaying(queue) is None:
                self.visibility.end(queue)

    def _delaying(self, queue: Queue) -> Fault | None:
        now_ms = self._clock.now_ms()
        for fault in self._faults:
            if fault.kind is FaultKind.DELAY_VISIBILITY and fault.meets(Right.SEND, queue.name, now_ms):
                return fault
        return None

    def _delay_ms(self, queue: Queue) -> int:
        """The delay of a message that comes to a queue now."""
        fault = self._delaying(queue)
        if fault is None:
            return 0
        fault.hit_count += 1
        return fault.settings.delay_ms or 0

    # --- connections ----------------------------------------------------------------------------------------

    def refuses_connection(self) -> bool:
        """Whether a connection that is being made is dropped without a word."""
        now_ms = self._clock.now_ms()
        for fault in self._faults:
            if fault.kind not in {FaultKind.DROP_CONNECTIONS, FaultKind.REFUSE_CONNECTIONS}:
                continue
            if fault.meets(Right.MANAGE, "", now_ms):
                fault.hit_count += 1
                return True
        return False
