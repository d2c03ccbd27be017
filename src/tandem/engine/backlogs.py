"""Backlogs of paired namespaces: backlog queues by primary namespace, and those that no syphon attends to.

A syphon attends to a backlog queue while it has a link to receive from it. It keeps that link while the primary is away
and it does not receive, so that an outage alone strands nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.engine.metering import BACKLOG_QUEUES
from tandem.limits import BACKLOG_STRANDED_AFTER_MS

if TYPE_CHECKING:
    from tandem.engine.queue import Queue

__all__ = ["StrandedBacklog", "is_backlog_queue", "stranded_backlogs"]


class StrandedBacklog:
    """The backlog queues of one primary that hold messages and are not attended to."""

    __slots__ = ("attended_at_ms", "message_count", "primary_namespace", "queue_count")

    def __init__(self, primary_namespace: str) -> None:
        self.primary_namespace = primary_namespace
        self.queue_count = 0
        self.message_count = 0
        # When the last syphon left, at the latest of these queues.
        self.attended_at_ms = 0


def is_backlog_queue(name: str) -> bool:
    return BACKLOG_QUEUES in name.lower()


def stranded_backlogs(queues: list[Queue], now_ms: int) -> list[StrandedBacklog]:
    """Backlogs that are not empty and that nobody has attended to for 20 minutes, by primary namespace."""
    found: dict[str, StrandedBacklog] = {}
    for queue in queues:
        main = queue.main
        if not main.active_count or main.consumers or now_ms - main.attended_at_ms < BACKLOG_STRANDED_AFTER_MS:
            continue
        name = queue.name
        primary = name[: name.lower().index(BACKLOG_QUEUES)]
        backlog = found.get(primary.lower())
        if backlog is None:
            backlog = found[primary.lower()] = StrandedBacklog(primary)
        backlog.queue_count += 1
        backlog.message_count += main.active_count
        backlog.attended_at_ms = max(backlog.attended_at_ms, main.attended_at_ms)
    return [found[primary] for primary in sorted(found)]
