"""Decides whether a namespace takes a request now, or answers ServerBusy.

Two things can refuse: the configured rate of credits (`throttle`), and an overload that the broker measures (`health`).
While neither could, nothing is asked: the path of a message finds `Services.admission` to be None.
"""

from __future__ import annotations

from tandem.addresses import split_subscription
from tandem.errors import ServerBusy
from tandem.server.throttle import MANAGEMENT_CREDITS, MESSAGE_CREDITS, Throttle

__all__ = ["Admission"]


class Admission:
    """The throttle and the overload of one namespace."""

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        # Entities that are refused, in lower case; the empty name stands for what is about none in particular.
        self._refused: frozenset[str] = frozenset()
        self._is_everything_refused = False
        self._reason = ""
        self.refused_count = 0

    @property
    def is_needed(self) -> bool:
        """Whether anything could be refused at present."""
        return self._throttle.credits_per_second is not None or bool(self._reason)

    @property
    def refused_entities(self) -> frozenset[str]:
        return self._refused

    @property
    def is_everything_refused(self) -> bool:
        return self._is_everything_refused

    def refuse(self, entities: frozenset[str], reason: str) -> None:
        """Refuse sends to these entities, and their management, from now on."""
        self._refused = entities
        self._is_everything_refused = False
        self._reason = reason

    def refuse_everything(self, reason: str) -> None:
        """The same for all entities, and for the management of the namespace."""
        self._is_everything_refused = True
        self._reason = reason

    def refuse_nothing(self) -> None:
        self._refused = frozenset()
        self._is_everything_refused = False
        self._reason = ""

    def check_send(self, entity: str, now_ms: int, is_partitioned: bool) -> None:
        """Pay for one message, or raise ServerBusy."""
        self._check_overload(entity)
        self._throttle.take(MESSAGE_CREDITS, now_ms, is_partitioned=is_partitioned)

    def check_management(self, entity: str, now_ms: int) -> None:
        """Pay for one operation that changes or reads an entity, or raise ServerBusy. An empty name is the namespace.

        The load of a subscription is the load of its topic.
        """
        names = split_subscription(entity.lower())
        self._check_overload(entity if names is None else names[0])
        self._throttle.take(MANAGEMENT_CREDITS, now_ms)

    def check_settlement(self, now_ms: int) -> None:
        """Pay for a receive or a settlement: they make an overload smaller, and only the throttle refuses them."""
        self._throttle.take(MANAGEMENT_CREDITS, now_ms)

    def _check_overload(self, entity: str) -> None:
        if self._reason and (self._is_everything_refused or entity.lower() in self._refused):
            self.refused_count += 1
            raise ServerBusy(
                f"The request was terminated because the broker is overloaded: {self._reason}. "
                "Error code : 50009. Please wait 10 seconds and try again."
            )
