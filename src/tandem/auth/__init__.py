"""Who may do what: shared access keys and their tokens, JSON web tokens, and the claims that both become.

    claims = verify(token, "sb://host/orders", key_ring, now_s)
    claim_set.put(claims)
    claim_set.require(Right.SEND, "orders", "sb://host/orders", now_s)

Nothing here knows a clock or makes randomness: the time and the bytes of new keys are handed in.
"""

from typing import TYPE_CHECKING

from tandem.auth.claims import Claims, ClaimSet, expired_text, login
from tandem.auth.keys import AuthorizationRule, KeyRing, Right, make_key
from tandem.auth.sas import SasToken, is_sas_token, make_token, parse_token, verify

if TYPE_CHECKING:
    from tandem.auth.jwt import AcceptAnyJwt, JwtValidator, KeySetJwt, RejectJwt

__all__ = [
    "AcceptAnyJwt",
    "AuthorizationRule",
    "ClaimSet",
    "Claims",
    "JwtValidator",
    "KeyRing",
    "KeySetJwt",
    "RejectJwt",
    "Right",
    "SasToken",
    "expired_text",
    "is_sas_token",
    "login",
    "make_key",
    "make_token",
    "parse_token",
    "verify",
]

_OF_JWT = frozenset({"AcceptAnyJwt", "JwtValidator", "KeySetJwt", "RejectJwt"})


def __getattr__(name: str) -> object:
    """JSON web tokens need cryptography, a fifth of a second to import: not for those who only make a signature."""
    if name not in _OF_JWT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tandem.auth import jwt

    return getattr(jwt, name)
