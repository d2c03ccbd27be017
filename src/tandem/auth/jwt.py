"""JSON web tokens on `$cbs`: which of them are believed is for the operator to say.

`RejectJwt` is the default, `AcceptAnyJwt` is for development, and `KeySetJwt` believes what an identity provider has
signed. None of them goes to the network: whoever configures a `KeySetJwt` hands the provider's keys in.

PyJWT brings cryptography, together 0.08 s of CPU: they are imported with the first key or token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from tandem.addresses import parse_address
from tandem.auth.claims import INVALID_SIGNATURE, Claims, expired_text
from tandem.auth.keys import ALL_RIGHTS, NO_RIGHTS, Right
from tandem.errors import ConfigurationError, InvalidToken
from tandem.limits import MAX_JWT_CHARACTERS, MAX_JWT_KEYS, MIN_RSA_KEY_BITS, NOT_BEFORE_LEEWAY_S

if TYPE_CHECKING:
    import jwt

__all__ = [
    "AcceptAnyJwt",
    "JwtValidator",
    "KeySetJwt",
    "RejectJwt",
]

# Seconds since 1970. The last of the year 9999: no moment after it can be written down.
_LAST_MOMENT_S: Final = 253_402_300_799

_PUBLIC_KEY_TYPES: Final = frozenset({"RSA", "EC", "OKP"})

_ROLE_RIGHTS: Final[dict[str, Right]] = {
    "azure service bus data owner": ALL_RIGHTS,
    "azure service bus data sender": Right.SEND,
    "azure service bus data receiver": Right.LISTEN,
    "owner": ALL_RIGHTS,
    "sender": Right.SEND,
    "receiver": Right.LISTEN,
}


class JwtValidator(Protocol):
    """Decides which JSON web tokens are believed."""

    def validate(self, token: str, audience: str, now_s: int) -> Claims:
        """The claims on the audience of `$cbs` that the token proves, or `InvalidToken`."""
        ...


class RejectJwt:
    """Believes none."""

    def validate(self, token: str, audience: str, now_s: int) -> Claims:
        raise InvalidToken(
            "InvalidToken: JSON web tokens are not accepted here. Use a shared access key, "
            "or configure the keys of an identity provider."
        )


class AcceptAnyJwt:
    """Believes any that can be read, whoever signed it, and gives it all rights. For development only."""

    def validate(self, token: str, audience: str, now_s: int) -> Claims:
        scope = parse_address(audience).resource
        _require_length(token)
        import jwt

        try:
            payload = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError) as error:
            raise _malformed() from error
        return Claims(scope, ALL_RIGHTS, _expiry_s(payload, now_s))


class KeySetJwt:
    """Believes what was signed with one of the keys, by this issuer, for one of these audiences.

    The keys are a JSON web key set (RFC 7517) as identity providers publish it. The roles of the token become rights.
    """

    def __init__(self, keys: Mapping[str, Any], issuer: str, audiences: Sequence[str]) -> None:
        if not issuer:
            raise ConfigurationError("issuer of JSON web tokens is empty")
        # A string is a sequence too, of audiences of one letter.
        if isinstance(audiences, str) or not audiences or not all(audiences):
            raise ConfigurationError(f"audiences of JSON web tokens are {audiences!r}; at least one has to be listed")
        self._keys = _key_set(keys)
        self._issuer = issuer
        self._audiences = list(audiences)

    def validate(self, token: str, audience: str, now_s: int) -> Claims:
        scope = parse_address(audience).resource
        _require_length(token)
        payload = self._verified_payload(token)
        not_before_s = _moment_s(payload, "nbf")
        if not_before_s is not None and not_before_s > now_s + NOT_BEFORE_LEEWAY_S:
            raise InvalidToken("InvalidToken: The token is not valid yet: its claim 'nbf' is in the future.")
        return Claims(scope, _rights(payload.get("roles")), _expiry_s(payload, now_s))

    def _verified_payload(self, token: str) -> dict[str, Any]:
        import jwt

        try:
            key = self._key_for(jwt.get_unverified_header(token).get("kid"))
            return jwt.decode(
                token,
                key,
                # Of the key, never of the token: who made the token must not choose how it is judged.
                algorithms=[key.algorithm_name],
                audience=self._audiences,
                issuer=self._issuer,
                # PyJWT judges times by the clock of the system: they are judged here, by the time that is handed in.
                options={
                    "require": ["exp", "iss", "aud"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError) as error:
            raise InvalidToken(INVALID_SIGNATURE) from error
        except jwt.InvalidAudienceError as error:
            raise InvalidToken("InvalidAudience: The token's claim 'aud' is none of the accepted ones.") from error
        except jwt.InvalidIssuerError as error:
            raise InvalidToken("InvalidIssuer: The token's claim 'iss' is not the accepted one.") from error
        except jwt.MissingRequiredClaimError as error:
            raise InvalidToken(f"InvalidToken: The token has no claim {error.claim!r}.") from error
        except (jwt.PyJWTError, ValueError) as error:
            raise _malformed() from error

    def _key_for(self, key_id: str | None) -> jwt.PyJWK:
        """A set of one key may leave ids out, and so may tokens for it."""
        key = self._keys.get(key_id or "")
        if key is None and len(self._keys) == 1 and (key_id is None or "" in self._keys):
            key = next(iter(self._keys.values()))
        if key is None:
            raise InvalidToken(INVALID_SIGNATURE)
        return key


def _key_set(keys: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """The keys by their id."""
    listed = keys.get("keys")
    if not isinstance(listed, list) or len(listed) > MAX_JWT_KEYS:
        raise ConfigurationError(f"the JSON web key set must have a list 'keys' of at most {MAX_JWT_KEYS}")
    found: dict[str, jwt.PyJWK] = {}
    for number, value in enumerate(listed):
        if not isinstance(value, dict):
            raise ConfigurationError(f"the JSON web key set: keys[{number}] must be an object")
        # Keys that this is no place for are passed over, as RFC 7517, section 5, asks: shared secrets among them,
        # since a broker that only verifies has no use for one.
        if value.get("kty") not in _PUBLIC_KEY_TYPES or value.get("use", "sig") != "sig":
            continue
        key_id = value.get("kid", "")
        if not isinstance(key_id, str) or key_id in found:
            raise ConfigurationError(f"the JSON web key set: keys[{number}].kid must be a string of its own")
        found[key_id] = _public_key(number, value)
    if not found:
        raise ConfigurationError("the JSON web key set has no public key for signatures")
    return found


def _public_key(number: int, value: dict[str, Any]) -> jwt.PyJWK:
    if "d" in value:
        raise ConfigurationError(f"the JSON web key set: keys[{number}] is a private key; give its public part only")
    import jwt

    try:
        key = jwt.PyJWK(value)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise ConfigurationError(f"the JSON web key set: keys[{number}] cannot be used: {error}") from error
    if key.key_type == "RSA" and key.key.key_size < MIN_RSA_KEY_BITS:
        raise ConfigurationError(
            f"the JSON web key set: keys[{number}] has {key.key.key_size} bits; RSA needs {MIN_RSA_KEY_BITS}"
        )
    return key


def _require_length(token: str) -> None:
    if len(token) > MAX_JWT_CHARACTERS:
        raise InvalidToken(
            f"MalformedToken: The token has {len(token):,} characters, more than {MAX_JWT_CHARACTERS:,}."
        )


def _malformed() -> InvalidToken:
    return InvalidToken("MalformedToken: The token is no JSON web token that can be read.")


def _expiry_s(payload: dict[str, Any], now_s: int) -> int | None:
    expires_at_s = _moment_s(payload, "exp")
    if expires_at_s is not None and expires_at_s <= now_s:
        raise InvalidToken(expired_text(expires_at_s, now_s))
    return expires_at_s


def _moment_s(payload: dict[str, Any], claim: str) -> int | None:
    value = payload.get(claim)
    if value is None:
        return None
    # A bool is an int to Python; NaN and Infinity, which JSON's reader takes for numbers, are never within the range.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _LAST_MOMENT_S:
        raise InvalidToken(f"MalformedToken: The token's claim {claim!r} is not a moment in seconds.")
    return int(value)


def _rights(roles: object) -> Right:
    """No known role gives no right: the attach then says which one is missing, which a refusal here could not."""
    rights = NO_RIGHTS
    for role in roles if isinstance(roles, list) else [roles]:
        if isinstance(role, str):
            rights |= _ROLE_RIGHTS.get(role.lower(), NO_RIGHTS)
    return rights
