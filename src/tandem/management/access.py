"""Who may manage what: the token in a request's `Authorization` header."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from aiohttp import hdrs, web

from tandem.auth import Claims, JwtValidator, KeyRing, Right, verify
from tandem.auth.keys import right_names
from tandem.errors import InvalidToken, UnauthorizedAccess

__all__ = ["Judges", "require_right"]

_BEARER: Final = "bearer "


@dataclass(frozen=True)
class Judges:
    """What tokens are judged by: keys, another issuer's signature, the time."""

    key_ring: KeyRing
    jwt: JwtValidator
    now_s: int


def require_right(
    request: web.Request, entity: str, right: Right | None, judges: Judges, token: str | None = None
) -> None:
    """Refuse a request that its token does not allow. No right in particular means that any will do.

    A token is good for a request if it is for the entity (or the whole namespace), as tokens for AMQP are, or for the
    URL of the request, which is what HTTP clients sign.
    """
    token = token or request.headers.get(hdrs.AUTHORIZATION)
    if not token:
        raise InvalidToken(
            "MissingToken: The Authorization header is missing. It must be "
            "'SharedAccessSignature sr=...&sig=...&se=...&skn=...'."
        )
    claims = _claims(request, entity, token, judges)
    if right is not None and right not in claims.rights:
        wanted = ", ".join(right_names(right))
        raise UnauthorizedAccess(
            f"Unauthorized access. '{wanted}' claim(s) are required to perform this operation. "
            f"Resource: '{_base(request)}/{entity}'."
        )


def _claims(request: web.Request, entity: str, token: str, judges: Judges) -> Claims:
    key_ring, now_s = judges.key_ring, judges.now_s
    if token[: len(_BEARER)].lower() == _BEARER:
        return judges.jwt.validate(token[len(_BEARER) :].strip(), f"{_base(request)}/{quote(entity)}", now_s)
    try:
        return verify(token, f"{_base(request)}/{quote(entity)}", key_ring, now_s)
    except InvalidToken:
        # Only rules of the whole namespace count for a URL: the rule of a queue named `api/queues` has no say over
        # what lies behind that path.
        namespace_rules = KeyRing([rule for rule in key_ring if not rule.scope])
        path = request.raw_path.partition("?")[0]
        return verify(token, f"{_base(request)}{path}", namespace_rules, now_s)


def _base(request: web.Request) -> str:
    return f"{request.scheme}://{request.host}"
