"""What a connection was found to be allowed, where, and until when."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tandem.auth.keys import NO_RIGHTS, KeyRing, Resource, Right, right_names, with_implied
from tandem.errors import InvalidToken, ResourceLimitExceeded, Scope, UnauthorizedAccess
from tandem.limits import MAX_CLAIMS_PER_CONNECTION

__all__ = ["INVALID_SIGNATURE", "ClaimSet", "Claims", "expired_text", "login"]

# The one text for an unknown rule, a wrong key and a wrong signature: which of them it was helps only who guesses.
INVALID_SIGNATURE: Final = "InvalidSignature: The token has an invalid signature."


@dataclass(frozen=True, slots=True)
class Claims:
    """Rights on everything at or below a path in lower case, as far as the rule reaches that gives them.

    The empty path is the whole namespace. `rule_scope` is the scope of the rule: the entity whose key was shown, or
    empty for keys of the namespace and for JSON web tokens.
    """

    scope: str
    rights: Right
    expires_at_s: int | None = None
    rule_scope: str = ""

    def is_expired(self, now_s: int) -> bool:
        return self.expires_at_s is not None and self.expires_at_s <= now_s


class ClaimSet:
    """The claims of one connection. New claims on a scope replace those before them: that is how a client renews."""

    __slots__ = ("_by_scope",)

    def __init__(self) -> None:
        self._by_scope: dict[str, Claims] = {}

    def put(self, claims: Claims) -> None:
        if claims.scope not in self._by_scope and len(self._by_scope) >= MAX_CLAIMS_PER_CONNECTION:
            raise ResourceLimitExceeded(
                f"the connection holds tokens for {len(self._by_scope):,} audiences; "
                f"allowed are {MAX_CLAIMS_PER_CONNECTION:,}",
                Scope.DELIVERY,
            )
        self._by_scope[claims.scope] = claims

    def rights_for(self, resource: Resource, now_s: int) -> Right:
        """Return what may be done with a resource.

        The claims of the longest scope count that holds the resource, are not expired and come from a rule that
        applies to the resource. `orders/$management` and `orders/$deadletterqueue` lie below `orders`, so a token for
        the entity is good for them, and a token for one of them is not good for the entity. A token for `orders` is
        good for a queue `orders/new` only if a key of the namespace signed it.
        """
        scope = resource.path
        while True:
            claims = self._by_scope.get(scope)
            if claims is not None and not claims.is_expired(now_s) and resource.is_covered_by(claims.rule_scope):
                return with_implied(claims.rights)
            if not scope:
                return NO_RIGHTS
            scope = scope.rpartition("/")[0]

    def require(self, right: Right, resource: Resource, resource_uri: str, now_s: int) -> None:
        """Refuse what no claims allow. The URI is for the client to read: the resource in its own words."""
        if right not in self.rights_for(resource, now_s):
            raise UnauthorizedAccess(
                f"Unauthorized access. '{', '.join(right_names(right))}' claim(s) are required to perform this "
                f"operation. Resource: '{resource_uri}'.",
                Scope.LINK,
            )

    def expired(self, now_s: int) -> list[Claims]:
        """Take out the claims that were not renewed in time. Links that lived on them have to be judged again."""
        found = [claims for claims in self._by_scope.values() if claims.is_expired(now_s)]
        for claims in found:
            del self._by_scope[claims.scope]
        return found

    def next_expiry_s(self) -> int | None:
        """When `expired` has something to say, unless a client renews before."""
        return min(
            (claims.expires_at_s for claims in self._by_scope.values() if claims.expires_at_s is not None),
            default=None,
        )


def login(rule_name: str, key: str, key_ring: KeyRing) -> list[Claims]:
    """The claims of who knows a key itself, by SASL PLAIN. They do not expire: the connection proves them.

    There are several when rules of the same name on several entities share the key.
    """
    # A lone surrogate cannot be in a key, and must not make the comparison fail instead of the login.
    given = key.encode("utf-8", "replace")
    found = [
        Claims(rule.scope, rule.rights, rule_scope=rule.scope)
        for rule in key_ring.named(rule_name)
        if any(hmac.compare_digest(known.encode(), given) for known in rule.keys)
    ]
    if not found:
        raise InvalidToken(INVALID_SIGNATURE)
    return found


def expired_text(expires_at_s: int, now_s: int) -> str:
    """What the service says of a token whose time is over."""
    return (
        f"ExpiredToken: The token is expired. Expiration time: '{_moment(expires_at_s)}', "
        f"Current time: '{_moment(now_s)}'."
    )


def _moment(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%SZ}"
