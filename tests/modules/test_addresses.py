"""Addresses as the SDKs write them, and names as entities may have them."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.addresses import (
    Address,
    SubQueue,
    is_within,
    parse_address,
    validate_entity_name,
    validate_rule_name,
    validate_subscription_name,
)
from tandem.errors import ArgumentError
from tandem.limits import MAX_ADDRESS_CHARACTERS, MAX_ENTITY_NAME_CHARACTERS

# Lone surrogates included: an HTTP server may hand them on.
HOSTILE_TEXT = st.text(st.characters()) | st.text(st.sampled_from("sb:/@[]%$.~ a0Q\x00\ud800"))
ENTITY_NAMES = st.lists(
    st.from_regex(r"[A-Za-z0-9._~-]{1,22}", fullmatch=True).filter(lambda segment: segment not in {".", ".."}),
    min_size=1,
    max_size=4,
).map("/".join)


@pytest.mark.parametrize(
    "text",
    [
        "Orders/New",
        "/Orders/New",
        "Orders/New/",
        "//Orders///New//",
        "amqps://ns.servicebus.windows.net/Orders/New",
        "amqp://localhost:5672/Orders/New",
        "sb://localhost/Orders/New/",
        "SB://LOCALHOST/Orders/New",
        "http://localhost:5300//Orders/New",
        "https://user:secret@[::1]:5671/Orders/New",
        "amqps://localhost/Orders%2FNew",
        "Orders%2fNe%77",
    ],
)
def test_every_spelling_of_the_sdks_names_the_same_entity(text: str) -> None:
    address = parse_address(text)
    assert (address.path, address.entity, address.resource) == ("Orders/New", "orders/new", "orders/new")
    assert (address.sub_queue, address.is_management, address.is_cbs) == (SubQueue.NONE, False, False)


@pytest.mark.parametrize(
    "text, host",
    [
        ("sb://NS.servicebus.windows.net/q", "ns.servicebus.windows.net"),
        ("amqps://localhost:5672/q", "localhost"),
        ("sb://localhost:5672", "localhost"),
        ("sb://localhost", "localhost"),
        ("https://user:se@cret@host:1/q", "host"),
        ("amqp://[::1]:5672/q", "[::1]"),
        ("amqp://[::1/q", "[::1]"),
        ("sb:///q", ""),
        ("/q", ""),
        ("localhost/q", ""),
        ("ftp://localhost/q", "localhost"),
        ("amqp+ssl://LocalHost:1/q", "localhost"),
        ("1a://localhost/q", ""),
        ("a/sb://localhost/q", ""),
    ],
)
def test_the_host_is_what_follows_a_scheme_without_its_port(text: str, host: str) -> None:
    assert parse_address(text).host == host


@pytest.mark.parametrize(
    "text, entity, sub_queue, is_management",
    [
        ("Q/$DeadLetterQueue", "q", SubQueue.DEAD_LETTER, False),
        ("Q/$deadletterqueue/", "q", SubQueue.DEAD_LETTER, False),
        ("Q/%24DEADLETTERQUEUE", "q", SubQueue.DEAD_LETTER, False),
        ("Q/$Transfer/$DeadLetterQueue", "q", SubQueue.TRANSFER_DEAD_LETTER, False),
        ("T/Subscriptions/S", "t/subscriptions/s", SubQueue.NONE, False),
        ("T/Subscriptions/S/$DeadLetterQueue", "t/subscriptions/s", SubQueue.DEAD_LETTER, False),
        ("Q/$management", "q", SubQueue.NONE, True),
        ("Q/$DeadLetterQueue/$Management", "q", SubQueue.DEAD_LETTER, True),
        ("Q/$Transfer/$DeadLetterQueue/$management", "q", SubQueue.TRANSFER_DEAD_LETTER, True),
        ("$management", "", SubQueue.NONE, True),
        ("sb://host/", "", SubQueue.NONE, False),
        ("H/ConsumerGroups/$Default/Partitions/0", "h/consumergroups/$default/partitions/0", SubQueue.NONE, False),
        # What has no meaning stays in the name of an entity, which does not exist then.
        ("Q/$Transfer", "q/$transfer", SubQueue.NONE, False),
        ("Q/$DeadLetterQueue/$DeadLetterQueue", "q/$deadletterqueue", SubQueue.DEAD_LETTER, False),
        ("Q/$management/$DeadLetterQueue", "q/$management", SubQueue.DEAD_LETTER, False),
        ("Q/$cbs", "q/$cbs", SubQueue.NONE, False),
        ("$cbs/$management", "$cbs", SubQueue.NONE, True),
    ],
)
def test_reserved_segments_at_the_end_name_a_part_of_the_entity(
    text: str, entity: str, sub_queue: SubQueue, is_management: bool
) -> None:
    address = parse_address(text)
    assert (address.entity, address.sub_queue, address.is_management) == (entity, sub_queue, is_management)
    assert not address.is_cbs


@pytest.mark.parametrize("text", ["$cbs", "/$CBS/", "amqps://localhost:5672/$cbs", "%24cbs"])
def test_the_node_for_tokens_is_no_entity(text: str) -> None:
    address = parse_address(text)
    assert address.is_cbs
    assert (address.entity, address.path, address.resource, address.is_management) == ("", "", "$cbs", False)


@pytest.mark.parametrize(
    "text, resource",
    [
        ("sb://h/Q/$Transfer/$DeadLetterQueue/$Management", "q/$transfer/$deadletterqueue/$management"),
        ("Q/$DeadLetterQueue", "q/$deadletterqueue"),
        ("$Management", "$management"),
        ("sb://h", ""),
    ],
)
def test_the_resource_is_all_that_a_claim_has_to_cover(text: str, resource: str) -> None:
    assert parse_address(text).resource == resource


def test_addresses_are_equal_when_they_name_the_same_thing() -> None:
    assert parse_address("sb://H/Q") == parse_address("amqps://h:5672/q/")
    assert hash(parse_address("sb://H/Q")) == hash(parse_address("amqps://h:5672/q/"))
    assert parse_address("sb://h/q") != parse_address("sb://other/q")
    assert parse_address("q") != parse_address("q/$management")
    assert parse_address("q") != "q"
    assert repr(parse_address("sb://h/Q")) == "Address('h', 'Q', SubQueue.NONE, False, False)"


def test_an_address_is_refused_only_beyond_its_longest() -> None:
    assert parse_address("q" * MAX_ADDRESS_CHARACTERS).entity == "q" * 2_048
    with pytest.raises(ArgumentError, match=r"address has 2,049 characters, more than 2,048"):
        parse_address("q" * (MAX_ADDRESS_CHARACTERS + 1))


@pytest.mark.parametrize("text", ["q\x00", "q%00", "q%0a2026 forged line", "sb://h\x1b[2J/q", "q\ud800", "q%E2%80%AE"])
def test_an_address_that_would_harm_the_reader_of_a_log_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="cannot be printed") as caught:
        parse_address(text)
    assert str(caught.value).isprintable()


@given(HOSTILE_TEXT)
@example("%")
@example("%ff%fe")
@example("sb://[")
@example("sb://@:")
def test_hostile_text_is_an_address_or_an_argument_error(text: str) -> None:
    try:
        address = parse_address(text)
    except ArgumentError:
        return
    assert address.entity == address.path.lower()
    assert not address.resource.startswith("/")
    assert not address.resource.endswith("/")
    assert "//" not in address.resource


@given(ENTITY_NAMES, st.sampled_from(["", "/", "sb://host:1/", "amqps://host//"]), st.sampled_from(["", "/"]))
def test_a_valid_name_is_found_again_in_its_address(name: str, before: str, after: str) -> None:
    address = parse_address(before + name + after)
    assert address.path == name
    assert address == Address(address.host, name, SubQueue.NONE, is_management=False, is_cbs=False)


# --- scopes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "resource, scope, expected",
    [
        ("orders", "orders", True),
        ("orders/$management", "orders", True),
        ("orders", "", True),
        ("", "", True),
        ("orders2", "orders", False),
        ("orders", "orders/$management", False),
        ("", "orders", False),
        ("a/orders", "orders", False),
    ],
)
def test_a_scope_ends_at_a_slash(resource: str, scope: str, expected: bool) -> None:
    assert is_within(resource, scope) is expected


# --- names ------------------------------------------------------------------------------------------------------


@given(ENTITY_NAMES)
@example("q")
@example("A/b.c-d_e~f/0")
@example("txt/.-_123")
@example("MassTransit/Fault--Orders/Submitted--")
@example("_q_")
@example("q.")
@example("q" * MAX_ENTITY_NAME_CHARACTERS)
def test_names_of_the_service_are_allowed(name: str) -> None:
    validate_entity_name(name)


@pytest.mark.parametrize(
    "name, complaint",
    [
        ("", "name has 0 characters; allowed are 1 to 260"),
        ("q" * 261, "name has 261 characters; allowed are 1 to 260"),
        ("/q", "name '/q': the segment '' between slashes is not allowed"),
        ("q/", "name 'q/': the segment '' between slashes is not allowed"),
        ("a//b", "name 'a//b': the segment '' between slashes is not allowed"),
        ("a/../b", "name 'a/../b': the segment '..' between slashes is not allowed"),
        ("a/./b", "name 'a/./b': the segment '.' between slashes is not allowed"),
        ("$cbs", "name '$cbs': the segment '$cbs' is reserved"),
        ("q/$DeadLetterQueue", "name 'q/$DeadLetterQueue': the segment '$DeadLetterQueue' is reserved"),
        ("a/q[]", "name 'a/q[]': allowed are the letters"),
        ("a::b", "name 'a::b': allowed are the letters"),
        ("q q", "name 'q q': allowed are the letters"),
        ("q\n", r"name 'q\n': allowed are the letters"),
        ("größe", "name 'größe': allowed are the letters"),
        ("q%2F", "name 'q%2F': allowed are the letters"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_its_reason(name: str, complaint: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        validate_entity_name(name)
    assert str(caught.value).startswith(complaint)


def test_the_error_names_the_field_that_held_the_name() -> None:
    with pytest.raises(ArgumentError, match="forward_to 'a b': "):
        validate_entity_name("a b", "forward_to")


@given(st.text(st.sampled_from(string.printable + "ä\ud800"), max_size=12))
def test_what_is_allowed_as_a_name_is_its_own_address(name: str) -> None:
    try:
        validate_entity_name(name)
    except ArgumentError:
        return
    assert parse_address(name).path == name


@pytest.mark.parametrize("name", ["s", "orders-", "orders_", "orders.", "_s", "-s", ".s", "...", "0", "a$b", "s" * 50])
def test_names_of_subscriptions_may_begin_and_end_with_any_mark(name: str) -> None:
    validate_subscription_name(name)


@pytest.mark.parametrize("name", ["$Default", "rule-", "rule_", "rule.", "_rule", "-rule", "...", "r" * 50])
def test_names_of_rules_may_begin_and_end_with_any_mark(name: str) -> None:
    validate_rule_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "größe", "a%20b", "n" * 51, "$", "$$a", "a\n"])
def test_a_name_that_no_subscription_and_no_rule_can_have_is_refused(name: str) -> None:
    for validate in (validate_subscription_name, validate_rule_name):
        with pytest.raises(ArgumentError, match="allowed are"):
            validate(name)
