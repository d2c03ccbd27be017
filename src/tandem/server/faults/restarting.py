"""The serving of an entity begins anew, as when the node that serves it restarts or hands it to another.

Receivers are sent away with an error that says "come back", locks end as if they had been released, and what was in
memory is read from disk again. Nothing on disk changes: what was acknowledged stays.
"""

from __future__ import annotations

from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.topic import Topic
from tandem.errors import ProtocolError

__all__ = ["entities_of", "restart", "send_receivers_away"]


def entities_of(namespace: Namespace) -> list[Queue]:
    """Every queue, topic and subscription."""
    topics = namespace.topics
    return [*namespace.queues, *topics, *[one for topic in topics for one in topic.subscriptions.values()]]


def restart(queue: Queue, error: ProtocolError) -> None:
    """A topic with its subscriptions."""
    parts = [queue, *(queue.subscriptions.values() if isinstance(queue, Topic) else ())]
    for part in parts:
        send_receivers_away(part, error)
        for subqueue in part.subqueues():
            outlet = subqueue.outlet
            for lock in list(outlet.locks.held.values()):
                subqueue.release(lock)
            outlet.head.clear()
            part.namespace.pump_soon(subqueue)


def send_receivers_away(queue: Queue, error: ProtocolError) -> None:
    for subqueue in queue.subqueues():
        subqueue.close_all_consumers(error)
