"""One fault: what it covers, until when, and how often it was met."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Final

from tandem.addresses import split_subscription
from tandem.auth import Right
from tandem.auth.keys import ALL_RIGHTS
from tandem.engine.message import NEVER_MS
from tandem.errors import ArgumentError, ArgumentOutOfRange, ProtocolError, ServerBusy
from tandem.fault_kinds import DEFAULT_ERRORS, MOMENTARY_KINDS, NAMESPACE_KINDS, FaultKind, name_of_error
from tandem.limits import MAX_FAULT_DELAY_MS, MAX_FAULT_DURATION_MS, MAX_FAULT_RATE_PER_SECOND
from tandem.server.throttle import Throttle

__all__ = ["Fault", "FaultSettings"]

_DELAYING: Final = frozenset({FaultKind.STALL, FaultKind.DELAY_VISIBILITY})

# Which operations meet a fault, by the right that they need. Kinds that are not listed meet every operation.
_RIGHTS: Final = {
    FaultKind.REFUSE_SENDS: Right.SEND,
    FaultKind.REFUSE_RECEIVES: Right.LISTEN,
    FaultKind.REFUSE_MANAGEMENT: Right.MANAGE,
    FaultKind.DELAY_VISIBILITY: Right.SEND,
    FaultKind.RESTART_ENTITY: Right.SEND | Right.LISTEN,
}


@dataclass(frozen=True)
class FaultSettings:
    """What somebody wants to fail."""

    kind: FaultKind
    # None is the whole namespace.
    entity: str | None = None
    # None leaves it to the kind.
    error: type[ProtocolError] | None = None
    # None lasts until the fault is cleared; a momentary kind then happens once.
    duration_ms: int | None = None
    # Of a stall and of delayed visibility.
    delay_ms: int | None = None
    # How many of the operations that it covers meet it, and the seed of the dice.
    probability: float = 1.0
    seed: int = 0
    # Of throttling: requests beyond so many in a second are refused.
    rate_per_second: int | None = None
    # Which operations meet it; None leaves that to the kind.
    rights: Right | None = None
    # `$cbs`, where clients prove who they are, meets it too.
    includes_authentication: bool = False
    # Of a timeout: what was asked is done, and only the answer is missing.
    is_performed: bool = False

    def check(self) -> None:
        """Raise ArgumentError for invalid settings; the message names the setting."""
        kind = self.kind
        _check_range("probability", self.probability, 0.0, 1.0)
        if self.duration_ms is not None:
            _check_range("duration_ms", self.duration_ms, 0, MAX_FAULT_DURATION_MS)
        if self.entity is not None and kind in NAMESPACE_KINDS:
            raise ArgumentError.of(
                f"{{field}} is {{value}}; {kind.value} is for the whole namespace: leave it out",
                "entity",
                value=self.entity,
            )
        if self.entity is None and kind is FaultKind.RESTART_ENTITY:
            raise ArgumentError.of(f"{{field}} is missing: {kind.value} needs one", "entity")
        if self.error is not None and kind not in DEFAULT_ERRORS:
            name = name_of_error(self.error) or self.error.__name__
            raise ArgumentError.of(
                f"{{field}} is {name}; {kind.value} answers with no error of your choice: leave it out", "error"
            )
        _check_belongs("delay_ms", self.delay_ms, kind, kind in _DELAYING)
        _check_belongs("rate_per_second", self.rate_per_second, kind, kind is FaultKind.THROTTLE)
        if self.delay_ms is not None:
            _check_range("delay_ms", self.delay_ms, 1, MAX_FAULT_DELAY_MS)
        if self.rate_per_second is not None:
            _check_range("rate_per_second", self.rate_per_second, 1, MAX_FAULT_RATE_PER_SECOND)
        if kind is FaultKind.DELAY_VISIBILITY and self.probability != 1.0:
            raise ArgumentError.of(
                "{field} must be left out of delay-visibility: it would change the order", "probability"
            )
        if self.rights is not None and kind in _RIGHTS:
            raise ArgumentError.of(
                f"{{field}} must be left out of {kind.value}: the kind says which ones meet it", "operations"
            )
        if self.is_performed and kind is not FaultKind.TIMEOUT:
            raise ArgumentError.of(f"{{field}} is for the kind timeout, not for {kind.value}: leave it out", "perform")


class Fault:
    """Settings that are in force."""

    def __init__(self, identifier: int, settings: FaultSettings, now_ms: int) -> None:
        self.id: Final = identifier
        self.settings: Final = settings
        self.kind: Final = settings.kind
        self.error: Final = settings.error or DEFAULT_ERRORS.get(settings.kind)
        self.rights: Final = settings.rights if settings.rights is not None else _RIGHTS.get(self.kind, ALL_RIGHTS)
        self.entity: Final = None if settings.entity is None else settings.entity.lower()
        self.started_at_ms: Final = now_ms
        duration_ms = settings.duration_ms
        if duration_ms is None and self.kind in MOMENTARY_KINDS:
            duration_ms = 0
        self.ends_at_ms: Final = NEVER_MS if duration_ms is None else now_ms + duration_ms
        self.hit_count = 0
        # Whoever waits for an answer that does not come learns from this that it is over.
        self.ended: Final = asyncio.Event()
        self._dice: Final = random.Random(settings.seed)  # noqa: S311 - repeatable is what is wanted
        self._throttle: Final = Throttle(settings.rate_per_second)

    @property
    def error_name(self) -> str | None:
        """The name of the error that the fault answers with; None if there is no error, or none with a name."""
        return None if self.error is None else name_of_error(self.error)

    def covers_path(self, path: str) -> bool:
        """What is wrong with a topic is wrong with its subscriptions."""
        if self.entity is None:
            return True
        folded = path.lower()
        names = split_subscription(folded)
        return self.entity == folded or (names is not None and self.entity == names[0])

    def meets(self, right: Right, path: str, now_ms: int) -> bool:
        """Whether an operation meets it. The dice are rolled only for what it covers."""
        if right not in self.rights or self.ends_at_ms <= now_ms or not self.covers_path(path):
            return False
        return self.settings.probability >= 1.0 or self._dice.random() < self.settings.probability

    def refuse(self, path: str) -> None:
        assert self.error is not None
        self.hit_count += 1
        raise self.error(f"'{path}' is broken on purpose: {self.kind.value}, fault {self.id}.")

    def throttle(self, now_ms: int) -> None:
        try:
            self._throttle.take(1.0, now_ms)
        except ServerBusy:
            self.hit_count += 1
            raise


def _check_range(field: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        template = "{field} is {value}; it must be between {least} and {most}"
        raise ArgumentOutOfRange.of(template, field, value=value, least=least, most=most)


def _check_belongs(field: str, value: int | None, kind: FaultKind, is_needed: bool) -> None:
    if is_needed and value is None:
        raise ArgumentError.of(f"{{field}} is missing: {kind.value} needs it", field)
    if not is_needed and value is not None:
        raise ArgumentError.of(
            f"{{field}} is {{value}}; {kind.value} has no use for it: leave it out", field, value=value
        )
