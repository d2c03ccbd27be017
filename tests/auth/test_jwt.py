"""JSON web tokens: which validator believes which of them, and what they allow then."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tandem.auth.claims import Claims
from tandem.auth.jwt import AcceptAnyJwt, JwtValidator, KeySetJwt, RejectJwt
from tandem.auth.keys import ALL_RIGHTS, NO_RIGHTS, Right
from tandem.errors import ArgumentError, ConfigurationError, InvalidToken
from tandem.limits import MAX_JWT_CHARACTERS, MAX_JWT_KEYS, NOT_BEFORE_LEEWAY_S

NOW_S = 1_700_000_000
LATER_S = NOW_S + 3_600
AUDIENCE = "sb://ns.servicebus.windows.net/Orders"
ISSUER = "https://login.example/tenant"
ACCEPTED = ["https://servicebus.azure.net", "https://servicebus.azure.net/"]
INVALID_SIGNATURE = "^InvalidSignature: The token has an invalid signature.$"

# Made once: an RSA key takes a tenth of a second.
RSA_KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())

RSA_JWK = RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True)
EC_JWK = ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True)
ED_JWK = OKPAlgorithm.to_jwk(ED_KEY.public_key(), as_dict=True)
KEYS = {"keys": [{**RSA_JWK, "kid": "r"}, {**EC_JWK, "kid": "e", "use": "sig"}, {**ED_JWK, "kid": "o"}]}

VALIDATOR = KeySetJwt(KEYS, ISSUER, ACCEPTED)


def payload(**changes: Any) -> dict[str, Any]:
    """A payload that is believed. Any: a claim has whatever type its issuer gives it; None leaves it out."""
    claims = {"iss": ISSUER, "aud": ACCEPTED[0], "exp": LATER_S, "roles": ["sender"], **changes}
    return {name: value for name, value in claims.items() if value is not None}


def signed(claims: dict[str, Any], kid: str | None = "e", key: ec.EllipticCurvePrivateKey = EC_KEY) -> str:
    return jwt.encode(claims, key, algorithm="ES256", headers={} if kid is None else {"kid": kid})


def unsigned(claims: object, header: object = None) -> str:
    parts = [json.dumps(header or {"alg": "none"}), json.dumps(claims)]
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts) + "."


def validate(token: str, now_s: int = NOW_S) -> Claims:
    return VALIDATOR.validate(token, AUDIENCE, now_s)


# --- reject -----------------------------------------------------------------------------------------------------


def test_by_default_no_token_is_believed() -> None:
    validator: JwtValidator = RejectJwt()
    with pytest.raises(InvalidToken, match="JSON web tokens are not accepted here"):
        validator.validate(signed(payload()), AUDIENCE, NOW_S)


# --- accept any -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "token",
    [signed(payload(roles=None)), unsigned({"exp": LATER_S}), unsigned({"exp": LATER_S + 0.5})],
    ids=["signed", "unsigned", "fraction"],
)
def test_in_development_any_token_that_can_be_read_has_all_rights(token: str) -> None:
    validator: JwtValidator = AcceptAnyJwt()
    assert validator.validate(token, AUDIENCE, NOW_S) == Claims("orders", ALL_RIGHTS, LATER_S)


def test_in_development_a_token_may_have_no_expiry() -> None:
    assert AcceptAnyJwt().validate(unsigned({}), AUDIENCE, NOW_S).expires_at_s is None


def test_in_development_an_expired_token_is_refused() -> None:
    with pytest.raises(InvalidToken, match=r"^ExpiredToken: .*Expiration time: '2023-11-14 22:13:20Z'"):
        AcceptAnyJwt().validate(unsigned({"exp": NOW_S}), AUDIENCE, NOW_S)


@pytest.mark.parametrize(
    "expiry", ["soon", True, -1, [], 10**12, 10**400, float("nan"), float("inf"), float("-inf"), 1e300]
)
@pytest.mark.parametrize("validator", [AcceptAnyJwt(), VALIDATOR], ids=["any", "keys"])
def test_an_expiry_that_is_no_moment_is_refused(validator: JwtValidator, expiry: object) -> None:
    with pytest.raises(InvalidToken, match=r"^MalformedToken: The token's claim 'exp' is not a moment"):
        validator.validate(signed(payload(exp=expiry)), AUDIENCE, NOW_S)


# --- a set of keys ----------------------------------------------------------------------------------------------


def test_a_token_signed_with_any_key_of_the_set_is_believed() -> None:
    for token in [
        jwt.encode(payload(), RSA_KEY, algorithm="RS256", headers={"kid": "r"}),
        jwt.encode(payload(), EC_KEY, algorithm="ES256", headers={"kid": "e"}),
        jwt.encode(payload(), ED_KEY, algorithm="EdDSA", headers={"kid": "o"}),
    ]:
        assert validate(token) == Claims("orders", Right.SEND, LATER_S)


@pytest.mark.parametrize(
    "token",
    [
        signed(payload(), key=OTHER_KEY),
        signed(payload(), kid="unknown"),
        signed(payload(), kid=None),
        signed(payload(), kid="r"),
        signed(payload(), kid=""),
        unsigned(payload(), {"alg": "none", "kid": "e"}),
        unsigned(payload(), {"alg": ["ES256"], "kid": "e"}),
        unsigned(payload(), {"kid": "e"}),
        # The public key used as a shared secret: the oldest trick there is.
        jwt.encode(payload(), RSA_JWK["n"], algorithm="HS256", headers={"kid": "r"}),
        jwt.encode(payload(), RSA_KEY, algorithm="RS512", headers={"kid": "r"}),
    ],
    ids=[
        "other-key",
        "unknown-kid",
        "no-kid",
        "kid-of-another",
        "empty-kid",
        "none",
        "list",
        "no-alg",
        "hmac",
        "rs512",
    ],
)
def test_a_token_that_no_key_has_signed_is_refused(token: str) -> None:
    with pytest.raises(InvalidToken, match=INVALID_SIGNATURE):
        validate(token)


def test_a_changed_payload_is_refused() -> None:
    header, _, signature = signed(payload()).split(".")
    changed = unsigned(payload(roles=["owner"])).split(".")[1]
    with pytest.raises(InvalidToken, match=INVALID_SIGNATURE):
        validate(f"{header}.{changed}.{signature}")


def test_a_set_of_one_key_needs_no_ids() -> None:
    with_id = KeySetJwt({"keys": [{**EC_JWK, "kid": "e"}]}, ISSUER, ACCEPTED)
    without_id = KeySetJwt({"keys": [EC_JWK]}, ISSUER, ACCEPTED)
    for validator, kid in [(with_id, "e"), (with_id, None), (without_id, "e"), (without_id, None)]:
        assert validator.validate(signed(payload(), kid), AUDIENCE, NOW_S).rights == Right.SEND
    with pytest.raises(InvalidToken, match=INVALID_SIGNATURE):
        with_id.validate(signed(payload(), "other"), AUDIENCE, NOW_S)


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"aud": "https://vault.azure.net"}, "^InvalidAudience: "),
        ({"aud": 1}, "^InvalidAudience: "),
        ({"aud": None}, "^InvalidToken: The token has no claim 'aud'"),
        ({"iss": "https://login.example/other"}, "^InvalidIssuer: "),
        ({"iss": None}, "^InvalidToken: The token has no claim 'iss'"),
        ({"exp": None}, "^InvalidToken: The token has no claim 'exp'"),
        ({"exp": NOW_S}, "^ExpiredToken: "),
        ({"nbf": NOW_S + NOT_BEFORE_LEEWAY_S + 1}, "^InvalidToken: The token is not valid yet"),
        ({"nbf": "tomorrow"}, "^MalformedToken: The token's claim 'nbf' is not a moment"),
        ({"sub": 1}, "^MalformedToken: "),
    ],
)
def test_a_token_for_others_or_for_another_time_is_refused(changes: dict[str, Any], complaint: str) -> None:
    token = jwt.PyJWS().encode(json.dumps(payload(**changes)).encode(), EC_KEY, algorithm="ES256", headers={"kid": "e"})
    with pytest.raises(InvalidToken, match=complaint):
        validate(token)


def test_the_time_is_the_one_that_is_handed_in() -> None:
    # Long past and far ahead of the clock of any machine that runs this.
    for now_s in (1_000, 100_000_000_000):
        token = signed(payload(exp=now_s + 1, nbf=now_s + NOT_BEFORE_LEEWAY_S, iat=now_s))
        assert validate(token, now_s).expires_at_s == now_s + 1


def test_any_of_the_audiences_will_do() -> None:
    assert validate(signed(payload(aud=["https://other.example", ACCEPTED[1]]))).rights == Right.SEND


@pytest.mark.parametrize(
    "roles, rights",
    [
        (["Azure Service Bus Data Owner"], ALL_RIGHTS),
        (["Azure Service Bus Data Sender"], Right.SEND),
        (["Azure Service Bus Data Receiver"], Right.LISTEN),
        (["azure service bus data sender", "RECEIVER"], Right.SEND | Right.LISTEN),
        (["owner"], ALL_RIGHTS),
        (["sender", "unknown", 1, None, []], Right.SEND),
        ("receiver", Right.LISTEN),
        (["reader"], NO_RIGHTS),
        ([], NO_RIGHTS),
        ({"owner": True}, NO_RIGHTS),
        (None, NO_RIGHTS),
    ],
)
def test_roles_become_rights(roles: object, rights: Right) -> None:
    assert validate(signed(payload(roles=roles))).rights == rights


# --- hostile tokens ---------------------------------------------------------------------------------------------

UNREADABLE = [
    "",
    ".",
    "..",
    "a.b",
    "a.b.c",
    "SharedAccessSignature sr=orders",
    "\ud800.\ud800.\ud800",
    jwt.PyJWS().encode(b"[]", EC_KEY, algorithm="ES256", headers={"kid": "e"}),
    unsigned({}, [1]),
    unsigned({}, {"alg": "ES256", "kid": 1}),
    unsigned({}, {"alg": "ES256", "kid": "e", "crit": ["x"], "x": 1}),
    unsigned({}, {"alg": "ES256", "kid": "e", "b64": False, "crit": ["b64"]}),
    base64.urlsafe_b64encode(b"[" * 6_000).decode() + ".e30.",
    "eyJhbGciOiJub25lIn0." + base64.urlsafe_b64encode(b'{"a":' * 1_200 + b"1" + b"}" * 1_200).decode() + ".!",
]


@pytest.mark.parametrize("token", UNREADABLE, ids=range(len(UNREADABLE)))
@pytest.mark.parametrize("validator", [AcceptAnyJwt(), VALIDATOR], ids=["any", "keys"])
def test_a_token_that_cannot_be_read_is_refused(validator: JwtValidator, token: str) -> None:
    with pytest.raises(InvalidToken, match=r"^MalformedToken: The token is no JSON web token"):
        validator.validate(token, AUDIENCE, NOW_S)


@pytest.mark.parametrize("validator", [AcceptAnyJwt(), VALIDATOR], ids=["any", "keys"])
def test_a_token_is_refused_only_beyond_its_longest(validator: JwtValidator) -> None:
    rest = len(signed(payload(pad="")))
    longest = next(
        token
        for token in (signed(payload(pad="x" * ((MAX_JWT_CHARACTERS - rest) * 3 // 4 - less))) for less in range(9))
        if len(token) <= MAX_JWT_CHARACTERS
    )
    assert validator.validate(longest, AUDIENCE, NOW_S).scope == "orders"
    with pytest.raises(InvalidToken, match=r"The token has 16,385 characters, more than 16,384\."):
        validator.validate(longest.ljust(MAX_JWT_CHARACTERS + 1, "A"), AUDIENCE, NOW_S)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)
CLAIMS = st.dictionaries(st.sampled_from(["iss", "aud", "exp", "nbf", "iat", "sub", "jti", "roles"]), JSON_VALUES)
HEADERS = st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64"]), JSON_VALUES)


@given(st.text(st.characters()) | st.builds(unsigned, CLAIMS | JSON_VALUES, HEADERS | JSON_VALUES))
def test_hostile_text_gives_an_invalid_token_and_nothing_else(token: str) -> None:
    with pytest.raises(InvalidToken):
        validate(token)
    try:
        AcceptAnyJwt().validate(token, AUDIENCE, NOW_S)
    except InvalidToken:
        return
    assert token.count(".") == 2


@given(CLAIMS)
def test_whatever_an_issuer_signs_gives_claims_or_an_invalid_token(changes: dict[str, Any]) -> None:
    token = jwt.PyJWS().encode(
        json.dumps({**payload(), **changes}).encode(), EC_KEY, algorithm="ES256", headers={"kid": "e"}
    )
    try:
        claims = validate(token)
    except InvalidToken:
        return
    assert claims.expires_at_s is not None
    assert claims.expires_at_s > NOW_S


@pytest.mark.parametrize("validator", [AcceptAnyJwt(), VALIDATOR], ids=["any", "keys"])
def test_an_audience_that_is_no_address_is_an_argument_error(validator: JwtValidator) -> None:
    with pytest.raises(ArgumentError, match="address has 3,000 characters"):
        validator.validate(signed(payload()), "a" * 3_000, NOW_S)


# --- configuration ----------------------------------------------------------------------------------------------

SMALL_RSA_JWK = RSAAlgorithm.to_jwk(
    rsa.generate_private_key(public_exponent=65_537, key_size=1_024).public_key(), as_dict=True
)
SECRET_JWK = {"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U"}


@pytest.mark.parametrize(
    "keys, complaint",
    [
        ({}, "must have a list 'keys' of at most 64"),
        ({"keys": {}}, "must have a list 'keys' of at most 64"),
        ({"keys": [EC_JWK] * (MAX_JWT_KEYS + 1)}, "must have a list 'keys' of at most 64"),
        ({"keys": []}, "has no public key for signatures"),
        ({"keys": [SECRET_JWK, {**EC_JWK, "use": "enc"}, {}]}, "has no public key for signatures"),
        ({"keys": [1]}, r"keys\[0\] must be an object"),
        ({"keys": [EC_JWK, EC_JWK]}, r"keys\[1\].kid must be a string of its own"),
        ({"keys": [{**EC_JWK, "kid": 1}]}, r"keys\[0\].kid must be a string of its own"),
        (
            {"keys": [ECAlgorithm.to_jwk(EC_KEY, as_dict=True)]},
            r"keys\[0\] is a private key; give its public part only",
        ),
        ({"keys": [{"kty": "EC", "crv": "P-256"}]}, r"keys\[0\] cannot be used: "),
        ({"keys": [{**RSA_JWK, "alg": "HS256"}]}, r"keys\[0\] cannot be used: "),
        ({"keys": [{**RSA_JWK, "n": 1}]}, r"keys\[0\] cannot be used: "),
        ({"keys": [SMALL_RSA_JWK]}, r"keys\[0\] has 1024 bits; RSA needs 2048"),
    ],
)
def test_a_key_set_that_cannot_be_used_is_refused_with_the_place(keys: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^the JSON web key set:? {complaint}"):
        KeySetJwt(keys, ISSUER, ACCEPTED)


def test_keys_for_other_uses_are_passed_over() -> None:
    keys = {"keys": [SECRET_JWK, {**RSA_JWK, "use": "enc"}, {"kty": "new"}, EC_JWK]}
    assert KeySetJwt(keys, ISSUER, ACCEPTED).validate(signed(payload()), AUDIENCE, NOW_S).rights == Right.SEND


def test_an_issuer_has_to_be_named() -> None:
    with pytest.raises(ConfigurationError, match="issuer of JSON web tokens is empty"):
        KeySetJwt(KEYS, "", ACCEPTED)


@pytest.mark.parametrize("audiences", ["https://servicebus.azure.net", [], [""]])
def test_audiences_have_to_be_listed(audiences: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"audiences of JSON web tokens are .*; at least one has to be listed"):
        KeySetJwt(KEYS, ISSUER, audiences)
