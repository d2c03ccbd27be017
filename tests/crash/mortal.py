"""A broker that dies and comes back, and the threads that work with it meanwhile."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from tandem.testing import Broker
from tandem.testing.broker import BrokerFailed

__all__ = ["MortalBroker", "Worker"]

# Seconds. A worker whose call failed looks again so soon.
PAUSE_S: Final = 0.05


class MortalBroker:
    """The broker, the number of the life it is in, and how far the test has come."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        # Counted when the broker is ready: a connection may belong to a later life than its maker believes, never to
        # an earlier one.
        self.life = 0
        self.is_up = threading.Event()
        # Producers are done; then consumers are.
        self.is_closing = threading.Event()
        self.is_over = threading.Event()
        self.deaths_while_starting = 0
        self.longest_start_s = 0.0
        self.interruptions: Counter[str] = Counter()
        # Called after each death, before the next start.
        self.on_death: Callable[[], None] = lambda: None

    def die(self) -> None:
        self.is_up.clear()
        self.broker.kill()
        self.on_death()

    def rise(self, dies_after_s: float | None = None) -> None:
        """Start again over the same data, on the same ports; with `dies_after_s` be killed on the way, once."""
        if dies_after_s is not None:
            self._die_while_starting(dies_after_s)
        started_at = time.monotonic()
        self.broker.start()
        self.longest_start_s = max(self.longest_start_s, time.monotonic() - started_at)
        self.life += 1
        self.is_up.set()

    def _die_while_starting(self, dies_after_s: float) -> None:
        killer = threading.Timer(dies_after_s, self.broker.kill)
        killer.start()
        try:
            self.broker.start()
        except BrokerFailed:
            self.deaths_while_starting += 1
        killer.join()
        self.on_death()


class Worker(threading.Thread):
    """A client of one kind: it connects, works until the broker dies, and connects again."""

    #: Consumers go on until the queues are empty, producers end before.
    is_producer = False

    def __init__(self, mortal: MortalBroker, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.mortal = mortal
        self.connections = 0

    @property
    def is_done(self) -> bool:
        return (self.mortal.is_closing if self.is_producer else self.mortal.is_over).is_set()

    def goes_on(self, life: int) -> bool:
        """Whether the connection made in this life can be any good still."""
        return self.mortal.life == life and not self.is_done

    def run(self) -> None:
        while not self.is_done:
            if not self.mortal.is_up.wait(PAUSE_S):
                continue
            life = self.mortal.life
            self.connections += 1
            try:
                self.work(life)
            # Whatever a client library makes of a broker that is gone. What it means, the ledgers judge.
            except Exception as error:
                self.mortal.interruptions[type(error).__name__] += 1
                time.sleep(PAUSE_S)

    def work(self, life: int) -> None:
        """Connect, and work for as long as it `goes_on`."""
        raise NotImplementedError
