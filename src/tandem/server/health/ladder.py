"""Which part a trouble restarts: the smallest that can help, and a larger one if that did not help.

    entity     its memory is read again from the store; its links are detached with a retriable error
    host       the namespace is closed and opened again; its clients are disconnected with a retriable error
    process    the broker ends with an exit code of its own, and its supervisor starts it again

An entity that fails again after its host was restarted is left alone until the restart is long ago: everything in
memory was new then, so what fails is one request, and a new process would read the same disk with the same code. The
connection that failed is closed in any case.
"""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["LEVELS", "MAX_SALVAGES", "Ladder", "Level", "Trouble"]


# Salvages of one store before a relapse is long ago. One finds all that is damaged at the time.
MAX_SALVAGES: Final = 3


class Trouble(enum.Enum):
    """What is wrong."""

    # An internal error while one queue, topic or subscription was served.
    ENTITY_FAILED = "entity-failed"
    # The same of an event hub. Its log is that of all hubs, so that it cannot be read again alone.
    HUB_FAILED = "hub-failed"
    # An internal error between memory and store, or the store cannot be read or written.
    ENGINE_FAILED = "engine-failed"
    # Stored data has a wrong checksum. Opening the store again salvages it, and does so each time something is found.
    STORE_DAMAGED = "store-damaged"
    COMMIT_STALLED = "commit-stalled"
    # A restart inside the process did not come to its end in time, or failed.
    RESTART_FAILED = "restart-failed"
    LOOP_BLOCKED = "loop-blocked"


class Level(enum.Enum):
    """What is restarted."""

    NOTHING = "nothing"
    ENTITY = "entity"
    HOST = "host"
    PROCESS = "process"


_NOTHING, _ENTITY, _HOST, _PROCESS = Level

# By trouble: what to restart if nothing, the entity or the host was restarted a short while ago for the same entity or
# namespace.
_AFTER: Final = (_NOTHING, _ENTITY, _HOST)
_ROWS: Final = {
    Trouble.ENTITY_FAILED: (_ENTITY, _HOST, _NOTHING),
    Trouble.HUB_FAILED: (_HOST, _HOST, _NOTHING),
    Trouble.ENGINE_FAILED: (_HOST, _HOST, _PROCESS),
    Trouble.STORE_DAMAGED: (_HOST, _HOST, _HOST),
    Trouble.COMMIT_STALLED: (_HOST, _HOST, _PROCESS),
    Trouble.RESTART_FAILED: (_PROCESS, _HOST, _PROCESS),
    # Only the event loop could restart a part of the process, and it does not run.
    Trouble.LOOP_BLOCKED: (_PROCESS, _PROCESS, _PROCESS),
}
LEVELS: Final[dict[tuple[Trouble, Level], Level]] = {
    (trouble, last): level for trouble, row in _ROWS.items() for last, level in zip(_AFTER, row, strict=True)
}


class Ladder:
    """Remembers what was restarted, for as long as a relapse would show that it did not help."""

    def __init__(self, relapse_s: float) -> None:
        self._relapse_s = relapse_s
        self._entities: dict[tuple[str, str], float] = {}
        self._hosts: dict[str, float] = {}
        # When damaged stores were salvaged.
        self._salvages: dict[str, list[float]] = {}

    def level(self, trouble: Trouble, namespace: str, entity: str, now_s: float) -> Level:
        """Return what to restart. The entity is empty if the trouble is not about one."""
        return LEVELS[trouble, self._last(namespace, entity.lower(), now_s)]

    def _last(self, namespace: str, entity: str, now_s: float) -> Level:
        if now_s - self._hosts.get(namespace, -self._relapse_s) < self._relapse_s:
            return Level.HOST
        if now_s - self._entities.get((namespace, entity), -self._relapse_s) < self._relapse_s:
            return Level.ENTITY
        return Level.NOTHING

    def is_salvaged_too_often(self, namespace: str, now_s: float) -> bool:
        """Count a salvage, and return whether its disk damages faster than one can salvage: each keeps a copy."""
        recent = [at_s for at_s in self._salvages.get(namespace, []) if now_s - at_s < self._relapse_s]
        self._salvages[namespace] = [*recent, now_s]
        return len(recent) >= MAX_SALVAGES

    def record(self, level: Level, namespace: str, entity: str, now_s: float) -> None:
        """A part was restarted."""
        if level is Level.ENTITY:
            self._entities = {key: at_s for key, at_s in self._entities.items() if now_s - at_s < self._relapse_s}
            self._entities[namespace, entity.lower()] = now_s
        elif level is Level.HOST:
            self._hosts[namespace] = now_s
