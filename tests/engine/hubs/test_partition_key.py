"""From a partition key to a partition, against the official SDK's own hash; and where a reader wants to begin."""

from __future__ import annotations

from typing import Final

import pytest
from azure.eventhub._buffered_producer._partition_resolver import generate_hash_code
from hypothesis import given
from hypothesis import strategies as st

from tandem.engine.hubs.partition_key import hash_of, partition_of
from tandem.engine.hubs.position import LATEST, START, PositionKind, parse_selector
from tandem.errors import ArgumentError, Scope
from tests.markers import mission

OFFSET: Final = PositionKind.OFFSET
NUMBER: Final = PositionKind.SEQUENCE_NUMBER
TIME: Final = PositionKind.ENQUEUED_TIME


def _sdk_hash(key: str) -> int:
    # The SDK hashes characters where the service hashes the octets of UTF-8: here each octet is one character.
    return int(generate_hash_code(key.encode().decode("latin-1")))  # type: ignore[no-untyped-call] # the SDK has none


@mission("M10")
@given(st.text(max_size=128))
def test_a_key_has_the_hash_that_the_official_sdk_computes(key: str) -> None:
    assert hash_of(key) == _sdk_hash(key)


@pytest.mark.parametrize("length", range(40))
def test_keys_of_every_length_modulo_the_block_of_the_hash_agree_with_the_sdk(length: int) -> None:
    key = "".join([chr(0x21 + at % 90) for at in range(length)])
    assert hash_of(key) == _sdk_hash(key)


@given(st.text(max_size=40), st.integers(1, 1_024))
def test_a_key_goes_to_the_partition_that_a_truncating_remainder_says(key: str, partition_count: int) -> None:
    # As the service divides: the sign of the remainder is that of the hash, and the index is its absolute value.
    number = _sdk_hash(key)
    remainder = abs(number) % partition_count * (-1 if number < 0 else 1)
    assert partition_of(key, partition_count) == abs(remainder)


def test_a_negative_hash_does_not_follow_the_remainder_of_python() -> None:
    key = next(key for key in map(str, range(1_000)) if hash_of(key) < 0 and hash_of(key) % 3 not in {0, 2})
    assert partition_of(key, 3) != abs(hash_of(key) % 3)


@mission("M10")
@pytest.mark.parametrize(
    "selector, kind, value, is_inclusive",
    [
        ("amqp.annotation.x-opt-offset > '42'", OFFSET, 42, False),
        ("amqp.annotation.x-opt-offset >= '42'", OFFSET, 42, True),
        ("amqp.annotation.x-opt-offset >'0'", OFFSET, 0, False),
        ("amqp.annotation.x-opt-offset > 42", OFFSET, 42, False),
        ("amqp.annotation.x-opt-offset > '-1:42'", OFFSET, 42, False),
        ("amqp.annotation.x-opt-sequence-number > '7'", NUMBER, 7, False),
        ("amqp.annotation.x-opt-sequence-number >= '7'", NUMBER, 7, True),
        ("amqp.annotation.x-opt-sequence-number >= 7", NUMBER, 7, True),
        ("amqp.annotation.x-opt-enqueued-time > '1700000000000'", TIME, 1_700_000_000_000, False),
        ("amqp.annotation.x-opt-enqueued-time >= '1700000000000'", TIME, 1_700_000_000_000, True),
        ("amqp.annotation.x-opt-enqueuedtimeutc > '1700000000000'", TIME, 1_700_000_000_000, False),
        # The Python SDK writes milliseconds that it has computed from a float.
        ("amqp.annotation.x-opt-enqueued-time > '1700000000000.0'", TIME, 1_700_000_000_000, False),
        ("amqp.annotation.x-opt-enqueued-time > '-62135596800000'", TIME, -62_135_596_800_000, False),
    ],
)
def test_every_form_of_a_position_is_read(selector: str, kind: PositionKind, value: int, is_inclusive: bool) -> None:
    position = parse_selector(selector)
    assert (position.kind, position.value, position.is_inclusive) == (kind, value, is_inclusive)
    assert position.first == value + (not is_inclusive)


@pytest.mark.parametrize(
    "selector",
    [
        "amqp.annotation.x-opt-offset > '-1'",
        "amqp.annotation.x-opt-offset >= '-1'",
        "amqp.annotation.x-opt-sequence-number > '-1'",
        "amqp.annotation.x-opt-sequence-number >= -1",
    ],
)
def test_behind_minus_one_and_at_minus_one_both_mean_the_start(selector: str) -> None:
    assert parse_selector(selector) is START


@pytest.mark.parametrize("comparison", [">", ">="])
@pytest.mark.parametrize("latest", ["@latest", "@Latest", "@LATEST"])
@pytest.mark.parametrize("name", ["x-opt-offset", "x-opt-sequence-number"])
def test_the_end_has_a_name(name: str, comparison: str, latest: str) -> None:
    assert parse_selector(f"amqp.annotation.{name} {comparison} '{latest}'") is LATEST


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "x-opt-offset > '1'",
        "amqp.annotation.x-opt-offset",
        "amqp.annotation.x-opt-offset >",
        "amqp.annotation.x-opt-offset > ''",
        "amqp.annotation.x-opt-offset > '-'",
        "amqp.annotation.x-opt-offset < '1'",
        "amqp.annotation.x-opt-offset = '1'",
        "amqp.annotation.x-opt-offset > 'one'",
        "amqp.annotation.x-opt-offset > '1_0'",
        "amqp.annotation.x-opt-offset > '١'",
        "amqp.annotation.x-opt-offset > '1' OR 1=1",
        "amqp.annotation.x-opt-offset > '1'; amqp.annotation.x-opt-offset > '2'",
        "amqp.annotation.x-opt-offset > '9999999999999999999999'",
        "amqp.annotation.x-opt-publisher > '1'",
        "amqp.annotation.x-opt-enqueued-time > '@latest'",
        "amqp.annotation.x-opt-offset > '" + "1" * 300 + "'",
    ],
)
def test_what_is_no_position_is_refused_and_shows_how_one_looks(selector: str) -> None:
    with pytest.raises(ArgumentError, match=r"apache\.org:selector-filter:string is") as caught:
        parse_selector(selector)
    assert caught.value.scope is Scope.LINK
    assert len(str(caught.value)) < 500


@given(st.text() | st.text(alphabet="amqp.nti-xofse>='-:0123456789@l \n", max_size=80).map("amqp.annotation.".__add__))
def test_hostile_text_is_a_position_or_an_argument_error(text: str) -> None:
    try:
        position = parse_selector(text)
    except ArgumentError:
        return
    assert position is START or position.kind is PositionKind.LATEST or abs(position.value) < 10**18
