"""The line that clients are given: where a broker is, and the rule and key that let them in.

    Endpoint=sb://localhost:5672;SharedAccessKeyName=NAME;SharedAccessKey=KEY;UseDevelopmentEmulator=true;

`UseDevelopmentEmulator=true` makes the SDKs speak in the clear, to the port that the endpoint names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from tandem.connection_pairs import bracketed, read_pairs, unusable
from tandem.server.keys import DEVELOPMENT_KEY, ROOT_RULE_NAME

__all__ = ["DEFAULT_HOST", "DEFAULT_PORT", "ConnectionString"]

DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 5672

_HTTPS_PORT: Final = 443
_KEYS: Final = (
    "endpoint",
    "sharedaccesskeyname",
    "sharedaccesskey",
    "sharedaccesssignature",
    "entitypath",
    "usedevelopmentemulator",
)


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """Taken apart. The key is not shown by `repr`: what is printed is logged sooner or later."""

    host: str = DEFAULT_HOST
    port: int | None = DEFAULT_PORT
    rule_name: str = ROOT_RULE_NAME
    key: str = field(default=DEVELOPMENT_KEY, repr=False)
    is_emulator: bool = True

    @property
    def http_url(self) -> str:
        """Where the broker's HTTP is: every port of Tandem speaks it, in the clear and inside TLS."""
        host = bracketed(self.host)
        if self.is_emulator:
            return f"http://{host}:{self.port or DEFAULT_PORT}"
        return f"https://{host}:{self.port or _HTTPS_PORT}"

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        emulator = "UseDevelopmentEmulator=true;" if self.is_emulator else ""
        return (
            f"Endpoint=sb://{bracketed(self.host)}{port};SharedAccessKeyName={self.rule_name};"
            f"SharedAccessKey={self.key};{emulator}"
        )

    @staticmethod
    def parse(text: str) -> ConnectionString:
        """What is wrong is said without repeating the text: it holds a key."""
        pairs = read_pairs(text, _KEYS)
        for name, key in (
            ("Endpoint", "endpoint"),
            ("SharedAccessKeyName", "sharedaccesskeyname"),
            ("SharedAccessKey", "sharedaccesskey"),
        ):
            if not pairs.get(key):
                raise unusable(f"{name} is missing")
        host, port = _host_and_port(pairs["endpoint"])
        # Spelled out by the SDKs in several ways; only Python's insists on lower case.
        is_emulator = pairs.get("usedevelopmentemulator", "").lower() == "true"
        return ConnectionString(host, port, pairs["sharedaccesskeyname"], pairs["sharedaccesskey"], is_emulator)


def _host_and_port(endpoint: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise unusable(f"Endpoint cannot be read: {error}") from error
    if parts.scheme not in {"sb", "amqp", "amqps", "http", "https"} or not host:
        raise unusable("Endpoint must look like sb://HOST:PORT")
    return host, port
