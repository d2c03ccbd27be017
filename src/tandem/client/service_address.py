"""Where a namespace is, from an address or from a connection string.

    sb://contoso.servicebus.windows.net      TLS, to the service's own ports
    sb://broker.example:5671                 TLS, to a port of a Tandem, which speaks AMQP and HTTPS
    amqp://localhost:5672                    in the clear

    Endpoint=sb://localhost:5672;SharedAccessKeyName=NAME;SharedAccessKey=KEY;UseDevelopmentEmulator=true;

`UseDevelopmentEmulator=true` in a connection string means: in the clear, as for the official SDKs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from tandem.client.token_provider import TokenProvider
from tandem.connection_pairs import bracketed, read_pairs, unusable
from tandem.errors import ConfigurationError

__all__ = ["ConnectionParts", "ServiceAddress", "parse_connection_string"]

_AMQP_PORT: Final = 5672
_AMQPS_PORT: Final = 5671
_HTTPS_PORT: Final = 443

_CLEAR_SCHEMES: Final = {"amqp", "http"}
_TLS_SCHEMES: Final = {"sb", "amqps", "https"}


@dataclass(frozen=True)
class ServiceAddress:
    """A host, and how to speak to it. A port of None is the usual one of each protocol."""

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
        return self.port or (_AMQPS_PORT if self.is_tls else _AMQP_PORT)

    @property
    def http_url(self) -> str:
        """Every port of Tandem speaks HTTP too, so that a port that is named serves both."""
        if self.is_tls:
            return f"https://{bracketed(self.host)}:{self.port or _HTTPS_PORT}"
        return f"http://{bracketed(self.host)}:{self.port or _AMQP_PORT}"

    def audience(self, path: str) -> str:
        """What a token for an entity is for."""
        return f"sb://{bracketed(self.host)}/{quote(path)}"

    def __str__(self) -> str:
        port = "" if self.port is None else f":{self.port}"
        return f"{'sb' if self.is_tls else 'amqp'}://{bracketed(self.host)}{port}"


@dataclass(frozen=True)
class ConnectionParts:
    """What a connection string says."""

    address: ServiceAddress
    token_provider: TokenProvider
    entity_path: str | None


def parse_connection_string(text: str) -> ConnectionParts:
    """What is wrong is said without repeating the text: it holds a key."""
    pairs = read_pairs(text)
    endpoint = pairs.get("endpoint")
    if not endpoint:
        raise unusable("Endpoint is missing")
    try:
        address = ServiceAddress.parse(endpoint)
    except ConfigurationError as error:
        raise unusable(str(error)) from None
    if pairs.get("usedevelopmentemulator", "").lower() == "true":
        address = ServiceAddress(address.host, address.port, is_tls=False)
    return ConnectionParts(address, _token_provider(pairs), pairs.get("entitypath") or None)


def _token_provider(pairs: dict[str, str]) -> TokenProvider:
    signature = pairs.get("sharedaccesssignature")
    rule_name, key = pairs.get("sharedaccesskeyname"), pairs.get("sharedaccesskey")
    if signature:
        if rule_name or key:
            raise unusable("it has SharedAccessSignature and also SharedAccessKeyName or SharedAccessKey")
        return TokenProvider.create_from_token(signature)
    if not rule_name or not key:
        raise unusable("SharedAccessKeyName or SharedAccessKey is missing")
    return TokenProvider.create_shared_access_signature(rule_name, key, entity_path=pairs.get("entitypath", ""))
