"""Deliberate bugs: each changes one place of the broker's source, and must be noticed by the simulation.

A mutant names a function, a piece of its source, and what stands there instead. It works on the interpreted form only.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, cast

from tandem.engine.effects import StreamChange
from tandem.engine.head import Head
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.event_hubs import EventHubs
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.ownership import Ownership
from tandem.engine.hubs.partition import Partition
from tandem.engine.hubs.producers import Producers
from tandem.engine.lock_table import LockTable
from tandem.engine.message import BrokeredMessage
from tandem.engine.namespace import Namespace
from tandem.engine.outlet import Outlet
from tandem.engine.queue import Queue
from tandem.engine.rule_action import Acting
from tandem.engine.sessions import Sessions
from tandem.engine.stream_counts import EntitySize, StreamCounts
from tandem.engine.subqueue import SubQueue
from tandem.engine.subscription import Subscription
from tandem.engine.timetable import Timetable
from tandem.engine.topic import Topic
from tandem.engine.transactions import Transaction, Transactions
from tandem.server.runner import Runner
from tandem.store.events import StoredEvents
from tandem.testing.memory_log import MemoryLog
from tandem.testing.memory_store import MemoryStore

__all__ = ["MUTANTS", "Mutant", "applied"]


class Mutant(NamedTuple):
    """One bug."""

    name: str
    owner: type
    method: str
    original: str
    replacement: str


MUTANTS: Final = (
    # --- settling and locks
    Mutant("delivery count does not rise", SubQueue, "fail", "message.delivery_count += 1", "pass"),
    Mutant(
        "one delivery too many",
        SubQueue,
        "fail",
        "message.delivery_count >= limit",
        "message.delivery_count > limit",
    ),
    Mutant("expired lock is honoured", SubQueue, "check", "lock.locked_until_ms <= self.namespace.now_ms", "False"),
    Mutant("completed, not removed", SubQueue, "complete", "self.remove(lock.message)", "pass"),
    Mutant("removed, not counted", SubQueue, "remove", "self.counts.leave(message)", "pass"),
    Mutant(
        "given back twice",
        SubQueue,
        "_give_back",
        "self.put_in_line(message)",
        "self.put_in_line(message)\n            self.put_in_line(message)",
    ),
    Mutant("not given back", SubQueue, "_give_back", "if message.state != ACTIVE:", "if True:"),
    Mutant("released is failed", SubQueue, "release", "self._give_back(lock)", "self._give_back_failed(lock)"),
    Mutant("lock without a timer", Outlet, "lock", "subqueue.wake_at(locked_until_ms)", "pass"),
    Mutant("renewed lock expires as before", LockTable, "renew", "self._append(lock)", "pass"),
    Mutant(
        "locked message read again",
        Head,
        "fill",
        "if taken is None or message.sequence_number not in taken:",
        "if True:",
    ),
    # --- the head
    Mutant("head lost with the last receiver", Head, "clear", "self.cursor = self.floor", "pass"),
    Mutant("head complete for ever", Head, "_leave_on_disk", "self.is_complete = False", "pass"),
    Mutant("returned message lost", Head, "add_out_of_order", "if message.sequence_number > self.cursor:", "if True:"),
    Mutant(
        "overtaken message lost",
        Namespace,
        "committed",
        "sorted([*effects.appended, *effects.moved], key=_row)",
        "[*effects.appended, *effects.moved]",
    ),
    Mutant("tail off by one", Outlet, "load", "head.cursor, up_to, limit", "head.cursor, up_to + 1, limit"),
    Mutant("expired message delivered", Outlet, "pump", "message.expires_at_ms <= now_ms", "False"),
    Mutant("received, not deleted", Outlet, "_hand_out", "self.subqueue.remove(message)", "pass"),
    Mutant("drain unanswered", Outlet, "_drain", "self._drained(consumer)", "pass"),
    # --- time
    Mutant("scheduled too early", Timetable, "_activate", "namespace.now_ms,", "namespace.now_ms + 1_000,"),
    Mutant("schedule lost at restart", SubQueue, "restore", "if active or scheduled:", "if False:"),
    Mutant("deferred forgotten at restart", StreamCounts, "restore", "self.deferred = deferred", "pass"),
    Mutant("expired unseen", Timetable, "_expired", "subqueue.expire(message)", "pass"),
    Mutant("time to live of the queue ignored", Queue, "_limit_time_to_live", "default_ms < limit_ms", "False"),
    # --- sending
    Mutant("number given twice", Queue, "take_number", "change.next_sequence_number = number + 1", "pass"),
    Mutant("hops uncounted", Queue, "_forward", "message.hop_count += 1", "message.hop_count += 2"),
    Mutant("duplicate missed", MemoryStore, "_is_new", "is_new = False", "pass"),
    Mutant(
        "duplicates forgotten too early", Queue, "on_time", "now_ms - self.description", "now_ms - 0 * self.description"
    ),
    Mutant("ids never forgotten", Queue, "on_time", "self.main.wake_at(self.forget_at_ms)", "pass"),
    # --- counts
    Mutant("duplicate counted", Namespace, "committed", "subqueue.counts.refuse(message)", "pass"),
    Mutant(
        "room of a duplicate never freed",
        StreamCounts,
        "refuse",
        "self.add_committed_bytes(-message.held_bytes)",
        "self.size_bytes -= message.held_bytes\n        self._entity_size.commit(-message.held_bytes)",
    ),
    Mutant("room never freed", StreamCounts, "leave", "self._entity_size.decide(by_bytes)", "pass"),
    Mutant(
        "counts published before their commit",
        Runner,
        "_write_decided",
        "self._duplicates.update(written.duplicates)",
        "self._duplicates.update(written.duplicates)\n"
        "            early = Effects()\n            early.streams, effects.streams = effects.streams, {}\n"
        "            self.namespace.committed(early, ())",
    ),
    Mutant(
        "what leaves is published before what enters",
        Runner,
        "_release_batch",
        "namespace.committed(effects, duplicates)",
        "late = Effects()\n"
        "            for stream, change in list(effects.streams.items()):\n"
        "                if change.active + change.deferred + change.scheduled > 0:\n"
        "                    late.streams[stream] = effects.streams.pop(stream)\n"
        "            namespace.committed(effects, duplicates)\n"
        "            self._loop.call_soon(lambda late=late: namespace.committed(late, ()))",
    ),
    Mutant(
        "answered before all is published",
        Runner,
        "_release_batch",
        "namespace.committed(effects, duplicates)",
        "for asker, answer in effects.replies:\n                asker.release(answer)\n"
        "            effects.replies = []\n            namespace.committed(effects, duplicates)",
    ),
    Mutant("deferred, still counted as active", StreamCounts, "change_state", "change.add(message, -1)", "pass"),
    # --- sessions
    Mutant("session given twice", Sessions, "accept", "elif session_key(session_id) in self._accepted:", "elif False:"),
    Mutant("session lock never ends", Sessions, "on_time", "one.locked_until_ms <= now_ms", "False"),
    Mutant("waiter never told", Sessions, "on_time", "if deadline_ms <= now_ms", "if False"),
    Mutant("session state lost", Sessions, "put_state", "effects.changes.append(", "effects.changes.copy().append("),
    Mutant(
        "session left, its messages failed",
        Sessions,
        "close",
        "self._subqueue.release(lock)",
        "self._subqueue.fail(lock)",
    ),
    # --- transactions
    Mutant("half a transaction", Transaction, "commit", "in self.sends:", "in self.sends[1:]:"),
    Mutant(
        "a commit keeps its memory",
        Transactions,
        "committed",
        "self.memory.give_back(owner, held_bytes)",
        "self.memory.held_by(owner)",
    ),
    Mutant("rolled back, done all the same", Transactions, "discharge", "if is_failed:", "if False:"),
    Mutant("enlisted lock expires", LockTable, "take_expired", "if not first.is_enlisted:", "if True:"),
    # --- topics
    Mutant(
        "one subscription left out",
        Topic,
        "_publish",
        "in selecting.found.items():",
        "in list(selecting.found.items())[:1]:",
    ),
    Mutant("passed on, and still waiting", Topic, "activate", "self.namespace.effects.removed.append(row)", "pass"),
    Mutant(
        "plain copy forgotten beside an action", Topic, "_copy", "if selection.is_plain:", "if not selection.rules:"
    ),
    Mutant("failed rule unnoticed", Topic, "_copy", "if errors and", "if len(errors) > 1 and"),
    Mutant(
        "action changes the bytes of all",
        Acting,
        "act",
        "self._held_bytes += len(front)",
        "self._stored.front = front + split.tail",
    ),
    Mutant(
        "action without RuleName", Acting, "act", 'changes.user["RuleName"] = rule.name', "changes.user.update(user={})"
    ),
    Mutant("time to live of the topic ignored", Topic, "_begin", "default_ms < message.time_to_live_ms", "False"),
    Mutant("forwarded copies share", Topic, "_enlist", "copy.stream >> 2 == subscription.number", "True"),
    Mutant("hops of copies forgotten", BrokeredMessage, "copy", "self.hop_count,", "0,"),
    Mutant("duplicate in every subscription", Topic, "_admission", "return admission", "return None"),
    Mutant(
        "asked for each copy",
        Topic,
        "_copy",
        "if selection.is_plain:",
        "if admission is not None:\n            self.namespace.effects.admissions.append(admission)\n"
        "        if selection.is_plain:",
    ),
    Mutant(
        "duplicates of nobody forgotten", Topic, "_admission", "if not keys:", "if not keys or not self.subscriptions:"
    ),
    Mutant("removed rule selects", Subscription, "remove_rule", "self.parent.selector.remove(self, rule)", "pass"),
    Mutant("replaced rule selects", Subscription, "replace_rule", "self.parent.selector.remove(self, old)", "pass"),
    Mutant("replaced rule under two names", Subscription, "replace_rule", "rule.name = old.name", "pass"),
    Mutant(
        "rule lost at restart", Subscription, "add_rule", "effects.changes.append(", "effects.changes.copy().append("
    ),
    Mutant("body goes one copy too early", MemoryStore, "_release", "body.copies > count", "body.copies > count + 1"),
    Mutant("body never goes", SubQueue, "remove", "if message.body_number:", "if False:"),
    Mutant(
        "body released twice",
        MemoryStore,
        "_drop_queue",
        "if one.body_number:",
        "for _ in range(2 * (one.body_number > 0)):",
    ),
    Mutant("number of a body given twice", Namespace, "restore_body_number", "last + 1", "max(last, 1)"),
    Mutant(
        "bytes counted for each copy",
        StreamChange,
        "add",
        "message.held_bytes if count > 0 else -message.held_bytes",
        "message.size_bytes if count > 0 else -message.size_bytes",
    ),
    Mutant("topic without its subscriptions", EntitySize, "commit", "self._topic.committed_bytes += by_bytes", "pass"),
    Mutant("session state not counted", Sessions, "put_state", "subqueue.counts.resize(by)", "pass"),
    Mutant("time that an action set ignored", Queue, "adopt", "schedule(message, due_at_ms)", "pass"),
    Mutant("shared by one that left", Queue, "_write", "message.body_number = 0", "pass"),
    Mutant("left and not released", Queue, "_write", "effects.release(body_number)", "pass"),
    Mutant(
        "size of what was published",
        Namespace,
        "committed",
        "topic.size.decide(-size_bytes)",
        "pass",
    ),
    Mutant(
        "copies in two batches",
        Runner,
        "_write_decided",
        "effects = self.namespace.take_effects()",
        "effects = self.namespace.take_effects()\n"
        "        later = self.namespace.effects\n"
        "        later.appended += effects.appended[1:]\n"
        "        later.bodies.update(effects.bodies)\n"
        "        del effects.appended[1:]",
    ),
    # --- event hubs
    Mutant("number of an event given twice", Partition, "append", "self._next_decided += count", "pass"),
    Mutant(
        "event visible before the commit",
        Partition,
        "append",
        "namespace.effects.events.append(record)",
        "namespace.effects.events.append(record)\n        self.committed(record)",
    ),
    Mutant(
        "time of an event falls",
        Partition,
        "append",
        "max(namespace.now_ms, self._last_decided_at_ms)",
        "namespace.now_ms",
    ),
    Mutant(
        "times start anew at restart",
        Partition,
        "restore",
        "self._last_decided_at_ms = last_enqueued_at_ms or 0",
        "pass",
    ),
    Mutant(
        "event skipped in the tail",
        Partition,
        "_from_tail",
        "number - record.first_sequence_number",
        "number + 1 - record.first_sequence_number",
    ),
    Mutant(
        "tail found one record too late",
        Partition,
        "_from_tail",
        "first_sequence_number <= number",
        "first_sequence_number <= number + 1",
    ),
    Mutant("tail grows for ever", Partition, "committed", "self._tail_bytes > MAX_TAIL_BYTES", "False"),
    Mutant("tail kept for nobody", Partition, "close_receiver", "self._tail = []", "pass"),
    Mutant(
        "gap in the tail", Partition, "committed", "if not self._groups:", "if not self._groups or record.count == 2:"
    ),
    Mutant("reader never woken", Partition, "committed", "self.hub.namespace.hubs.pump_soon(self)", "pass"),
    Mutant("reader that reads on alone", Partition, "_serve", "if receiver.is_open:", "if False:"),
    Mutant("credit of a reader overdrawn", Partition, "_serve", "events[: max(0, receiver.credit)]", "events"),
    Mutant("drain of a reader unanswered", Partition, "pump", "receiver.is_draining and receiver.credit <= 0", "False"),
    Mutant("drain of an idle reader unanswered", Partition, "_serve", "self._drained(receiver)", "pass"),
    Mutant("displaced owner reads on", Partition, "_end", "receiver.is_open = False", "pass"),
    Mutant(
        "displaced owner is not told",
        Partition,
        "_end",
        "self.hub.namespace.effects.event_deliveries.append(",
        "[].append(",
    ),
    Mutant("two owners", Ownership, "admit", "self.receivers = []", "pass"),
    Mutant("lower epoch lets itself in", Ownership, "admit", "owner.epoch > receiver.epoch", "False"),
    Mutant(
        "equal epoch is refused", Ownership, "admit", "owner.epoch > receiver.epoch", "owner.epoch >= receiver.epoch"
    ),
    Mutant(
        "six readers without an epoch", Ownership, "admit", "len(self.receivers) >= MAX", "len(self.receivers) > MAX"
    ),
    Mutant(
        "inclusive is exclusive",
        Partition,
        "_place",
        "receiver.next_sequence_number = position.first",
        "receiver.next_sequence_number = position.value + 1",
    ),
    Mutant("position behind the end", Partition, "_place", "position.value > self.last_sequence_number", "False"),
    Mutant(
        "latest begins with the last",
        Partition,
        "_place",
        "receiver.next_sequence_number = self.next_sequence_number",
        "receiver.next_sequence_number = max(0, self.last_sequence_number)",
    ),
    Mutant("deleted group reads on", EventHub, "update", "if description.find_group(group) is None:", "if False:"),
    Mutant("disabled hub takes events", EventHub, "send", "if not self.description.can_send:", "if False:"),
    Mutant(
        "half a batch",
        EventHub,
        "send",
        "partition.append(payload, is_batch, count,",
        "partition.append(payload, is_batch, max(1, count - 1),",
    ),
    Mutant("key goes around", EventHub, "_choose", "if key is not None:", "if key:"),
    Mutant("repeated events stored again", Producers, "admit", "return None", "return known"),
    Mutant("gap of a producer unnoticed", Producers, "admit", "raise _out_of_order(", "_out_of_order("),
    Mutant(
        "old number acknowledged and lost", Producers, "admit", "raise _out_of_order(", "return None\n            ("
    ),
    Mutant("other events under the last numbers lost", Producers, "admit", "checksum == known.checksum", "True"),
    Mutant("producer forgotten at restart", EventHub, "send", "key, publisher, mark)", "key, publisher, None)"),
    Mutant("retention unheard", EventHubs, "trimmed", "if hub is not None:", "if False:"),
    Mutant("hub lost at restart", EventHub, "record", "effects.changes.append(", "effects.changes.copy().append("),
    Mutant("deleted hub comes back", EventHub, "drop", "changes.append(DropHub(self.number))", "changes.copy()"),
    Mutant(
        "event says another number",
        Event,
        "_annotations",
        "_LONG.pack(self.sequence_number)",
        "_LONG.pack(self.sequence_number + 1)",
    ),
    Mutant(
        "event lost on disk",
        MemoryLog,
        "commit",
        "self._written += self._gathered",
        "self._written += self._gathered[:-1]",
    ),
    Mutant("event survives a crash that it should not", MemoryLog, "revert", "self._gathered = []", "self.commit()"),
    Mutant("retention takes too much", MemoryLog, "maintain", "now_ms - retention_ms", "now_ms - retention_ms // 2"),
    Mutant("events not told to the log", StoredEvents, "committed", "self._log.committed()", "pass"),
    # --- runner and disk
    Mutant(
        "acknowledged before the commit",
        Runner,
        "_write",
        "return has_writes",
        "for done in self._batch:\n"
        "            for asker, answer in done.replies:\n"
        "                asker.release(answer)\n"
        "            done.replies = []\n"
        "        return has_writes",
    ),
    Mutant(
        "handed out before the commit",
        Runner,
        "_write",
        "return has_writes",
        "for done in self._batch:\n"
        "            for message in done.handed_out:\n"
        "                message.consumer.context.hand_out(message)\n"
        "            done.handed_out = []\n"
        "        return has_writes",
    ),
    Mutant(
        "visible before the commit",
        Runner,
        "_write_decided",
        "self._duplicates.update(written.duplicates)",
        "self.namespace.committed(effects, written.duplicates)\n            effects.appended = []",
    ),
    Mutant(
        "asked before written",
        Runner,
        "_write",
        "has_writes = self._write_decided() or has_writes",
        "has_writes = (not self._queries and self._write_decided()) or has_writes",
    ),
    Mutant("commit that is none", MemoryStore, "commit", "self._notes.clear()", "pass"),
    Mutant(
        "removal lost on disk", MemoryStore, "write", "for row in effects.removed:", "for row in effects.removed[1:]:"
    ),
)


def _give_back_failed(self: SubQueue, lock: object) -> None:
    """What one of the mutants calls: a release that counts as a failure."""
    from tandem.engine.lock_table import Lock

    assert isinstance(lock, Lock)
    lock.message.delivery_count += 1
    self._give_back(lock)


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The broker with this bug, for a while."""
    original = cast("Callable[..., object]", getattr(mutant.owner, mutant.method))
    source = textwrap.dedent(inspect.getsource(original))
    pieces = textwrap.indent(source, "    ").count(mutant.original)
    if pieces != 1:
        raise LookupError(
            f"{mutant.name}: {mutant.original!r} is {pieces} times in {mutant.owner.__name__}.{mutant.method}"
        )
    # Indented as in its class, so that replacements of several lines can be written as they stand there.
    changed = textwrap.dedent(textwrap.indent(source, "    ").replace(mutant.original, mutant.replacement))
    scope: dict[str, Callable[..., object]] = {}
    exec(compile(changed, f"<{mutant.name}>", "exec"), original.__globals__, scope)
    setattr(mutant.owner, mutant.method, scope[mutant.method])
    SubQueue._give_back_failed = _give_back_failed  # type: ignore[attr-defined] # for one of the mutants only
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.method, original)
        del SubQueue._give_back_failed  # type: ignore[attr-defined]
