"""The pairs of a connection string, and what is said of one that cannot be used: never its text, which holds a key."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tandem.errors import ConfigurationError

__all__ = ["MAX_CONNECTION_STRING_CHARACTERS", "bracketed", "read_pairs", "unusable"]

# Characters. An endpoint, a rule name and a key of the largest sizes take less than a thousand; a token may take more.
MAX_CONNECTION_STRING_CHARACTERS: Final = 16_384


def read_pairs(text: str, known: Collection[str] | None = None) -> dict[str, str]:
    """By name in lower case. Names that are not known are passed over, unless the known ones are given."""
    if len(text) > MAX_CONNECTION_STRING_CHARACTERS:
        raise unusable(f"it has {len(text):,} characters, more than {MAX_CONNECTION_STRING_CHARACTERS:,}")
    if not text.isprintable():
        raise unusable("it holds a character that cannot be printed")
    pairs: dict[str, str] = {}
    for number, part in enumerate(text.strip().split(";"), start=1):
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        key = name.strip().lower()
        if not equals or (known is not None and key not in known):
            raise unusable(f"part {number} is none of Endpoint, SharedAccessKeyName, SharedAccessKey, ...")
        pairs[key] = value.strip()
    return pairs


def bracketed(host: str) -> str:
    """A host as it stands in a URL: an IPv6 address needs brackets, or its colons would start a port."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def unusable(reason: str) -> ConfigurationError:
    return ConfigurationError(f"the connection string cannot be used: {reason}; `tandem connection-string` prints one")
