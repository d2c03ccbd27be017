"""How one batch changes the counts of sessions, whichever spelling of an id its messages have."""

from __future__ import annotations

from tandem.engine.effects import StreamChange
from tandem.engine.session_key import session_key

__all__ = ["count_by_session"]


def count_by_session(*changes: StreamChange) -> dict[str, int]:
    """Add up the active messages of each session, under the spelling that comes first."""
    spellings: dict[str, str] = {}
    counts: dict[str, int] = {}
    for change in changes:
        for session_id, by in change.sessions.items():
            spelling = spellings.setdefault(session_key(session_id), session_id)
            counts[spelling] = counts.get(spelling, 0) + by
    return counts
