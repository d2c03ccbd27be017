"""The way of a message: to its entity in the primary, or by a backlog queue of the secondary, step by step.

`PairedSender.send` and `PairedEntity.watch` are generators that do nothing themselves. They yield what is to be done
next, and are sent what came of it, so that one course of action serves every driver, with asyncio and without, and a
test goes through it in no time:

    SendToPrimary     try once to send; the outcome says how many of the messages were taken
    SendToBacklog     the same, rewritten, to one of the backlog queues
    Sleep             let time pass
    Ping              send a ping to the entity in the primary
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, assert_never

from tandem.client.errors import MessagingCommunicationError, OperationTimeoutError, ServerBusyError
from tandem.client.wire.retry import SERVER_BUSY_WAIT_S
from tandem.pairing.failover import EntityFailover, FailoverEffect, FailoverInput, FailoverState
from tandem.pairing.rotation import BacklogRotation

__all__ = [
    "Judgement",
    "Outcome",
    "PairedEntity",
    "PairedSender",
    "Ping",
    "SendToBacklog",
    "SendToPrimary",
    "Sleep",
    "Step",
    "Told",
    "Tried",
]

# Seconds. How long the primary may take for one send before that is a timeout. An operation has time for several.
_ATTEMPT_TIMEOUT_S: Final = 10.0
_ATTEMPTS_PER_OPERATION: Final = 3

# Seconds. No attempt is shorter than this, however soon the failover interval is over.
_MIN_ATTEMPT_TIMEOUT_S: Final = 1.0

# Seconds. A ping is given at least so long, however often pings are sent: it may have to connect first, which takes the
# official SDK some eight round trips, and one that is always given up too soon would never bring the entity back.
_MIN_PING_TIMEOUT_S: Final = 3.0

# Seconds. The waits between attempts while the entity is failing: each twice as long as the one before.
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0

Message = TypeVar("Message")


class Judgement(enum.Enum):
    """What an error says about the entity."""

    # Not an error at all.
    SENT = "sent"
    # The connection was lost or could not be made: perhaps the next attempt finds it again.
    LOST = "lost"
    # No answer. It tells about the time since the attempt began, and not only about now.
    TIMED_OUT = "timed out"
    # An error of the entity itself.
    UNAVAILABLE = "unavailable"
    # By the documents' rule: worth another attempt, and no reason for a failover until the operation times out.
    TRANSIENT = "transient"
    # The message or the caller is to blame, or a setting: it would be refused anywhere.
    REFUSED = "refused"
    BUSY = "busy"


@dataclass(frozen=True)
class Outcome:
    """What came of a step."""

    judgement: Judgement = Judgement.SENT
    # How many of the messages were taken, from the first on.
    count: int = 0
    error: Exception | None = None


@dataclass(frozen=True)
class Tried:
    """An attempt that was made ahead of a course, and what came of it."""

    started_s: float
    outcome: Outcome


@dataclass(frozen=True)
class SendToPrimary(Generic[Message]):
    messages: Sequence[Message]
    timeout_s: float


@dataclass(frozen=True)
class SendToBacklog(Generic[Message]):
    messages: Sequence[Message]
    index: int


@dataclass(frozen=True)
class Sleep:
    delay_s: float


@dataclass(frozen=True)
class Ping:
    timeout_s: float


# Any: the messages of whatever client library is driven.
Step = SendToPrimary[Any] | SendToBacklog[Any] | Sleep | Ping
Course = Generator[Step, Outcome, None]


@dataclass(frozen=True)
class Told:
    """Something that the application, and whoever watches the pair, may want to know."""

    event: str
    entity: str
    details: dict[str, object] = field(default_factory=dict)


class PairedEntity:
    """One entity of the primary namespace, as all senders of a factory see it.

    Threads may share it: what changes its state is done under a lock.
    """

    def __init__(
        self,
        path: str,
        failover_interval_s: float,
        ping_interval_s: float,
        now_s: Callable[[], float],
        tell: Callable[[Told], None],
        start_watch: Callable[[PairedEntity], None],
    ) -> None:
        """`start_watch` is called when the entity begins to fail: the driver then follows `watch` to its end."""
        self.path = path
        self._ping_interval_s = ping_interval_s
        self._now_s = now_s
        self._tell = tell
        self._start_watch = start_watch
        self._failover = EntityFailover(failover_interval_s)
        self._lock = threading.Lock()
        self._is_watched = False
        # When a send succeeded last.
        self.succeeded_at_s = float("-inf")

    @property
    def state(self) -> FailoverState:
        return self._failover.state

    @property
    def due_at_s(self) -> float | None:
        return self._failover.due_at_s

    def happened(self, happened: FailoverInput, error: Exception | None = None) -> FailoverState:
        """Tell the state machine, and do what it wants done."""
        now_s = self._now_s()
        with self._lock:
            effects = self._failover.apply(happened, now_s)
        self._perform(effects, error)
        return self._failover.state

    def _pass_time(self) -> None:
        now_s = self._now_s()
        with self._lock:
            effects = self._failover.pass_time(now_s)
        self._perform(effects, None)

    def _perform(self, effects: tuple[FailoverEffect, ...], error: Exception | None) -> None:
        reason: dict[str, object] = {} if error is None else {"reason": str(error)[:500]}
        for effect in effects:
            match effect:
                case FailoverEffect.WATCH:
                    self._tell(Told("failing", self.path, reason))
                    if self._claim_watch():
                        self._start_watch(self)
                case FailoverEffect.DIVERT:
                    # Whoever reads this knows how often a ping is reported, and so when this client must be gone.
                    self._tell(Told("failed-over", self.path, {**reason, "ping_interval_s": self._ping_interval_s}))
                case FailoverEffect.RETURN:
                    self._tell(Told("restored", self.path))
                case _:
                    assert_never(effect)

    def _claim_watch(self) -> bool:
        """One watch at a time: an entity that recovers and fails again is still under the first one's eyes."""
        with self._lock:
            is_free = not self._is_watched
            self._is_watched = True
        return is_free

    def _is_over(self) -> bool:
        """Whether there is nothing left to watch; if so, the next failure starts another watch."""
        with self._lock:
            if self._failover.state is FailoverState.HEALTHY:
                self._is_watched = False
            return not self._is_watched

    def watch(self) -> Course:
        """Wait for the end of the failover interval, then ping until the primary answers. Ends when it is healthy."""
        while not self._is_over():
            due_at_s = self.due_at_s
            if due_at_s is not None:
                yield Sleep(max(0.0, due_at_s - self._now_s()))
                self._pass_time()
            else:
                yield Sleep(self._ping_interval_s)
                yield from self._ping()

    def _ping(self) -> Course:
        outcome = yield Ping(min(_ATTEMPT_TIMEOUT_S, max(_MIN_PING_TIMEOUT_S, self._ping_interval_s)))
        is_answered = outcome.judgement is Judgement.SENT
        self._tell(Told("ping", self.path, {"outcome": "ok" if is_answered else outcome.judgement.value}))
        self.happened(FailoverInput.PING_SUCCEEDED if is_answered else FailoverInput.PING_FAILED)


