"""The form in which session ids are compared: without regard to the case of the letters A to Z.

The spelling that a client sent is what is stored and delivered. Other letters are compared as they are: SQLite's
`lower` stops at ASCII, and the store has to find the sessions that the engine means (ADR 17).
"""

from __future__ import annotations

import string
from typing import Final

__all__ = ["session_key"]

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def session_key(session_id: str) -> str:
    """Return the same text for all spellings of one session id."""
    return session_id.lower() if session_id.isascii() else session_id.translate(_LOWER)
