"""Authorization rules and the ring that keeps them."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.auth.keys import (
    ALL_RIGHTS,
    NO_RIGHTS,
    AuthorizationRule,
    KeyRing,
    Resource,
    Right,
    make_key,
    right_names,
    with_implied,
)
from tandem.errors import ArgumentError, ConfigurationError, UsageError
from tandem.limits import MAX_KEY_CHARACTERS, MAX_RULE_NAME_CHARACTERS, MAX_RULES_PER_SCOPE

NAMES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
RULES = st.builds(
    AuthorizationRule,
    NAMES,
    st.sampled_from([Right.SEND, Right.LISTEN, Right.SEND | Right.LISTEN, Right.MANAGE]),
    NAMES,
    NAMES | st.just(""),
    st.sampled_from(["", "orders", "Orders/New", "sb://host/bills/"]),
)


def rule(name: str = "root", scope: str = "", key: str = "primary") -> AuthorizationRule:
    return AuthorizationRule(name, Right.SEND, key, "secondary", scope)


# --- rights -----------------------------------------------------------------------------------------------------


def test_manage_implies_send_and_listen() -> None:
    assert with_implied(Right.MANAGE) == ALL_RIGHTS
    assert AuthorizationRule("root", Right.MANAGE, "key").rights == ALL_RIGHTS


@pytest.mark.parametrize("rights", [NO_RIGHTS, Right.SEND, Right.LISTEN, Right.SEND | Right.LISTEN])
def test_the_other_rights_imply_nothing(rights: Right) -> None:
    assert with_implied(rights) == rights


def test_rights_have_the_names_of_the_service() -> None:
    assert right_names(ALL_RIGHTS) == ["Send", "Listen", "Manage"]
    assert right_names(Right.LISTEN) == ["Listen"]
    assert right_names(NO_RIGHTS) == []


# --- keys -------------------------------------------------------------------------------------------------------


@given(st.binary(min_size=32, max_size=32))
def test_a_key_is_the_base64_of_its_bytes(random_bytes: bytes) -> None:
    key = make_key(random_bytes)
    assert len(key) == 44
    assert base64.b64decode(key, validate=True) == random_bytes


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_is_never_made_of_fewer_or_more_bytes(length: int) -> None:
    with pytest.raises(UsageError, match=f"made of 32 bytes, not of {length}"):
        make_key(bytes(length))


# --- rules ------------------------------------------------------------------------------------------------------


def test_a_rule_without_a_secondary_key_has_one_key() -> None:
    assert AuthorizationRule("root", Right.SEND, "one").keys == ("one",)
    assert AuthorizationRule("root", Right.SEND, "one", "two").keys == ("one", "two")


def test_a_rule_does_not_show_its_keys() -> None:
    shown = repr(AuthorizationRule("root", Right.SEND, "first-secret", "second-secret", "Orders"))
    assert "secret" not in shown
    assert shown == "AuthorizationRule('root', <Right.SEND: 1>, scope='orders')"


@pytest.mark.parametrize(
    "name, rights, primary, secondary, complaint",
    [
        ("", Right.SEND, "key", "", "name has 0 characters; allowed are 1 to 256"),
        ("n" * (MAX_RULE_NAME_CHARACTERS + 1), Right.SEND, "key", "", "name has 257 characters; allowed are 1 to 256"),
        ("a\nb", Right.SEND, "key", "", "name holds a character that cannot be printed"),
        ("root", Right.SEND, "", "key", "primary_key has 0 characters; allowed are 1 to 256"),
        (
            "root",
            Right.SEND,
            "k" * (MAX_KEY_CHARACTERS + 1),
            "",
            "primary_key has 257 characters; allowed are 1 to 256",
        ),
        ("root", Right.SEND, "key", "k" * 257, "secondary_key has 257 characters; allowed are 1 to 256"),
        ("root", Right.SEND, "key", "k\ud800", "secondary_key holds a character that cannot be printed"),
        ("root", NO_RIGHTS, "key", "", "rights of the rule 'root' are empty; allowed are Send, Listen, Manage"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(
    name: str, rights: Right, primary: str, secondary: str, complaint: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        AuthorizationRule(name, rights, primary, secondary)
    assert str(caught.value) == complaint


# --- the ring ---------------------------------------------------------------------------------------------------


def test_rules_of_one_name_live_side_by_side_on_different_scopes() -> None:
    of_namespace, of_orders, of_bills = rule(), rule(scope="Orders"), rule(scope="bills")
    ring = KeyRing([of_namespace, of_orders, of_bills])
    assert ring.get("root") is of_namespace
    assert ring.get("root", "ORDERS/") is of_orders
    assert ring.get("root", "nothing") is None
    assert ring.get("other") is None
    assert ring.named("root") == [of_namespace, of_orders, of_bills]
    assert ring.covering("root", Resource("orders/$management", "orders")) == [of_namespace, of_orders]
    assert ring.covering("root", Resource("orders/new", "orders/new")) == [of_namespace]
    assert ring.covering("root", Resource("orders2", "orders2")) == [of_namespace]
    assert ring.covering("other", Resource("orders", "orders")) == []


def test_a_rule_replaces_the_one_of_its_name_and_scope() -> None:
    ring = KeyRing([rule(key="old")])
    ring.put(rule(key="new"))
    assert [found.primary_key for found in ring] == ["new"]


def test_a_removed_rule_is_gone() -> None:
    ring = KeyRing([rule(), rule(scope="orders"), rule("other", "orders")])
    assert ring.remove("root", "Orders")
    assert not ring.remove("root", "orders")
    assert not ring.remove("root", "nowhere")
    assert [(found.name, found.scope) for found in ring] == [("root", ""), ("other", "orders")]
    assert ring.remove("other", "orders")
    assert ring.remove("root")
    assert list(ring) == []


def test_the_rules_of_a_deleted_entity_go_with_it() -> None:
    ring = KeyRing([rule(), rule(scope="orders"), rule("other", "orders"), rule(scope="orders/new")])
    ring.remove_entity("Orders")
    ring.remove_entity("never there")
    assert [found.scope for found in ring] == ["", "orders/new"]


def test_a_scope_has_a_bounded_number_of_rules() -> None:
    ring = KeyRing([rule(f"rule{number}") for number in range(MAX_RULES_PER_SCOPE)])
    ring.put(rule("rule0", key="replaced"))
    ring.put(rule("one-more", "orders"))
    with pytest.raises(ArgumentError, match="the namespace has 12 authorization rules; allowed are 12"):
        ring.put(rule("one-more"))
    for number in range(MAX_RULES_PER_SCOPE - 1):
        ring.put(rule(f"rule{number}", "orders"))
    with pytest.raises(ArgumentError, match="'orders' has 12 authorization rules; allowed are 12"):
        ring.put(rule("too-many", "orders"))


@given(st.lists(RULES, max_size=8))
def test_a_ring_survives_being_written_as_json(rules: list[AuthorizationRule]) -> None:
    ring = KeyRing(rules)
    again = KeyRing.from_dict(json.loads(json.dumps(ring.to_dict())))
    assert again.to_dict() == ring.to_dict()
    assert [found.rights for found in again] == [found.rights for found in ring]


GOOD = {"name": "root", "rights": ["Send"], "primary_key": "key"}


def test_fields_that_may_be_empty_may_be_left_out() -> None:
    ring = KeyRing.from_dict({"rules": [GOOD]})
    assert [found.to_dict() for found in ring] == [{**GOOD, "secondary_key": "", "scope": ""}]


@pytest.mark.parametrize(
    "value, complaint",
    [
        (None, "the key ring must be an object with a list of rules"),
        ({}, "the key ring must be an object with a list of rules"),
        ({"rules": {}}, "the key ring must be an object with a list of rules"),
        ({"rules": [GOOD, 1]}, r"the key ring: rules\[1\] must be an object"),
        ({"rules": [{**GOOD, "name": 1}]}, r"the key ring: rules\[0\].name must be a string"),
        ({"rules": [{**GOOD, "scope": None}]}, r"the key ring: rules\[0\].scope must be a string"),
        ({"rules": [{**GOOD, "rights": "Send"}]}, r"the key ring: rules\[0\].rights must be a list"),
        ({"rules": [{**GOOD, "rights": ["send"]}]}, r"rules\[0\].rights: 'send' is none of Send, Listen, Manage"),
        ({"rules": [{**GOOD, "rights": [[]]}]}, r"rules\[0\].rights: \[\] is none of Send, Listen, Manage"),
        ({"rules": [{**GOOD, "rights": []}]}, "the key ring: rights of the rule 'root' are empty"),
        ({"rules": [{**GOOD, "primary_key": ""}]}, "the key ring: primary_key has 0 characters"),
        ({"rules": [{**GOOD, "scope": "a" * 3_000}]}, "the key ring: address has 3,000 characters"),
    ],
)
def test_a_file_that_is_no_key_ring_is_refused_with_the_place(value: object, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^(the key ring: )?{complaint}"):
        KeyRing.from_dict(value)
