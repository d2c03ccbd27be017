"""A pair without a network: courses are followed in a time that passes only where they sleep."""

from __future__ import annotations

import random
from collections.abc import Callable

from tandem.client.errors import MessagingCommunicationError, MessagingError, OperationTimeoutError, ServerBusyError
from tandem.pairing.detour import (
    Outcome,
    PairedEntity,
    PairedSender,
    Ping,
    SendToBacklog,
    SendToPrimary,
    Sleep,
    Step,
    Told,
    Tried,
)
from tandem.pairing.following import follow_blocking
from tandem.pairing.judging import FailoverRule, judge_backlog, judge_ping, judge_primary
from tandem.pairing.rotation import BacklogRotation

OPERATION_TIMEOUT_S = 60.0

# What a namespace makes of a message: None takes it.
Verdict = Callable[[], Exception | None]


def takes() -> None:
    return None


def lost() -> MessagingCommunicationError:
    return MessagingCommunicationError("gone")


def timed_out() -> OperationTimeoutError:
    return OperationTimeoutError("no answer")


def busy() -> ServerBusyError:
    return ServerBusyError("busy")


def broken() -> MessagingError:
    return MessagingError("an error inside")


class Pair:
    """Two namespaces, each of which does as a test says."""

    def __init__(
        self,
        failover_interval_s: float = 10.0,
        ping_interval_s: float = 60.0,
        backlog_queue_count: int = 10,
        rule: FailoverRule = FailoverRule.AVAILABILITY,
    ) -> None:
        self._rule = rule
        self.now_s = 1_000.0
        self._intervals = (failover_interval_s, ping_interval_s)
        self.primary: Verdict = takes
        # By entity, where it differs from the rest of the primary.
        self.entity_verdicts: dict[str, Verdict] = {}
        self.backlog: dict[int, Verdict] = {}
        # What was taken: (entity, message) by the primary, (queue, message) by the backlog.
        self.taken: list[tuple[str, str]] = []
        self.diverted: list[tuple[int, str]] = []
        self.attempts: list[float] = []
        self.pings: list[tuple[float, str]] = []
        self.told: list[Told] = []
        self.watches: list[PairedEntity] = []
        self.rotation = BacklogRotation(backlog_queue_count, random.Random(3).randrange)
        self.entities: dict[str, PairedEntity] = {}
        # Called after each sleep, so that the world may change while a sender waits.
        self.on_sleep: Callable[[], None] = takes

    def entity(self, path: str = "orders") -> PairedEntity:
        if path not in self.entities:
            self.entities[path] = PairedEntity(
                path, *self._intervals, lambda: self.now_s, self.told.append, self.watches.append
            )
        return self.entities[path]

    def sender(self, path: str = "orders") -> PairedSender[str]:
        return PairedSender(self.entity(path), self.rotation, OPERATION_TIMEOUT_S, lambda: self.now_s, self.told.append)

    def send(
        self,
        sender: PairedSender[str],
        *messages: str,
        path: str = "orders",
        timeout_s: float | None = None,
        tried: Tried | None = None,
    ) -> None:
        follow_blocking(sender.send(messages, timeout_s, tried), lambda step: self._perform(step, path))

    def watch(self) -> None:
        """Follow what watches the first entity that began to fail, to its end."""
        entity = self.watches.pop(0)
        follow_blocking(entity.watch(), lambda step: self._perform(step, entity.path))

    def _perform(self, step: Step, path: str) -> Outcome:
        if isinstance(step, Sleep):
            self.now_s += step.delay_s
            self.on_sleep()
            return Outcome()
        if isinstance(step, Ping):
            self.pings.append((self.now_s, path))
            error = self._verdict(path)()
            return Outcome() if error is None else Outcome(judge_ping(error), error=error)
        if isinstance(step, SendToPrimary):
            return self._send_to_primary(step, path)
        return self._send_to_backlog(step)

    def _verdict(self, path: str) -> Verdict:
        return self.entity_verdicts.get(path, self.primary)

    def _send_to_primary(self, step: SendToPrimary[str], path: str) -> Outcome:
        self.attempts.append(self.now_s)
        error = self._verdict(path)()
        if isinstance(error, OperationTimeoutError):
            self.now_s += step.timeout_s
        if error is not None:
            return Outcome(judge_primary(error, self._rule), error=error)
        self.taken += [(path, message) for message in step.messages]
        return Outcome(count=len(step.messages))

    def _send_to_backlog(self, step: SendToBacklog[str]) -> Outcome:
        error = self.backlog.get(step.index, takes)()
        if error is not None:
            return Outcome(judge_backlog(error), error=error)
        self.diverted += [(step.index, message) for message in step.messages]
        return Outcome(count=len(step.messages))

    def events(self, *names: str) -> list[str]:
        return [told.event for told in self.told if not names or told.event in names]
