"""Shared access signatures: tokens that a client makes itself from the key of a rule.

    SharedAccessSignature sr=<resource>&sig=<signature>&se=<expiry, Unix seconds>&skn=<name of the rule>

The signature is the HMAC-SHA256 of `sr` and `se` as they stand in the token. The SDKs encode `sr` in different ways
(upper and lower case hex, "+" or "%20", all in lower case, or not at all), so it is never decoded and encoded again
before the signature is judged.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus, unquote, unquote_plus

from tandem.addresses import Address, is_within, parse_address
from tandem.auth.claims import INVALID_SIGNATURE, Claims, expired_text
from tandem.auth.keys import AuthorizationRule, KeyRing, Resource
from tandem.errors import ArgumentError, InvalidToken
from tandem.limits import MAX_EXPIRY_DIGITS, MAX_SAS_TOKEN_CHARACTERS

__all__ = [
    "SasToken",
    "is_sas_token",
    "make_token",
    "parse_token",
    "verify",
]

_PREFIX: Final = "sharedaccesssignature "
_FIELDS: Final = ("sr", "sig", "se", "skn")


@dataclass(frozen=True, slots=True)
class SasToken:
    """A token taken apart, not yet believed.

    `rule_names` are the ways to read the name of the rule: some SDKs encode it twice, and a name may hold what looks
    like an encoding.
    """

    signed_text: str
    resource: str
    expires_at_s: int
    rule_names: tuple[str, ...]
    signature: str = field(repr=False)


def is_sas_token(text: str) -> bool:
    """Whether a token is meant as a shared access signature. The declared type misleads: one SDK always sends jwt."""
    return text[: len(_PREFIX)].lower() == _PREFIX


def make_token(resource: str, rule_name: str, key: str, expires_at_s: int) -> str:
    """A token for everything at or below the resource, a URI such as `sb://host/orders`."""
    signed_resource = quote_plus(resource)
    signature = _signature(f"{signed_resource}\n{expires_at_s}", key)
    return (
        f"SharedAccessSignature sr={signed_resource}&sig={quote_plus(signature)}"
        f"&se={expires_at_s}&skn={quote_plus(rule_name)}"
    )


def parse_token(text: str) -> SasToken:
    """Take a token apart. What is wrong with it is said without repeating it: a token is a secret."""
    if len(text) > MAX_SAS_TOKEN_CHARACTERS:
        raise _malformed(f"it has {len(text):,} characters, more than {MAX_SAS_TOKEN_CHARACTERS:,}")
    if not is_sas_token(text):
        raise _malformed("it does not start with 'SharedAccessSignature '")
    if not text.isascii():
        raise _malformed("it holds a character outside ASCII")
    fields = _fields(text[len(_PREFIX) :].strip())
    expiry = fields["se"]
    if not expiry.isdigit() or len(expiry) > MAX_EXPIRY_DIGITS:
        raise _malformed(f"its field 'se' is not a number of at most {MAX_EXPIRY_DIGITS} digits")
    name = unquote_plus(fields["skn"])
    return SasToken(
        signed_text=f"{fields['sr']}\n{expiry}",
        resource=unquote_plus(fields["sr"]),
        expires_at_s=int(expiry),
        rule_names=tuple(dict.fromkeys((name, unquote_plus(name)))),
        # Not unquote_plus: a signature that was left as it is may hold "+", and never holds a space.
        signature=unquote(fields["sig"]),
    )


def verify(token_text: str, audience: str, resource: Resource, key_ring: KeyRing, now_s: int) -> Claims:
    """Return the claims on the audience that the token proves, or raise `InvalidToken`.

    They are on the audience and not on all of the token's resource, which may be wider: a client that wants more puts
    its token again, for more. An audience that is not an address is an `ArgumentError`.

    `resource` is what the token is shown for, and decides whose keys count. It is the audience itself, except for HTTP
    clients that sign the URL of their request, which is not the path of an entity.
    """
    wanted = parse_address(audience)
    token = parse_token(token_text)
    rule = _signing_rule(token, resource, key_ring)
    # The signature comes first: nothing is told about a token that could have been made by anybody.
    if rule is None:
        raise InvalidToken(INVALID_SIGNATURE)
    if token.expires_at_s <= now_s:
        raise InvalidToken(expired_text(token.expires_at_s, now_s))
    # One SDK signs the URL of its request with the query.
    if not (_covers(token.resource, wanted) or _covers(token.resource.partition("?")[0], wanted)):
        raise InvalidToken(
            f"InvalidAudience: The token is for {token.resource!r}, which does not hold the audience {audience!r}."
        )
    return Claims(wanted.resource, rule.rights, token.expires_at_s, rule.scope)


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split("&"):
        name, _, value = part.partition("=")
        name = name.strip().lower()
        if name in found:
            raise _malformed(f"its field {name!r} is there twice")
        # Others are ignored, as the service does: they are not signed, so nothing may depend on them.
        if name in _FIELDS:
            found[name] = value
    for name in _FIELDS:
        if not found.get(name):
            raise _malformed(f"its field {name!r} is missing")
    return found


def _malformed(reason: str) -> InvalidToken:
    return InvalidToken(f"MalformedToken: The token cannot be read: {reason}.")


def _signature(signed_text: str, key: str) -> str:
    digest = hmac.digest(key.encode(), signed_text.encode(), hashlib.sha256)
    return base64.b64encode(digest).decode("ascii")


def _signing_rule(token: SasToken, resource: Resource, key_ring: KeyRing) -> AuthorizationRule | None:
    given = token.signature.encode()
    for name in token.rule_names:
        for rule in key_ring.covering(name, resource):
            for key in rule.keys:
                # The texts are compared and not the bytes they stand for: base64 has several texts for the same bytes.
                if hmac.compare_digest(_signature(token.signed_text, key).encode(), given):
                    return rule
    return None


def _covers(resource: str, audience: Address) -> bool:
    """Whether the audience is the signed resource or lies below it, whatever their schemes and ports."""
    try:
        signed = parse_address(resource)
    except ArgumentError:
        return False
    if signed.host:
        is_same_host = not audience.host or signed.host == audience.host
        return is_same_host and is_within(audience.resource, signed.resource)
    # Without a scheme the host, if there is one, looks like the first segment of the path.
    first, _, rest = signed.resource.partition("/")
    if audience.host and first.partition(":")[0] == audience.host:
        return is_within(audience.resource, rest)
    return bool(signed.resource) and is_within(audience.resource, signed.resource)
