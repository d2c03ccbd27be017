"""One queue against a naive model of it: a list of messages, and rules that are short enough to be seen through."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tandem.engine.lock_table import Lock
from tandem.engine.message import NEVER_MS
from tandem.errors import MessageLockLost
from tests.drawing import examples
from tests.engine.desk import Desk, body, payload

LOCK_MS = 5_000
MAX_DELIVERIES = 2


class ModelMessage:
    """What the model knows of a message."""

    def __init__(self, text: str, expires_ms: int, due_ms: int) -> None:
        self.text = text
        self.ttl_ms = expires_ms
        self.expires_ms = NEVER_MS
        self.due_ms = due_ms
        self.is_deferred = False
        self.failures = 0
        self.lock: Lock | None = None
        self.locked_until_ms = 0


class QueueModel(RuleBasedStateMachine):
    """The engine and the model get the same commands; whatever can be seen must be the same."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk()
        self.desk.queue(
            lock_duration_ms=LOCK_MS, max_delivery_count=MAX_DELIVERIES, dead_lettering_on_message_expiration=True
        )
        self.main: list[ModelMessage] = []
        self.scheduled: list[ModelMessage] = []
        self.dead: list[str] = []
        self.sent_count = 0
        self._receive()

    def _receive(self) -> None:
        self.queue = self.desk.namespace.get("orders")
        self.consumer = self.desk.receiver(self.queue.main, credit=0)

    # --- the model ------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.desk.now_ms

    def _available(self) -> list[ModelMessage]:
        return [one for one in self.main if one.lock is None and not one.is_deferred]

    def _locked(self) -> list[ModelMessage]:
        return [one for one in self.main if one.lock is not None]

    def _fail(self, message: ModelMessage) -> None:
        message.lock = None
        message.failures += 1
        if message.failures >= MAX_DELIVERIES:
            self._die(message)
        else:
            self._expire()

    def _die(self, message: ModelMessage) -> None:
        self.main.remove(message)
        self.dead.append(message.text)

    def _expire(self) -> None:
        for message in self._available():
            if message.expires_ms <= self.now_ms:
                self._die(message)

    def _pass_time(self) -> None:
        for message in self._locked():
            if message.locked_until_ms <= self.now_ms:
                self._fail(message)
        for message in sorted(self.scheduled, key=lambda one: one.due_ms):
            if message.due_ms <= self.now_ms:
                self.scheduled.remove(message)
                self._join(message)
        self._expire()

    def _join(self, message: ModelMessage) -> None:
        message.expires_ms = min(NEVER_MS, self.now_ms + message.ttl_ms)
        self.main.append(message)

    # --- commands -------------------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 3), ttl_ms=st.sampled_from([None, 1_000, 8_000]), delay_ms=st.sampled_from([0, 0, 3_000])
    )
    def send(self, count: int, ttl_ms: int | None, delay_ms: int) -> None:
        texts = [f"{self.sent_count + index}" for index in range(count)]
        self.sent_count += count
        due_ms = self.now_ms + delay_ms if delay_ms else None
        self.desk.send_batch(self.queue, *[payload(text, ttl_ms=ttl_ms, due_ms=due_ms) for text in texts])
        for text in texts:
            message = ModelMessage(text, NEVER_MS if ttl_ms is None else ttl_ms, due_ms or 0)
            if due_ms is None:
                self._join(message)
            else:
                self.scheduled.append(message)

    @rule(credit=st.integers(1, 4))
    def receive(self, credit: int) -> None:
        self.desk.grant(self.consumer, credit)
        self.desk.grant(self.consumer, 0)
        locks = self.desk.take()
        expected = self._available()[:credit]
        assert [body(lock) for lock in locks] == [message.text for message in expected]
        for message, lock in zip(expected, locks, strict=True):
            assert lock.message.delivery_count == message.failures
            message.lock = lock
            message.locked_until_ms = self.now_ms + LOCK_MS

    @rule(credit=st.integers(1, 2))
    def receive_and_delete(self, credit: int) -> None:
        consumer = self.desk.receiver(self.queue.main, credit=credit, deletes=True)
        self.queue.main.close_consumer(consumer)
        expected = self._available()[:credit]
        assert self.desk.take_handed_out() == [message.text for message in expected]
        for message in expected:
            self.main.remove(message)

    @precondition(lambda self: self._locked())
    @rule(data=st.data(), how=st.sampled_from(["complete", "abandon", "release", "defer", "dead-letter", "renew"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        message = data.draw(st.sampled_from(self._locked()), label="message")
        lock = message.lock
        assert lock is not None
        main = self.queue.main
        if how == "complete":
            main.complete(lock)
            self.main.remove(message)
        elif how == "abandon":
            main.abandon(lock)
            self._fail(message)
        elif how == "release":
            main.release(lock)
            message.lock = None
            self._expire()
        elif how == "defer":
            main.defer(lock)
            message.lock = None
            message.is_deferred = True
            message.failures += 1
        elif how == "dead-letter":
            main.dead_letter(lock, None, None)
            self._die(message)
        else:
            message.locked_until_ms = main.renew(lock)
            assert message.locked_until_ms == self.now_ms + LOCK_MS
        self.desk.flush()
        if how not in {"release", "renew"}:
            with pytest.raises(MessageLockLost):
                main.complete(lock)

    @precondition(lambda self: any(one.is_deferred and one.lock is None for one in self.main))
    @rule(data=st.data(), deletes=st.booleans())
    def receive_deferred(self, data: st.DataObject, deletes: bool) -> None:
        free = [one for one in self.main if one.is_deferred and one.lock is None]
        message = data.draw(st.sampled_from(free), label="message")
        number = self._number(message.text)
        answer = self.desk.ask(lambda asker: self.queue.main.receive_deferred([number], deletes, None, asker))
        assert isinstance(answer, list)
        ((lock, received),) = answer
        assert body(received) == message.text
        if deletes:
            self.main.remove(message)
        else:
            message.lock = lock
            message.locked_until_ms = self.now_ms + LOCK_MS

    def _number(self, text: str) -> int:
        for stream in self.desk.store._streams.values():
            for number, kept in stream.messages.items():
                if kept.stored.bare.endswith(b"\xa0" + bytes((len(text),)) + text.encode()):
                    return number
        raise AssertionError(f"message {text} is not in the store")

    @precondition(lambda self: self.scheduled)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.scheduled), label="message")
        number = self._number(message.text)
        assert self.desk.ask(lambda asker: self.queue.main.cancel_scheduled([number], asker)) is None
        self.scheduled.remove(message)

    @rule(count=st.integers(1, 3))
    def delete(self, count: int) -> None:
        expected = self._available()[:count]
        now_ms = self.now_ms
        answer = self.desk.ask(lambda asker: self.queue.main.delete_batch(count, now_ms, None, asker))
        # Locked messages take a place in what is looked at, and are looked past.
        assert answer == len(expected)
        for message in expected:
            self.main.remove(message)

    @rule(by_ms=st.sampled_from([1, 999, 1_000, 4_000, 5_000, 20_000]))
    def wait(self, by_ms: int) -> None:
        # In steps that are shorter than any duration here, so that the model need not know what comes first.
        for _ in range(0, by_ms, 500):
            self.desk.advance(min(500, by_ms))
            self._pass_time()

    @rule()
    def restart(self) -> None:
        self.desk.restart()
        for message in self.main:
            message.lock = None
        self._expire()
        self.desk.advance(0)
        self._receive()

    # --- what must be the same ------------------------------------------------------------------------------

    @invariant()
    def the_queue_holds_what_the_model_holds(self) -> None:
        main = self.queue.main
        deferred = [one for one in self.main if one.is_deferred]
        assert main.active_count == len(self.main) - len(deferred)
        assert main.deferred_count == len(deferred)
        assert main.scheduled_count == len(self.scheduled)
        # One that expired under its lock lives on for its holder, and is not shown to others.
        shown = [one for one in self.main if one.is_deferred or one.expires_ms > self.now_ms]
        assert sorted(self.desk.peek(main, 1_000)) == sorted([one.text for one in shown + self.scheduled])
        assert sorted(self.desk.peek(self.queue.dead_letter_queue, 1_000)) == sorted(self.dead)


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(max_examples=examples(100), stateful_step_count=50)
