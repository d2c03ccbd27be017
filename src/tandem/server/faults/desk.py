"""Setting, listing and clearing faults, with what that does to the clients that are connected.

Faults are in memory: a restart clears them. What they delayed appears when a broker is started that allows faults, and
on any other at the time at which it was due.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tandem.auth import Right
from tandem.clock import Clock
from tandem.engine.message import NEVER_MS
from tandem.engine.queue import Queue
from tandem.errors import ArgumentError, DetachForced, NotAllowed, NotFound, QuotaExceeded, Scope
from tandem.fault_kinds import FaultKind
from tandem.limits import MAX_FAULT_DELAY_MS, MAX_FAULTS
from tandem.server.faults.active_faults import Faults
from tandem.server.faults.fault import Fault, FaultSettings
from tandem.server.faults.restarting import entities_of, restart, send_receivers_away
from tandem.server.faults.stalls import Stalls

if TYPE_CHECKING:
    from tandem.server.services import Services

__all__ = ["FaultDesk", "FaultsNotAllowed"]

# Milliseconds. How soon to look again whether all delayed messages have appeared.
_TIDY_INTERVAL_MS: Final = 100


class FaultsNotAllowed(NotAllowed):
    """Faults can be set only on a broker that was started for it. Start it with --allow-faults."""

    http_status = 403
    scope = Scope.DELIVERY


class FaultDesk:
    """The faults of one namespace."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._clock: Clock = services.runner
        self._is_open = False
        self._next_id = 1
        self._stalls = Stalls()
        self._faults = Faults(self._clock, self._stalls)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults)

    def find(self, identifier: int) -> Fault:
        for fault in self._faults:
            if fault.id == identifier:
                return fault
        raise NotFound(f"There is no fault {identifier}: it is over, was cleared, or was never set.")

    def open(self) -> None:
        """Allow faults to be set. Those from before the start are over: show what they still hold back."""
        self._is_open = True
        holding = [queue for queue in entities_of(self._services.namespace) if queue.main.scheduled_count]
        if holding:
            runner = self._services.runner
            runner.begin()
            self._watch_visibility()
            for queue in holding:
                self._faults.visibility.end_leftovers(queue, self._clock.now_ms() + MAX_FAULT_DELAY_MS)
            runner.finish()

    def inject(self, settings: FaultSettings) -> Fault:
        """Let something fail from now on. A momentary fault is over when this returns."""
        if not self._is_open:
            raise FaultsNotAllowed(
                f"The fault {settings.kind.value} was not set: the broker was not started with --allow-faults."
            )
        settings.check()
        self._check_entity(settings)
        if len(self._faults) >= MAX_FAULTS:
            raise QuotaExceeded(f"There are {len(self._faults)} faults; at most {MAX_FAULTS} may be: clear some.")
        now_ms = self._clock.now_ms()
        fault = Fault(self._next_id, settings, now_ms)
        self._next_id += 1
        runner = self._services.runner
        runner.begin()
        if fault.ends_at_ms > now_ms:
            self._faults.add(fault)
            self._switch(self._faults)
            runner.alarm = self
            if fault.kind is FaultKind.DELAY_VISIBILITY:
                self._watch_visibility()
        self._take_effect(fault)
        runner.finish()
        return fault

    def clear(self, fault: Fault) -> None:
        runner = self._services.runner
        runner.begin()
        self._end(fault)
        self._tidy()
        runner.finish()

    def clear_all(self) -> list[Fault]:
        """Which there were."""
        faults = list(self._faults)
        for fault in faults:
            self.clear(fault)
        return faults

    # --- time -----------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int:
        """For the runner, which has the timer."""
        due_ms = min(self._faults.next_end_ms(NEVER_MS), self._stalls.next_ms())
        if not self._faults.visibility.is_idle and not len(self._faults):
            due_ms = min(due_ms, self._clock.now_ms() + _TIDY_INTERVAL_MS)
        return due_ms

    def on_time(self, now_ms: int) -> None:
        for again in self._stalls.take_due(now_ms):
            again()
        for fault in self._faults:
            if fault.ends_at_ms <= now_ms:
                self._end(fault)
        self._tidy()

    # --- what it does to clients ----------------------------------------------------------------------------

    def _check_entity(self, settings: FaultSettings) -> None:
        path = settings.entity
        if path is None:
            return
        namespace = self._services.namespace
        queue = namespace.find_any(path)
        if queue is None and namespace.hubs.find(path) is None:
            raise NotFound(f"The messaging entity '{path:.260}' could not be found: a fault needs one that exists.")
        kind = settings.kind
        if queue is None and kind in {FaultKind.RESTART_ENTITY, FaultKind.DELAY_VISIBILITY}:
            raise ArgumentError.of(
                f"{{field}} is {{value}}, an event hub; {kind.value} is for queues and topics", "entity", value=path
            )

    def _covered(self, fault: Fault) -> list[Queue]:
        return [queue for queue in entities_of(self._services.namespace) if fault.covers_path(queue.name)]

    def _take_effect(self, fault: Fault) -> None:
        services = self._services
        error = DetachForced(f"It is broken on purpose: {fault.kind.value}, fault {fault.id}.")
        if fault.kind in {FaultKind.REFUSE_RECEIVES, FaultKind.REFUSE_EVERYTHING} and fault.settings.probability >= 1.0:
            for queue in self._covered(fault):
                send_receivers_away(queue, error)
            self._regulate_receivers()
        if fault.kind in {FaultKind.DROP_CONNECTIONS, FaultKind.REFUSE_EVERYTHING}:
            fault.hit_count += services.drop_connections()
        if fault.kind is FaultKind.TIMEOUT and Right.LISTEN in fault.rights:
            self._regulate_receivers()
        if fault.kind is FaultKind.RESTART_ENTITY:
            fault.hit_count += 1
            restart(services.namespace.get(fault.settings.entity or ""), error)
            for peer in list(services.peers):
                peer.detach_senders(fault.covers_path, error)

    def _regulate_receivers(self) -> None:
        for peer in list(self._services.peers):
            peer.regulate_receivers()

    def _end(self, fault: Fault) -> None:
        self._faults.remove(fault)
        fault.ended.set()
        for again in self._stalls.take_of(fault):
            again()
        if fault.kind is FaultKind.TIMEOUT:
            self._regulate_receivers()
        if fault.kind is FaultKind.DELAY_VISIBILITY:
            self._faults.end_delays()

    def _switch(self, faults: Faults | None) -> None:
        """Put faults between all links and their nodes, or take them away. This is the only place that does so."""
        services = self._services
        if services.faults is not faults:
            services.faults = faults
            for peer in services.peers:
                peer.connect_links(faults)

    def _watch_visibility(self) -> None:
        self._services.namespace.visibility = self._faults.visibility
        self._services.runner.alarm = self

    def _tidy(self) -> None:
        """Stop asking for faults after the last one, and for delays when all delayed messages have appeared."""
        if not len(self._faults):
            self._switch(None)
        if not self._faults.delays_visibility:
            self._services.namespace.visibility = None
            if not len(self._faults):
                self._services.runner.alarm = None
