"""Who may do what: shared access keys and their tokens, JSON web tokens, and the claims that both become.

    orders = namespace.resource_of(parse_address("sb://host/orders"))
    claims = verify(token, "sb://host/orders", orders, key_ring, now_s)
    claim_set.put(claims)
    claim_set.require(Right.SEND, orders, "sb://host/orders", now_s)

Nothing here knows a clock or makes randomness: the time and the bytes of new keys are handed in.
"""

from tandem.auth.claims import Claims, ClaimSet, expired_text, login
from tandem.auth.jwt import AcceptAnyJwt, JwtValidator, KeySetJwt, RejectJwt
from tandem.auth.keys import AuthorizationRule, KeyRing, Resource, Right, make_key
from tandem.auth.sas import SasToken, is_sas_token, make_token, parse_token, verify

__all__ = [
    "AcceptAnyJwt",
    "AuthorizationRule",
    "ClaimSet",
    "Claims",
    "JwtValidator",
    "KeyRing",
    "KeySetJwt",
    "RejectJwt",
    "Resource",
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
