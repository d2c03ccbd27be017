"""Shared access signatures: made here, made by the official SDK, and made by somebody without a key."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import quote, quote_plus, unquote

import pytest
from azure.core.credentials import AzureNamedKeyCredential
from azure.servicebus._base_handler import ServiceBusAzureNamedKeyTokenCredential, ServiceBusSharedKeyCredential
from azure.servicebus._pyamqp.utils import generate_sas_token
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tandem.addresses import parse_address
from tandem.auth.claims import Claims
from tandem.auth.keys import ALL_RIGHTS, AuthorizationRule, KeyRing, Resource, Right
from tandem.auth.sas import is_sas_token, make_token, parse_token, verify
from tandem.errors import ArgumentError, InvalidToken
from tandem.limits import MAX_EXPIRY_DIGITS, MAX_SAS_TOKEN_CHARACTERS

NOW_S = 1_700_000_000
LATER_S = NOW_S + 3_600
AUDIENCE = "sb://ns.servicebus.windows.net/orders"
INVALID_SIGNATURE = "InvalidSignature: The token has an invalid signature."

RING = KeyRing(
    [
        AuthorizationRule("RootManageSharedAccessKey", Right.MANAGE, "SAS_KEY_VALUE", "another key"),
        AuthorizationRule("sender", Right.SEND, "key of orders", scope="orders"),
        AuthorizationRule("sender", Right.LISTEN, "key of bills", scope="bills"),
    ]
)

PRINTABLE = st.characters(categories=["L", "N", "P", "S", "Zs"]).filter(str.isprintable)
RULE_TEXTS = st.text(PRINTABLE, min_size=1, max_size=30)
# Anything that can stand in a URI, percent signs and slashes among it; but what they stand for can be printed too.
RESOURCES = (
    st.text(PRINTABLE, max_size=30)
    .filter(lambda path: unquote(path).isprintable())
    .map(lambda path: f"sb://host/{path}")
)


def token(sr: str, se: str = str(LATER_S), key: str = "SAS_KEY_VALUE", skn: str = "RootManageSharedAccessKey") -> str:
    """A token made by hand, of the texts as they shall stand in it."""
    digest = hmac.digest(key.encode(), f"{sr}\n{se}".encode(), hashlib.sha256)
    return f"SharedAccessSignature sr={sr}&sig={quote(base64.b64encode(digest), safe='')}&se={se}&skn={skn}"


def check(token_text: str, audience: str, key_ring: KeyRing, now_s: int) -> Claims:
    """Verify a token for an audience that belongs to the entity that it names."""
    address = parse_address(audience)
    return verify(token_text, audience, Resource(address.resource, address.entity), key_ring, now_s)


# --- made here --------------------------------------------------------------------------------------------------


@given(RULE_TEXTS, RULE_TEXTS, RESOURCES, st.integers(NOW_S + 1, 10**MAX_EXPIRY_DIGITS - 1))
@example("a%20b", "+", "sb://host/a%2Fb", LATER_S)
@example("a+b", "k", "sb://host/a+b", LATER_S)
@example("a&b=c", "k", "sb://host/a&b=c", LATER_S)
def test_what_is_made_with_a_key_is_verified_by_it(name: str, key: str, resource: str, expires_at_s: int) -> None:
    ring = KeyRing([AuthorizationRule(name, Right.SEND, key)])
    claims = check(make_token(resource, name, key, expires_at_s), resource, ring, NOW_S)
    assert claims.rights == Right.SEND
    assert claims.expires_at_s == expires_at_s


def test_the_signature_of_a_known_token_does_not_change() -> None:
    # Computed with `openssl dgst -sha256 -hmac SAS_KEY_VALUE -binary | base64`, so not by the code under test.
    assert make_token("sb://localhost/orders", "RootManageSharedAccessKey", "SAS_KEY_VALUE", LATER_S) == (
        "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%2Forders&sig=yprVgfBOht%2BuLCUY04dKBFpMYSj1QZe2%2FRw2sl6RiSw%3D"
        "&se=1700003600&skn=RootManageSharedAccessKey"
    )


@given(RULE_TEXTS, RULE_TEXTS, RULE_TEXTS)
def test_another_key_proves_nothing(name: str, key: str, other_key: str) -> None:
    assume(key != other_key)
    ring = KeyRing([AuthorizationRule(name, Right.SEND, key)])
    with pytest.raises(InvalidToken, match=INVALID_SIGNATURE):
        check(make_token(AUDIENCE, name, other_key, LATER_S), AUDIENCE, ring, NOW_S)


@given(st.data())
def test_any_changed_character_of_a_signed_field_is_refused(data: st.DataObject) -> None:
    good = make_token(AUDIENCE, "RootManageSharedAccessKey", "SAS_KEY_VALUE", LATER_S)
    start = good.index(data.draw(st.sampled_from(["sr=", "sig=", "se="]))) + 3
    start += good[start] == "="
    end = good.index("&", start)
    position = data.draw(st.integers(start, end - 1))
    replacement = data.draw(st.characters(min_codepoint=32, max_codepoint=126) | st.characters() | st.just(""))
    changed = good[:position] + replacement + good[position + 1 :]
    assume(changed != good)
    # Upper and lower case hex of the same percent-encoding are the same signature.
    is_signature = good[:start].endswith("sig=")
    assume(not is_signature or unquote(changed) != unquote(good))
    with pytest.raises(InvalidToken):
        check(changed, AUDIENCE, RING, NOW_S)


def test_a_second_text_for_the_same_signature_bytes_is_refused() -> None:
    good = make_token(AUDIENCE, "RootManageSharedAccessKey", "SAS_KEY_VALUE", LATER_S)
    signature = parse_token(good).signature
    # 32 bytes fill 42 characters and two thirds of another: its last two bits mean nothing to a lenient decoder.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = signature[:42] + alphabet[alphabet.index(signature[42]) ^ 1] + "="
    assert base64.b64decode(other) == base64.b64decode(signature)
    with pytest.raises(InvalidToken, match=INVALID_SIGNATURE):
        check(good.replace(quote_plus(signature), quote_plus(other)), AUDIENCE, RING, NOW_S)


# --- made by the SDK --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("audience", [AUDIENCE, "sb://localhost:5672/Orders/$management", "amqps://localhost/a/b~c"])
def test_tokens_of_the_official_sdk_are_verified(audience: str) -> None:
    made = generate_sas_token(audience, "RootManageSharedAccessKey", "SAS_KEY_VALUE", LATER_S)
    assert check(made, audience, RING, NOW_S).rights == ALL_RIGHTS
    assert made == make_token(audience, "RootManageSharedAccessKey", "SAS_KEY_VALUE", LATER_S)


@given(RULE_TEXTS, RULE_TEXTS, RESOURCES)
def test_the_official_sdk_encodes_names_twice_and_is_understood(name: str, key: str, resource: str) -> None:
    ring = KeyRing([AuthorizationRule(name, Right.LISTEN, key)])
    made = generate_sas_token(resource, name, key, LATER_S)
    assert check(made, resource, ring, NOW_S).rights == Right.LISTEN


def test_the_credentials_of_the_official_sdk_are_verified() -> None:
    shared = ServiceBusSharedKeyCredential("RootManageSharedAccessKey", "another key")
    named = ServiceBusAzureNamedKeyTokenCredential(AzureNamedKeyCredential("sender", "key of orders"))
    # These read the clock of the machine, so the moments before and after are counted from the expiry that they tell.
    for made, rights, scope in [
        (shared.get_token(AUDIENCE), ALL_RIGHTS, ""),
        (named.get_token(AUDIENCE), Right.SEND, "orders"),
    ]:
        claims = check(made.token, AUDIENCE, RING, made.expires_on - 1)
        assert claims == Claims("orders", rights, made.expires_on, scope)
        with pytest.raises(InvalidToken, match="ExpiredToken"):
            check(made.token, AUDIENCE, RING, made.expires_on)


# --- as other SDKs write them -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sr",
    [
        "sb%3A%2F%2Fns.servicebus.windows.net%2Forders",
        "sb%3a%2f%2fns.servicebus.windows.net%2forders",
        "sb%3a%2f%2fNS.ServiceBus.windows.net%2fORDERS%2f",
        "sb://ns.servicebus.windows.net/orders",
        "amqps%3A%2F%2Fns.servicebus.windows.net%3A5671%2Forders",
        "amqp://ns.servicebus.windows.net:5672/",
        "https%3A%2F%2Fns.servicebus.windows.net",
        "http://ns.servicebus.windows.net/orders/",
        "wss://ns.servicebus.windows.net/orders",
        "ns.servicebus.windows.net/orders",
        "ns.servicebus.windows.net:5671/orders",
        "ns.servicebus.windows.net",
        "orders",
        "%2Forders%2F",
    ],
)
def test_the_resource_is_signed_as_it_is_written_and_compared_as_it_is_meant(sr: str) -> None:
    assert check(token(sr), AUDIENCE, RING, NOW_S) == Claims("orders", ALL_RIGHTS, LATER_S)


@pytest.mark.parametrize(
    "sr",
    [
        "sb://ns.servicebus.windows.net/order",
        "sb://ns.servicebus.windows.net/orders2",
        "sb://ns.servicebus.windows.net/orders/$management",
        "sb://ns.servicebus.windows.net/other",
        "sb://other.servicebus.windows.net/orders",
        "sb://other.servicebus.windows.net",
        "other.servicebus.windows.net",
        "ns.servicebus.windows.net/other",
        "other",
        "/",
        "%00",
        "ftp://elsewhere.servicebus.windows.net/orders",
    ],
)
def test_a_token_for_something_else_is_refused(sr: str) -> None:
    with pytest.raises(InvalidToken, match=r"^InvalidAudience: The token is for "):
        check(token(sr), AUDIENCE, RING, NOW_S)


def test_hosts_are_compared_only_when_both_are_named() -> None:
    assert check(token("sb://anywhere/orders"), "orders", RING, NOW_S).scope == "orders"
    assert check(token("anywhere/orders"), "anywhere/orders", RING, NOW_S).scope == "anywhere/orders"


@pytest.mark.parametrize("audience", [f"{AUDIENCE}/$management", f"{AUDIENCE}/$DeadLetterQueue/$management"])
def test_the_claims_are_on_the_audience_and_not_on_all_of_the_resource(audience: str) -> None:
    scope = check(token("sb://ns.servicebus.windows.net"), audience, RING, NOW_S).scope
    assert scope == audience.removeprefix("sb://ns.servicebus.windows.net/").lower()


def test_fields_stand_in_any_order_and_case_beside_others() -> None:
    sr, sig, se, skn = token(quote_plus(AUDIENCE)).removeprefix("SharedAccessSignature ").split("&")
    written = f"sharedaccesssignature  SKN{skn[3:]}&{se}&st=1&Sig{sig[3:]}&{sr} "
    assert check(written, AUDIENCE, RING, NOW_S).rights == ALL_RIGHTS


def test_a_signature_may_be_left_unencoded() -> None:
    # This one holds all that base64 has beside letters and digits.
    made = next(
        made
        for made in (token(quote_plus(AUDIENCE), str(LATER_S + more)) for more in range(1_000))
        if {"+", "/", "="} <= set(parse_token(made).signature)
    )
    signature = parse_token(made).signature
    assert check(made.replace(quote_plus(signature), signature), AUDIENCE, RING, NOW_S).rights == ALL_RIGHTS


# --- rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["SAS_KEY_VALUE", "another key"])
def test_either_key_of_a_rule_signs(key: str) -> None:
    assert check(token("orders", key=key), AUDIENCE, RING, NOW_S).rights == ALL_RIGHTS


def test_a_rule_of_an_entity_is_good_for_it_alone() -> None:
    bills = "sb://ns.servicebus.windows.net/bills"
    namespace = "sb://ns.servicebus.windows.net"
    of_orders = token(namespace, key="key of orders", skn="sender")
    of_bills = token(namespace, key="key of bills", skn="sender")
    assert check(of_orders, f"{AUDIENCE}/$management", RING, NOW_S).rights == Right.SEND
    assert check(of_bills, bills, RING, NOW_S).rights == Right.LISTEN
    for made, audience in [
        (of_orders, bills),
        (of_bills, AUDIENCE),
        (of_orders, namespace),
        (of_orders, AUDIENCE + "2"),
    ]:
        with pytest.raises(InvalidToken, match=INVALID_SIGNATURE):
            check(made, audience, RING, NOW_S)


@pytest.mark.parametrize("path", ["orders/new", "orders/new/$management", "orders/subscriptions/all"])
def test_a_rule_of_an_entity_is_not_good_for_another_whose_name_begins_with_its_own(path: str) -> None:
    audience = f"sb://ns.servicebus.windows.net/{path}"
    of_orders = token(AUDIENCE, key="key of orders", skn="sender")
    with pytest.raises(InvalidToken, match=INVALID_SIGNATURE):
        verify(of_orders, audience, Resource(path, parse_address(path).entity), RING, NOW_S)
    of_namespace = token(AUDIENCE)
    assert check(of_namespace, audience, RING, NOW_S).rights == ALL_RIGHTS


def test_a_rule_of_a_topic_is_good_for_its_subscriptions() -> None:
    path = "orders/subscriptions/all"
    audience = f"sb://ns.servicebus.windows.net/{path}"
    claims = verify(token(AUDIENCE, key="key of orders", skn="sender"), audience, Resource(path, "orders"), RING, NOW_S)
    assert claims == Claims(path, Right.SEND, LATER_S, "orders")


@pytest.mark.parametrize("name", ["nobody", "rootmanagesharedaccesskey", "sender"])
def test_an_unknown_rule_is_refused_in_the_words_of_a_wrong_signature(name: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        check(token("orders", skn=name), AUDIENCE, RING, NOW_S)
    assert str(caught.value) == INVALID_SIGNATURE
    assert (caught.value.condition, caught.value.http_status) == ("com.microsoft:auth-failed", 401)


# --- expiry -----------------------------------------------------------------------------------------------------


def test_a_token_ends_in_the_second_of_its_expiry() -> None:
    made = make_token(AUDIENCE, "RootManageSharedAccessKey", "SAS_KEY_VALUE", NOW_S)
    assert check(made, AUDIENCE, RING, NOW_S - 1).expires_at_s == NOW_S
    with pytest.raises(InvalidToken) as caught:
        check(made, AUDIENCE, RING, NOW_S)
    assert str(caught.value) == (
        "ExpiredToken: The token is expired. Expiration time: '2023-11-14 22:13:20Z', "
        "Current time: '2023-11-14 22:13:20Z'."
    )


def test_an_expired_token_with_a_wrong_signature_is_told_nothing_else() -> None:
    with pytest.raises(InvalidToken, match=INVALID_SIGNATURE):
        check(make_token(AUDIENCE, "RootManageSharedAccessKey", "guess", 0), AUDIENCE, RING, NOW_S)


@pytest.mark.parametrize("se", ["-1", "+1", "1.5", "1e9", "1_0", " 1", "x", "9" * (MAX_EXPIRY_DIGITS + 1)])
def test_an_expiry_that_is_no_number_of_seconds_is_refused(se: str) -> None:
    with pytest.raises(InvalidToken, match=r"^MalformedToken: .*'se' is not a number of at most 18 digits\.$"):
        check(token("orders", se), AUDIENCE, RING, NOW_S)


# --- what cannot be read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["sr", "sig", "se", "skn"])
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_missing_field_is_named(missing: str, is_empty: bool) -> None:
    fields = token("orders").removeprefix("SharedAccessSignature ").split("&")
    kept = [field for field in fields if not field.startswith(missing + "=")] + [f"{missing}="] * is_empty
    with pytest.raises(InvalidToken, match=f"^MalformedToken: .*its field '{missing}' is missing"):
        parse_token("SharedAccessSignature " + "&".join(kept))


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "it does not start with 'SharedAccessSignature '"),
        ("eyJhbGciOiJub25lIn0.e30.", "it does not start with 'SharedAccessSignature '"),
        (token("orders") + "&SR=bills", "its field 'sr' is there twice"),
        (token("größe"), "it holds a character outside ASCII"),
        (token("o" * MAX_SAS_TOKEN_CHARACTERS), "characters, more than 8,192"),
    ],
    ids=["empty", "jwt", "twice", "not-ascii", "long"],
)
def test_a_token_that_cannot_be_read_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        parse_token(text)
    assert str(caught.value).startswith("MalformedToken: The token cannot be read: ")
    assert reason in str(caught.value)


FIELD = st.tuples(st.sampled_from(["sr", "sig", "se", "skn", "SR", "x", ""]), st.text(st.characters())).map("=".join)


@given(
    st.text(st.characters())
    | st.lists(FIELD).map("&".join)
    | st.lists(FIELD).map(lambda fields: "SharedAccessSignature " + "&".join(fields))
    | st.text(st.characters()).map(lambda text: token("orders").replace("orders", text + "!"))
)
def test_hostile_text_gives_an_invalid_token_and_nothing_else(text: str) -> None:
    with pytest.raises(InvalidToken):
        check(text, AUDIENCE, RING, NOW_S)


def test_an_audience_that_is_no_address_is_an_argument_error() -> None:
    with pytest.raises(ArgumentError, match="address has 3,000 characters"):
        check(token("orders"), "a" * 3_000, RING, NOW_S)


@pytest.mark.parametrize(
    "text, expected",
    [
        (token("orders"), True),
        ("sharedaccesssignature sr=", True),
        ("SharedAccessSignature", False),
        ("eyJhbGciOiJub25lIn0.e30.", False),
        ("", False),
    ],
)
def test_a_token_is_told_from_a_json_web_token_by_its_start(text: str, expected: bool) -> None:
    assert is_sas_token(text) is expected


def test_a_token_does_not_show_its_signature() -> None:
    parsed = parse_token(token("orders"))
    assert parsed.signature not in repr(parsed)
