"""Sources of the tokens with which a client proves its rights."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from tandem.auth.sas import is_sas_token, make_token, parse_token
from tandem.client.wire.checks import require_seconds
from tandem.connection_string import ConnectionString
from tandem.errors import UsageError

__all__ = ["Token", "TokenProvider", "token_provider_of"]

# Seconds for which a token made from a key is valid; it is renewed before. The official SDKs use an hour as well.
DEFAULT_TOKEN_LIFETIME_S: Final = 3_600

_SAS_TYPE: Final = "servicebus.windows.net:sastoken"
_JWT_TYPE: Final = "jwt"


@dataclass(frozen=True)
class Token:
    """A token, its type as `$cbs` names it, and when it expires in Unix seconds."""

    text: str = field(repr=False)
    expires_at_s: int

    @property
    def type(self) -> str:
        return _SAS_TYPE if is_sas_token(self.text) else _JWT_TYPE

    @property
    def authorization(self) -> str:
        """The token as the Authorization header of an HTTP request carries it."""
        return self.text if is_sas_token(self.text) else f"Bearer {self.text}"


class TokenProvider(abc.ABC):
    """Provides tokens. Subclass it for tokens from elsewhere, such as those of an identity provider."""

    # The path of the only entity that its tokens are good for; empty for those of a whole namespace.
    entity_path: str = ""

    @abc.abstractmethod
    async def get_token(self, audience: str, now_s: float) -> Token:
        """Return a token for everything at or below the audience, a URI such as `sb://host/orders`."""

    @staticmethod
    def create_shared_access_signature(
        rule_name: str, key: str, lifetime_s: int = DEFAULT_TOKEN_LIFETIME_S, entity_path: str = ""
    ) -> TokenProvider:
        """Return a provider that makes tokens from the name and the key of a shared access rule.

        For a rule of one entity, give the path of the entity.
        """
        if not rule_name or not key:
            raise UsageError("a shared access rule has a name and a key; one of them is empty")
        require_seconds("lifetime_s", lifetime_s)
        if lifetime_s < 1:
            raise UsageError(f"lifetime_s is {lifetime_s}; a token must be valid for at least a second")
        return _KeyTokenProvider(rule_name, key, lifetime_s, entity_path)

    # The name that the .NET library has for it, so that code translates line by line.
    create_shared_access_signature_token_provider = create_shared_access_signature

    @staticmethod
    def create_from_token(token: str) -> TokenProvider:
        """Return a provider of one token that was made elsewhere. It cannot be renewed."""
        return _FixedTokenProvider(token)


def token_provider_of(given: ConnectionString) -> TokenProvider:
    """Return a provider of tokens with the key, or of the one token, of a connection string."""
    if given.signature:
        return TokenProvider.create_from_token(given.signature)
    return TokenProvider.create_shared_access_signature(given.rule_name, given.key, entity_path=given.entity_path or "")


class _KeyTokenProvider(TokenProvider):
    def __init__(self, rule_name: str, key: str, lifetime_s: int, entity_path: str) -> None:
        self.entity_path = entity_path
        self._rule_name = rule_name
        self._key = key
        self._lifetime_s = lifetime_s

    async def get_token(self, audience: str, now_s: float) -> Token:
        expires_at_s = int(now_s) + self._lifetime_s
        return Token(make_token(audience, self._rule_name, self._key, expires_at_s), expires_at_s)

    def __repr__(self) -> str:
        return f"TokenProvider({self._rule_name!r})"


class _FixedTokenProvider(TokenProvider):
    def __init__(self, text: str) -> None:
        if not is_sas_token(text):
            raise UsageError("a shared access signature starts with 'SharedAccessSignature '")
        parsed = parse_token(text)
        self._token = Token(text, parsed.expires_at_s)
        self.entity_path = unquote(urlsplit(parsed.resource).path.strip("/"))

    async def get_token(self, audience: str, now_s: float) -> Token:
        return self._token

    def __repr__(self) -> str:
        return f"TokenProvider(a token that expires at {self._token.expires_at_s})"
