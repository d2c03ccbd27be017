"""Names of queues, exchanges and routing keys as names of entities."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.addresses import validate_entity_name, validate_rule_name, validate_subscription_name
from tandem.celery.entity_names import entity_name, short_name


@pytest.mark.parametrize("name", ["celery", "high_priority", "a.b-c_d", "team/orders"])
def test_a_name_that_fits_stays_as_it_is(name: str) -> None:
    assert entity_name(name) == name
    assert entity_name(name, "shop/") == f"shop/{name}"


@pytest.mark.parametrize(
    "name, start",
    [
        ("celery@host.celery.pidbox", "celery-host.celery.pidbox-"),
        ("ends.with.a.dot.", "ends.with.a.dot-"),
        ("grüße", "gr-e-"),
        ("a//b", "a-b-"),
        ("$reserved", "reserved-"),
        ("x" * 300, "x" * 200),
    ],
)
def test_any_other_name_keeps_what_it_can_and_gets_a_digest(name: str, start: str) -> None:
    assert entity_name(name).startswith(start)
    validate_entity_name(entity_name(name))


@given(st.text(max_size=300), st.text(max_size=300))
def test_every_name_becomes_a_valid_one_and_two_names_never_the_same(one: str, other: str) -> None:
    for name in (one, other):
        validate_entity_name(entity_name(name, "shop/"))
        validate_subscription_name(short_name(name))
        validate_rule_name(short_name(name))
        assert entity_name(name)[-1] in string.ascii_letters + string.digits
    if one != other:
        assert entity_name(one) != entity_name(other)
        assert short_name(one) != short_name(other)
