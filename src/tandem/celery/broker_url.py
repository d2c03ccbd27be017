"""The connection string in a broker URL.

kombu takes a text with semicolons for several URLs, one of which it tries after the other. A connection string has
semicolons, so it arrives in parts, which are put together here:

    Endpoint=sb://HOST;SharedAccessKeyName=NAME;SharedAccessKey=KEY     with `broker_transport`
    tandem://Endpoint=sb://HOST;SharedAccessKeyName=NAME;...            the same behind a scheme
    tandem://Endpoint%3Dsb%3A%2F%2FHOST%3BSharedAccessKeyName...        the same, percent-encoded
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from tandem.connection_string import ConnectionString
from tandem.errors import ConfigurationError

__all__ = ["read_broker_url", "shown_url"]

_SCHEME: Final = "tandem://"
_FIRST_PART: Final = "endpoint"


def read_broker_url(hostname: str | None, alternates: Sequence[str]) -> str:
    """Return the connection string that kombu has made a host name and alternatives to it of."""
    parts = [part for part in alternates if part.strip()] or [hostname or ""]
    text = ";".join(parts).strip()
    if text[: len(_SCHEME)].lower() == _SCHEME:
        text = text[len(_SCHEME) :]
    if not text:
        raise ConfigurationError("the broker URL is empty: set it to what `tandem connection-string` prints")
    if "=" not in text:
        # What is plain is left alone: a key may hold a plus sign or a percent sign.
        text = unquote(text)
    count = sum(part.strip().lower().startswith(_FIRST_PART) for part in text.split(";"))
    if count > 1:
        raise ConfigurationError(
            f"the broker URL names {count} namespaces; it must be one connection string. For sends that survive the "
            "loss of a namespace, pair two: docs/howto/pair-namespaces.md"
        )
    # Refused here, with the reason, and not when the first task is sent.
    ConnectionString.parse(text)
    return text.strip("; ")


def shown_url(connection_string: str) -> str:
    """Return the broker URL as it may be logged: without the key."""
    given = ConnectionString.parse(connection_string)
    port = "" if given.port is None else f":{given.port}"
    return f"{_SCHEME}{given.host}{port}"
