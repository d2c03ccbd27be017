"""Where a namespace is and what opens it: an address, or a connection string that also holds a key or a token.

    sb://contoso.servicebus.windows.net      TLS, to the service's own ports
    sb://broker.example:5671                 TLS, to a port of a Tandem, which speaks AMQP and HTTPS
    amqp://localhost:5672                    in the clear

    Endpoint=sb://localhost:5672;SharedAccessKeyName=NAME;SharedAccessKey=KEY;UseDevelopmentEmulator=true;
    Endpoint=sb://contoso.example;SharedAccessSignature=SharedAccessSignature sr=...;EntityPath=orders

Connection strings are read as the official SDKs read them: names in any case and order, unknown names ignored, a
semicolon at the end allowed. `UseDevelopmentEmulator=true` means in the clear. No error repeats the text of a
connection string, which holds a secret.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from tandem.auth.sas import is_sas_token, make_token
from tandem.errors import ConfigurationError
from tandem.hosts import bracketed
from tandem.limits import MAX_CONNECTION_STRING_CHARACTERS

__all__ = ["DEFAULT_HOST", "DEFAULT_PORT", "DEVELOPMENT_KEY", "ROOT_RULE_NAME", "ConnectionString", "ServiceAddress"]

DEFAULT_HOST: Final = "localhost"
# AMQP in the clear, AMQP inside TLS, and HTTPS.
DEFAULT_PORT: Final = 5672
_AMQPS_PORT: Final = 5671
_HTTPS_PORT: Final = 443

# The rule that every namespace of the service starts with, and that the official emulator has.
ROOT_RULE_NAME: Final = "RootManageSharedAccessKey"

# The key of the official emulator, as its documentation prints it: it protects nothing.
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"

_CLEAR_SCHEMES: Final = {"amqp", "http"}
_TLS_SCHEMES: Final = {"sb", "amqps", "https"}


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """A host, and whether to use TLS. A port of None is the usual one of each protocol."""

    host: str
    port: int | None
    is_tls: bool

    @staticmethod
    def parse(text: str) -> ServiceAddress:
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigurationError(f"address is {text!r:.80}, which cannot be read: {error}") from None
        if parts.scheme not in _CLEAR_SCHEMES | _TLS_SCHEMES or not host:
            raise ConfigurationError(
                f"address is {text!r:.80}; it must look like sb://HOST[:PORT], or amqp://HOST[:PORT] without TLS"
            )
        if parts.path.strip("/"):
            raise ConfigurationError(f"address is {text!r:.80}; a namespace has no path, its entities have")
        return ServiceAddress(host, port, parts.scheme in _TLS_SCHEMES)

    @property
    def amqp_port(self) -> int:
        return self.port or (_AMQPS_PORT if self.is_tls else DEFAULT_PORT)

    @property
    def http_url(self) -> str:
        """The root of the namespace over HTTP. Every port of Tandem speaks HTTP, so a port that is named serves it."""
        if self.is_tls:
            return f"https://{bracketed(self.host)}:{self.port or _HTTPS_PORT}"
        return f"http://{bracketed(self.host)}:{self.port or DEFAULT_PORT}"

    def audience(self, path: str) -> str:
        """The resource of a token for an entity."""
        return f"sb://{bracketed(self.host)}/{quote(path)}"

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"{'sb' if self.is_tls else 'amqp'}://{bracketed(self.host)}{port}"


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """The parts of a connection string; by default those of a broker for development on this machine.

    A signature takes the place of a rule and its key. Neither is shown by `repr`, since what is printed gets logged.
    """

    host: str = DEFAULT_HOST
    port: int | None = DEFAULT_PORT
    rule_name: str = ROOT_RULE_NAME
    key: str = field(default=DEVELOPMENT_KEY, repr=False)
    is_emulator: bool = True
    signature: str = field(default="", repr=False)
    entity_path: str | None = None

    @staticmethod
    def parse(text: str) -> ConnectionString:
        """Read a connection string, or raise `ConfigurationError` with the reason why it cannot be used."""
        pairs = _read_pairs(text)
        if not pairs.get("endpoint"):
            raise _unusable("Endpoint is missing")
        try:
            address = ServiceAddress.parse(pairs["endpoint"])
        except ConfigurationError:
            raise _unusable("Endpoint must look like sb://HOST or sb://HOST:PORT") from None
        rule_name, key = pairs.get("sharedaccesskeyname", ""), pairs.get("sharedaccesskey", "")
        signature = pairs.get("sharedaccesssignature", "")
        if signature and (rule_name or key):
            raise _unusable("it has SharedAccessSignature and also SharedAccessKeyName or SharedAccessKey")
        if signature and not is_sas_token(signature):
            raise _unusable("SharedAccessSignature must start with 'SharedAccessSignature '")
        if not signature and not (rule_name and key):
            missing = "SharedAccessKey" if rule_name else "SharedAccessKeyName"
            raise _unusable(f"{missing} is missing")
        # SDKs spell the value in several ways; only Python's insists on lower case.
        is_clear = not address.is_tls or pairs.get("usedevelopmentemulator", "").lower() == "true"
        return ConnectionString(
            address.host, address.port, rule_name, key, is_clear, signature, pairs.get("entitypath") or None
        )

    @property
    def address(self) -> ServiceAddress:
        return ServiceAddress(self.host, self.port, is_tls=not self.is_emulator)

    def make_token(self, resource: str, expires_at_s: int) -> str:
        """Sign a token for a resource with the key; a signature is returned as it is."""
        return self.signature or make_token(resource, self.rule_name, self.key, expires_at_s)

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        if self.signature:
            secret = f"SharedAccessSignature={self.signature};"
        else:
            secret = f"SharedAccessKeyName={self.rule_name};SharedAccessKey={self.key};"
        emulator = "UseDevelopmentEmulator=true;" if self.is_emulator else ""
        entity = f"EntityPath={self.entity_path};" if self.entity_path else ""
        return f"Endpoint=sb://{bracketed(self.host)}{port};{secret}{emulator}{entity}"


def _read_pairs(text: str) -> dict[str, str]:
    """Values by name in lower case."""
    if len(text) > MAX_CONNECTION_STRING_CHARACTERS:
        raise _unusable(f"it has {len(text):,} characters, more than {MAX_CONNECTION_STRING_CHARACTERS:,}")
    if not text.isprintable():
        raise _unusable("it holds a character that cannot be printed")
    pairs: dict[str, str] = {}
    for number, part in enumerate(text.strip().split(";"), start=1):
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        if not equals:
            raise _unusable(f"part {number} is not NAME=VALUE, such as Endpoint=sb://HOST")
        pairs[name.strip().lower()] = value.strip()
    return pairs


def _unusable(reason: str) -> ConfigurationError:
    return ConfigurationError(f"the connection string cannot be used: {reason}; `tandem connection-string` prints one")
