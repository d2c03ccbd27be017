"""What every connection shares: the engine and its runner, keys, limits, and the watch over strangers and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tandem.auth import JwtValidator, KeyRing
from tandem.clock import Clock
from tandem.engine.namespace import Namespace
from tandem.server.admission import Admission
from tandem.server.entity_loads import EntityLoads
from tandem.server.faults.active_faults import Faults
from tandem.server.faults.desk import FaultDesk
from tandem.server.runner import Runner, Supervisor
from tandem.server.throttle import Throttle
from tandem.server.tracking import Tracker

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["Services"]


class Services:
    """One per broker."""

    def __init__(
        self,
        runner: Runner,
        key_ring: KeyRing,
        jwt: JwtValidator,
        clock: Clock,
        throttle: Throttle,
        host_name: str,
        authentication_timeout_s: float,
    ) -> None:
        self.runner = runner
        self.namespace: Namespace = runner.namespace
        self.key_ring = key_ring
        self.jwt = jwt
        # By which tokens are judged.
        self.clock = clock
        self._admission = Admission(throttle)
        # What may refuse a request with ServerBusy; None while nothing does.
        self.admission: Admission | None = None
        self.loads = EntityLoads()
        # Restarts what has failed; None leaves failures to the process.
        self.supervisor: Supervisor | None = None
        # The namespace is being opened again: nobody is let in meanwhile.
        self.is_restarting = False
        self.host_name = host_name
        self.tracker = Tracker(host_name)
        # What fails on purpose; None, and nothing is asked, unless somebody sets some.
        self.faults: Faults | None = None
        # Where they are set.
        self.fault_desk = FaultDesk(self)
        # Every connection that is for this namespace, as far as is known.
        self.peers: set[Peer] = set()
        # The connections of HTTP requests that are being handled, except those that set and clear faults.
        self.http_transports: set[asyncio.Transport] = set()
        self._authentication_timeout_s = authentication_timeout_s
        self._loop = asyncio.get_running_loop()
        self._strangers: dict[Peer, asyncio.TimerHandle] = {}
        self._expiries: dict[Peer, asyncio.TimerHandle] = {}
        self.choose_admission()

    @property
    def refusals(self) -> Admission:
        """What is refused, whether or not anything is at present. Call `choose_admission` after a change of it."""
        return self._admission

    def choose_admission(self) -> None:
        """Ask the admission for each request from now on if it could refuse one, and not otherwise."""
        self.admission = self._admission if self._admission.is_needed else None

    def drop_connections(self) -> int:
        """End every connection without a word, as a network does. Return how many there were."""
        peers, transports = list(self.peers), list(self.http_transports)
        # Neither of them can fail: aborting a transport only schedules its end.
        for peer in peers:
            peer.drop()
        for transport in transports:
            transport.abort()
        return len(peers) + len(transports)

    def watch(self, peer: Peer) -> None:
        """A stranger has this long to say who it is."""
        self.peers.add(peer)
        self._strangers[peer] = self._loop.call_later(self._authentication_timeout_s, self._judge, peer)

    def _judge(self, peer: Peer) -> None:
        del self._strangers[peer]
        if not peer.is_authenticated:
            self._turn(peer.refuse_stranger)

    def expect_expiry(self, peer: Peer, expires_at_s: int | None) -> None:
        """Look after the peer's tokens when the next one ends. One timer for each connection, and none for most."""
        stranger = self._strangers.pop(peer, None)
        if stranger is not None:
            stranger.cancel()
        if expires_at_s is None:
            return
        timer = self._expiries.get(peer)
        # Tokens are renewed long before they end: a timer that fires for one that was renewed finds nothing to do.
        delay_s = max(0.0, expires_at_s - self.clock.now_ms() / 1000)
        if timer is None or timer.when() > self._loop.time() + delay_s:
            if timer is not None:
                timer.cancel()
            self._expiries[peer] = self._loop.call_later(delay_s + 0.001, self._expire, peer)

    def _expire(self, peer: Peer) -> None:
        del self._expiries[peer]
        try:
            self._turn(peer.expire_claims)
        finally:
            # Whatever went wrong with this token, the next one ends in its time.
            self.expect_expiry(peer, peer.claims.next_expiry_s())

    def wake(self) -> None:
        """Judge all tokens by the clock now: somebody has moved it, and the timers were set by what it said before."""
        for peer, timer in list(self._expiries.items()):
            timer.cancel()
            self._expire(peer)

    def call_later(self, delay_s: float, step: Callable[[], None]) -> asyncio.TimerHandle:
        """Take a step of the engine after a delay, unless the timer is cancelled before."""
        return self._loop.call_later(delay_s, self._turn, step)

    def _turn(self, step: Callable[[], None]) -> None:
        self.runner.begin()
        try:
            step()
        finally:
            # What was decided before a failure is still to be written and sent.
            self.runner.finish()

    def unwatch(self, peer: Peer) -> None:
        self.peers.discard(peer)
        for timers in (self._strangers, self._expiries):
            timer = timers.pop(peer, None)
            if timer is not None:
                timer.cancel()
