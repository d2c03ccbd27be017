"""What a connection may do: claims, their scopes and their end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.addresses import is_within
from tandem.auth.claims import Claims, ClaimSet, expired_text, login
from tandem.auth.keys import ALL_RIGHTS, NO_RIGHTS, AuthorizationRule, KeyRing, Resource, Right
from tandem.errors import InvalidToken, ResourceLimitExceeded, Scope, UnauthorizedAccess
from tandem.limits import MAX_CLAIMS_PER_CONNECTION

NOW_S = 1_700_000_000

PATHS = st.lists(st.sampled_from(["a", "b", "$management"]), max_size=4).map("/".join)


def of_entity(path: str) -> Resource:
    """A path of the entity that its first segment names."""
    return Resource(path, path.partition("/")[0])


def claim_set(*claims: Claims) -> ClaimSet:
    found = ClaimSet()
    for each in claims:
        found.put(each)
    return found


# --- scopes -----------------------------------------------------------------------------------------------------


def test_nothing_is_allowed_without_claims() -> None:
    assert ClaimSet().rights_for(of_entity("orders"), NOW_S) == NO_RIGHTS
    assert ClaimSet().rights_for(of_entity(""), NOW_S) == NO_RIGHTS


@pytest.mark.parametrize(
    "resource", ["orders", "orders/$management", "orders/$deadletterqueue/$management", "orders/subscriptions/s"]
)
def test_claims_on_an_entity_hold_for_all_that_belongs_to_it(resource: str) -> None:
    assert claim_set(Claims("orders", Right.SEND)).rights_for(of_entity(resource), NOW_S) == Right.SEND


@pytest.mark.parametrize("resource", ["", "orders2", "order", "other/orders"])
def test_claims_on_an_entity_hold_for_no_other(resource: str) -> None:
    assert claim_set(Claims("orders", Right.SEND)).rights_for(of_entity(resource), NOW_S) == NO_RIGHTS


def test_claims_on_the_management_node_are_no_claims_on_its_entity() -> None:
    claims = claim_set(Claims("orders/$management", Right.LISTEN))
    assert claims.rights_for(of_entity("orders/$management"), NOW_S) == Right.LISTEN
    assert claims.rights_for(of_entity("orders"), NOW_S) == NO_RIGHTS


def test_the_longest_scope_decides_even_if_it_allows_less() -> None:
    claims = claim_set(Claims("", Right.MANAGE), Claims("a/b", Right.LISTEN), Claims("a", Right.SEND))
    assert claims.rights_for(of_entity("a/b/c"), NOW_S) == Right.LISTEN
    assert claims.rights_for(of_entity("a/bc"), NOW_S) == Right.SEND
    assert claims.rights_for(of_entity("b"), NOW_S) == ALL_RIGHTS


def test_newer_claims_replace_those_on_the_same_scope() -> None:
    claims = claim_set(Claims("orders", ALL_RIGHTS, NOW_S + 1), Claims("orders", Right.SEND, NOW_S + 2))
    assert claims.rights_for(of_entity("orders"), NOW_S) == Right.SEND
    assert claims.next_expiry_s() == NOW_S + 2


def test_claims_of_an_entitys_rule_end_where_the_entity_ends() -> None:
    """`orders/new` is a queue of its own, `orders/subscriptions/all` a subscription of the topic `orders`."""
    claims = claim_set(Claims("orders", Right.SEND, rule_scope="orders"))
    for part in ("orders", "orders/$management", "orders/$deadletterqueue", "orders/subscriptions/all"):
        assert claims.rights_for(Resource(part, "orders"), NOW_S) == Right.SEND, part
    for other in ("orders/new", "orders/new/$management", "orders/subscriptions/all", "orders/$management"):
        assert claims.rights_for(Resource(other, "orders/new"), NOW_S) == NO_RIGHTS, other
    claims.put(Claims("", Right.LISTEN))
    assert claims.rights_for(Resource("orders/new", "orders/new"), NOW_S) == Right.LISTEN
    assert claims.rights_for(Resource("orders", "orders"), NOW_S) == Right.SEND


def test_claims_of_the_namespaces_rule_reach_everything_below_their_audience() -> None:
    claims = claim_set(Claims("orders", Right.SEND))
    assert claims.rights_for(Resource("orders/new", "orders/new"), NOW_S) == Right.SEND
    assert claims.rights_for(Resource("orders2", "orders2"), NOW_S) == NO_RIGHTS


@given(st.dictionaries(PATHS, st.tuples(st.sampled_from(list(Right)), st.integers(0, 3) | st.none())), PATHS)
def test_rights_are_those_of_a_search_through_all_claims(held: dict[str, tuple[Right, int | None]], path: str) -> None:
    claims = claim_set(*(Claims(scope, rights, expiry) for scope, (rights, expiry) in held.items()))
    now_s = 1
    good = [
        scope for scope, (_, expiry) in held.items() if is_within(path, scope) and (expiry is None or expiry > now_s)
    ]
    expected = held[max(good, key=len)][0] if good else NO_RIGHTS
    assert claims.rights_for(of_entity(path), now_s) == (ALL_RIGHTS if expected == Right.MANAGE else expected)


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("right, name", [(Right.SEND, "Send"), (Right.LISTEN, "Listen"), (Right.MANAGE, "Manage")])
def test_a_missing_right_is_named_as_the_service_names_it(right: Right, name: str) -> None:
    with pytest.raises(UnauthorizedAccess) as caught:
        ClaimSet().require(right, of_entity("orders"), "sb://ns/orders", NOW_S)
    assert str(caught.value) == (
        f"Unauthorized access. '{name}' claim(s) are required to perform this operation. Resource: 'sb://ns/orders'."
    )
    assert caught.value.condition == "amqp:unauthorized-access"
    assert caught.value.scope is Scope.LINK


def test_a_right_that_is_there_is_not_refused() -> None:
    claims = claim_set(Claims("orders", Right.LISTEN))
    claims.require(Right.LISTEN, of_entity("orders"), "sb://ns/orders", NOW_S)
    with pytest.raises(UnauthorizedAccess):
        claims.require(Right.SEND, of_entity("orders"), "sb://ns/orders", NOW_S)
    with pytest.raises(UnauthorizedAccess, match="'Send, Listen' claim"):
        claims.require(Right.SEND | Right.LISTEN, of_entity("orders"), "sb://ns/orders", NOW_S)


def test_a_connection_holds_a_bounded_number_of_claims() -> None:
    claims = claim_set(*(Claims(str(number), Right.SEND) for number in range(MAX_CLAIMS_PER_CONNECTION)))
    claims.put(Claims("0", Right.LISTEN))
    with pytest.raises(ResourceLimitExceeded, match="tokens for 4,096 audiences; allowed are 4,096") as caught:
        claims.put(Claims("one more", Right.SEND))
    assert caught.value.scope is Scope.DELIVERY


# --- expiry -----------------------------------------------------------------------------------------------------


def test_claims_end_in_the_second_of_their_expiry() -> None:
    claims = claim_set(Claims("orders", Right.SEND, NOW_S))
    assert claims.rights_for(of_entity("orders"), NOW_S - 1) == Right.SEND
    assert claims.rights_for(of_entity("orders"), NOW_S) == NO_RIGHTS


def test_expired_claims_do_not_hide_the_wider_ones() -> None:
    claims = claim_set(Claims("", Right.LISTEN), Claims("orders", Right.SEND, NOW_S))
    assert claims.rights_for(of_entity("orders"), NOW_S) == Right.LISTEN


def test_expired_claims_are_told_once() -> None:
    first, second, third = Claims("a", Right.SEND, 10), Claims("b", Right.SEND, 20), Claims("c", Right.SEND)
    claims = claim_set(second, third, first)
    assert claims.next_expiry_s() == 10
    assert claims.expired(9) == []
    assert claims.expired(10) == [first]
    assert claims.expired(10) == []
    assert claims.next_expiry_s() == 20
    assert claims.expired(99) == [second]
    assert claims.next_expiry_s() is None
    assert claims.rights_for(of_entity("c"), 99) == Right.SEND


def test_renewed_claims_do_not_expire() -> None:
    claims = claim_set(Claims("a", Right.SEND, 10), Claims("a", Right.SEND, 20))
    assert claims.expired(10) == []


def test_the_text_of_an_expired_token_names_both_moments() -> None:
    assert expired_text(1_555_017_176, 1_555_020_776) == (
        "ExpiredToken: The token is expired. Expiration time: '2019-04-11 21:12:56Z', "
        "Current time: '2019-04-11 22:12:56Z'."
    )


# --- SASL PLAIN -------------------------------------------------------------------------------------------------

RING = KeyRing(
    [
        AuthorizationRule("root", Right.MANAGE, "one", "two"),
        AuthorizationRule("sender", Right.SEND, "shared", "", "orders"),
        AuthorizationRule("sender", Right.SEND, "shared", "", "bills"),
        AuthorizationRule("sender", Right.SEND, "schlüssel", "", "notes"),
    ]
)


@pytest.mark.parametrize("key", ["one", "two"])
def test_either_key_of_a_rule_logs_in_without_expiry(key: str) -> None:
    assert login("root", key, RING) == [Claims("", ALL_RIGHTS, None)]


def test_a_login_is_good_for_the_scope_of_its_rule_only() -> None:
    assert login("sender", "schlüssel", RING) == [Claims("notes", Right.SEND, rule_scope="notes")]
    assert login("sender", "shared", RING) == [
        Claims(scope, Right.SEND, rule_scope=scope) for scope in ("orders", "bills")
    ]


@pytest.mark.parametrize(
    "name, key",
    [
        ("root", ""),
        ("root", "One"),
        ("root", "one "),
        ("root", "shared"),
        ("nobody", "one"),
        ("sender", "\ud800"),
        ("", ""),
    ],
)
def test_a_wrong_key_or_rule_does_not_log_in(name: str, key: str) -> None:
    with pytest.raises(InvalidToken, match="InvalidSignature"):
        login(name, key, RING)


@given(st.text(st.characters()), st.text(st.characters()))
def test_hostile_credentials_are_invalid_tokens(name: str, key: str) -> None:
    with pytest.raises(InvalidToken):
        login(name, key, RING)
