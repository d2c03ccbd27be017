"""Who may manage what: the token in a request's `Authorization` header."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from aiohttp import hdrs, web

from tandem.auth import Claims, JwtValidator, KeyRing, Resource, Right, verify
from tandem.auth.keys import right_names
from tandem.errors import InvalidToken, UnauthorizedAccess

__all__ = ["Judges", "require_right"]

_BEARER: Final = "bearer "

# A JSON web token as it is: header, claims and signature. A shared access signature starts with a word and a blank.
_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")

# A name or an address, and perhaps a port.
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.%]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True)
class Judges:
    """What tokens are judged by: keys, another issuer's signature, the time."""

    key_ring: KeyRing
    jwt: JwtValidator
    now_s: int


def require_right(
    request: web.Request,
    entity: str,
    resource: Resource,
    right: Right | None,
    judges: Judges,
    supplementary_token: str | None = None,
) -> None:
    """Refuse a request that its token does not allow. No right in particular means that any will do.

    `entity` is the path in the client's spelling, and `resource` is what it stands for.

    A token is good for a request if it is for the entity (or the whole namespace), as tokens for AMQP are, or for the
    URL of the request, which is what HTTP clients sign.

    A supplementary token is about another entity than the URL, and is good if it is for that one. It may be empty: then
    that of the request has to be.
    """
    token = supplementary_token or request.headers.get(hdrs.AUTHORIZATION)
    if not token:
        raise InvalidToken(
            "MissingToken: The Authorization header is missing. It must be "
            "'SharedAccessSignature sr=...&sig=...&se=...&skn=...'."
        )
    claims = _claims(request, entity, resource, token, judges, is_about_url=supplementary_token is None)
    if right is not None and right not in claims.rights:
        wanted = ", ".join(right_names(right))
        raise UnauthorizedAccess(
            f"Unauthorized access. '{wanted}' claim(s) are required to perform this operation. "
            f"Resource: '{_base(request)}/{entity}'."
        )


def _claims(
    request: web.Request, entity: str, resource: Resource, token: str, judges: Judges, *, is_about_url: bool
) -> Claims:
    key_ring, now_s = judges.key_ring, judges.now_s
    audience = f"{_base(request)}/{quote(entity)}"
    # The SDKs of Java, Go and JavaScript send a JSON web token without the word Bearer in some headers.
    if token[: len(_BEARER)].lower() == _BEARER:
        return judges.jwt.validate(token[len(_BEARER) :].strip(), audience, now_s)
    if _JWT.fullmatch(token) is not None:
        return judges.jwt.validate(token, audience, now_s)
    try:
        return verify(token, audience, resource, key_ring, now_s)
    except InvalidToken:
        if not is_about_url:
            raise
        # Only rules that cover the entity count for the URL: the rule of a queue named `orders/messages` has no say
        # over what is sent to `orders`.
        path = request.raw_path.partition("?")[0]
        return verify(token, f"{_base(request)}{path}", resource, key_ring, now_s)


def _base(request: web.Request) -> str:
    """Scheme and host. A host that holds more than a name and a port would move the path: what follows is said to lie
    below it, and a token for `mine` would be good for `other` of a host `localhost/mine`."""
    host = request.host
    if _HOST.fullmatch(host) is None:
        raise InvalidToken(f"InvalidAudience: The Host header is {host!r:.80}, which is no name of a host.")
    return f"{request.scheme}://{host}"
