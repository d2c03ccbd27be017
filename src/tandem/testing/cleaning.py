"""Bringing a namespace back to what it was: what was made since is deleted, what was there before is emptied.

Entities that stay keep their links: a client that has a sender or a receiver on one can go on using it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, cast

from tandem.desired_state import Wanted, apply, plan
from tandem.engine.description import QueueDescription
from tandem.engine.effects import ForgetDuplicates
from tandem.engine.message import BrokeredMessage
from tandem.engine.namespace import Namespace
from tandem.engine.queries import MessagesQuery
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.subqueue import SubQueue
from tandem.engine.subscription import Subscription
from tandem.errors import UsageError
from tandem.limits import MAX_PAGE_MESSAGES, MAX_PEEK_BYTES, MAX_SESSIONS_PER_PAGE
from tandem.server.runner import Asker, Runner

__all__ = ["Kept", "clean", "take_stock", "turn_back"]


class Kept(NamedTuple):
    """An entity as it was."""

    queue: Queue
    description: QueueDescription
    rules: tuple[Rule, ...]


def take_stock(namespace: Namespace) -> list[Kept]:
    """Everything that is there now, a topic before its subscriptions."""
    return [Kept(queue, queue.description, _rules(queue)) for queue in _all(namespace)]


def _all(namespace: Namespace) -> Iterator[Queue]:
    yield from namespace.queues
    for topic in namespace.topics:
        yield topic
        yield from list(topic.subscriptions.values())


def _rules(queue: Queue) -> tuple[Rule, ...]:
    return tuple(queue.rules.values()) if isinstance(queue, Subscription) else ()


async def clean(runner: Runner, kept: list[Kept]) -> None:
    await runner.perform(lambda namespace: _delete_others(namespace, kept))
    await runner.perform(lambda namespace: _repair(namespace, kept))
    for queue in [one.queue for one in kept if not one.queue.is_dropped]:
        for subqueue in queue.subqueues():
            await _empty(runner, subqueue)
        await runner.perform(partial(_forget_duplicates, queue))


def _delete_others(namespace: Namespace, kept: list[Kept]) -> None:
    staying = {one.queue for one in kept}
    for queue in list(_all(namespace)):
        # Subscriptions may be gone already, with their topic.
        if queue not in staying and not queue.is_dropped:
            namespace.delete(queue)


def _repair(namespace: Namespace, kept: list[Kept]) -> None:
    """Change back what was changed, and make again what was deleted."""
    wanted = [Wanted(one.description, list(one.rules) if isinstance(one.queue, Subscription) else None) for one in kept]
    steps = plan(namespace, wanted, updates=True)
    for step in steps:
        if step.error is not None:
            raise UsageError(f"{step.wanted.description.name!r} cannot be made as it was: {step.error}")
    apply(namespace, steps)


# --- what an entity holds -------------------------------------------------------------------------------------------


async def _empty(runner: Runner, subqueue: SubQueue) -> None:
    """Remove messages in whatever state, whoever has them locked, and the states of sessions."""
    while subqueue.active_count + subqueue.deferred_count + subqueue.scheduled_count:
        await runner.ask(partial(_remove_page, subqueue))
    sessions = subqueue.sessions
    if sessions is None:
        return
    while True:
        ids = cast(
            "list[str]",
            await runner.ask(lambda _, asker: sessions.list_sessions(None, 0, MAX_SESSIONS_PER_PAGE, asker)),
        )
        if not ids:
            return
        for session_id in ids:
            await runner.ask(partial(_drop_state, subqueue, session_id))


def _remove_page(subqueue: SubQueue, namespace: Namespace, asker: Asker) -> None:
    def answer(messages: list[BrokeredMessage]) -> None:
        for message in messages:
            session = None if subqueue.sessions is None else subqueue.sessions.find(message.session_id)
            outlet = subqueue.outlet if session is None else session.outlet
            # Whoever has it locked learns so when it settles.
            outlet.locks.clear()
            outlet.head.clear()
            subqueue.remove(message)
        namespace.effects.reply(asker, None)

    query = MessagesQuery(
        subqueue.stream, 0, subqueue.tail, MAX_PAGE_MESSAGES, MAX_PEEK_BYTES, None, is_active_only=False, answer=answer
    )
    namespace.effects.queries.append(query)


def _drop_state(subqueue: SubQueue, session_id: str, _: Namespace, asker: Asker) -> None:
    assert subqueue.sessions is not None
    subqueue.sessions.set_state(session_id, None, asker)


def _forget_duplicates(queue: Queue, namespace: Namespace) -> None:
    if queue.description.requires_duplicate_detection:
        namespace.effects.changes.append(ForgetDuplicates(queue.number, namespace.now_ms))


# --- time -----------------------------------------------------------------------------------------------------------


def turn_back(namespace: Namespace, now_ms: int) -> None:
    """Let it be earlier than it was.

    The engine knows time as something that goes forward only, because locks and deadlines are promises. There are none
    in a namespace that is empty; what its entities remember of later times is forgotten here.
    """
    namespace.now_ms = now_ms
    for queue in _all(namespace):
        queue.accessed_at_ms = now_ms
        queue.watch_idle()
        for subqueue in queue.subqueues():
            # How far the search for expired messages has come: those to come expire before that.
            subqueue.timetable.expired_after_ms = 0
            subqueue.timetable.expired_after = 0
