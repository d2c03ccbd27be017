"""Names of queues and exchanges as names of entities.

Entities have names of letters, digits, dots, hyphens, underscores and slashes; those of subscriptions and rules are
short. A name that fits stays as it is, so that people and other programs find it. Any other keeps what can be kept of
it, and a digest of the whole name makes it unlike all others: `celery@host.celery.pidbox` is
`celery-host.celery.pidbox-1f0c63a2`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

__all__ = ["entity_name", "short_name"]

# Characters.
_MAX_ENTITY_CHARACTERS: Final = 260
_MAX_SHORT_CHARACTERS: Final = 50
_DIGEST_BYTES: Final = 4

# Segments between slashes begin and end with a letter or a digit: the service wants it of whole names.
_SEGMENT: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_ENTITY: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_SHORT: Final = re.compile(_SEGMENT)
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9._-]+")


def entity_name(name: str, prefix: str = "") -> str:
    """Return the name of the queue or topic that stands for this queue or exchange."""
    whole = prefix + name
    if _ENTITY.fullmatch(whole) is not None and len(whole) <= _MAX_ENTITY_CHARACTERS:
        return whole
    return prefix + _digested(name, _MAX_ENTITY_CHARACTERS - len(prefix))


def short_name(name: str) -> str:
    """Return the name of the subscription or rule that stands for this queue or routing key."""
    if _SHORT.fullmatch(name) is not None and len(name) <= _MAX_SHORT_CHARACTERS:
        return name
    return _digested(name, _MAX_SHORT_CHARACTERS)


def _digested(name: str, most: int) -> str:
    digest = hashlib.blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    kept = _NOT_ALLOWED.sub("-", name).strip(".-_")[: most - len(digest) - 1].rstrip(".-_")
    return f"{kept}-{digest}" if kept else digest