class PairedSender(Generic[Message]):
    """One sender of a factory: what it sends to one entity, and the backlog queue that it has drawn."""

    def __init__(
        self,
        entity: PairedEntity,
        rotation: BacklogRotation,
        operation_timeout_s: float,
        now_s: Callable[[], float],
        tell: Callable[[Told], None],
    ) -> None:
        self._entity = entity
        self._rotation = rotation
        self._operation_timeout_s = operation_timeout_s
        self._attempt_timeout_s = min(_ATTEMPT_TIMEOUT_S, operation_timeout_s / _ATTEMPTS_PER_OPERATION)
        self._now_s = now_s
        self._tell = tell
        self._backlog_index: int | None = None
        self._busy_until_s = 0.0

    @property
    def is_diverted(self) -> bool:
        return self._entity.state is FailoverState.FAILED_OVER

    @property
    def attempt_timeout_s(self) -> float | None:
        """How long a driver may try to send before it follows `send`; None if it must not. While all is well one
        attempt is all that there is to a send, and a course of steps would cost more than the message."""
        is_well = self._entity.state is FailoverState.HEALTHY and self._busy_until_s <= self._now_s()
        return self._attempt_timeout_s if is_well else None

    def note_success(self) -> None:
        """A send that was tried ahead of its course has succeeded."""
        self._entity.succeeded_at_s = self._now_s()
        # In the table this changes nothing unless the entity is failing, and most are not.
        if self._entity.state is not FailoverState.HEALTHY:
            self._entity.happened(FailoverInput.SEND_SUCCEEDED)

    def send(self, messages: Sequence[Message], timeout_s: float | None = None, tried: Tried | None = None) -> Course:
        """Until the last message is taken by one namespace or the other; what cannot be helped is raised.

        `tried` is what came of an attempt that the driver made ahead.
        """
        began_s = self._now_s() if tried is None else tried.started_s
        operation_timeout_s = self._operation_timeout_s if timeout_s is None else timeout_s
        attempt_timeout_s = min(self._attempt_timeout_s, operation_timeout_s / _ATTEMPTS_PER_OPERATION)
        deadline_s = began_s + operation_timeout_s
        pause_s = _FIRST_PAUSE_S
        is_first_loss = True
        while messages:
            if tried is not None:
                started_s, outcome, tried = tried.started_s, tried.outcome, None
            elif self.is_diverted:
                messages = yield from self._divert(messages, deadline_s, pause_s)
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
                continue
            else:
                yield from self._wait_until_open(deadline_s)
                started_s = self._now_s()
                outcome = yield SendToPrimary(messages, self._timeout_s(attempt_timeout_s, deadline_s))
            messages = messages[outcome.count :]
            if outcome.judgement is Judgement.SENT:
                self.note_success()
                continue
            assert outcome.error is not None
            if outcome.judgement is Judgement.LOST and is_first_loss:
                # One connection that was lost says nothing about the entity: only if the next one fails, too.
                is_first_loss = False
                continue
            if outcome.judgement is Judgement.TIMED_OUT and started_s < self._entity.succeeded_at_s:
                # Others have sent since this attempt began: it was not answered, and the entity is well.
                if self._now_s() >= deadline_s:
                    raise outcome.error
                continue
            yield from self._bear(outcome.judgement, outcome.error, deadline_s, pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)

    def _timeout_s(self, attempt_timeout_s: float, deadline_s: float) -> float:
        now_s = self._now_s()
        due_at_s = self._entity.due_at_s
        soon_s = attempt_timeout_s if due_at_s is None else due_at_s - now_s
        wanted_s = max(min(attempt_timeout_s, soon_s), min(_MIN_ATTEMPT_TIMEOUT_S, attempt_timeout_s))
        return max(0.0, min(wanted_s, deadline_s - now_s))

    def _wait_until_open(self, deadline_s: float) -> Course:
        """After ServerBusy nothing is asked of the entity by this sender for ten seconds."""
        wait_s = self._busy_until_s - self._now_s()
        if wait_s <= 0:
            return
        if self._busy_until_s >= deadline_s:
            raise ServerBusyError(f"'{self._entity.path}' was busy, and wants to be left alone for {wait_s:.1f} s more")
        yield Sleep(wait_s)

    def _bear(self, judgement: Judgement, error: Exception, deadline_s: float, pause_s: float) -> Course:
        """Come to terms with a failure: raise it, or wait for the next attempt or the failover."""
        entity, now_s = self._entity, self._now_s()
        if judgement is Judgement.REFUSED:
            entity.happened(FailoverInput.SEND_REFUSED)
            raise error
        if judgement is Judgement.BUSY:
            entity.happened(FailoverInput.SERVER_BUSY)
            self._busy_until_s = now_s + SERVER_BUSY_WAIT_S
            if self._busy_until_s >= deadline_s:
                raise error
            return
        is_transient = judgement is Judgement.TRANSIENT
        if not is_transient and entity.happened(FailoverInput.SEND_FAILED, error) is FailoverState.FAILED_OVER:
            return
        due_at_s = entity.due_at_s
        wait_s = pause_s if due_at_s is None else max(0.0, min(pause_s, due_at_s - now_s))
        if now_s + wait_s >= deadline_s:
            if is_transient:
                error = _timed_out(entity.path, error)
                entity.happened(FailoverInput.SEND_FAILED, error)
            raise error
        yield Sleep(wait_s)

    def _divert(
        self, messages: Sequence[Message], deadline_s: float, pause_s: float
    ) -> Generator[Step, Outcome, Sequence[Message]]:
        """Send to the backlog queue of this sender. One that fails is taken out of rotation for all of them.

        When each has failed, what is left is returned after a pause: by then the primary may be back, or the secondary.
        """
        rotation = self._rotation
        rounds = rotation.rounds
        is_first_loss = True
        while messages:
            index = self._backlog_index = rotation.draw(self._backlog_index)
            outcome = yield SendToBacklog(messages, index)
            if outcome.count:
                self._tell(Told("diverted", self._entity.path, {"count": outcome.count, "queue": index}))
            messages = messages[outcome.count :]
            if outcome.error is None:
                continue
            if outcome.judgement is Judgement.REFUSED:
                raise outcome.error
            if outcome.judgement is Judgement.LOST and is_first_loss:
                is_first_loss = False
                continue
            if rotation.remove(index):
                details: dict[str, object] = {"queue": index, "reason": str(outcome.error)[:500]}
                self._tell(Told("backlog-queue-removed", self._entity.path, details))
            if rotation.rounds != rounds:
                if self._now_s() + pause_s >= deadline_s:
                    raise _none_left(outcome.error)
                yield Sleep(pause_s)
                break
        return messages


def _timed_out(path: str, error: Exception) -> Exception:
    failure = OperationTimeoutError(
        f"'{path}' did not take the message in the time of the send; the last error: {error}"
    )
    failure.__cause__ = error
    return failure


def _none_left(error: Exception) -> Exception:
    text = f"neither the primary nor any backlog queue of the secondary took the message; the last error: {error}"
    kind = OperationTimeoutError if isinstance(error, OperationTimeoutError) else MessagingCommunicationError
    failure = kind(text)
    failure.__cause__ = error
    return failure
